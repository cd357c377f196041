"""Figure 3: the plane of Theorem 2, with two ensembles close to the upper bound."""

from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.plots import PALETTE, TradeoffDisplay, house_style
from counterpoint.records import write_figure, write_record
from counterpoint.theory import learner_correlation_bounds, truth_correlation_bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Accuracy of the learners against their diversity"
SHARE_OF_BOUND = 0.97
# Positions of the points between the lowest and the highest r_LL.
PLACES = {"A": 0.78, "B": 0.16}
MEANINGS = {"A": "accurate,\nnot diverse", "B": "diverse,\nless accurate"}


def reproduce(out: Path, *, n_learners: int = 5) -> list[Path]:
    """Write the plane for one size of ensemble."""
    display = compute(n_learners)
    return [
        *write_figure(draw(display), out, "figure-3"),
        *write_record(
            out,
            "figure-3",
            title=TITLE,
            config={"n_learners": n_learners, "share_of_bound": SHARE_OF_BOUND},
            data={"bounds": display.bounds, "points": display.points},
        ),
    ]


def compute(n_learners: int) -> TradeoffDisplay:
    """Return the curves and the two points, each at the same share of its bound."""
    lowest, highest = learner_correlation_bounds(n_learners)
    points = {}
    for name, place in PLACES.items():
        r_ll = lowest + place * (highest - lowest)
        points[name] = (SHARE_OF_BOUND * truth_correlation_bounds(r_ll, n_learners).high, r_ll)
    return TradeoffDisplay(n_learners, points=points)


def draw(display: TradeoffDisplay) -> "Figure":
    """Draw the plane and label what is in it."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(6.4, 5.0))
        ax = display.plot(figure.subplots(), legend=False).ax_
        for name, (r_tl, r_ll) in display.points.items():
            at = (float(r_ll), float(r_tl))
            ax.annotate(name, at, (9, -9), textcoords="offset points", va="top", weight="bold", size=13)
            ax.annotate(
                MEANINGS[name], at, (23, -9), textcoords="offset points", va="top", size=9.5,
                color=PALETTE["muted"], linespacing=1.25,
            )  # fmt: skip
        ax.set_title(f"Ensembles of {display.n_learners} learners")
    return figure
