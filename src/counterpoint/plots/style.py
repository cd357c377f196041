"""The house style: quiet axes, colours that stay apart for colour-blind readers."""

from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.typing import ColorType

__all__ = ["PALETTE", "diverging", "house_style", "new_axes", "rising", "sequence"]

# Paul Tol's "vibrant" qualitative scheme.
PALETTE = MappingProxyType(
    {
        "blue": "#0077BB",
        "orange": "#EE7733",
        "teal": "#009988",
        "magenta": "#EE3377",
        "cyan": "#33BBEE",
        "red": "#CC3311",
        "grey": "#BBBBBB",
        "ink": "#222222",
        "muted": "#666666",
    }
)

_RC: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": PALETTE["muted"],
    "axes.labelcolor": PALETTE["ink"],
    "axes.labelsize": 10.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.unicode_minus": True,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.size": 10.0,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "savefig.dpi": 200,
    "savefig.facecolor": "white",
    "svg.hashsalt": "counterpoint",
    "text.color": PALETTE["ink"],
    "xtick.color": PALETTE["muted"],
    "xtick.labelcolor": PALETTE["ink"],
    "ytick.color": PALETTE["muted"],
    "ytick.labelcolor": PALETTE["ink"],
}


def house_style() -> AbstractContextManager[Any]:
    """Return a context in which matplotlib draws in the style of the library.

    Returns
    -------
    context manager
        The settings of matplotlib are as before when it ends.

    Examples
    --------
    >>> import matplotlib
    >>> with house_style():
    ...     matplotlib.rcParams["legend.frameon"]
    False
    """
    import matplotlib

    return matplotlib.rc_context(_RC)


def new_axes(width: float, height: float) -> "Axes":
    """Return the axes of a new pyplot figure, for a display that was given none."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width, height))
    return ax


def sequence(count: int) -> "list[ColorType]":
    """Return colours for ordered levels, dark for the first, none too pale for white paper."""
    import matplotlib
    import numpy as np

    return list(matplotlib.colormaps["plasma"](np.linspace(0.05, 0.85, count)))


def diverging() -> "Colormap":
    """Return colours for -1 to 1: blue, white at 0, red; grey where undefined."""
    from matplotlib.colors import LinearSegmentedColormap

    stops = [PALETTE["blue"], "#F7F7F7", PALETTE["red"]]
    return LinearSegmentedColormap.from_list("counterpoint", stops).with_extremes(bad=PALETTE["grey"])


def rising() -> "Colormap":
    """Return colours for low to high: the upper half of :func:`diverging`."""
    from matplotlib.colors import LinearSegmentedColormap

    stops = ["#F7F7F7", PALETTE["red"]]
    return LinearSegmentedColormap.from_list("counterpoint rising", stops).with_extremes(bad=PALETTE["grey"])
