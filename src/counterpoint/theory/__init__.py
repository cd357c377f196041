"""The theorems: what an ensemble can reach.

Arrays in, arrays out; only numpy and scipy are needed; everything broadcasts. ``docs/theory.md`` is the guide and
``docs/errata.md`` lists where the library corrects the paper.
"""

from counterpoint.theory.accuracy import (
    accuracy_from_correlation,
    correlation_from_accuracy,
    multiclass_accuracy_from_correlation,
    multiclass_correlation_from_accuracy,
)
from counterpoint.theory.bounds import (
    Interval,
    is_correlation_matrix,
    learner_correlation_bounds,
    nearest_correlation_matrix,
    optimality,
    truth_correlation_bounds,
)
from counterpoint.theory.mixed import mixed_vote_accuracy
from counterpoint.theory.plurality import plurality_accuracy
from counterpoint.theory.pooling import cross_entropy_diversity, geometric_pool
from counterpoint.theory.sample_size import samples_for_error_correlation
from counterpoint.theory.signal import correlation_from_signal, signal_from_correlation
from counterpoint.theory.tradeoff import (
    BestWeights,
    OperatingPoint,
    best_weights,
    critical_lambda,
    operating_point,
)
from counterpoint.theory.vote_curve import VoteCurve, vote_accuracy_curve
from counterpoint.theory.voting import (
    error_correlation,
    error_correlation_bounds,
    jury_accuracy,
    vote_accuracy,
)

__all__ = [
    "BestWeights",
    "Interval",
    "OperatingPoint",
    "VoteCurve",
    "accuracy_from_correlation",
    "best_weights",
    "correlation_from_accuracy",
    "correlation_from_signal",
    "critical_lambda",
    "cross_entropy_diversity",
    "error_correlation",
    "error_correlation_bounds",
    "geometric_pool",
    "is_correlation_matrix",
    "jury_accuracy",
    "learner_correlation_bounds",
    "mixed_vote_accuracy",
    "multiclass_accuracy_from_correlation",
    "multiclass_correlation_from_accuracy",
    "nearest_correlation_matrix",
    "operating_point",
    "optimality",
    "plurality_accuracy",
    "samples_for_error_correlation",
    "signal_from_correlation",
    "truth_correlation_bounds",
    "vote_accuracy",
    "vote_accuracy_curve",
]
