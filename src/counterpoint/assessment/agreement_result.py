"""The assessment of a panel without a truth as one frozen object that prints well and converts to JSON."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.base import AssessmentBase, rounded
from counterpoint.assessment.groups import Estimate, Finding
from counterpoint.outputs import mean_defined, mean_of_pairs

__all__ = [
    "AGREEMENT_SCHEMA",
    "AgreementAssessment",
    "AgreementSummary",
    "ConsensusBounds",
    "DawidSkeneSummary",
    "LabelSummary",
]

AGREEMENT_SCHEMA = 2  # of the JSON; raise it whenever a field changes
_SHOWN = 12  # learners in the text; the best and the worst of more


@dataclass(frozen=True, eq=False)
class AgreementSummary:
    """How far the learners agree on the labels.

    Attributes
    ----------
    observed : Estimate
        Share of pairs of votes on one sample that are equal, averaged over samples with two votes or more.
    fleiss_kappa, krippendorff_alpha, gwet_ac1 : Estimate
        The same beyond chance: 1 is perfect agreement, 0 that of chance. 95 % bootstrap intervals over samples.
    unanimous : float
        Share of the samples with two votes or more on which all who voted agree.
    n_complete, n_several : int
        Samples on which all learners voted, and on which two or more did.
    pairs, kappas : array, shape (n_learners, n_learners)
        Agreement and Cohen's kappa of every two learners, over the samples on which both voted.
    shared : array of int, shape (n_learners, n_learners)
        The number of those samples.

    Examples
    --------
    >>> from counterpoint import assess
    >>> panel = assess([[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 1, 1, 1, 1]])
    >>> found = panel.agreement
    >>> print(f"{found.observed.value:.2f}, all who voted {found.unanimous:.2f}")
    0.73, all who voted 0.60
    """

    observed: Estimate
    fleiss_kappa: Estimate
    krippendorff_alpha: Estimate
    gwet_ac1: Estimate
    unanimous: float
    n_complete: int
    n_several: int
    pairs: FloatArray
    kappas: FloatArray
    shared: IntArray


@dataclass(frozen=True, eq=False)
class LabelSummary:
    """Which labels the learners give.

    Attributes
    ----------
    votes : array of int, shape (n_learners,)
        The number of samples on which each learner voted.
    shares : array, shape (n_classes,)
        The share of each label among all votes.
    learner_shares : array, shape (n_learners, n_classes)
        The same for each learner.
    baseline : float
        The share of the most frequent label.

    Examples
    --------
    >>> from counterpoint import assess
    >>> panel = assess([[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 1, 1, 1, 1]])
    >>> panel.labels.votes.tolist(), panel.labels.baseline
    ([5, 5, 5], 0.6)
    """

    votes: IntArray
    shares: FloatArray
    learner_shares: FloatArray
    baseline: float


@dataclass(frozen=True, eq=False)
class DawidSkeneSummary:
    """What the votes say of the learners, if they err independently.

    Attributes
    ----------
    accuracies : array, shape (n_learners,)
        Estimated accuracy of each learner; too high if the learners share errors.
    errors : array, shape (n_learners,)
        Their standard errors, if the model holds.
    confusions : array, shape (n_learners, n_classes, n_classes), or None
        Estimated probability of each vote (last axis), given the true class; None with over 50 classes.
    prior : array, shape (n_classes,)
        Estimated shares of the classes.
    unanimous : float
        The share of the samples with two opinions or more on which the model expects all of them to agree.
    confidence : float
        Mean probability of the consensus on samples without a truth: its accuracy, if the model holds.
    bic : float
        Bayesian information criterion; lower is better.

    Examples
    --------
    >>> from counterpoint import assess
    >>> panel = assess([[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 1, 1, 1, 1]])
    >>> panel.confusion.accuracies.shape
    (3,)
    """

    accuracies: FloatArray
    errors: FloatArray
    confusions: FloatArray | None
    prior: FloatArray
    unanimous: float
    confidence: float
    bic: float


@dataclass(frozen=True, eq=False)
class ConsensusBounds:
    """Between what the accuracy lies, on samples without a truth, if errors may be shared.

    Votes alone cannot tell accurate learners from learners that make the same errors. Each accuracy has a value for
    errors that are correlated as the votes suggest, a highest one for errors that are independent (or as little
    correlated as the votes allow), and a lowest one for errors that are correlated by 0.5, more than those of any panel
    of language models that we know of. The ends include the sampling error. That most votes are right is assumed.

    Attributes
    ----------
    n_opinions : int
        Learners, with copies counted as one.
    unanimous : float
        Share of the samples with two opinions or more on which all of them agree.
    shared : bool
        Whether that is more than independent errors explain.
    correlation : Estimate
        The correlation of being right: that which four equal votes suggest, or 0.25 for fewer than four opinions; the
        lowest and the highest that is allowed for.
    learner : Estimate
        The accuracy of a learner on average.
    consensus : Estimate
        The accuracy of the consensus.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoint import assess
    >>> rng = np.random.default_rng(0)
    >>> bounds = assess((rng.random((5, 500)) < 0.1) ^ rng.integers(0, 2, 500)).bounds
    >>> bounds.n_opinions, round(bounds.consensus.low, 2), round(bounds.consensus.high, 2)
    (5, 0.66, 1.0)
    """

    n_opinions: int
    unanimous: float
    shared: bool
    correlation: Estimate
    learner: Estimate
    consensus: Estimate

    def in_words(self) -> str:
        """Return the bounds of the consensus as text, with the correlations they are for."""
        right, c = self.consensus, self.correlation
        return (
            f"between {100 * right.low:.0f} and {100 * right.high:.0f} %, if their errors are correlated by "
            f"{c.low:.2g} to {c.high:.2g}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class AgreementAssessment(AssessmentBase):
    """How far a panel agrees, and how accurate it can be.

    Returned by :func:`counterpoint.assess` for votes without a truth. Undefined numbers are NaN.

    Attributes
    ----------
    name : str
        The name of the panel.
    n_learners, n_samples, n_classes : int
        Sizes.
    n_labelled : int
        The number of samples whose truth was given.
    classes : tuple
        The labels.
    learners : tuple of str
        Names of the learners.
    agreement : AgreementSummary
        How far the learners agree.
    labels : LabelSummary
        Which labels they give.
    families : tuple of tuples of int
        Learners that copy one another; the consensus counts them as one opinion.
    one_coin, confusion : DawidSkeneSummary or None
        The models of Dawid and Skene, with one accuracy or with a matrix of errors for each learner; None for fewer
        than three opinions without any truth, and where all labels are the same; only one coin where there are over 50
        labels, or labels hardly repeat.
    bounds : ConsensusBounds
        Between what the accuracy lies if errors may be shared.
    model : {"one_coin", "confusion", "votes"}
        Where the consensus comes from: the model with the lower BIC, or the shares of the votes if there is none.
    consensus : tuple
        The most probable label of each sample.
    confidence : array, shape (n_samples,)
        Its probability: the model's, with logits that are scaled down until their mean over samples without a truth is
        ``bounds.consensus.value``; the share of the opinions where ``model`` is "votes".
    findings : tuple of Finding
        What to think of it, warnings first.

    Examples
    --------
    >>> from counterpoint import assess
    >>> votes = [[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1, 0, 1], [0, 1, 0, 1, 1, 1, 1, 1]]
    >>> panel = assess(votes)
    >>> round(panel.agreement.observed.value, 3), round(panel.agreement.krippendorff_alpha.value, 3)
    (0.583, 0.179)
    >>> AgreementAssessment.from_json(panel.to_json()).consensus == panel.consensus
    True
    """

    schema: ClassVar[int] = AGREEMENT_SCHEMA
    task: ClassVar[str] = "agreement"

    name: str
    n_learners: int
    n_samples: int
    n_classes: int
    n_labelled: int
    classes: tuple[Any, ...]
    learners: tuple[str, ...]
    agreement: AgreementSummary
    labels: LabelSummary
    families: tuple[tuple[int, ...], ...]
    one_coin: DawidSkeneSummary | None
    confusion: DawidSkeneSummary | None
    bounds: ConsensusBounds
    model: str
    consensus: tuple[Any, ...]
    confidence: FloatArray
    findings: tuple[Finding, ...]

    @property
    def estimated(self) -> DawidSkeneSummary | None:
        """The model that the consensus comes from."""
        return {"one_coin": self.one_coin, "confusion": self.confusion}.get(self.model)

    @property
    def verdict(self) -> str:
        """One sentence: how far the learners agree, and what that does not say."""
        found, alpha = self.agreement.observed, self.agreement.krippendorff_alpha
        beyond = "" if np.isnan(alpha.value) else f"; Krippendorff's alpha {alpha.value:.3f}"
        known = f"Of {self.n_samples} samples {self.n_labelled} have a truth" if self.n_labelled else ""
        cannot = known or "Without a truth nobody can tell how often they are right"
        bounds = self.bounds
        if not known and not np.isnan(bounds.consensus.low):
            cannot += f": their consensus on {bounds.in_words()}"
        if np.isnan(found.value):
            return f"No two of the {self.n_learners} learners voted on the same sample. {cannot}."
        known_to = f"95 % interval {100 * found.low:.1f} to {100 * found.high:.1f}"
        if np.isnan(found.low):
            known_to = "of too few groups for an interval"
        return (
            f"Two of the {self.n_learners} learners agree on {100 * found.value:.1f} % of the samples "
            f"({known_to}{beyond}). {cannot}."
        )

    def __repr__(self) -> str:
        alpha = rounded(self.agreement.krippendorff_alpha.value)
        return f"<AgreementAssessment {self.name!r}: {self.n_learners} learners, alpha {alpha}>"

    def summary(self) -> list[tuple[str, str]]:
        """Return the main numbers as (label, text), in reading order."""
        found = self.agreement
        votes = int(self.labels.votes.sum())
        kappas = found.kappas[np.triu_indices(self.n_learners, 1)]
        most = int(self.labels.shares.argmax())
        return [
            (
                "learners x samples, classes",
                f"{self.n_learners} x {self.n_samples}, {self.n_classes}",
            ),
            ("votes given", f"{votes} ({100 * votes / (self.n_learners * self.n_samples):.1f} %)"),
            ("observed agreement of two learners", _interval(found.observed)),
            ("all who voted agree", rounded(found.unanimous)),
            ("Fleiss' kappa", _interval(found.fleiss_kappa)),
            ("Krippendorff's alpha", _interval(found.krippendorff_alpha)),
            ("Gwet's AC1", _interval(found.gwet_ac1)),
            ("Cohen's kappa of two learners: lowest, mean, highest", _range(kappas)),
            ("most frequent label, its share", f"{self.classes[most]}, {rounded(self.labels.baseline)}"),
            *self._estimated_rows(),
        ]

    def _estimated_rows(self) -> list[tuple[str, str]]:
        rows = []
        for name, fit in (("one coin", self.one_coin), ("confusion", self.confusion)):
            if fit is not None:
                label = f"accuracy if errors are independent ({name})"
                rows.append((label, _range(fit.accuracies)))
        bounds = self.bounds
        if not np.isnan(bounds.consensus.low):
            low, high = bounds.correlation.low, bounds.correlation.high
            rows.append(
                (f"errors correlated by {low:.2g} to {high:.2g}: a learner right", _between(bounds.learner))
            )
            rows.append(("  and the consensus", _between(bounds.consensus)))
        return rows

    def learner_rows(self, most: int = _SHOWN) -> list[tuple[str, ...]]:
        """Return for each learner its votes, its mean agreement with the others and its estimated accuracy as text.

        Parameters
        ----------
        most : int, default=12
            The number of rows; of more learners the middle is left out.
        """
        others = np.where(np.eye(self.n_learners, dtype=bool), np.nan, self.agreement.pairs)
        agrees = mean_defined(others, axis=1)
        accuracies = self.estimated.accuracies if self.estimated else np.full(self.n_learners, np.nan)
        order = np.lexsort((-np.nan_to_num(agrees), -np.nan_to_num(accuracies)))
        if len(order) > most:
            order = np.concatenate([order[: most // 2], order[-(most // 2) :]])
        header = ("learner", "votes", "agrees with another", "right, if errors are independent")
        rows: list[tuple[str, ...]] = [header if self.estimated else header[:3]]
        for i in order.tolist():
            cells = (self.learners[i], str(self.labels.votes[i]), rounded(agrees[i]), rounded(accuracies[i]))
            rows.append(cells if self.estimated else cells[:3])
        if self.n_learners > most:
            rest = (f"... {self.n_learners - most} more", *[""] * (len(rows[0]) - 1))
            rows.insert(1 + most // 2, rest)
        return rows

    @property
    def mean_kappas(self) -> FloatArray:
        """The mean of Cohen's kappa of each learner with the others, shape (n_learners,)."""
        others = np.where(np.eye(self.n_learners, dtype=bool), np.nan, self.agreement.kappas)
        return mean_defined(others, axis=1)

    @property
    def mean_kappa(self) -> float:
        """The mean of Cohen's kappa over pairs of learners."""
        return mean_of_pairs(self.agreement.kappas)


def _interval(estimate: Estimate) -> str:
    return "undefined" if np.isnan(estimate.value) else str(estimate)


def _between(estimate: Estimate) -> str:
    return f"between {rounded(estimate.low)} and {rounded(estimate.high)}"


def _range(values: FloatArray) -> str:
    known = values[~np.isnan(values)]
    if not known.size:
        return "undefined"
    return ", ".join(rounded(float(value)) for value in (known.min(), known.mean(), known.max()))
