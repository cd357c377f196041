r"""Where a panel stands without a truth: how far its learners agree, and what that may be worth."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._validation import ROUNDING, FloatArray
from counterpoint.assessment.agreement_findings import with_agreement_findings
from counterpoint.assessment.agreement_result import (
    AgreementAssessment,
    AgreementSummary,
    DawidSkeneSummary,
    LabelSummary,
)
from counterpoint.assessment.bootstrap import FEWEST_GROUPS, bootstrap_estimates, check_groups, few_groups
from counterpoint.assessment.dawid_skene import DAWID_SKENE_MODELS, TINY, DawidSkene, fit_dawid_skene
from counterpoint.assessment.groups import Estimate
from counterpoint.assessment.result import check_names
from counterpoint.assessment.votes import wilson_interval
from counterpoint.measures.agreement import label_columns, label_pairs, label_statistics
from counterpoint.outputs import CodedVotes, code_votes

__all__ = ["assess_agreement"]

_ENTRIES = 2**22  # probabilities that are held at once


def assess_agreement(
    outputs: Any,
    y_true: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
    learners: Sequence[str] | None = None,
    groups: ArrayLike | None = None,
    name: str = "ensemble",
) -> AgreementAssessment:
    """Assess a panel without a truth: how far its learners agree, and what their votes say if they err independently.

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
    fits = _fits(votes)
    best = min(fits.values(), key=lambda fit: fit.bic) if fits else None
    posterior = _shares_of_votes(votes) if best is None else best.posterior
    result = AgreementAssessment(
        name=name,
        n_learners=n_learners,
        n_samples=n_samples,
        n_classes=len(votes.classes),
        n_labelled=int((votes.truth >= 0).sum()),
        classes=tuple(votes.classes.tolist()),
        learners=names,
        agreement=_agreement(votes, clusters),
        labels=_labels(votes),
        one_coin=_summary(fits.get("one_coin"), votes),
        confusion=_summary(fits.get("confusion"), votes),
        model="votes" if best is None else best.model,
        consensus=tuple(votes.classes[posterior.argmax(axis=1)].tolist()),
        confidence=posterior.max(axis=1),
        findings=(),
    )
    result = with_agreement_findings(result)
    return replace(result, findings=(*few_groups(clusters), *result.findings))


def _fits(votes: CodedVotes) -> dict[str, DawidSkene]:
    """Return the models by name; none if the votes cannot tell the learners' accuracies."""
    enough = len(votes.codes) >= 3 or (votes.truth >= 0).any()
    if not enough or len(votes.classes) < 2:
        return {}
    return {name: fit_dawid_skene(votes, name) for name in DAWID_SKENE_MODELS[1:]}


def _shares_of_votes(votes: CodedVotes) -> FloatArray:
    """Return the share of the votes for each class, (n_samples, n_classes); evenly where nobody votes."""
    counts = np.stack([(votes.codes == k).sum(axis=0) for k in range(len(votes.classes))], axis=1)
    counts = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, 1)
    shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
    return shares


def _agreement(votes: CodedVotes, groups: NDArray[np.intp] | None) -> AgreementSummary:
    codes, m = votes.codes, len(votes.classes)
    columns = label_columns(codes, m)
    observed, fleiss, alpha = bootstrap_estimates(columns, label_statistics, groups)
    pairs, kappas, shared = label_pairs(codes, m)
    several = columns[:, 1] > 0
    if observed.value == 1:  # a bootstrap of equal samples has no spread
        n = int(several.sum()) if groups is None else len(np.unique(groups[several]))
        known = groups is None or n >= FEWEST_GROUPS
        observed = Estimate(1.0, wilson_interval(1.0, n)[0] if known else np.nan, observed.high)
        given = np.bincount(codes[codes >= 0], minlength=m) / (codes >= 0).sum()
        chance = float((given**2).sum())
        low = (observed.low - chance) / (1 - chance) if chance < 1 else np.nan
        fleiss, alpha = (Estimate(one.value, min(low, one.low), one.high) for one in (fleiss, alpha))
    equal = columns[several, 0] > 1 - ROUNDING  # all pairs of votes agree
    return AgreementSummary(
        observed=observed,
        fleiss_kappa=fleiss,
        krippendorff_alpha=alpha,
        unanimous=float(equal.mean()) if equal.size else np.nan,
        n_complete=int((codes >= 0).all(axis=0).sum()),
        n_several=int(several.sum()),
        pairs=pairs,
        kappas=kappas,
        shared=shared,
    )


def _labels(votes: CodedVotes) -> LabelSummary:
    given = np.stack([(votes.codes == k).sum(axis=1) for k in range(len(votes.classes))], axis=1)  # (N, m)
    total = given.sum(axis=1)
    shares = given.sum(axis=0) / total.sum()
    return LabelSummary(
        votes=total.astype(np.int64),
        shares=shares,
        learner_shares=given / total[:, None],
        baseline=float(shares.max()),
    )


def _summary(fit: DawidSkene | None, votes: CodedVotes) -> DawidSkeneSummary | None:
    if fit is None:
        return None
    unknown = votes.truth < 0
    theta = fit.confusions
    return DawidSkeneSummary(
        accuracies=fit.accuracies,
        confusions=theta,
        prior=fit.prior,
        unanimous=_expected_unanimity(votes.codes, theta, fit.prior),
        confidence=float(fit.confidence[unknown].mean()) if unknown.any() else 1.0,
        bic=fit.bic,
    )


def _expected_unanimity(codes: NDArray[np.int32], theta: FloatArray, prior: FloatArray) -> float:
    """Return the share of samples with two votes or more on which the model expects all voters to agree."""
    n_learners, m, _ = theta.shape
    logs = np.log(np.maximum(theta, TINY)).reshape(n_learners, m * m)
    weights = np.repeat(prior, m)
    total, n_several, width = 0.0, 0, max(1, _ENTRIES // max(m * m, n_learners))
    for start in range(0, codes.shape[1], width):
        voted = codes[:, start : start + width] >= 0
        voted = voted[:, voted.sum(axis=0) >= 2]
        total += float((np.exp(voted.T.astype(np.float64) @ logs) @ weights).sum())
        n_several += voted.shape[1]
    return total / n_several if n_several else np.nan
