"""What learners put out: checked, counted and credited.

Every measure, assessment and selection reads an ensemble's votes or probabilities through these names. They are the
foundation of the library, for those who write a measure of their own; to judge an ensemble, use
:mod:`counterpoint.measures` or :func:`counterpoint.assess`.
"""

from counterpoint.outputs.credit import credit, leaders, margins
from counterpoint.outputs.defined import mean_defined, mean_of_pairs, ratio, warn_pairs, warn_undefined
from counterpoint.outputs.outputs import (
    BLOCK_ENTRIES,
    Outputs,
    as_array,
    check_classes,
    check_truth,
    column_classes,
    place_labels,
)
from counterpoint.outputs.pool import (
    VOTINGS,
    given,
    log_losses,
    log_normalise,
    log_probabilities,
    pooled,
    probabilities_of,
    tallies,
)
from counterpoint.outputs.tally import Columns, Correctness, Tally, tally

__all__ = [
    "BLOCK_ENTRIES",
    "VOTINGS",
    "Columns",
    "Correctness",
    "Outputs",
    "Tally",
    "as_array",
    "check_classes",
    "check_truth",
    "column_classes",
    "credit",
    "given",
    "leaders",
    "log_losses",
    "log_normalise",
    "log_probabilities",
    "margins",
    "mean_defined",
    "mean_of_pairs",
    "place_labels",
    "pooled",
    "probabilities_of",
    "ratio",
    "tallies",
    "tally",
    "warn_pairs",
    "warn_undefined",
]
