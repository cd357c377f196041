"""Colours that several figures share, beside the palette of the library."""

from typing import TYPE_CHECKING

import numpy as np

from counterpoint.plots import PALETTE

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.typing import ColorType

__all__ = ["diverging_colours", "ordered_colours"]


def ordered_colours(count: int) -> "list[ColorType]":
    """Return colours for ordered levels, from dark to light; none is too pale for white paper."""
    import matplotlib

    return list(matplotlib.colormaps["plasma"](np.linspace(0.05, 0.85, count)))


def diverging_colours() -> "Colormap":
    """Return a colour map from blue through white, the middle of the range, to red."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("diverging", [PALETTE["blue"], "#F7F7F7", PALETTE["red"]])
