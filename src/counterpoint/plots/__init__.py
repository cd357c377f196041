"""Display classes in the manner of scikit-learn.

``X.from_predictions(...)``, ``X.from_estimator(...)``, ``X.from_assessment(...)`` and ``X.from_selection(...)`` compute
the numbers, draw them and return the display, with ``ax_`` and ``figure_``. ``X(...)`` only holds the numbers;
``plot(ax=None)`` draws them. matplotlib is imported when something is drawn, and its settings stay unchanged.
"""

from counterpoint.plots.correlation import CorrelationDisplay
from counterpoint.plots.frontier import FrontierDisplay
from counterpoint.plots.reliability import ReliabilityDisplay
from counterpoint.plots.sizing import VoteCurveDisplay
from counterpoint.plots.style import PALETTE, house_style
from counterpoint.plots.tradeoff import TradeoffBounds, TradeoffDisplay

__all__ = [
    "PALETTE",
    "CorrelationDisplay",
    "FrontierDisplay",
    "ReliabilityDisplay",
    "TradeoffBounds",
    "TradeoffDisplay",
    "VoteCurveDisplay",
    "house_style",
]
