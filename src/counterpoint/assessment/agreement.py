r"""Where a panel stands without a truth: how far its learners agree, and what that may be worth."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

from counterpoint._validation import ROUNDING, FloatArray
from counterpoint.assessment.agreement_findings import with_agreement_findings
from counterpoint.assessment.agreement_result import (
    AgreementAssessment,
    AgreementSummary,
    ConsensusBounds,
    DawidSkeneSummary,
    LabelSummary,
)
from counterpoint.assessment.bootstrap import FEWEST_GROUPS, bootstrap_estimates, check_groups, few_groups
from counterpoint.assessment.dawid_skene import TINY, DawidSkene, fit_dawid_skene, fits_confusions
from counterpoint.assessment.groups import Estimate
from counterpoint.assessment.opinions import Copies, find_copies, merged_votes, opinion_of
from counterpoint.assessment.result import check_names
from counterpoint.assessment.shared_errors import consensus_bounds, sample_moments
from counterpoint.assessment.votes import wilson_interval
from counterpoint.measures.agreement import label_pairs, label_sums
from counterpoint.outputs import CodedVotes, code_votes

__all__ = ["assess_agreement"]

_ENTRIES = 2**22  # probabilities that are held at once
_LIMIT = 2.6  # standard errors that count as evidence
_EXCESS = 0.01  # unanimity beyond the model that is worth a word
_SIDE = 1.96  # standard errors to either side
_SURE = 1 - 1e-9  # probability, as far as it can be lowered


def assess_agreement(
    outputs: Any,
    y_true: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
    learners: Sequence[str] | None = None,
    groups: ArrayLike | None = None,
    name: str = "ensemble",
) -> AgreementAssessment:
    """Assess a panel without a truth: how far its learners agree, and how accurate they can be.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities whose most probable class is the vote, of at least two learners. None, NaN or masked
        where a learner gave none.
    y_true : array-like of shape (n_samples,), optional
        The true labels of some samples, None, NaN or masked for the others. They fix the consensus there.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the labels that occur.
    learners : sequence of str, optional
        Distinct names of the learners; by default L1, L2, ...
    groups : array-like of shape (n_samples,), optional
        Which samples belong together, such as several items of one document. The intervals then allow for it.
    name : str, default="ensemble"
        The name of the panel.

    Returns
    -------
    AgreementAssessment
        Agreement, estimated accuracies and a consensus.

    See Also
    --------
    assess : Calls this if it is given votes alone.
    counterpoint.assessment.assess_scores : The same for numbers on a scale.

    Examples
    --------
    >>> votes = [
    ...     ["yes", "yes", "no", "no", "yes", "no"],
    ...     ["yes", "yes", "no", "yes", "yes", None],
    ...     ["yes", "no", "no", "no", "yes", "no"],
    ... ]
    >>> panel = assess_agreement(votes)
    >>> round(panel.agreement.krippendorff_alpha.value, 3)
    0.556
    >>> panel.consensus
    ('yes', 'yes', 'no', 'no', 'yes', 'no')
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a string; got {name!r}.")
    votes = code_votes(outputs, y_true, labels)
    n_learners, n_samples = votes.codes.shape
    names = check_names(learners, n_learners)
    clusters = check_groups(groups, n_samples)
    agreement = _agreement(votes, clusters)
    copies = find_copies(agreement.kappas, agreement.shared)
    families = copies.families
    opinions = merged_votes(votes.codes, families)
    fits = _fits(votes, families, clusters, agreement.observed.value)
    best = min(fits.values(), key=lambda fit: fit.bic) if fits else None
    consensus, confidence = _leading_votes(votes, families)
    bounds = _bounds(votes, opinions, copies, best, agreement, clusters)
    if best is not None:
        spoken = (opinions >= 0).any(axis=0) | (votes.truth >= 0) | (votes.codes < 0).all(axis=0)
        consensus = np.where(spoken, best.consensus, consensus)
        confidence = np.where(spoken, best.confidence, confidence)
        confidence = _lowered(confidence, votes.truth < 0, bounds.consensus.value)
    result = AgreementAssessment(
        name=name,
        n_learners=n_learners,
        n_samples=n_samples,
        n_classes=len(votes.classes),
        n_labelled=int((votes.truth >= 0).sum()),
        classes=tuple(votes.classes.tolist()),
        learners=names,
        agreement=agreement,
        labels=_labels(votes),
        families=families,
        one_coin=_summary(fits.get("one_coin"), votes, opinions, families),
        confusion=_summary(fits.get("confusion"), votes, opinions, families),
        bounds=bounds,
        model="votes" if best is None else best.model,
        consensus=tuple(consensus.tolist()),
        confidence=confidence,
        findings=(),
    )
    result = with_agreement_findings(result, copies)
    return replace(result, findings=(*few_groups(clusters), *result.findings))


