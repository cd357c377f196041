"""The correlations that the displays draw."""

from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray
from counterpoint.measures.correlation import constant_columns, mean_correlations
from counterpoint.outputs import Outputs, sufficient_statistics, warn_undefined


def measured_correlations(
    display: str, y_true: ArrayLike, outputs: ArrayLike, labels: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """Return r_tl, (N,), and r_ll, (N, N), both averaged over the classes where the truth varies, or pooled.

    A warning names the display and the line that called its public method, two calls above the caller of this function.
    """
    read = Outputs(outputs, y_true, labels, at_least=2)
    columns = sufficient_statistics(read, columns=True).columns
    assert columns is not None
    warn_undefined(display, constant_columns(columns, read.classes.tolist()), stacklevel=5)
    found = mean_correlations(columns)
    return found.r_tl, found.r_ll
