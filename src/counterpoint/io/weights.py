"""The weights of a vote, in a JSON file."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from counterpoint._files import read_bounded, replacing
from counterpoint._validation import check_path, short

__all__ = ["VoteWeights", "read_weights"]

_LARGEST = 2**24  # bytes
_VOTINGS = ("hard", "soft", "geometric")


@dataclass(frozen=True)
class VoteWeights:
    """The learners of a vote, with their weights.

    Attributes
    ----------
    weights : dict of str to float
        The weight of each learner, not negative. Their sum need not be one.
    voting : {"hard", "soft", "geometric"} or None
        The vote they belong to, if it is known.

    Examples
    --------
    >>> VoteWeights({"tree": 0.25, "net": 0.75}, "hard").weights["net"]
    0.75
    """

    weights: dict[str, float]
    voting: str | None = None

    def write(self, path: str | Path) -> None:
        """Write a JSON file that :func:`read_weights` reads.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced only when the new one is complete.
        """
        content = ({} if self.voting is None else {"voting": self.voting}) | {"weights": self.weights}
        with replacing(check_path(path, "path")) as file:
            file.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def read_weights(path: str | Path) -> VoteWeights:
    """Read the weights of a vote from a JSON file.

    Parameters
    ----------
    path : path
        An object with the weight of each learner, under ``"weights"`` or by itself. ``"voting"`` beside
        ``"weights"`` names the vote.

    Returns
    -------
    VoteWeights

    Raises
    ------
    ValueError
        If the file is something else, or a weight is not a number from 0.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "weights.json")
    ...     VoteWeights({"tree": 0.25, "net": 0.75}, "hard").write(path)
    ...     read_weights(path)
    VoteWeights(weights={'tree': 0.25, 'net': 0.75}, voting='hard')
    """
    path = check_path(path, "path")
    text = read_bounded(path, _LARGEST)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    voting = None
    if isinstance(content, dict) and isinstance(content.get("weights"), dict):
        content, voting = content["weights"], content.get("voting")
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path} must be a JSON object with the weight of each learner.")
    for learner, weight in content.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise ValueError(
                f"{path}: the weight of {short(learner)} must be a number from 0; got {short(weight)}."
            )
    if not any(content.values()):
        raise ValueError(f"{path} must have a weight above 0.")
    if voting is not None and (not isinstance(voting, str) or voting not in _VOTINGS):
        raise ValueError(
            f"{path}: 'voting' must be one of {', '.join(map(repr, _VOTINGS))}; got {short(voting)}."
        )
    return VoteWeights({learner: float(weight) for learner, weight in content.items()}, voting)
