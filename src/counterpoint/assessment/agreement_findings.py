"""Rules that say what the agreement of a panel means, and what it cannot mean.

Each rule returns one `Finding` or None.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from counterpoint.assessment.agreement_result import AgreementAssessment
from counterpoint.assessment.findings import SEVERITIES
from counterpoint.assessment.groups import Finding
from counterpoint.assessment.opinions import Copies, opinion_of
from counterpoint.assessment.sample_findings import name_learners
from counterpoint.outputs import mean_defined

__all__ = ["with_agreement_findings"]

_FEW = 100  # samples
_OFTEN = 0.9  # share of one label at which agreement says little
_LIMIT = 2.6  # standard errors that count as evidence
_APART = 0.25  # of the usual kappa: a lower one sets a learner apart


def with_agreement_findings(assessment: AgreementAssessment, copies: Copies) -> AgreementAssessment:
    """Return the assessment with its findings, warnings first."""
    told = [
        _families(assessment, copies),
        _close_pairs(assessment, copies),
        *(rule(assessment) for rule in RULES),
    ]
    found = [finding for finding in told if finding is not None]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return replace(assessment, findings=tuple(found))


def _shared_errors(a: AgreementAssessment) -> Finding | None:
    """Find opinions that are unanimous more often than independent errors explain."""
    fit, bounds = a.estimated, a.bounds
    if fit is None or not bounds.shared:
        return None
    c = bounds.correlation
    text = (
        f"All who voted agree on {100 * bounds.unanimous:.1f} % of the samples; independent errors would make them "
        f"agree on {100 * fit.unanimous:.1f} %. They share errors, or some samples are harder than others (correlation "
        f"of being right about {c.value:.2f}), so they are right less often than the model of independent errors says."
    )
    numbers = {"unanimous": bounds.unanimous, "expected": fit.unanimous, "error_correlation": c.value}
    return Finding("shared_errors", "warning", text, numbers)


def _families(a: AgreementAssessment, copies: Copies) -> Finding | None:
    """Name learners that copy one another."""
    if copies.alike:
        text = (
            f"All learners nearly always agree (mean kappa {a.mean_kappa:.2f}): they copy one another, or they are "
            "nearly always right. Votes alone cannot tell."
        )
        return Finding("families", "warning", text, {"families": [list(range(a.n_learners))]})
    if not a.families:
        return None
    families = sorted(a.families, key=len, reverse=True)
    first = list(families[0])
    pairs = a.agreement.kappas[np.ix_(first, first)][np.triu_indices(len(first), 1)]
    more = len(families) - 1
    also = f"; so do {more} other families" if more > 1 else "; so does another family" if more else ""
    text = (
        f"{name_learners(a.learners, first)} agree far more with each other (kappa {np.nanmean(pairs):.2f}) than their "
        f"agreement with the others explains{also}: they copy one another or make the same errors, and count as one "
        "opinion."
    )
    if copies.unclear:
        text = (
            f"{name_learners(a.learners, first)} nearly always agree (kappa {np.nanmean(pairs):.2f}), with the others "
            "far less: they copy one another, or they are nearly always right and the others are not. Votes alone "
            "cannot tell, so they count as one opinion."
        )
    return Finding("families", "warning", text, {"families": [list(f) for f in families]})


def _close_pairs(a: AgreementAssessment, copies: Copies) -> Finding | None:
    """Find pairs that agree more than their agreement with the others explains, but are no copies."""
    of = opinion_of(a.n_learners, a.families)
    pairs = [[i, j] for i, j in copies.pairs if of[i] != of[j]]
    if not pairs:
        return None
    first, second = max(pairs, key=lambda pair: copies.excess[pair[0], pair[1]])
    more = len(pairs) - 1
    also = f", and so do {more} other pairs" if more > 1 else ", and so does another pair" if more else ""
    text = (
        f"{name_learners(a.learners, [first, second])} agree more with each other (kappa "
        f"{a.agreement.kappas[first, second]:.2f}) than their agreement with the others explains{also}: they make the "
        "same errors, and count for fewer votes."
    )
    return Finding("close_pairs", "warning", text, {"pairs": pairs})


def _strangers(a: AgreementAssessment) -> Finding | None:
    """Find learners that agree with other opinions no more than by chance."""
    of = opinion_of(a.n_learners, a.families)
    same = of[:, None] == of
    kappas = mean_defined(np.where(same, np.nan, a.agreement.kappas), axis=1)
    shared = np.where(same, 0, a.agreement.shared).max(axis=1)
    chance = _LIMIT / np.sqrt(np.maximum(shared, 1))
    known = kappas[~np.isnan(kappas)]
    if a.bounds.n_opinions < 3 or not known.size:
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
    text = "Without a truth, an error that learners share looks like agreement."
    if a.estimated is None:
        text += (
            " Their accuracies can be estimated for three opinions or more, or with some labelled samples, if there "
            "are two labels."
        )
    else:
        text += (
            " The accuracies of single learners assume that they err independently and that most votes are right; "
            "they are too high if the learners share errors."
        )
    text += (
        " Label some samples at random and pass them as the truth, with blanks for the others, to find out."
    )
    return Finding("no_truth", "info", text, {"n_samples": a.n_samples})


def _many_labels(a: AgreementAssessment) -> Finding | None:
    """Say that labels are too many for matrices of errors."""
    if a.one_coin is None or a.confusion is not None:
        return None
    each = float(a.labels.votes.sum()) / a.n_classes
    text = (
        f"There are {a.n_classes:,} different labels with {each:.1f} votes each on average, too many to learn which "
        "are confused with which: only one accuracy for each learner is estimated."
    )
    return Finding("many_labels", "info", text, {"n_classes": a.n_classes, "votes_each": each})


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
    _one_label,
    _many_labels,
    _no_truth,
    _sample,
)
