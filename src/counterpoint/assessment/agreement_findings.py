"""Rules that say what the agreement of a panel means, and what it cannot mean.

Each rule returns one `Finding` or None.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.assessment.agreement_result import AgreementAssessment
from counterpoint.assessment.findings import SEVERITIES
from counterpoint.assessment.groups import Finding
from counterpoint.assessment.sample_findings import name_learners

__all__ = ["with_agreement_findings"]

_FEW = 100  # samples
_OFTEN = 0.9  # share of one label at which agreement says little
_LIMIT = 2.6  # standard errors that count as evidence
_APART = 0.25  # of the usual kappa: a lower one sets a learner apart
_EXCESS = 0.01  # unanimity beyond the model that is worth a word
_CLOSER = 0.15  # kappa beyond what other pairs imply that is worth a word
_MANY = 60  # learners; the time grows with their fourth power


def with_agreement_findings(assessment: AgreementAssessment) -> AgreementAssessment:
    """Return the assessment with its findings, warnings first."""
    found = [finding for rule in RULES if (finding := rule(assessment)) is not None]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return replace(assessment, findings=tuple(found))


def _shared_errors(a: AgreementAssessment) -> Finding | None:
    """Find learners that are unanimous more often than independent errors explain."""
    fit, n = a.estimated, a.agreement.n_several
    if fit is None or a.n_learners < 4 or not n * fit.unanimous >= 5:
        return None
    expected, seen = fit.unanimous, a.agreement.unanimous
    error = np.sqrt(expected * (1 - expected) / n)
    if not seen - expected > max(_LIMIT * error, _EXCESS):
        return None
    text = (
        f"All who voted agree on {100 * seen:.1f} % of the samples; independent errors would make them agree on "
        f"{100 * expected:.1f} %. They share errors, or some samples are harder than others, so they are right less "
        "often than estimated."
    )
    return Finding("shared_errors", "warning", text, {"unanimous": seen, "expected": expected})


def _close_pairs(a: AgreementAssessment) -> Finding | None:
    """Find pairs that agree more than their agreement with the others explains."""
    if not 5 <= a.n_learners <= _MANY:  # of four, nobody could tell which two are alike
        return None
    excess = a.agreement.kappas - _implied_kappas(a)
    rows, columns = np.triu_indices(a.n_learners, 1)
    limit = 2 * np.sqrt(2 * np.log(20 * len(rows)))  # it grows with the number of pairs tested
    sure = np.maximum(limit / np.sqrt(np.maximum(a.agreement.shared, 1)), _CLOSER)
    beyond = (np.nan_to_num(excess) > sure)[rows, columns]
    if not beyond.any():
        return None
    pairs = [[int(i), int(j)] for i, j in zip(rows[beyond], columns[beyond], strict=True)]
    first, second = max(pairs, key=lambda pair: excess[pair[0], pair[1]])
    more = len(pairs) - 1
    also = f", and so do {more} other pairs" if more > 1 else ", and so does another pair" if more else ""
    text = (
        f"{name_learners(a.learners, [first, second])} agree more with each other (kappa "
        f"{a.agreement.kappas[first, second]:.2f}) than their agreement with the others explains{also}: they make the "
        "same errors, and count for fewer votes."
    )
    return Finding("close_pairs", "warning", text, {"pairs": pairs})


def _implied_kappas(a: AgreementAssessment) -> FloatArray:
    """Return the kappa of every two learners that the other pairs imply, (N, N).

    If errors are independent, the kappa of i and j is about the product of a number for each, so that it is
    ``k_ir k_js / k_rs`` for any two others r and s. Their median stands even if some pairs are copies.
    """
    kappas, n = a.agreement.kappas, a.n_learners
    firm = np.where(kappas > 2 / np.sqrt(np.maximum(a.agreement.shared, 1)), kappas, np.nan)
    implied = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(i + 1, n):
            others = np.setdiff1d(np.arange(n), [i, j])
            tetrads = np.outer(kappas[i, others], kappas[j, others]) / firm[np.ix_(others, others)]
            known = tetrads[~np.eye(len(others), dtype=bool) & ~np.isnan(tetrads)]
            implied[i, j] = implied[j, i] = np.median(known) if known.size else np.nan
    return implied


def _strangers(a: AgreementAssessment) -> Finding | None:
    """Find learners that agree with the others no more than by chance."""
    kappas = a.mean_kappas
    shared = np.where(np.eye(a.n_learners, dtype=bool), 0, a.agreement.shared).max(axis=1)
    chance = _LIMIT / np.sqrt(np.maximum(shared, 1))
    known = kappas[~np.isnan(kappas)]
    if a.n_learners < 3 or not known.size:
        return None
    learners = np.flatnonzero(kappas < np.minimum(chance, _APART * np.median(known))).tolist()
    if not learners:
        return None
    learners.sort(key=lambda i: kappas[i])
    verb = "agrees" if len(learners) == 1 else "agree"
    text = (
        f"{name_learners(a.learners, learners)} {verb} with the others no more than by chance (mean kappa "
        f"{kappas[learners[0]]:.2f}): either guessing, or answering another question."
    )
    return Finding("stranger", "warning", text, {"learners": learners, "lowest": float(kappas[learners[0]])})


def _no_agreement(a: AgreementAssessment) -> Finding | None:
    """Find a panel that agrees no more than by chance."""
    if not a.agreement.krippendorff_alpha.low <= 0:
        return None
    text = "The agreement of the panel cannot be told from chance, and no consensus of it can be trusted."
    numbers = {"krippendorff_alpha": a.agreement.krippendorff_alpha.value}
    return Finding("no_agreement", "warning", text, numbers)


def _constant(a: AgreementAssessment) -> Finding | None:
    """Find learners that always give the same label, while others do not."""
    constant = np.flatnonzero(a.labels.learner_shares.max(axis=1) == 1).tolist()
    if not constant or a.n_classes < 2:
        return None
    verb = "gives" if len(constant) == 1 else "give"
    text = f"{name_learners(a.learners, constant)} always {verb} the same label."
    return Finding("constant_learner", "warning", text, {"learners": constant})


def _one_label(a: AgreementAssessment) -> Finding | None:
    """Find votes of which nearly all are the same label."""
    if a.labels.baseline < _OFTEN:
        return None
    label = a.classes[int(a.labels.shares.argmax())]
    text = (
        f"{100 * a.labels.baseline:.1f} % of the votes are {label}, so learners that never look would agree nearly as "
        "often: read Krippendorff's alpha, not the observed agreement."
    )
    return Finding("one_label", "info", text, {"share": a.labels.baseline})


def _no_truth(a: AgreementAssessment) -> Finding | None:
    """Say what cannot be known without a truth."""
    if a.n_labelled:
        return None
    text = (
        "Without a truth, an error that learners share looks like agreement. The estimated accuracies assume that they "
        "err independently and that most votes are right; they are too high if the learners share errors. Label some "
        "samples at random and pass them as the truth, with blanks for the others, to find out."
    )
    if a.estimated is None:
        text = (
            "Without a truth, an error that learners share looks like agreement. Their accuracies can be estimated for "
            "three learners or more, or with some labelled samples, if there are two labels."
        )
    return Finding("no_truth", "info", text, {"n_samples": a.n_samples})


def _sample(a: AgreementAssessment) -> Finding | None:
    """Find too few samples for firm conclusions."""
    if a.agreement.n_several >= _FEW:
        return None
    text = f"With {a.agreement.n_several} samples that two learners or more judged, small differences mean nothing."
    return Finding("small_sample", "info", text, {"n_samples": a.agreement.n_several})


RULES: Sequence[Callable[[AgreementAssessment], Finding | None]] = (
    _no_agreement,
    _strangers,
    _constant,
    _shared_errors,
    _close_pairs,
    _one_label,
    _no_truth,
    _sample,
)
