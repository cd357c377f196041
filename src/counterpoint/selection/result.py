"""The result of a selection."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._notebook import html_block, html_table
from counterpoint._plain import plain
from counterpoint._validation import FloatArray, IntArray, check_json
from counterpoint.assessment import FEW_GROUPS, FEWEST_GROUPS, Estimate
from counterpoint.outputs import Outputs, RunningVote, as_array

_PRINTED = 20  # learners that a printed selection shows
_HEADER = ("learner", "weight", "without it, points")
_SCHEMA = 4  # of the JSON; raise it whenever a field changes


@dataclass(frozen=True, eq=False)
class Panel:
    """One of the panels that a selection chose from.

    Attributes
    ----------
    indices : array of int
        Its learners, in order of choice.
    weights : array, of the shape of ``indices``
        Their weights in the vote; they sum to one.
    cost : float
        The sum of their costs.
    accuracy : Estimate
        Accuracy of the vote, on samples that did not choose the panel. NaN if there are too few.
    behind : Estimate
        ``accuracy`` less that of the most accurate panel, with its paired 95 % interval.
    votes : float
        Effective votes: how many learners as good as the best, erring independently, the panel is worth, on samples
        that chose neither the panel nor the best learner. NaN if there are too few, or if that learner is never wrong.

    Examples
    --------
    >>> from counterpoint.selection import select
    >>> truth = np.arange(100) % 2
    >>> small, *_ = select(truth, [truth, 1 - truth, truth]).panels
    >>> small.indices, small.cost, small.accuracy.value
    (array([0]), 1.0, 1.0)
    """

    indices: IntArray
    weights: FloatArray
    cost: float
    accuracy: Estimate
    behind: Estimate
    votes: float

    @property
    def cost_per_vote(self) -> float:
        """The cost of each effective vote; NaN if the panel is worth nothing."""
        return self.cost / self.votes if self.votes > 0 else np.nan


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Learners chosen from a pool, their weights, what each is worth, and the panels that were compared.

    Returned by :func:`counterpoint.select`. What was judged on samples that did not choose is NaN if there are too few
    samples for that.

    Attributes
    ----------
    learners : tuple of str
        Names of the learners of the pool.
    indices : array of int
        The chosen learners, in order of choice.
    weights : array, of the shape of ``indices``
        Their weights in the vote; they sum to one.
    accuracy : Estimate
        Accuracy of the weighted vote, on samples that did not choose it, with a 95 % interval that allows for the
        choice.
    against_pool : Estimate
        ``accuracy`` less that of the equal vote of the whole pool, with its paired 95 % interval, likewise.
    effects : tuple of Estimate
        For each learner of the pool, the accuracy of the panel with it less that of the panel without it, with a paired
        95 % interval, on samples that did not choose the panel. NaN for a learner without which nobody would vote, and
        in pools of more than 200 for learners that are never chosen.
    support : array, shape (n_learners,)
        How often a learner is chosen if a fifth of the samples is left out, from 0 to 1.
    panels : tuple of Panel
        The panels that were compared, from small to large; with costs from cheap to dear.
    costs : array, shape (n_learners,)
        The cost of each learner of the pool.
    fitted_accuracy : float
        Accuracy of the weighted vote on the samples it was chosen on, which overestimates it.
    path : array of int
        The learner picked at each step to the largest panel, more than once if the method allows it.
    scores : array
        The score of each panel, by which the method picks.
    method : {"pursuit", "greedy", "caruana"}
        The method.
    voting : {"hard", "soft", "geometric"}
        The vote of ``accuracy`` and of :meth:`vote`.
    diversity : float or None
        Lambda over its critical value; None if the method has no lambda.
    n_groups : int or None
        The number of groups of samples that belong together; None where each is on its own.

    Examples
    --------
    >>> from counterpoint.selection import select
    >>> votes = [[0, 0, 1, 1, 0, 1], [0, 0, 1, 1, 0, 1], [1, 0, 0, 0, 1, 1]]
    >>> selection = select([0, 0, 0, 1, 1, 1], votes, size=2, method="greedy")
    >>> selection.take(votes)
    array([[0, 0, 1, 1, 0, 1],
           [1, 0, 0, 0, 1, 1]])
    >>> Selection.from_json(selection.to_json()).weights
    array([0.5, 0.5])
    """

    learners: tuple[str, ...]
    indices: IntArray
    weights: FloatArray
    accuracy: Estimate
    against_pool: Estimate
    effects: tuple[Estimate, ...]
    support: FloatArray
    panels: tuple[Panel, ...]
    costs: FloatArray
    fitted_accuracy: float
    path: IntArray
    scores: FloatArray
    method: str
    voting: str
    diversity: float | None
    n_groups: int | None = None

    @property
    def n_learners(self) -> int:
        """The size of the pool."""
        return len(self.learners)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The names of the chosen learners."""
        return tuple(self.learners[i] for i in self.indices.tolist())

    @property
    def cost(self) -> float:
        """The cost of the chosen learners."""
        return float(self.costs[self.indices].sum())

    @property
    def frontier(self) -> tuple[Panel, ...]:
        """The panels that are more accurate than every cheaper one; all of them if accuracies are NaN."""
        best, kept = -np.inf, []
        for panel in sorted(self.panels, key=lambda panel: panel.cost):
            if not panel.accuracy.value <= best:
                best = panel.accuracy.value
                kept.append(panel)
        return tuple(kept)

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
        first = RunningVote(read, self.voting, self.weights).first_winners()
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
        selection: Self = _restored(data, cls)
        return selection

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the selection that :meth:`to_json` wrote."""
        return cls.from_dict(check_json(text, "text", "a Selection", needed=("indices",)))

    def summary(self) -> tuple[str, str]:
        """Return two sentences: what was chosen, and how accurate its vote is."""
        how = self.method if self.diversity is None else f"{self.method}, diversity {self.diversity:g}"
        first = f"{len(self.indices)} of {self.n_learners} learners ({how})"
        if np.isnan(self.accuracy.value):
            few = "groups" if self.n_groups is not None and self.n_groups < FEWEST_GROUPS else "samples"
            return first, (
                f"Their {self.voting} vote is right on {100 * self.fitted_accuracy:.1f} % of the samples it was chosen "
                f"on, which is too high for others; there are too few {few} to judge it on others."
            )
        value, low, high = (f"{100 * share:.1f}" for share in self.accuracy)
        return first, (
            f"Their {self.voting} vote is right on {value} % ({low} to {high}) of samples that did not choose it, "
            f"{points(self.against_pool)} points against the vote of all.{self._rough()}"
        )

    def _rough(self) -> str:
        few = self.n_groups is not None and self.n_groups < FEW_GROUPS
        return (
            f" The samples are of {self.n_groups} groups only, so these intervals are rough." if few else ""
        )

    def __repr__(self) -> str:
        return f"<Selection {len(self.indices)} of {self.n_learners} learners, {self.method!r}>"

    def __str__(self) -> str:
        rows = [_HEADER, *self._rows()]
        width = max(len(name) for name, *_ in rows)
        lines = [f"{name:<{width}}  {weight:<6}  {without}" for name, weight, without in rows]
        return "\n".join([*self.summary(), *lines, *self._more()])

    def _repr_html_(self) -> str:
        first, second = self.summary()
        return html_block(first, second, html_table(self._rows(), _HEADER), *self._more())

    def _rows(self) -> list[tuple[str, str, str]]:
        """Return name, weight and worth of the chosen learners as text, not more than are printed."""
        chosen = zip(self.chosen, self.indices.tolist(), self.weights.tolist(), strict=True)
        return [
            (name, f"{weight:.4f}", points(reverse(self.effects[index])))
            for name, index, weight in islice(chosen, _PRINTED)
        ]

    def _more(self) -> list[str]:
        more = len(self.indices) - _PRINTED
        return [f"... and {more} more"] if more > 0 else []


