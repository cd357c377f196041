"""Numbers with their uncertainty."""

import math
from typing import NamedTuple

__all__ = ["Difference", "Estimate"]

_MANY = 1000  # votes; more are as good as any number


class Estimate(NamedTuple):
    """A number with its 95 % interval: of shares Wilson's, which holds near 0 and 1 too.

    An end that is not known is NaN.

    Examples
    --------
    >>> str(Estimate(0.9, 0.85, 0.94))
    '0.900 (0.850 to 0.940)'
    >>> Estimate(2.2, 1.9, 2.5).as_count(), Estimate(float("nan"), 2.4, float("nan")).as_count()
    ('2.2 (1.9 to 2.5)', 'at least 2.4')
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def as_count(self) -> str:
        """Return it as text with one decimal, as a number of votes is shown."""
        if math.isnan(self.low):
            return "undefined"
        if math.isnan(self.value):
            return f"at least {self.low:.1f}"
        return f"{self.value:.1f} ({self.count_range()})"

    def count_range(self) -> str:
        """Return the interval of a number of votes as text."""
        return f"{self.low:.1f} to {self.high:.1f}" if self.high < _MANY else f"{self.low:.1f} or more"


class Difference(NamedTuple):
    """A change of the vote's accuracy, and its standard error.

    Examples
    --------
    >>> str(Difference(0.009, 0.003))
    '+0.9 ± 0.3 points'
    """

    value: float
    error: float

    def __str__(self) -> str:
        return f"{100 * self.value:+.1f} ± {100 * self.error:.1f} points"

    @property
    def is_gain(self) -> bool:
        """Whether it is a gain of more than 2.6 standard errors: of equal learners, one in fifty looks like that."""
        return bool(self.value > 2.6 * self.error)
