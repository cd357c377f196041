r"""Choose learners, and their weights, from a pool.

Notation: N learners in the pool, n of them chosen; r_tl is the correlation of a learner with the
truth, r_ll of two learners, both averaged over classes; :math:`\lambda` weighs the second.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, check_choice, check_number, check_whole
from counterpoint.outputs import VOTINGS, Outputs, RunningVote, vote_accuracies
from counterpoint.selection._choosers import Caruana, Chooser, Greedy
from counterpoint.selection._size import size_within_noise
from counterpoint.selection.result import Selection

__all__ = ["Selection", "select"]


def select(
    y_true: ArrayLike,
    outputs: ArrayLike,
    size: int | None = None,
    *,
    diversity: float = 0.5,
    method: str = "greedy",
    voting: str = "auto",
    labels: ArrayLike | None = None,
    n_bags: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> Selection:
    r"""Choose learners that are accurate and different from a pool.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind, of samples that no learner was trained on.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels or probabilities.
    size : int, optional
        How many picks to make, in each bag. By default as many as the vote bears: see Notes.
    diversity : float, default=0.5
        Lambda over its critical value. 0 ranks learners by their correlation with the truth; above 1
        the score asks for poor learners. Without effect on "caruana".
    method : {"greedy", "caruana"}, default="greedy"
        "greedy" adds the learner that gives the best score. "caruana" adds, with replacement, the
        learner that gives the most accurate vote; how often a learner was picked is its weight.
    voting : {"auto", "hard", "soft", "geometric"}, default="auto"
        The vote whose accuracy counts: the most votes, the highest mean probability, or the highest
        geometric mean of the probabilities. "auto" is "hard" for labels and "soft" for probabilities.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the sorted labels of
        ``y_true``, and of ``outputs`` where those are labels.
    n_bags : int, default=0
        Guard against choosing on noise: repeat the selection on this many random halves of the pool
        and average the weights. 0 selects once from the whole pool.
    random_state : int or numpy.random.Generator, optional
        Where the random halves come from.

    Returns
    -------
    Selection
        ``indices``, ``weights`` and the path of scores and accuracies.

    Notes
    -----
    The score of n learners is the paper's trade-off, with the critical lambda of that n,

    .. math:: \bar r_{TL} - \lambda_n \bar r_{LL}, \qquad
              \lambda_n = \text{diversity} \cdot \frac{n - 1}{2 n},

    averages over learners and over pairs; one learner has no pairs and no second term. So that it
    also scores weights w, which is used with bags, read it as
    :math:`\sum_i w_i r_i - \tfrac12 \text{diversity} \sum_{i \ne j} w_i w_j r_{ij}`. At diversity 1
    and fixed n the best score has the mean of the standardised learners nearest to the standardised
    truth. After one pass over the samples for all correlations a step takes O(N) operations. The correlations
    are of the outputs as given, whatever the vote.

    "caruana" starts from the best learners, as many (up to 25) as give the most accurate vote: from
    a single start a vote of labels would never move. Each step costs a pass over the samples.

    Without a size the path runs on, "greedy" to the last learner and "caruana" to 50 picks, and is
    cut at the *largest* size whose vote is within one standard error, of the paired difference, of
    the most accurate vote on the path. A learner is left out only if the data say that it hurts: the
    best size on the path, or the smallest as good, is too small on few samples.

    Ties go to the learner that comes first. A learner without a correlation, because it is constant
    in all classes of ``y_true``, is never chosen by "greedy" and a warning names it; one that is constant in
    some classes is averaged over the others, and pairs that vary in no common class are left out of the average.

    References
    ----------
    Caruana, Niculescu-Mizil, Crew and Ksikes, Ensemble selection from libraries of models (2004).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_true = rng.integers(0, 2, 500)
    >>> p = np.repeat([0.8, 0.5], 5)[:, None]  # five learners know something, five guess
    >>> votes = np.where(rng.random((10, 500)) < p, y_true, 1 - y_true)
    >>> selection = select(y_true, votes, 5)
    >>> sorted(selection.indices.tolist()), round(selection.accuracy, 3)
    ([0, 1, 2, 3, 4], 0.958)
    """
    check_choice(method, "method", ("greedy", "caruana"))
    check_choice(voting, "voting", ("auto", *VOTINGS))
    picks = None if size is None else check_whole(size, "size", minimum=1)
    bags = check_whole(n_bags, "n_bags", minimum=0)
    dial = check_number(diversity, "diversity", 0)
    rng = _generator(random_state)
    read = Outputs(outputs, y_true, labels)
    way = _resolve_voting(voting, read)
    chooser: Chooser = Greedy(read, dial) if method == "greedy" else Caruana(read, way)
    _check_size(picks, chooser, read.n_learners, bags)
    chosen = _bagged(read, way, chooser, picks, bags, rng) if bags else _single(read, way, chooser, picks)
    return Selection(
        **chosen,
        method=method,
        voting=way,
        diversity=dial if method == "greedy" else None,
        n_learners=read.n_learners,
        n_bags=bags,
    )


def _resolve_voting(voting: str, read: Outputs) -> str:
    """Return the vote that counts for these outputs."""
    if read.probabilities is not None:
        return "soft" if voting == "auto" else voting
    if voting not in ("auto", "hard"):
        raise ValueError(f"`voting` must be 'auto' or 'hard' where `outputs` are labels; got {voting!r}.")
    return "hard"


def _single(read: Outputs, voting: str, chooser: Chooser, size: int | None) -> dict[str, Any]:
    """Select once from the whole pool."""
    picks, scores = chooser.walk(chooser.pool, size)
    accuracies = vote_accuracies(read, voting, picks)
    size = size_within_noise(read, voting, picks, accuracies) if size is None else size
    indices = list(dict.fromkeys(picks[:size]))
    return {
        "indices": np.array(indices, dtype=np.int64),
        "weights": _shares(picks[:size], read.n_learners)[indices],
        "accuracy": float(accuracies[size - 1]),
        "path": np.array(picks, dtype=np.int64),
        "scores": np.array(scores),
        "accuracies": accuracies,
    }


def _bagged(
    read: Outputs, voting: str, chooser: Chooser, size: int | None, n_bags: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Average the weights of selections from random halves of the pool (Caruana et al., 2004)."""
    total = np.zeros(read.n_learners)
    scores, accuracies = [], []
    for bag in range(1, n_bags + 1):
        half = np.sort(rng.choice(chooser.pool, _half(len(chooser.pool)), replace=False))
        picks, _ = chooser.walk(half, size)
        kept = size
        if kept is None:
            kept = size_within_noise(read, voting, picks, vote_accuracies(read, voting, picks))
        total += _shares(picks[:kept], read.n_learners)
        scores.append(chooser.score(total / bag))
        accuracies.append(float(RunningVote(read, voting, total / bag).credit().mean()))
    indices = np.argsort(-total.round(9), kind="stable")[: np.count_nonzero(total)]
    return {
        "indices": indices,
        "weights": total[indices] / n_bags,
        "accuracy": accuracies[-1],
        "path": np.array([], dtype=np.int64),
        "scores": np.array(scores),
        "accuracies": np.array(accuracies),
    }


def _shares(picks: list[int], n_learners: int) -> FloatArray:
    """Return how often each learner was picked, as a share."""
    shares: FloatArray = np.bincount(picks, minlength=n_learners) / len(picks)
    return shares


def _half(count: int) -> int:
    return (count + 1) // 2


def _generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise TypeError(
            f"`random_state` must be None, a whole number from 0 or a numpy Generator; got {random_state!r}."
        ) from None


def _check_size(size: int | None, chooser: Chooser, n_learners: int, n_bags: int) -> None:
    if size is None or isinstance(chooser, Caruana):  # which may pick a learner again
        return
    most = _half(len(chooser.pool)) if n_bags else len(chooser.pool)
    if size > most:
        kind = "learners" if len(chooser.pool) == n_learners else "learners with a correlation"
        whose = f"half the number of {kind}, which a bag holds" if n_bags else f"the number of {kind}"
        raise ValueError(f"`size` must be at most {most}, {whose}; got {size}.")
