"""What is known of an ensemble, as one frozen object that prints well and goes to JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import Any, NamedTuple, Self, get_args, get_type_hints

import numpy as np

from counterpoint._plain import plain
from counterpoint._validation import FloatArray, IntArray, check_json
from counterpoint.measures import Reliability

__all__ = ["Assessment", "Estimate", "Finding", "Sizing", "rounded"]


class Estimate(NamedTuple):
    """A share of the samples with its 95 % bootstrap interval.

    Examples
    --------
    >>> str(Estimate(0.9, 0.85, 0.94))
    '0.900 (0.850 to 0.940)'
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


class Sizing(NamedTuple):
    """The accuracy of the vote that each number of learners of this kind would give.

    Examples
    --------
    >>> import numpy as np
    >>> Sizing(np.array([1, 3]), np.array([0.7, 0.8])).sizes
    array([1, 3])
    """

    sizes: IntArray
    accuracy: FloatArray


@dataclass(frozen=True)
class Finding:
    """One piece of advice: a code for programs, a sentence for people, the numbers behind it.

    Attributes
    ----------
    code : str
        What was found, such as ``"near_duplicates"``; the list is in ``docs/assess.md``.
    severity : {"good", "info", "warning"}
        Whether it is well, worth knowing or worth acting on.
    text : str
        A sentence.
    numbers : dict
        The numbers in the sentence.

    Examples
    --------
    >>> Finding("small_sample", "info", "Few samples.", {"n_samples": 20}).code
    'small_sample'
    """

    code: str
    severity: str
    text: str
    numbers: Mapping[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class Assessment:
    """Where an ensemble stands, what its ceiling is and what would help.

    Made by :func:`counterpoint.assess`. Undefined numbers are NaN.

    Attributes
    ----------
    name : str
        What to call the ensemble.
    n_learners, n_samples, n_classes : int
        Sizes.
    classes : tuple
        The labels.
    learners : tuple of str
        Names of the learners.
    outputs : {"labels", "probabilities"}
        What was assessed.
    voting : {"hard", "soft", "geometric"}
        The vote that counts; ``vote`` is its accuracy.
    r_tl, r_ll : float
        Mean truth-learner and learner-learner correlation, over the classes that the truth has and learners or pairs.
    bound, optimality : float
        The most that ``r_tl`` can be at this ``r_ll`` (Theorem 2), and the share of it that is reached. Learners
        that are constant in some classes may lie beyond the theorem; ``bound`` is then the size of ``r_tl`` itself.
    r_tl_learners, accuracies : array, shape (n_learners,)
        Each learner's correlation with the truth and accuracy.
    r_tl_classes, r_ll_classes : array, shape (n_classes,)
        The two means, class by class.
    learner_correlations : array, shape (n_learners, n_learners)
        Mean correlation over classes of every two learners.
    hard_vote, soft_vote, geometric_vote, weighted_vote : Estimate
        Accuracy of the plurality vote, of the mean and of the geometric mean of the probabilities (NaN for labels), and
        of the vote with the best non-negative weights. A tie is shared. The weights were fitted to these very samples,
        so the last is an upper estimate of what reweighting gives.
    log_loss, brier_score, calibration_error : float
        How good the probabilities of the vote that counts are, by the functions of ``counterpoint.measures``; low is
        good. NaN for labels and for the hard vote.
    reliability : Reliability
        How often that vote is right, by its confidence; without bins for labels and for the hard vote.
    learner_log_losses : array, shape (n_learners,)
        Each learner's log-loss; NaN for labels.
    weights : array, shape (n_learners,)
        The best non-negative weights, of a sum of one.
    ceiling : float
        The highest correlation with the truth of any weighted sum of these learners.
    without : array, shape (n_learners,)
        The change of the vote's accuracy if that learner were left out.
    without_error : array, shape (n_learners,)
        The standard error of that change.
    error_correlation : float
        Mean correlation of being correct.
    predicted_vote, predicted_mixed : float
        Accuracy of a majority of equal learners with the mean accuracy and error correlation, and of these unequal ones
        with theirs. With more than two classes a vote can be won short of a majority, so both lie low.
    sizing : Sizing
        ``predicted_vote`` for other numbers of learners.
    measures : dict of str to float
        Every measure of ``counterpoint.measures.MEASURES``.
    c_bound : float
        An upper bound on the error of the hard vote on these samples.
    tandem_bound : float
        An upper bound on its error on new data, of 95 % confidence, if these samples were not trained on.
    advice : tuple of Finding
        What follows from the numbers, the most pressing first.

    Examples
    --------
    >>> from counterpoint import assess
    >>> truth = [0, 0, 0, 0, 1, 1, 1, 1]
    >>> votes = [[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1, 0, 1], [0, 1, 0, 1, 1, 1, 1, 1]]
    >>> assessment = assess(truth, votes)
    >>> assessment.vote.value, float(assessment.accuracies.mean())
    (0.875, 0.75)
    >>> Assessment.from_json(assessment.to_json()).vote == assessment.vote
    True
    """

    name: str
    n_learners: int
    n_samples: int
    n_classes: int
    classes: tuple[Any, ...]
    learners: tuple[str, ...]
    outputs: str
    voting: str
    r_tl: float
    r_ll: float
    bound: float
    optimality: float
    r_tl_learners: FloatArray
    accuracies: FloatArray
    r_tl_classes: FloatArray
    r_ll_classes: FloatArray
    learner_correlations: FloatArray
    hard_vote: Estimate
    soft_vote: Estimate
    geometric_vote: Estimate
    weighted_vote: Estimate
    log_loss: float
    brier_score: float
    calibration_error: float
    reliability: Reliability
    learner_log_losses: FloatArray
    weights: FloatArray
    ceiling: float
    without: FloatArray
    without_error: FloatArray
    error_correlation: float
    predicted_vote: float
    predicted_mixed: float
    sizing: Sizing
    measures: Mapping[str, float]
    c_bound: float
    tandem_bound: float
    advice: tuple[Finding, ...]

    @property
    def vote(self) -> Estimate:
        """The accuracy of the vote that counts."""
        votes = {"hard": self.hard_vote, "soft": self.soft_vote, "geometric": self.geometric_vote}
        return votes[self.voting]

    @property
    def verdict(self) -> str:
        """One sentence: how good the vote is, against its learners and its bound."""
        vote, accuracies = self.vote, self.accuracies
        gain = vote.value - float(accuracies.max())
        against = "better than" if gain > 0 else "worse than" if gain < 0 else "as good as"
        place = (
            "" if np.isnan(self.optimality) else f"; r_TL is at {100 * self.optimality:.0f} % of its bound"
        )
        learners = "1 learner" if self.n_learners == 1 else f"{self.n_learners} learners"
        return (
            f"The {self.voting} vote of {learners} is right on {100 * vote.value:.1f} % of {self.n_samples} samples "
            f"(95 % interval {100 * vote.low:.1f} to {100 * vote.high:.1f}), {against} its best learner "
            f"({100 * accuracies.max():.1f} %; mean {100 * accuracies.mean():.1f} %){place}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, with None for what is undefined."""
        return dict(plain(self))

    def to_json(self) -> str:
        """Return the assessment as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the assessment that :meth:`to_dict` described."""
        hints = get_type_hints(cls)
        known = [field.name for field in fields(cls)]
        if missing := [name for name in known if name not in data]:
            raise ValueError(f"`data` must have the fields of an Assessment; got none named {missing[0]!r}.")
        return cls(**{name: _restore(data[name], hints[name]) for name in known})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the assessment that :meth:`to_json` wrote."""
        needed = (field.name for field in fields(cls))
        return cls.from_dict(check_json(text, "text", "an Assessment", needed=needed))

    def __repr__(self) -> str:
        return f"<Assessment {self.name!r}: {self.n_learners} learners, {self.voting} vote {self.vote}>"

    def __str__(self) -> str:
        lines = [self.name, "=" * len(self.name), self.verdict, ""]
        width = max(len(label) for label, _ in self.summary())
        lines += [f"{label:<{width}}  {value}" for label, value in self.summary()]
        lines += [""] if self.advice else []
        lines += [f"[{finding.severity}] {finding.text}" for finding in self.advice]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(label)}</th><td>{escape(value)}</td></tr>"
            for label, value in self.summary()
        )
        advice = "".join(f"<li><b>{f.severity}</b>: {escape(f.text)}</li>" for f in self.advice)
        return (
            f"<div><h4>{escape(self.name)}</h4><p>{escape(self.verdict)}</p>"
            f"<table>{rows}</table><ul>{advice}</ul></div>"
        )

    def summary(self) -> list[tuple[str, str]]:
        """Return the main numbers as (label, text), in reading order."""
        return [
            ("learners x samples, classes", f"{self.n_learners} x {self.n_samples}, {self.n_classes}"),
            ("truth-learner correlation r_TL", rounded(self.r_tl)),
            ("learner-learner correlation r_LL", rounded(self.r_ll)),
            ("highest r_TL at this r_LL (Theorem 2)", rounded(self.bound)),
            ("optimality: r_TL over that bound", rounded(self.optimality)),
            ("accuracy of a learner: lowest, mean, highest", ", ".join(map(rounded, self._accuracy_range()))),
            ("hard vote", str(self.hard_vote)),
            *self._probability_rows(),
            ("vote with the best weights (fitted here)", str(self.weighted_vote)),
            ("correlation of being correct", rounded(self.error_correlation)),
            (
                "majority predicted: equal, own accuracies",
                f"{rounded(self.predicted_vote)}, {rounded(self.predicted_mixed)}",
            ),
        ]

    def _probability_rows(self) -> list[tuple[str, str]]:
        if self.outputs == "labels":
            return [("soft vote", "needs probabilities")]
        rows = [("soft vote", str(self.soft_vote)), ("geometric vote", str(self.geometric_vote))]
        if self.voting != "hard":
            scores = (self.log_loss, self.brier_score, self.calibration_error)
            label = f"{self.voting}: log-loss, Brier, calibration error"
            rows.append((label, ", ".join(map(rounded, scores))))
        return rows

    def _accuracy_range(self) -> tuple[float, float, float]:
        return float(self.accuracies.min()), float(self.accuracies.mean()), float(self.accuracies.max())


def rounded(value: float) -> str:
    """Return a number with three decimals, or the word for its absence."""
    return "undefined" if np.isnan(value) else f"{value:.3f}"


def _restore(value: Any, hint: Any) -> Any:
    """Return plain data as the type of its field."""
    if hint is float:
        return np.nan if value is None else float(value)
    if hint in (FloatArray, IntArray):
        return np.array(value, dtype=np.float64 if hint == FloatArray else np.int64)
    if hint is Estimate:
        return Estimate(**{key: _restore(entry, float) for key, entry in value.items()})
    if hint in (Sizing, Reliability):
        return hint(**{key: _restore(value[key], kind) for key, kind in get_type_hints(hint).items()})
    if get_args(hint) and get_args(hint)[0] is Finding:
        return tuple(Finding(**entry) for entry in value)
    if isinstance(value, Mapping):
        return {key: _restore(entry, float) for key, entry in value.items()}
    return tuple(value) if isinstance(value, list) else value
