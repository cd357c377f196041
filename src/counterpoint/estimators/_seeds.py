"""Seeds that are drawn from one random state."""

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["draw_seeds"]


def draw_seeds(random_state: int | np.random.RandomState | None, count: int = 2) -> list[int]:
    """Return seeds drawn from a random state, as the estimators draw theirs.

    Parameters
    ----------
    random_state : int, RandomState or None
        The source.
    count : int, default=2
        Number of seeds. An estimator draws two: one for its networks and one for its batches.

    Returns
    -------
    list of int

    Examples
    --------
    >>> draw_seeds(0) == draw_seeds(0)
    True
    >>> len(draw_seeds(0, count=5))
    5
    """
    seeds: list[int] = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=count).tolist()
    return seeds
