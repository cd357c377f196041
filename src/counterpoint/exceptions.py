"""The warnings of the library, each with a name that can be filtered."""

__all__ = ["ConvergenceWarning", "LearnerWarning", "ModelRangeWarning", "UndefinedMeasureWarning"]


class ConvergenceWarning(RuntimeWarning):
    """An iteration stopped before it reached its tolerance.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConvergenceWarning)  # now an error
    """


class LearnerWarning(RuntimeWarning):
    """A learner does not pull its weight in training: it is constant, or turns against the truth.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", LearnerWarning)  # keep quiet about learners
    """


class ModelRangeWarning(RuntimeWarning):
    """A formula was used outside the range in which it describes a probability.

    Examples
    --------
    >>> import warnings
    >>> from counterpoint.theory import jury_accuracy
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = jury_accuracy(0.9, 0.9, 15, model="bahadur")
    >>> caught[0].category.__name__
    'ModelRangeWarning'
    """


class UndefinedMeasureWarning(RuntimeWarning):
    """A quantity is undefined for the given input and was returned as NaN.

    Examples
    --------
    >>> import warnings
    >>> from counterpoint.measures import q_statistic
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     value = q_statistic([0, 1], [[0, 1], [0, 1]])[0, 1]
    >>> float(value), caught[0].category.__name__
    (nan, 'UndefinedMeasureWarning')
    """