def _fits(
    votes: CodedVotes,
    families: tuple[tuple[int, ...], ...],
    groups: NDArray[np.intp] | None,
    agreed: float,
) -> dict[str, DawidSkene]:
    """Return the models by name; none if the votes cannot tell the learners' accuracies."""
    n_opinions = int(opinion_of(len(votes.codes), families).max()) + 1
    enough = n_opinions >= 3 or (votes.truth >= 0).any()
    if not enough or len(votes.classes) < 2 or not agreed > 0:
        return {}
    names = ("one_coin", "confusion") if fits_confusions(votes) else ("one_coin",)
    return {name: fit_dawid_skene(votes, name, families=families, groups=groups) for name in names}


def _leading_votes(
    votes: CodedVotes, families: tuple[tuple[int, ...], ...]
) -> tuple[NDArray[Any], FloatArray]:
    """Return the label with most opinions on each sample and its share of them; where opinions tie, of the votes."""
    n, m = votes.codes.shape[1], len(votes.classes)
    opinion = opinion_of(len(votes.codes), families)
    weight = 1 / np.bincount(opinion)[opinion]
    learner, sample = np.nonzero(votes.codes >= 0)
    keys, cell = np.unique(sample * m + votes.codes[learner, sample], return_inverse=True)
    given, counts = np.bincount(cell, weight[learner]), np.bincount(cell)
    of_sample, label = keys // m, keys % m
    order = np.lexsort((-label, counts, given.round(9), of_sample))
    labels, shares = np.zeros(n, dtype=np.intp), np.full(n, 1 / m)
    labels[of_sample[order]] = label[order]  # the last of each sample stays
    shares[of_sample[order]] = (given / np.bincount(of_sample, given)[of_sample])[order]
    return votes.classes[labels], shares


def _bounds(
    votes: CodedVotes,
    opinions: NDArray[np.int32],
    copies: Copies,
    best: DawidSkene | None,
    agreement: AgreementSummary,
    groups: NDArray[np.intp] | None,
) -> ConsensusBounds:
    """Return between what the accuracy of the consensus lies, on samples without a truth."""
    n_classes = len(votes.classes)
    moments = sample_moments(opinions, n_classes, groups)
    n = int(((opinions >= 0).sum(axis=0) >= 2).sum())
    unknown = votes.truth < 0
    claimed, shared, learners = np.nan, False, None
    if best is not None:
        learners = best.accuracies + _SIDE * best.errors
        claimed = float(best.confidence[unknown].mean()) if unknown.any() else 1.0
        expected = _expected_unanimity(best, opinions, copies.families)
        error = np.sqrt(max(expected * (1 - expected) / max(n, 1), moments.covariance[3, 3]))
        enough = len(opinions) >= 4 and n * expected >= 5
        shared = enough and moments.unanimous - expected > max(_LIMIT * error, _EXCESS)
    chance = copies.alike or not agreement.krippendorff_alpha.low > 0
    unclear = None
    if copies.unclear:
        largest = max(copies.families, key=lambda family: len(family))
        unclear = sample_moments(votes.codes[list(largest)], n_classes, groups)
    defined = n_classes > 1 and n > 0
    bounds = consensus_bounds(
        moments,
        max(n_classes, 2),
        claimed,
        shared=bool(shared),
        chance=chance,
        learners=learners,
        copies=unclear,
    )
    nothing = Estimate(np.nan, np.nan, np.nan)
    if defined:  # learners may be unequal, and the most frequent labels be right
        correlation, learner, consensus = bounds
        most = _leading_share(opinions)
        bounds = (
            correlation,
            learner._replace(high=max(learner.high, most)),
            consensus._replace(high=max(consensus.high, most)),
        )
    return ConsensusBounds(
        len(opinions), moments.unanimous, bool(shared), *(bounds if defined else [nothing] * 3)
    )


