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
from counterpoint.assessment.votes import mcnemar, wilson_interval

__all__ = ["SAMPLES", "SCHEMA", "Assessment", "check_names"]

SAMPLES = ("held_out", "training")
SURE = 0.05  # a smaller p-value counts as evidence
_SHOWN = 12  # learners in the text; the best and the worst of more
SCHEMA = 3  # of the JSON; raise it whenever a field changes


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
        How many independent learners the hard vote is worth.
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
        if self.coverage.complete:
            return int(np.argmax(self.accuracies))
        return int(np.argmax([one.low for one in self._learner_estimates()]))

    @property
    def against_best(self) -> str:
        """Whether the vote is ``"better"`` or ``"worse"`` than its best learner by McNemar's test, else ``"alike"``."""
        best = self.best_learner
        ahead, behind = int(self.votes.ahead[best]), int(self.votes.behind[best])
        p = mcnemar(ahead, behind)
        if ahead > behind and p < SURE:
            return "better"
        # The best of many learners is partly the luckiest.
        return "worse" if behind > ahead and p * self.n_learners < SURE else "alike"

    @property
    def counted(self) -> str:
        """The samples with a vote, as words."""
        n = self.coverage.n_voted
        return "1 sample" if n == 1 else f"{n} samples"

    @property
    def verdict(self) -> str:
        """How good the vote is, against its learners, and how many independent votes it is worth."""
        vote, accuracies = self.vote, self.accuracies
        samples = self.counted.replace(" ", " training ") if self.samples == "training" else self.counted
        right = (
            f"is right on {100 * vote.value:.1f} % of {samples} "
            f"(95 % interval {100 * vote.low:.1f} to {100 * vote.high:.1f})"
        )
        if self.n_learners == 1:
            return f"{self.learners[0]}, the only learner, {right}.{self._baseline()}"
        against = {"better": "better than", "worse": "worse than", "alike": "not to be told apart from"}[
            self.against_best
        ]
        against += " its best learner"
        best = f"{100 * accuracies[self.best_learner]:.1f} %"
        if not self.coverage.complete:
            against += " on what that one answered"
            best = f"{100 * self.coverage.vote_on[self.best_learner]:.1f} % against its {best}"
        return (
            f"The {self.voting} vote of {self.n_learners} learners {right}, {against} "
            f"({best}; mean {100 * accuracies.mean():.1f} %).{self._baseline()}{self._worth()}"
        )

    def _baseline(self) -> str:
        """Return a sentence about the most frequent class if always answering it is as good."""
        found = self.by_class
        if self.n_classes < 2 or found.baseline == 1 or self.vote.value > found.baseline:
            return ""
        often = self.classes[int(np.argmax(found.shares))]
        return f" Always answering {often} would be right on {100 * found.baseline:.1f} %."

    def _worth(self) -> str:
        """Return how many independent votes the hard vote is worth, as a sentence."""
        worth, it = self.effective.votes, "It" if self.voting == "hard" else "The hard vote"
        if self.n_learners == self.n_classes == 2 and self.coverage.complete:
            return " Two votes are worth one: where they differ, the tie is shared."
        if np.isnan(worth.low):
            return ""
        if np.isnan(worth.value):
            return f" {it} is worth at least {worth.low:.1f} independent votes (95 % confidence)."
        return f" {it} is worth {worth.value:.1f} independent votes (95 % interval {worth.count_range()})."

    def __repr__(self) -> str:
        return f"<Assessment {self.name!r}: {self.n_learners} learners, {self.voting} vote {self.vote}>"

    def learner_rows(self, most: int = _SHOWN) -> list[tuple[str, ...]]:
        """Return name, accuracy and change of the vote without each learner as text, the best first.

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
        header = ("learner", "right (95 % interval)", "vote without it", *([] if complete else ["answered"]))
        rows: list[tuple[str, ...]] = [header]
        for i in order.tolist():
            change = Difference(float(self.votes.without[i]), float(self.votes.without_error[i]))
            without = "" if np.isnan(change.value) else str(change)
            share = f"{100 * self.coverage.answered[i] / self.n_samples:.1f} %"
            rows.append((self.learners[i], str(right[i]), without, *([] if complete else [share])))
        if len(self.learners) > most:
            rows.insert(1 + most // 2, (f"... {len(self.learners) - most} more", *[""] * (len(rows[0]) - 1)))
        return rows

    def _learner_estimates(self) -> list[Estimate]:
        """Return the accuracy of each learner with its interval."""
        pairs = zip(self.accuracies.tolist(), self.coverage.answered.tolist(), strict=True)
        return [Estimate(share, *wilson_interval(share, n)) for share, n in pairs]

    def summary(self) -> list[tuple[str, str]]:
        """Return the main numbers as (label, text), in reading order."""
        return [
            ("learners x samples, classes", f"{self.n_learners} x {self.n_samples}, {self.n_classes}"),
            *self._coverage_rows(),
            ("truth-learner correlation r_TL", _interval(self.intervals.r_tl, self.r_tl)),
            ("learner-learner correlation r_LL", _interval(self.intervals.r_ll, self.r_ll)),
            ("highest r_TL at this r_LL (Theorem 2)", rounded(self.correlations.bound)),
            ("optimality: r_TL over that bound", _interval(self.intervals.optimality, self.optimality)),
            ("accuracy of a learner: lowest, mean, highest", ", ".join(map(rounded, self._accuracy_range()))),
            ("hard vote", str(self.votes.hard)),
            *self._probability_rows(),
            (
                "most frequent class; balanced accuracy",
                f"{rounded(self.by_class.baseline)}; {rounded(self.by_class.balanced_accuracy)}",
            ),
            ("best weights, judged on other samples", _changed(self.changes.reweighting)),
            ("correlation of being correct", _interval(self.effective.error_correlation, np.nan)),
            ("effective votes, by accuracy", self.effective.votes.as_count()),
            ("effective votes, by error correlation (Kish)", self.effective.kish.as_count()),
            (
                "vote predicted; if independent",
                f"{_interval(self.intervals.predicted, self.prediction.mixed)}; "
                f"{rounded(self.prediction.independent)}",
            ),
            *self._agreement_rows(),
        ]

    def _agreement_rows(self) -> list[tuple[str, str]]:
        if self.agreement is None:
            return []
        found = self.agreement
        rows = [
            ("samples with a truth", f"{self.n_samples} of {found.n_samples}"),
            ("all samples: Krippendorff's alpha", str(found.agreement.krippendorff_alpha)),
        ]
        if found.estimated is not None:
            rows.append(("all samples: consensus, independent errors", rounded(found.estimated.confidence)))
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
        rows = [("soft vote", str(self.votes.soft)), ("geometric vote", str(self.votes.geometric))]
        if self.voting != "hard":
            proba = self.probabilities
            scores = (proba.log_loss, proba.brier_score, proba.calibration_error)
            label = f"{self.voting}: log-loss, Brier, calibration error"
            rows.append((label, ", ".join(map(rounded, scores))))
        return rows

    def _accuracy_range(self) -> tuple[float, float, float]:
        return float(self.accuracies.min()), float(self.accuracies.mean()), float(self.accuracies.max())


def _interval(one: Estimate, value: float) -> str:
    """Return a number with its interval, or without where that is not known."""
    return rounded(value) if np.isnan(one.low) else str(one)


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
