"""From checked outputs to the groups of an assessment.

Notation: N learners, m classes; c is the mean correlation of being correct.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.changes import judge_changes
from counterpoint.assessment.decision import challenge
from counterpoint.assessment.effective import effective_votes, wrong_agreement
from counterpoint.assessment.families import connected, error_families, group_design
from counterpoint.assessment.groups import (
    Certificates,
    Challenge,
    ClassSummary,
    Confusion,
    CorrelationSummary,
    Coverage,
    Intervals,
    ProbabilitySummary,
    SubsetVotes,
    VoteSummary,
)
from counterpoint.assessment.intervals import UNKNOWN, correlation_intervals, predicted_interval
from counterpoint.assessment.prediction import predict_vote
from counterpoint.assessment.subsets import subset_votes
from counterpoint.assessment.uncertainty import interval_limit, uncertainty
from counterpoint.assessment.votes import CountedVotes, count_votes
from counterpoint.assessment.weights import vote_weights
from counterpoint.measures import MEASURES
from counterpoint.measures.certificates import c_bound_from_moments, tandem_bound_from_counts
from counterpoint.measures.correlation import MeanCorrelations, mean_correlations, truth_correlations
from counterpoint.measures.pairwise import correctness_correlations
from counterpoint.outputs import (
    Columns,
    Correctness,
    Outputs,
    mean_defined,
    mean_of_pairs,
    ratio,
    sufficient_statistics,
)
from counterpoint.theory import learner_correlation_bounds, optimality, truth_correlation_bounds

Report = Callable[[str, int, int], None]


def compute(
    read: Outputs,
    voting: str,
    samples: str,
    report: Report | None,
    groups: NDArray[np.intp] | None,
    names: tuple[str, ...],
) -> dict[str, Any]:
    """Return the groups of an assessment by field name, from two passes over the samples."""
    statistics = sufficient_statistics(
        read, columns=True, correctness=True, same_wrong=True, labels=True, progress=_phase(report, "pairs")
    )
    columns, correctness = statistics.columns, statistics.correctness
    assert columns is not None
    assert correctness is not None
    measures = {
        name: measure.from_statistics(statistics) if read.n_learners > 1 else np.nan
        for name, measure in MEASURES.items()
    }
    del statistics  # of many learners, the counts of labels are large
    errors = correctness_correlations(correctness)
    counted = count_votes(read, voting, _phase(report, "votes"), groups)
    coverage = _coverage(correctness, counted, None if groups is None else int(groups.max()) + 1)
    accuracies = correctness.right / correctness.answered
    agreement = wrong_agreement(correctness, len(read.classes))
    subsets = subset_votes(read)
    prediction = predict_vote(read, accuracies, errors, agreement, coverage, subsets, groups)
    found = mean_correlations(columns)
    weights, ceiling = vote_weights(found.r_tl, found.r_ll)
    correlations = _correlations(columns, found, mean_of_pairs(errors), ceiling, _overlap(correctness))
    families = connected(error_families(correctness, group_design(read, correctness, groups)))
    correlations = replace(correlations, families=families)
    known = None
    if read.n_learners > 1 and not np.isnan(correlations.error_correlation):
        known = uncertainty(read, correctness, errors, groups, coverage, counted.estimates["hard"].value)
    return {
        "correlations": correlations,
        "votes": _votes(accuracies, weights, counted, subsets, challenge(read, voting, groups)),
        "coverage": coverage,
        "by_class": _by_class(counted.confusion, len(read.classes)),
        "changes": judge_changes(read, voting, groups),
        "effective": effective_votes(read, voting, groups, names, known, coverage),
        "prediction": prediction,
        "intervals": Intervals(
            *correlation_intervals(read, columns, correlations, groups, interval_limit(read, groups)),
            UNKNOWN if known is None else predicted_interval(prediction, known, coverage, len(read.classes)),
        ),
        "certificates": _certificates(correctness, counted, new_data=samples == "held_out"),
        "probabilities": _probabilities(counted),
        "measures": measures,
    }


def _coverage(counts: Correctness, counted: CountedVotes, n_groups: int | None) -> Coverage:
    return Coverage(
        answered=counts.answered,
        shared=counts.shared,
        voters=counted.voters,
        tied=counted.tied,
        vote_on=counted.vote_on,
        n_groups=n_groups,
    )


def _certificates(counts: Correctness, counted: CountedVotes, *, new_data: bool) -> Certificates:
    """Return the bounds; that on new data is of the vote of all learners, so it needs complete votes."""
    equal = np.full(len(counts.right), 1 / len(counts.right))
    known = new_data and counts.shared.min() == counts.n_samples
    return Certificates(
        c_bound=c_bound_from_moments(*counted.margin_moments),
        tandem_bound=tandem_bound_from_counts(counts, equal, 0.95).bound if known else np.nan,
    )


def _correlations(
    columns: Columns,
    found: MeanCorrelations,
    error_correlation: float,
    ceiling: float,
    overlap: tuple[IntArray, IntArray],
) -> CorrelationSummary:
    r_tl, r_ll = float(mean_defined(found.r_tl)), mean_of_pairs(found.r_ll)
    bound, share = _bound_and_optimality(r_tl, r_ll, int(np.sum(~np.isnan(found.r_tl))))
    return CorrelationSummary(
        pooled=found.pooled,
        r_tl=r_tl,
        r_ll=r_ll,
        bound=bound,
        optimality=share,
        ceiling=ceiling,
        error_correlation=error_correlation,
        r_tl_learners=found.r_tl,
        r_tl_classes=mean_defined(truth_correlations(columns), axis=0),
        r_ll_classes=columns.averages.by_class,
        matrix=found.r_ll,
        same_errors=overlap[0],
        any_errors=overlap[1],
    )


def _overlap(counts: Correctness) -> tuple[IntArray, IntArray]:
    """Return for each pair the samples with the same wrong label, and those on which at least one errs."""
    assert counts.same_wrong is not None
    assert counts.both_right is not None
    kind = counts.both_right.dtype
    return counts.same_wrong, np.subtract(counts.shared, counts.both_right, dtype=kind, casting="same_kind")


def _by_class(confusion: Confusion, n_classes: int) -> ClassSummary:
    counts = np.bincount(confusion.true, confusion.counts, minlength=n_classes)
    right = confusion.true == confusion.chosen
    found = np.bincount(confusion.true[right], confusion.counts[right], minlength=n_classes)
    shares, recalls = counts / counts.sum(), ratio(found, counts)
    return ClassSummary(
        shares=shares,
        recalls=recalls,
        confusion=confusion,
        baseline=float(shares.max()),
        balanced_accuracy=float(np.nanmean(recalls)),
    )


def _bound_and_optimality(r_tl: float, r_ll: float, n_learners: int) -> tuple[float, float]:
    """Return the bound of Theorem 2 and the share of it that is reached, for learners that are not constant."""
    if np.isnan(r_ll) or n_learners < 2:
        return np.nan, np.nan
    # Where some learners are constant in a class, the averages are over different classes, and may lie outside
    # Theorem 1 and outside Theorem 2.
    r_ll = max(r_ll, float(learner_correlation_bounds(n_learners).low))
    high = float(truth_correlation_bounds(r_ll, n_learners).high)
    if high == 0:
        return abs(r_tl), float(np.sign(r_tl)) if r_tl else np.nan
    return max(high, abs(r_tl)), float(optimality(np.clip(r_tl, -high, high), r_ll, n_learners))


def _votes(
    accuracies: FloatArray,
    weights: FloatArray,
    counted: CountedVotes,
    subsets: SubsetVotes,
    against_best: Challenge,
) -> VoteSummary:
    return VoteSummary(
        accuracies=accuracies,
        accuracy_low=counted.accuracy_low,
        accuracy_high=counted.accuracy_high,
        hard=counted.estimates["hard"],
        soft=counted.estimates["soft"],
        geometric=counted.estimates["geometric"],
        weights=weights,
        without=counted.without,
        without_error=counted.without_error,
        against_best=against_best,
        subsets=subsets,
    )


def _probabilities(counted: CountedVotes) -> ProbabilitySummary:
    return ProbabilitySummary(
        log_loss=counted.scores.log_loss(),
        brier_score=counted.scores.brier_score(),
        calibration_error=counted.scores.calibration_error(),
        reliability=counted.scores.reliability(),
        learner_log_losses=counted.log_losses,
    )


def _phase(report: Report | None, phase: str) -> Callable[[int, int], None] | None:
    return None if report is None else lambda done, total: report(phase, done, total)
