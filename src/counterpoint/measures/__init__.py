"""Diversity and accuracy of the outputs of any ensemble; learners are the first axis.

Outputs are labels (n_learners, n_samples), of any kind, or probabilities (n_learners, n_samples,
n_classes). All pairs are computed at once by matrix products. Undefined values are NaN, with a
`counterpoint.exceptions.UndefinedMeasureWarning` that names the learners.
"""

from counterpoint.measures.agreement import (
    IntraclassCorrelation,
    fleiss_kappa,
    gwet_ac1,
    intraclass_correlation,
    krippendorff_alpha,
)
from counterpoint.measures.catalogue import MEASURES, Measure, diversity
from counterpoint.measures.certificates import TandemBound, c_bound, tandem_bound
from counterpoint.measures.correlation import (
    error_correlations,
    learner_learner_correlation,
    truth_learner_correlation,
)
from counterpoint.measures.decomposition import (
    AmbiguityDecomposition,
    BiasVarianceDiversity,
    ambiguity_decomposition,
    bias_variance_diversity,
)
from counterpoint.measures.labels import label_kappa
from counterpoint.measures.pairwise import (
    Contingency,
    contingency,
    correctness_kappa,
    correlation_rho,
    disagreement,
    double_fault,
    pairwise_measures,
    q_statistic,
    ratio_errors,
)
from counterpoint.measures.pooled import (
    coincident_failure_diversity,
    correctness_fleiss_kappa,
    difficulty,
    entropy,
    generalized_diversity,
    kohavi_wolpert_variance,
)
from counterpoint.measures.probability import (
    Reliability,
    brier_score,
    calibration_error,
    combine,
    log_loss,
    reliability,
)

__all__ = [
    "MEASURES",
    "AmbiguityDecomposition",
    "BiasVarianceDiversity",
    "Contingency",
    "IntraclassCorrelation",
    "Measure",
    "Reliability",
    "TandemBound",
    "ambiguity_decomposition",
    "bias_variance_diversity",
    "brier_score",
    "c_bound",
    "calibration_error",
    "coincident_failure_diversity",
    "combine",
    "contingency",
    "correctness_fleiss_kappa",
    "correctness_kappa",
    "correlation_rho",
    "difficulty",
    "disagreement",
    "diversity",
    "double_fault",
    "entropy",
    "error_correlations",
    "fleiss_kappa",
    "generalized_diversity",
    "gwet_ac1",
    "intraclass_correlation",
    "kohavi_wolpert_variance",
    "krippendorff_alpha",
    "label_kappa",
    "learner_learner_correlation",
    "log_loss",
    "pairwise_measures",
    "q_statistic",
    "ratio_errors",
    "reliability",
    "tandem_bound",
    "truth_learner_correlation",
]
