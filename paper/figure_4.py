"""Figure 4: the accuracy of a learner against its correlation with the truth.

Notation: ``alpha`` is the share of ones in the truth, ``beta`` the share of the correct answers that are
ones, ``p`` the accuracy, ``r_tl`` the correlation, all measured on each pair of vectors.
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import write_figure, write_record
from counterpoint.theory import accuracy_from_correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Accuracy of a learner against its correlation with the truth"
N_PAIRS = 2000
N_SAMPLES = 100


class Pairs(NamedTuple):
    """What was measured on each random pair of truth and learner."""

    r_tl: NDArray[np.float64]
    p: NDArray[np.float64]
    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]


def reproduce(out: Path, *, seed: int = 0) -> list[Path]:
    """Write the random pairs and the line of Theorem 3."""
    pairs = compute(seed)
    config = {"n_pairs": N_PAIRS, "n_samples": N_SAMPLES, "seed": seed}
    return [
        *write_figure(draw(pairs), out, "figure-4"),
        *write_record(out, "figure-4", title=TITLE, config=config, data=pairs),
    ]


def compute(seed: int) -> Pairs:
    """Draw pairs whose class balance and accuracy in each class are uniform; measure them.

    A pair in which truth or learner is constant has no correlation and is drawn again.
    """
    rng = np.random.default_rng(seed)
    truth, learner = (np.empty((0, N_SAMPLES), dtype=bool) for _ in range(2))
    while len(truth) < N_PAIRS:
        share, hit_rate, reject_rate = rng.uniform(size=(3, N_PAIRS, 1))
        t = rng.uniform(size=(N_PAIRS, N_SAMPLES)) < share
        correct = rng.uniform(size=t.shape) < np.where(t, hit_rate, reject_rate)
        answer = t == correct
        defined = (t.std(axis=1) > 0) & (answer.std(axis=1) > 0)
        truth, learner = np.r_[truth, t[defined]], np.r_[learner, answer[defined]]
    truth, learner = truth[:N_PAIRS], learner[:N_PAIRS]
    r_tl = [np.corrcoef(*pair)[0, 1] for pair in zip(truth, learner, strict=True)]
    p, alpha = (truth == learner).mean(axis=1), truth.mean(axis=1)
    hits = (truth & learner).mean(axis=1)
    beta = np.divide(hits, p, out=np.full(N_PAIRS, np.nan), where=p > 0)
    return Pairs(np.array(r_tl), p, alpha, beta)


def draw(pairs: Pairs) -> "Figure":
    """Draw the pairs, the darker the more balanced, and the line of balanced classes."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    rarer = np.minimum(pairs.alpha, 1 - pairs.alpha)
    order = np.argsort(rarer, kind="stable")  # balanced pairs are drawn last, on top
    line = np.array([-1.0, 1.0])
    shades = LinearSegmentedColormap.from_list("balance", ["#CFE6F5", PALETTE["blue"], "#00304D"])
    with house_style():
        figure = Figure(figsize=(6.6, 4.8))
        ax = figure.subplots()
        dots = ax.scatter(
            pairs.r_tl[order], pairs.p[order], c=rarer[order], cmap=shades, s=13, lw=0, vmin=0, vmax=0.5
        )
        ax.plot(
            line,
            accuracy_from_correlation(line, order=0),
            color=PALETTE["red"],
            label=r"$p = \frac{1}{2}(1 + r)$, exact if $\alpha = \beta = \frac{1}{2}$",
        )
        ax.legend(loc="lower right", fontsize=10.5)
        bar = figure.colorbar(dots, ax=ax, label="share of the rarer class", shrink=0.75, aspect=28)
        bar.outline.set_visible(False)
        ax.set(
            xlim=(-1.03, 1.03),
            ylim=(-0.03, 1.03),
            xlabel="Correlation of learner and truth $r_{T,L}$",
            ylabel="Accuracy of the learner $p$",
        )
        ax.set_title(f"{len(pairs.p):,} random learners")
        ax.grid(visible=True)
    return figure
