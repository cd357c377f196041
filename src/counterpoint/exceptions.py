"""The warnings of the library, each with a name that can be filtered."""

__all__ = ["ConvergenceWarning", "LearnerWarning", "ModelRangeWarning", "UndefinedMeasureWarning"]


class ConvergenceWarning(RuntimeWarning):
    """An iteration stopped before it reached its tolerance."""


class LearnerWarning(RuntimeWarning):
    """A learner does not pull its weight in training: it is constant, or turns against the truth."""


class ModelRangeWarning(RuntimeWarning):
    """A formula was used outside the range in which it describes a probability."""


class UndefinedMeasureWarning(RuntimeWarning):
    """A quantity is undefined for the given input and was returned as NaN."""
