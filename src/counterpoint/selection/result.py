"""The result of a selection."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._plain import plain
from counterpoint._validation import FloatArray, IntArray, check_json
from counterpoint.outputs import Outputs, RunningVote, as_array, winners

_PRINTED = 20  # learners that a printed selection shows
_SCHEMA = 1  # of the JSON; raise it whenever a field changes


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Learners chosen from a pool, with their weights and the path that led to them.

    Returned by :func:`counterpoint.select`.

    Attributes
    ----------
    indices : array of int
        The chosen learners, in order of choice; with bags the heaviest first.
    weights : array, of the shape of ``indices``
        Their weights in the vote; they sum to one.
    accuracy : float
        Accuracy of the weighted vote on the samples it was chosen on, which overestimates it.
    path : array of int
        The learner picked at each step, including steps beyond the chosen size if none was requested, and
        more than once if the method allows it. Empty with bags.
    scores, accuracies : array
        The score and the accuracy of the vote after each step of the path; with bags after each bag.
    method : {"greedy", "caruana"}
        The method.
    voting : {"hard", "soft", "geometric"}
        The vote of ``accuracy`` and of :meth:`vote`.
    diversity : float or None
        Lambda over its critical value; None if the method has no lambda.
    n_learners, n_bags : int
        The size of the pool and the number of bags.

    Examples
    --------
    >>> from counterpoint.selection import select
    >>> votes = [[0, 0, 1, 1, 0, 1], [0, 0, 1, 1, 0, 1], [1, 0, 0, 0, 1, 1]]
    >>> selection = select([0, 0, 0, 1, 1, 1], votes, size=2)
    >>> selection.take(votes)
    array([[0, 0, 1, 1, 0, 1],
           [1, 0, 0, 0, 1, 1]])
    >>> Selection.from_json(selection.to_json()).weights
    array([0.5, 0.5])
    """

    indices: IntArray
    weights: FloatArray
    accuracy: float
    path: IntArray
    scores: FloatArray
    accuracies: FloatArray
    method: str
    voting: str
    diversity: float | None
    n_learners: int
    n_bags: int

    def take(self, outputs: ArrayLike) -> NDArray[Any]:
        """Return the outputs of the chosen learners, given those of the whole pool."""
        array = as_array(outputs)
        if array.ndim == 0 or len(array) != self.n_learners:
            raise ValueError(
                f"`outputs` must hold the {self.n_learners} learners of the pool, on its first axis; "
                f"got shape {array.shape}."
            )
        return array[self.indices]

    def vote(self, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> NDArray[Any]:
        """Return the label that wins the weighted vote on each sample, the first if several tie.

        Parameters
        ----------
        outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
            Outputs of the whole pool, on these or other samples: probabilities unless ``voting`` is "hard".
        labels : array-like of shape (n_classes,), optional
            The classes, in the order of the columns of probabilities; by default their numbers.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        read = Outputs(self.take(outputs), labels=labels)
        if self.voting != "hard" and read.probabilities is None:
            raise ValueError(f"`outputs` must be probabilities for the {self.voting} vote; got labels.")
        first = winners(RunningVote(read, self.voting, self.weights).scores).argmax(axis=0)
        labels_won: NDArray[Any] = read.classes[first]
        return labels_won

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, and the version of the schema."""
        return {"schema": _SCHEMA, **plain(self)}

    def to_json(self) -> str:
        """Return the selection as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the selection that :meth:`to_dict` described."""
        if data.get("schema") != _SCHEMA:
            raise ValueError(
                f"`data` must be a Selection with schema {_SCHEMA}; got schema {data.get('schema')!r}."
            )
        names = [field.name for field in fields(cls)]
        if missing := [name for name in names if name not in data]:
            raise ValueError(f"`data` must have the fields of Selection; got none named {missing[0]!r}.")
        dtypes: dict[Any, type] = {IntArray: np.int64, FloatArray: np.float64}
        values: dict[str, Any] = {name: data[name] for name in names}
        for field in fields(cls):
            if (dtype := dtypes.get(field.type)) is not None:
                values[field.name] = np.array(values[field.name], dtype)
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the selection that :meth:`to_json` wrote."""
        return cls.from_dict(check_json(text, "text", "a Selection", needed=("indices",)))

    def __repr__(self) -> str:
        return f"<Selection {len(self.indices)} of {self.n_learners} learners, {self.method!r}>"

    def __str__(self) -> str:
        how = self.method if self.diversity is None else f"{self.method}, diversity {self.diversity:g}"
        bags = f", {self.n_bags} bags" if self.n_bags else ""
        lines = [
            f"{len(self.indices)} of {self.n_learners} learners ({how}{bags})",
            f"Their {self.voting} vote is right on {100 * self.accuracy:.1f} % of the samples it was chosen on.",
            "learner  weight",
        ]
        rows = list(zip(self.indices.tolist(), self.weights.tolist(), strict=True))
        lines += [f"{index:>7}  {weight:.4f}" for index, weight in rows[:_PRINTED]]
        lines += [f"... and {len(rows) - _PRINTED} more"] if len(rows) > _PRINTED else []
        return "\n".join(lines)
