"""Figure 5: the accuracy of the vote, as printed, corrected and simulated.

Notation: ``r_tl`` and ``r_ll`` as in the paper, the same for every learner and every pair; ``p`` the accuracy
of a learner, ``c`` the correlation of being correct; classes balanced.
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.exceptions import ModelRangeWarning
from counterpoint.plots import PALETTE, house_style
from counterpoint.records import number, write_figure, write_record
from counterpoint.theory import (
    accuracy_from_correlation,
    error_correlation,
    error_correlation_bounds,
    learner_correlation_bounds,
    vote_accuracy,
)
from paper.colours import ordered_colours
from paper.simulate import draw_correct, latent_correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Accuracy of the majority vote against the correlation of learners and truth"
N_LEVELS = 6
N_SAMPLES = 100_000
ROUNDING = 1e-9  # by which a bound may be missed
NOTES = {
    "As printed": "correlation of labels put in the place\nof the correlation of being correct",
    "Corrected": "the correlation of being correct itself;\na curve ends where no votes can be",
    "Simulated": f"{N_SAMPLES:,} ballots for each marker,\nfrom correlated Gaussians",
}


class Curves(NamedTuple):
    """Vote accuracy by formula, ``(n_levels, n_points)``; NaN where no such ensemble exists."""

    r_ll: NDArray[np.float64]
    r_tl: NDArray[np.float64]
    printed: NDArray[np.float64]
    corrected: NDArray[np.float64]


class Simulation(NamedTuple):
    """What votes drawn at random had, ``(n_levels, n_points)``; NaN where none could be drawn."""

    r_tl: NDArray[np.float64]
    r_ll: NDArray[np.float64]
    accuracy: NDArray[np.float64]


def reproduce(out: Path, *, n_learners: int = 5, seed: int = 0) -> list[Path]:
    """Write the three panels for one size of ensemble, which is odd as in the printed formula."""
    if n_learners < 3:
        raise ValueError(f"`n_learners` must be at least 3; got {n_learners}.")
    if n_learners % 2 == 0:
        raise ValueError(f"`n_learners` must be odd; got {n_learners}.")
    curves, simulation = compute(n_learners), simulate(n_learners, seed)
    config = {"n_learners": n_learners, "seed": seed, "n_samples": N_SAMPLES}
    data = {"curves": curves, "simulation": simulation}
    return [
        *write_figure(draw(curves, simulation, n_learners), out, "figure-5"),
        *write_record(out, "figure-5", title=TITLE, config=config, data=data),
    ]


def levels(n_learners: int) -> NDArray[np.float64]:
    """Return six levels of ``r_ll``, from the lowest possible to 1."""
    return np.linspace(*learner_correlation_bounds(n_learners), N_LEVELS)


def compute(n_learners: int) -> Curves:
    """Return the vote accuracy as the paper prints it and with the error correlation."""
    r_ll, r_tl = levels(n_learners), np.linspace(0.0, 1.0, 401)
    level, r = np.broadcast_arrays(r_ll[:, None], r_tl)
    with warnings.catch_warnings():
        # Leaving the range of a probability is what the first panel shows.
        warnings.simplefilter("ignore", ModelRangeWarning)
        printed = vote_accuracy(r, level, n_learners, model="paper")
    corrected = np.full(r.shape, np.nan)
    can = exists(r, level, n_learners)
    corrected[can] = vote_accuracy(r[can], level[can], n_learners)
    return Curves(r_ll, r_tl, printed, corrected)


def exists(r_tl: NDArray[np.float64], r_ll: NDArray[np.float64], n_learners: int) -> NDArray[np.bool_]:
    """Return True where votes with these correlations exist: where ``c`` is within its bounds."""
    lowest = error_correlation_bounds(accuracy_from_correlation(r_tl), n_learners).low
    # c = (r_ll - r_tl^2) / (1 - r_tl^2), without the division
    can: NDArray[np.bool_] = r_ll - r_tl**2 >= lowest * (1 - r_tl**2) - ROUNDING
    return can


def simulate(n_learners: int, seed: int) -> Simulation:
    """Draw truth and votes; measure both correlations and the accuracy of the majority."""
    rng = np.random.default_rng(seed)
    r_ll, r_tl = np.meshgrid(levels(n_learners), np.linspace(0.0, 1.0, 11), indexing="ij")
    can = exists(r_tl, r_ll, n_learners)
    found = Simulation(*np.full((3, *r_tl.shape), np.nan))
    pairs = np.triu_indices(n_learners + 1, 1)
    of_truth = pairs[0] == 0
    for at in zip(*np.nonzero(can), strict=True):
        p = float(accuracy_from_correlation(r_tl[at]))
        c = float(error_correlation(r_tl[at], r_ll[at])) if p < 1 else 1.0
        rho = latent_correlation(p, c, n_learners)
        if np.isnan(rho):
            continue
        correct = draw_correct(p, rho, n_learners, N_SAMPLES, rng)
        truth = rng.integers(2, size=N_SAMPLES)
        votes = np.where(correct, truth, 1 - truth)
        correlations = np.corrcoef(np.vstack([truth, votes]))[pairs]
        found.r_tl[at] = correlations[of_truth].mean()
        found.r_ll[at] = correlations[~of_truth].mean()
        found.accuracy[at] = (correct.sum(axis=0) > n_learners / 2).mean()
    return found


def draw(curves: Curves, simulation: Simulation, n_learners: int) -> "Figure":
    """Draw the three panels side by side on the same axes."""
    from matplotlib.figure import Figure

    colours = ordered_colours(N_LEVELS)
    with house_style():
        figure = Figure(figsize=(11.0, 4.5))
        axes = figure.subplots(1, 3, sharex=True, sharey=True)
        for ax, (title, note) in zip(axes, NOTES.items(), strict=True):
            _prepare(ax, title, note)
        top, bottom = np.nanmax(curves.printed), np.nanmin(curves.printed)
        axes[0].set(
            xlim=(-0.02, 1.02),
            ylim=(max(bottom - 0.03, 0.0), min(top + 0.03, 1.25)),
            ylabel=f"Accuracy of the vote of {n_learners}",
        )
        for i, (level, colour) in enumerate(zip(curves.r_ll, colours, strict=True)):
            axes[0].plot(curves.r_tl, curves.printed[i], color=colour, label=_label(level, i))
            axes[1].plot(curves.r_tl, curves.corrected[i], color=colour)
            axes[2].plot(curves.r_tl, curves.corrected[i], color=colour, lw=1, alpha=0.45)
            axes[2].plot(simulation.r_tl[i], simulation.accuracy[i], "o", ms=6, color=colour, mec="white")
        figure.legend(loc="outside right center", title="$r_{LL}$", alignment="left")
    return figure


def _prepare(ax: "Axes", title: str, note: str) -> None:
    ax.set_title(title, pad=36)
    ax.text(0, 1.03, note, transform=ax.transAxes, va="bottom", size=9.5, color=PALETTE["muted"])
    ax.set_xlabel("Truth-learner correlation $r_{TL}$")
    ax.axhspan(1, 2, color=PALETTE["red"], alpha=0.08, lw=0)
    ax.grid(visible=True)


def _label(level: float, place: int) -> str:
    text = number(level, ".2f")
    return f"{text} (out of reach)" if place == 0 else text
