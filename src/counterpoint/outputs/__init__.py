"""The outputs of learners: checked once, read in blocks, counted and pooled into votes.

:class:`Outputs` checks votes or probabilities beside the truth. :func:`sufficient_statistics` reads them in one pass
and returns what every measure needs. The ``vote_*`` functions count votes. Build new measures on these names; to
judge an ensemble, use :mod:`counterpoint.measures` or :func:`counterpoint.assess`.

Notation: N learners, n samples, B samples of a block, m classes. The *score* of a class is its number of votes (hard
vote), its probability (soft) or the logarithm of its probability (geometric); the class with the highest score wins.
A learner without an output for a sample gives no score to any class.
"""

from counterpoint.outputs.coded import CodedVotes, code_votes, split_truth, two_class_probabilities
from counterpoint.outputs.missing import split_missing
from counterpoint.outputs.moments import (
    FEWEST_SHARED,
    ClassAverages,
    Columns,
    LabelCounts,
    SharedColumns,
    Slab,
)
from counterpoint.outputs.outputs import (
    BLOCK_ENTRIES,
    Outputs,
    as_array,
    check_classes,
    check_truth,
    column_classes,
    label_codes,
)
from counterpoint.outputs.pool import (
    VOTINGS,
    learner_scores,
    log_losses,
    log_normalise,
    scores_to_probabilities,
    vote_probabilities,
    vote_scores,
)
from counterpoint.outputs.statistics import Correctness, Statistics, sufficient_statistics
from counterpoint.outputs.undefined import (
    listed,
    mean_defined,
    mean_of_pairs,
    ratio,
    warn_undefined,
    warn_undefined_pairs,
)
from counterpoint.outputs.vote import (
    RunningVote,
    vote_accuracies,
    vote_credit,
    vote_credits,
    vote_margins,
    winners,
)

__all__ = [
    "BLOCK_ENTRIES",
    "FEWEST_SHARED",
    "VOTINGS",
    "ClassAverages",
    "CodedVotes",
    "Columns",
    "Correctness",
    "LabelCounts",
    "Outputs",
    "RunningVote",
    "SharedColumns",
    "Slab",
    "Statistics",
    "as_array",
    "check_classes",
    "check_truth",
    "code_votes",
    "column_classes",
    "label_codes",
    "learner_scores",
    "listed",
    "log_losses",
    "log_normalise",
    "mean_defined",
    "mean_of_pairs",
    "ratio",
    "scores_to_probabilities",
    "split_missing",
    "split_truth",
    "sufficient_statistics",
    "two_class_probabilities",
    "vote_accuracies",
    "vote_credit",
    "vote_credits",
    "vote_margins",
    "vote_probabilities",
    "vote_scores",
    "warn_undefined",
    "warn_undefined_pairs",
    "winners",
]