def _leading_share(codes: NDArray[np.int32]) -> float:
    """Return the share of the votes for the most frequent label of a sample, on average."""
    learner, sample = np.nonzero(codes >= 0)
    keys, counts = np.unique(sample * (int(codes.max()) + 1) + codes[learner, sample], return_counts=True)
    most = np.zeros(codes.shape[1])
    np.maximum.at(most, keys // (int(codes.max()) + 1), counts)
    voters = (codes >= 0).sum(axis=0)
    return float((most[voters > 0] / voters[voters > 0]).mean())


def _lowered(confidence: FloatArray, unknown: NDArray[np.bool_], target: float) -> FloatArray:
    """Return probabilities whose mean over unknown samples is at most the target: logits times one number."""
    if np.isnan(target) or not unknown.any() or confidence[unknown].mean() <= target:
        return confidence
    odds = logit(np.clip(confidence, 0.5, _SURE))

    def lowered(factor: float) -> FloatArray:
        less: FloatArray = np.minimum(confidence, expit(factor * odds))
        return less

    if lowered(0.0)[unknown].mean() < target:
        factor = brentq(lambda t: lowered(t)[unknown].mean() - target, 0, 1, xtol=1e-6)
    else:
        factor = 0.0
    return np.where(unknown, lowered(factor), confidence)


def _agreement(votes: CodedVotes, groups: NDArray[np.intp] | None) -> AgreementSummary:
    codes, m = votes.codes, len(votes.classes)
    sums = label_sums(codes, m)
    observed, fleiss, alpha, ac1 = bootstrap_estimates(sums.rows, sums.statistics, groups)
    pairs, kappas, shared = label_pairs(codes, m)
    several = sums.rows[:, 1] > 0
    if observed.value == 1:  # a bootstrap of equal samples has no spread
        n = int(several.sum()) if groups is None else len(np.unique(groups[several]))
        known = groups is None or n >= FEWEST_GROUPS
        observed = Estimate(1.0, wilson_interval(1.0, n)[0] if known else np.nan, observed.high)
        given = np.bincount(codes[codes >= 0], minlength=m) / (codes >= 0).sum()
        chance = float((given**2).sum())
        low = (observed.low - chance) / (1 - chance) if chance < 1 else np.nan
        fleiss, alpha, ac1 = (
            Estimate(one.value, min(low, one.low), one.high) for one in (fleiss, alpha, ac1)
        )
    equal = sums.rows[several, 0] > 1 - ROUNDING  # all pairs of votes agree
    return AgreementSummary(
        observed=observed,
        fleiss_kappa=fleiss,
        krippendorff_alpha=alpha,
        gwet_ac1=ac1,
        unanimous=float(equal.mean()) if equal.size else np.nan,
        n_complete=int((codes >= 0).all(axis=0).sum()),
        n_several=int(several.sum()),
        pairs=pairs,
        kappas=kappas,
        shared=shared,
    )


def _labels(votes: CodedVotes) -> LabelSummary:
    m = len(votes.classes)
    given = np.stack([np.bincount(row[row >= 0], minlength=m) for row in votes.codes])  # (N, m)
    total = given.sum(axis=1)
    shares = given.sum(axis=0) / total.sum()
    return LabelSummary(
        votes=total.astype(np.int64),
        shares=shares,
        learner_shares=given / total[:, None],
        baseline=float(shares.max()),
    )


def _summary(
    fit: DawidSkene | None,
    votes: CodedVotes,
    opinions: NDArray[np.int32],
    families: tuple[tuple[int, ...], ...],
) -> DawidSkeneSummary | None:
    if fit is None:
        return None
    unknown = votes.truth < 0
    return DawidSkeneSummary(
        accuracies=fit.accuracies,
        errors=fit.errors,
        confusions=fit.confusions,
        prior=fit.prior,
        unanimous=_expected_unanimity(fit, opinions, families),
        confidence=float(fit.confidence[unknown].mean()) if unknown.any() else 1.0,
        bic=fit.bic,
    )


def _expected_unanimity(
    fit: DawidSkene, opinions: NDArray[np.int32], families: tuple[tuple[int, ...], ...]
) -> float:
    """Return the share of samples with two opinions or more on which the model expects all of them to agree."""
    opinion, m = opinion_of(len(fit.accuracies), families), len(fit.classes)
    size = np.bincount(opinion)
    if fit.model == "one_coin":  # all are right, or all have one and the same wrong label
        right = np.bincount(opinion, fit.accuracies) / size
        log_right, log_wrong = np.log(np.maximum([right, (1 - right) / (m - 1)], TINY))
        logs, weights = np.stack([log_right, log_wrong], axis=1), np.array([1.0, m - 1])
    else:
        assert fit.confusions is not None
        theta = np.zeros((len(size), m, m))
        np.add.at(theta, opinion, fit.confusions)
        logs = np.log(np.maximum(theta / size[:, None, None], TINY)).reshape(-1, m * m)
        weights = np.repeat(fit.prior, m)
    total, n_several, width = 0.0, 0, max(1, _ENTRIES // max(logs.shape))
    for start in range(0, opinions.shape[1], width):
        voted = opinions[:, start : start + width] >= 0
        voted = voted[:, voted.sum(axis=0) >= 2]
        total += float((np.exp(voted.T.astype(np.float64) @ logs) @ weights).sum())
        n_several += voted.shape[1]
    return total / n_several if n_several else np.nan
