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
    >>> Estimate(0.9, 0.85, 0.94).as_percent(), Estimate(2.2, 1.9, 2.5).as_count()
    ('90.0 % (85.0 to 94.0)', '2.2 (1.9 to 2.5)')
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def as_percent(self) -> str:
        """Return a share as text, in percent."""
        if math.isnan(self.low):
            return f"{100 * self.value:.1f} %"
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"

    def as_count(self) -> str:
        """Return it as text with one decimal, as a number of votes is shown."""
        if math.isnan(self.value):
            return "undefined"
        return f"{self.value:.1f}" if math.isnan(self.low) else f"{self.value:.1f} ({self.count_range()})"

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
