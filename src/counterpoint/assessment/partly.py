"""A few labelled samples among many: the ordinary assessment of these, and the agreement on all."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.assessment.agreement import assess_agreement
from counterpoint.assessment.agreement_result import AgreementAssessment
from counterpoint.assessment.findings import SEVERITIES
from counterpoint.assessment.groups import Finding
from counterpoint.assessment.result import Assessment
from counterpoint.outputs import as_array, split_missing, split_truth

__all__ = ["assess_partly", "known_truth"]

_LIMIT = 2.6  # standard errors that count as evidence


def known_truth(y_true: ArrayLike) -> NDArray[np.bool_] | None:
    """Return which samples have a truth, or None if all do.

    Examples
    --------
    >>> known_truth(["a", None, "b"])
    array([ True, False,  True])
    >>> known_truth([1, 2, 3])
    """
    unknown = split_truth(y_true)[1]
    return None if unknown is None else ~unknown


def assess_partly(
    assess: Callable[..., Assessment],
    y_true: ArrayLike,
    outputs: Any,
    known: NDArray[np.bool_],
    groups: ArrayLike | None,
    options: dict[str, Any],
) -> Assessment:
    """Return the assessment of the samples with a truth, with the agreement on all of them.

    Parameters
    ----------
    assess : callable
        Assesses samples that all have a truth.
    y_true, outputs, groups
        As for :func:`counterpoint.assess`.
    known : ndarray of bool, shape (n_samples,)
        Which samples have a truth.
    options : dict
        The other arguments of ``assess``.
    """
    array = outputs if isinstance(outputs, np.ndarray) else as_array(outputs)
    about = {name: options[name] for name in ("labels", "learners", "name")}
    agreement = assess_agreement(array, y_true, groups=groups, **about)
    missing = split_missing(array)[1]
    if missing is not None and (silent := missing[:, known].all(axis=1)).any():
        who = agreement.learners[int(np.argmax(silent))]
        raise ValueError(
            f"`y_true` must be known for a sample that each learner answered; got none of {who}."
        )
    truth = split_truth(y_true)[0]
    some = None if groups is None else np.asarray(groups)[known]
    labelled = assess(truth[known], array[:, known], groups=some, **options)
    alone = assess_agreement(array, **about)
    found = [_partly(labelled, agreement), _independence(labelled, alone)]
    findings = [*labelled.findings, *(finding for finding in found if finding is not None)]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return replace(labelled, agreement=agreement, findings=tuple(findings))


def _partly(labelled: Assessment, agreement: AgreementAssessment) -> Finding:
    text = (
        f"{labelled.n_samples} of {agreement.n_samples} samples have a truth. The numbers are of these, and hold for "
        "the others if they were drawn at random."
    )
    numbers = {"n_labelled": labelled.n_samples, "n_samples": agreement.n_samples}
    return Finding("partly_labelled", "info", text, numbers)


def _independence(labelled: Assessment, alone: AgreementAssessment) -> Finding | None:
    """Compare the accuracies that votes alone suggest with those on the labelled samples."""
    if alone.estimated is None or labelled.n_samples < 2:
        return None
    seen, guessed = float(labelled.accuracies.mean()), float(np.nanmean(alone.estimated.accuracies))
    # The learners' errors may all coincide, so that the mean is known no better than that of one learner.
    # So may those on the samples of a group.
    n_groups = labelled.coverage.n_groups
    error = float(np.sqrt(max(seen * (1 - seen), 1e-4) / (n_groups or labelled.n_samples)))
    off = guessed - seen
    if abs(off) <= _LIMIT * error:
        return None
    why = (
        "the learners share errors"
        if off > 0
        else "most votes are not right as often as the model takes them to be"
    )
    text = (
        f"Votes alone suggest that a learner is right on {100 * guessed:.1f} % of the samples; it is "
        f"{100 * seen:.1f} ± {100 * error:.1f} % where the truth is known. So {why}, and estimates without a truth are "
        "not to be trusted here."
    )
    return Finding(
        "independence_off", "warning", text, {"estimated": guessed, "measured": seen, "error": error}
    )