def points(difference: Estimate) -> str:
    """Return a difference of accuracies in points, with its interval.

    Examples
    --------
    >>> points(Estimate(0.012, -0.004, 0.028))
    '+1.2 (-0.4 to +2.8)'
    """
    if np.isnan(difference.value):
        return "undefined"
    value, low, high = (f"{100 * end + 0.0:+.1f}" for end in difference)
    return f"{value} ({low} to {high})"


def reverse(difference: Estimate) -> Estimate:
    """Return the difference the other way round.

    Examples
    --------
    >>> reverse(Estimate(0.5, 0.25, 0.75))
    Estimate(value=-0.5, low=-0.75, high=-0.25)
    """
    return Estimate(-difference.value, -difference.high, -difference.low)


_DTYPES: dict[Any, type] = {IntArray: np.int64, FloatArray: np.float64}


def _restored(data: Mapping[str, Any], kind: Any) -> Any:
    """Return a Selection or a Panel from plain data."""
    if missing := [field.name for field in fields(kind) if field.name not in data]:
        raise ValueError(f"`data` must have the fields of {kind.__name__}; got none named {missing[0]!r}.")
    values = {}
    for field in fields(kind):
        value: Any = data[field.name]
        if (dtype := _DTYPES.get(field.type)) is not None:
            value = np.array([np.nan if one is None else one for one in value], dtype)
        elif field.type is Estimate:
            value = _estimate(value)
        elif field.name == "votes":
            value = np.nan if value is None else value
        elif field.name == "effects":
            value = tuple(map(_estimate, value))
        elif field.name == "panels":
            value = tuple(_restored(panel, Panel) for panel in value)
        values[field.name] = tuple(value) if field.name == "learners" else value
    return kind(**values)


def _estimate(data: Mapping[str, Any]) -> Estimate:
    ends = (data[end] for end in Estimate._fields)
    return Estimate(*(np.nan if end is None else float(end) for end in ends))
