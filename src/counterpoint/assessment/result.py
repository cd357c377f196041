"""An assessment as one frozen object that prints well and converts to JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.assessment.agreement_result import AgreementAssessment
from counterpoint.assessment.base import AssessmentBase, rounded
from counterpoint.assessment.groups import (
    Certificates,
    Changes,
    ClassSummary,
    CorrelationSummary,
    Coverage,
    Difference,
    EffectiveVotes,
    Estimate,
    Finding,
    Intervals,
    ProbabilitySummary,
    VotePrediction,
    VoteSummary,
)

__all__ = ["SAMPLES", "SCHEMA", "Assessment", "check_names"]

SAMPLES = ("held_out", "training")
_SHOWN = 12  # learners in the text; the best and the worst of more
SCHEMA = 4  # of the JSON; raise it whenever a field changes


@dataclass(frozen=True, eq=False, repr=False)
class Assessment(AssessmentBase):
    """Where an ensemble stands, what its ceiling is and what would help.

    Returned by :func:`counterpoint.assess`. Undefined numbers are NaN.

    Attributes
    ----------
    name : str
        The name of the ensemble.
    samples : {"held_out", "training"}
        Whether the learners saw the samples in training, as declared by the caller.
    n_learners, n_samples, n_classes : int
        Sizes.
    classes : tuple
        The labels.
    learners : tuple of str
        Names of the learners.
    outputs : {"labels", "probabilities"}
        The kind of outputs that were assessed.
    voting : {"hard", "soft", "geometric"}
        The vote that counts; ``vote`` is its accuracy.
    correlations : CorrelationSummary
        With the truth, with each other, and of the errors.
    votes : VoteSummary
        Accuracies of the learners and of the votes.
    coverage : Coverage
        Who answered what; ties.
    by_class : ClassSummary
        The vote that counts, class by class.
    changes : Changes
        What leaving learners out or reweighting them would bring.
    effective : EffectiveVotes
        How many learners as good as the best, erring independently, the vote and each learner are worth.
    prediction : VotePrediction
        The accuracy of the vote that theory predicts, also for other numbers of learners.
    intervals : Intervals
        The correlations, optimality and the predicted vote with their 95 % intervals.
    certificates : Certificates
        Upper bounds on the error of the hard vote.
    probabilities : ProbabilitySummary
        How good the probabilities are.
    measures : dict of str to float
        Every measure of ``counterpoint.measures.MEASURES``.
    findings : tuple of Finding
        Advice, warnings first.
    decision : Finding
        What to do: ``use_best``, ``keep_vote``, ``leave_out``, ``no_difference`` or ``unclear``.
    agreement : AgreementAssessment or None
        How far the learners agree on all samples, where only some have a truth; the rest is about those.

    Examples
    --------
    >>> from counterpoint import assess
    >>> truth = [0, 0, 0, 0, 1, 1, 1, 1]
    >>> votes = [[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1, 0, 1], [0, 1, 0, 1, 1, 1, 1, 1]]
    >>> assessment = assess(truth, votes)
    >>> assessment.vote.value, float(assessment.accuracies.mean())
    (0.875, 0.75)
    >>> round(assessment.correlations.error_correlation, 3)
    -0.111
    >>> Assessment.from_json(assessment.to_json()).vote == assessment.vote
    True
    """

    schema: ClassVar[int] = SCHEMA

    name: str
    samples: str
    n_learners: int
    n_samples: int
    n_classes: int
    classes: tuple[Any, ...]
    learners: tuple[str, ...]
    outputs: str
    voting: str
    correlations: CorrelationSummary
    votes: VoteSummary
    coverage: Coverage
    by_class: ClassSummary
    changes: Changes
    effective: EffectiveVotes
    prediction: VotePrediction
    intervals: Intervals
    certificates: Certificates
    probabilities: ProbabilitySummary
    measures: Mapping[str, float]
    findings: tuple[Finding, ...]
    decision: Finding
    agreement: AgreementAssessment | None = None

    @property
    def r_tl(self) -> float:
        """The mean truth-learner correlation."""
        return self.correlations.r_tl

    @property
    def r_ll(self) -> float:
        """The mean learner-learner correlation."""
        return self.correlations.r_ll

    @property
    def optimality(self) -> float:
        """``r_tl`` as a share of its bound at this ``r_ll`` (Theorem 2)."""
        return self.correlations.optimality

    @property
    def accuracies(self) -> FloatArray:
        """Each learner's accuracy on the samples that it answered, shape (n_learners,)."""
        return self.votes.accuracies

    @property
    def vote(self) -> Estimate:
        """The accuracy of the vote that counts."""
        vote: Estimate = getattr(self.votes, self.voting)
        return vote

    @property
    def best_learner(self) -> int:
        """The position of the most accurate learner, the first of equals.

        Where votes are missing it is the one that is most surely accurate, by the lower end of its interval.
        """
        return self.votes.against_best.learner

    @property
    def counted(self) -> str:
        """The samples with a vote, as words."""
        n = self.coverage.n_voted
        return "1 sample" if n == 1 else f"{n} samples"

    @property
    def verdict(self) -> str:
        """What to do, how good the vote is, and what the learners are worth."""
        vote = self.vote
        samples = self.counted.replace(" ", " training ") if self.samples == "training" else self.counted
        right = f"is right on {100 * vote.value:.1f} % of {samples}"
        if not np.isnan(vote.low):
            right += f" (95 % interval {100 * vote.low:.1f} to {100 * vote.high:.1f})"
        if self.n_learners == 1:
            return f"{self.learners[0]}, the only learner, {right}.{self._baseline()}"
        mean = f"a learner on {100 * self.accuracies.mean():.1f} % on average"
        return f"{self.decision.text} The {self.voting} vote {right}, {mean}.{self._worth()}"

    def _baseline(self) -> str:
        """Return a sentence about the most frequent class if always answering it is as good."""
        found = self.by_class
        if self.n_classes < 2 or found.baseline == 1 or self.vote.value > found.baseline:
            return ""
        often = self.classes[int(np.argmax(found.shares))]
        return f" Always answering {often} would be right on {100 * found.baseline:.1f} %."

    def _worth(self) -> str:
        """Return what the learners are worth, as a sentence."""
        found = self.effective
        worth, own = found.votes, found.independence
        like = "" if np.isnan(own.value) else f"they err like {own.value:.1f} independent learners"
        if np.isnan(worth.value):
            text = f" What the {self.n_learners:,} are worth is undefined: {found.undefined}"
            return f"{text}; {like}." if like else f"{text}."
        between = "" if np.isnan(worth.low) else f" (95 % interval {worth.count_range()})"
        what = (
            f"times {found.best} alone"
            if worth.value < 1
            else f"independent learners as good as {found.best}"
        )
        text = f" The {self.n_learners:,} are worth {worth.as_count().split()[0]} {what}"
        if worth.value > 1 and self.votes.against_best.says == "worse":
            between += ", which the most frequent answer does not show"
        return f"{text}{between}; {like}." if like else f"{text}{between}."

    def __repr__(self) -> str:
        return f"<Assessment {self.name!r}: {self.n_learners} learners, {self.voting} vote {self.vote}>"

    def learner_rows(self, most: int = _SHOWN) -> list[tuple[str, ...]]:
        """Return name, accuracy, worth and weight of the learners as text, the best first.

        Where votes are missing, the share of the samples that it answered follows.

        Parameters
        ----------
        most : int, default=12
            The number of rows; of more learners the middle is left out.
        """
        order = np.argsort(-self.accuracies, kind="stable")
        if len(order) > most:
            order = np.concatenate([order[: most // 2], order[-(most // 2) :]])
        complete, right = self.coverage.complete, self._learner_estimates()
        header = ("learner", "right (95 % interval)", "worth", "weight", *([] if complete else ["answered"]))
        rows: list[tuple[str, ...]] = [header]
        for i in order.tolist():
            share = f"{100 * self.coverage.answered[i] / self.n_samples:.1f} %"
            worth, error = self.effective.worth[i], self.effective.worth_error[i]
            known = "" if np.isnan(error) else f" ± {error:.2f}"
            weight = self.votes.weights[i]
            rows.append(
                (
                    self.learners[i],
                    right[i].as_percent(),
                    "" if np.isnan(worth) else f"{worth:+z.2f}{known}",
                    f"{weight:.2f}",
                    *([] if complete else [share]),
                )
            )
        if len(self.learners) > most:
            rows.insert(1 + most // 2, (f"... {len(self.learners) - most} more", *[""] * (len(rows[0]) - 1)))
        return rows

    def _learner_estimates(self) -> list[Estimate]:
        """Return the accuracy of each learner with its interval."""
        found = self.votes
        ends = zip(found.accuracies, found.accuracy_low, found.accuracy_high, strict=True)
        return [Estimate(*map(float, one)) for one in ends]

    def summary(self) -> list[tuple[str, str]]:
        """Return the main numbers as (label, text), in reading order."""
        pooled = ", pooled" if self.correlations.pooled else ""
        return [
            ("learners x samples, classes", f"{self.n_learners} x {self.n_samples}, {self.n_classes}"),
            *self._coverage_rows(),
            (f"truth-learner correlation r_TL{pooled}", _interval(self.intervals.r_tl, self.r_tl)),
            (f"learner-learner correlation r_LL{pooled}", _interval(self.intervals.r_ll, self.r_ll)),
            ("highest r_TL at this r_LL (Theorem 2)", _digits(self.correlations.bound)),
            ("optimality: r_TL over that bound", _interval(self.intervals.optimality, self.optimality)),
            (
                "accuracy of a learner: lowest, mean, highest",
                ", ".join(map(_percent, self._accuracy_range())),
            ),
            ("hard vote", self.votes.hard.as_percent()),
            *self._probability_rows(),
            (
                "most frequent class; balanced accuracy",
                f"{_percent(self.by_class.baseline)}; {_percent(self.by_class.balanced_accuracy)}",
            ),
            ("best weights, judged on other samples", _changed(self.changes.reweighting)),
            ("correlation of being correct", _interval(self.effective.error_correlation, np.nan)),
            *self._worth_rows(),
            (
                "vote predicted; if independent"
                if self.voting == "hard"
                else "hard vote predicted; if independent",
                f"{_share(self.intervals.predicted, self.prediction.mixed)}; {_percent(self.prediction.independent)}",
            ),
            *self._agreement_rows(),
        ]

    def _worth_rows(self) -> list[tuple[str, str]]:
        found = self.effective
        worth = f"effective votes: learners as good as {found.best}" if found.best else "effective votes"
        rows = [(worth, found.votes.as_count()), ("independence (Kish)", found.independence.as_count())]
        if not np.isnan(found.with_weights):
            rows.insert(1, ("effective votes with the best weights", f"{found.with_weights:.1f}"))
        return rows

    def _agreement_rows(self) -> list[tuple[str, str]]:
        if self.agreement is None:
            return []
        found = self.agreement
        rows = [
            ("samples with a truth", f"{self.n_samples} of {found.n_samples}"),
            ("all samples: Krippendorff's alpha", str(found.agreement.krippendorff_alpha)),
        ]
        right = found.bounds.consensus
        if not np.isnan(right.low):
            between = f"between {_percent(right.low)} and {_percent(right.high)}"
            rows.append(("samples without a truth: consensus right", between))
        return rows

    def _coverage_rows(self) -> list[tuple[str, str]]:
        """Return who answered how much; nothing if all answered everything and no vote is tied."""
        found = self.coverage
        rows = []
        if not found.complete:
            everybody, nobody = int(found.voters[-1]), int(found.voters[0])
            rows = [
                (
                    "votes cast; learners that vote on a sample",
                    f"{100 * found.share:.1f} %; {found.mean_voters:.1f}",
                ),
                ("samples that all answered, that none did", f"{everybody}, {nobody}"),
            ]
            if self.n_learners > 1:
                rows.append(("fewest samples shared by two learners", f"{found.fewest_shared}"))
        return rows + ([("tied votes, shared by the tied classes", f"{found.tied}")] if found.tied else [])

    def _probability_rows(self) -> list[tuple[str, str]]:
        if self.outputs == "labels":
            return [("soft vote", "needs probabilities")]
        soft, geometric = self.votes.soft, self.votes.geometric
        rows = [("soft vote", soft.as_percent()), ("geometric vote", geometric.as_percent())]
        if self.voting != "hard":
            proba = self.probabilities
            scores = (proba.log_loss, proba.brier_score, proba.calibration_error)
            label = f"{self.voting}: log-loss, Brier, calibration error"
            rows.append((label, ", ".join(map(rounded, scores))))
        return rows

    def _accuracy_range(self) -> tuple[float, float, float]:
        return float(self.accuracies.min()), float(self.accuracies.mean()), float(self.accuracies.max())


def _interval(one: Estimate, value: float) -> str:
    """Return a correlation with its interval, or without where that is not known."""
    return _digits(value) if np.isnan(one.low) else f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"


def _share(one: Estimate, value: float) -> str:
    """Return a share with its interval, or without where that is not known."""
    return _percent(value) if np.isnan(one.low) else one.as_percent()


def _digits(value: float) -> str:
    return "undefined" if np.isnan(value) else f"{value:.2f}"


def _percent(share: float) -> str:
    return "undefined" if np.isnan(share) else f"{100 * share:.1f} %"


def _changed(change: Difference) -> str:
    return "undefined" if np.isnan(change.value) else str(change)


def check_names(learners: Sequence[str] | None, n_learners: int) -> tuple[str, ...]:
    """Return distinct names of the learners, L1, L2, ... by default.

    Parameters
    ----------
    learners : sequence of str or None
        Names as a caller gave them.
    n_learners : int
        Their number.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> check_names(None, 3)
    ('L1', 'L2', 'L3')
    """
    if learners is None:
        return tuple(f"L{i + 1}" for i in range(n_learners))
    if isinstance(learners, str) or not isinstance(learners, Iterable):
        raise TypeError(f"`learners` must be a sequence of names; got {learners!r}.")
    names = tuple(str(learner) for learner in learners)
    if len(names) != n_learners:
        raise ValueError(
            f"`learners` must have one name for each of the {n_learners} learners; got {len(names)}."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`learners` must be distinct; got {twice!r} twice.")
    return names
