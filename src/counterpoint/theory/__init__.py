"""The theorems: what an ensemble can reach.

Arrays in, arrays out; numpy and scipy alone; everything broadcasts. ``docs/theory.md`` is the guide and
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
from counterpoint.theory.tradeoff import (
    BestWeights,
    OperatingPoint,
    best_weights,
    critical_lambda,
    operating_point,
)

__all__ = [
    "BestWeights",
    "Interval",
    "OperatingPoint",
    "accuracy_from_correlation",
    "best_weights",
    "correlation_from_accuracy",
    "critical_lambda",
    "is_correlation_matrix",
    "learner_correlation_bounds",
    "multiclass_accuracy_from_correlation",
    "multiclass_correlation_from_accuracy",
    "nearest_correlation_matrix",
    "operating_point",
    "optimality",
    "truth_correlation_bounds",
]
