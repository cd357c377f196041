"""Numbers with their uncertainty."""

import math
from typing import NamedTuple

__all__ = ["Difference", "Estimate"]

_SMALL = 0.5
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
        ends = "" if math.isnan(self.low) else f" ({self.low:.3f} to {self.high:.3f})"
        return f"{self.value:.3f}{ends}"

    @property
    def least(self) -> float:
        """The lower end, or the number itself where that is not known."""
        return self.value if math.isnan(self.low) else self.low

    def as_percent(self) -> str:
        """Return a share as text, in percent."""
        if math.isnan(self.low):
            return f"{100 * self.value:.1f} %"
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"

    def as_count(self) -> str:
        """Return it as text with one decimal, as a number of votes is shown; with two if it is small."""
        if math.isnan(self.value):
            return "undefined"
        value = f"{self.value:z.{self._digits}f}"
        return value if math.isnan(self.low) else f"{value} ({self.count_range()})"

    def count_range(self) -> str:
        """Return the interval of a number of votes as text."""
        low, high = (f"{end:z.{self._digits}f}" for end in (self.low, self.high))
        return f"{low} to {high}" if self.high < _MANY else f"{low} or more"

    @property
    def _digits(self) -> int:
        return 2 if abs(self.value) < _SMALL else 1


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
        error = "" if math.isnan(self.error) else f" ± {100 * self.error:.1f}"
        return f"{100 * self.value:+.1f}{error} points"

    @property
    def is_gain(self) -> bool:
        """Whether it is a gain of more than 2.6 standard errors: of equal learners, one in fifty looks like that."""
        return bool(self.value > 2.6 * self.error)
