"""Display classes in the manner of scikit-learn: data first, drawing second.

A display holds its numbers as arrays from the moment it is made; ``plot(ax=None)`` draws them.
matplotlib is imported when something is drawn, and its global state is left alone.
"""

from counterpoint.plots.correlation import CorrelationDisplay
from counterpoint.plots.reliability import ReliabilityDisplay
from counterpoint.plots.sizing import VoteCurveDisplay
from counterpoint.plots.style import PALETTE, house_style
from counterpoint.plots.tradeoff import TradeoffBounds, TradeoffDisplay

__all__ = [
    "PALETTE",
    "CorrelationDisplay",
    "ReliabilityDisplay",
    "TradeoffBounds",
    "TradeoffDisplay",
    "VoteCurveDisplay",
    "house_style",
]
