"""Tables and a figure of the dial of diversity on images.

A *point* is an image set with a width, a number of learners, a number of epochs and of training images. Gains are
relative to independent training of the same seed; their intervals are Student's, over the seeds.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import NONE, Grid, mean, number, spread
from counterpoint.theory import optimality

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "NAMES",
    "SETS",
    "Key",
    "draw",
    "equivalence",
    "equivalences",
    "gain",
    "grids",
    "interval",
    "runs_by_point",
    "summary",
    "values",
]

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]
Runs = dict[str, dict[int, Mapping[str, Any]]]  # arm -> seed -> results

SETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "digits": "digits"}
NAMES = {
    "independent": "independent, soft vote",
    "0.25": "DiversityLoss(0.25)",
    "0.5": "DiversityLoss(0.5)",
    "0.67": "DiversityLoss(2/3)",
    "0.8": "DiversityLoss(0.8)",
    "0.9": "DiversityLoss(0.9)",
    "joint-logits": "averaged logits, the dial at 1",
    "joint-sum": "summed logits",
    "joint-proba": "averaged probabilities",
    "paper-0.5": "the paper's loss, 0.5",
    "paper-0.9": "the paper's loss, 0.9",
    "paper-1.0": "the paper's loss, 1",
    "single": "one network of the same size",
}
MARGIN = 1.0  # percent: differences within it count as none
SCORES = ("error", "log_loss", "brier_score", "calibration_error")


class Key(NamedTuple):
    """What tells points apart; ``n_train`` is 0 where all images are used."""

    data: str
    width: int
    n_learners: int
    epochs: int
    n_train: int = 0

    @property
    def default(self) -> str:
        """The arm of the default dial, 1 - 1/N."""
        return f"{1 - 1 / self.n_learners:.2g}"

    def words(self) -> str:
        """Return the point in words."""
        few = f", {self.n_train:,} images" if self.n_train else ""
        long = f"{self.epochs} epoch{'s' * (self.epochs > 1)}"
        return f"{SETS[self.data]}{few}, {self.n_learners} of width {self.width}, {long}"


# The rows of the summary, at most ten.
SUMMARY = (
    Key("cifar10", 4, 10, 10),
    Key("cifar10", 8, 10, 10),
    Key("cifar10", 8, 10, 50),
    Key("cifar10", 32, 5, 10),
    Key("cifar10", 32, 5, 50),
    Key("cifar10", 64, 3, 10),
    Key("cifar100", 8, 10, 10),
    Key("cifar100", 8, 10, 50),
    Key("cifar100", 32, 5, 10),
    Key("cifar100", 32, 5, 50),
)
# Arm -> label and colour in the figure; the default dial is drawn apart.
DRAWN = {
    "joint-logits": ("averaged logits", "magenta"),
    "joint-proba": ("averaged probabilities", "red"),
    "paper-0.9": ("the paper's loss, 0.9", "orange"),
    "single": ("one network of the same size", "muted"),
}
MARKERS = {10: "D", 5: "s", 3: "^"}  # of the default dial, by the number of learners
# Where a number stands beside its marker, in points, the usual place first.
SIDES = ((11, 7), (11, -8), (-11, 7), (-11, -8), (13, 0), (-13, 0), (0, 12), (0, -12))
ROOM = 7  # points between a number and the next marker or number


def runs_by_point(record: Record) -> dict[Key, Runs]:
    """Return the results by point, then by arm and seed."""
    found: dict[Key, Runs] = {}
    for piece in record["data"].values():
        config = piece["config"]
        data, width, n_learners, epochs = (config[name] for name in ("data", "width", "n_learners", "epochs"))
        key = Key(data, width, n_learners, epochs, config.get("n_train", 0))
        found.setdefault(key, {}).setdefault(config["arm"], {})[config["seed"]] = piece["data"]
    return dict(
        sorted(
            found.items(),
            key=lambda item: (
                item[0].data,
                item[0].n_train,
                item[0].epochs,
                item[0].width,
                -item[0].n_learners,
            ),
        )
    )


def values(runs: Runs, arm: str, measure: str, vote: str = "vote") -> FloatArray:
    """Return a measure of an arm for each seed that independent training has too."""
    seeds = sorted(runs[arm].keys() & runs["independent"].keys())
    return np.array([runs[arm][s][vote][measure] if vote else runs[arm][s][measure] for s in seeds])


def gain(runs: Runs, arm: str, measure: str = "error", over: str = "vote") -> FloatArray:
    """Return the share of the errors of independent training that an arm removes, in %, for each seed.

    ``over`` is the vote of the independent networks: their own, which is soft, or ``"geometric"``.
    """
    seeds = sorted(runs[arm].keys() & runs["independent"].keys())
    ours = values(runs, arm, measure)
    theirs = np.array([runs["independent"][seed][over][measure] for seed in seeds])
    share: FloatArray = 100 * (1 - ours / theirs)
    return share


def interval(sample: FloatArray, level: float = 0.95) -> tuple[float, float]:
    """Return Student's interval for the mean of a sample of at least two.

    Examples
    --------
    >>> low, high = interval(np.array([1.0, 2.0, 3.0]))
    >>> round(low, 2), round(high, 2)
    (-0.48, 4.48)
    """
    from scipy.stats import t

    low, high = t.interval(
        level, len(sample) - 1, loc=sample.mean(), scale=sample.std(ddof=1) / np.sqrt(len(sample))
    )
    return float(low), float(high)


def equivalence(sample: FloatArray, margin: float = MARGIN) -> float:
    """Return the p-value of two one-sided t-tests: small if the mean is surely within the margin of 0.

    Examples
    --------
    >>> equivalence(np.array([0.1, -0.1, 0.0])) < 0.01 < equivalence(np.array([0.9, -0.8, 1.2]))
    True
    """
    from scipy.stats import ttest_1samp

    above = ttest_1samp(sample, -margin, alternative="greater").pvalue
    below = ttest_1samp(sample, margin, alternative="less").pvalue
    return float(max(above, below))


def grids(record: Record) -> list[Grid]:
    """Return a table of all arms for each point."""
    points = {key: runs for key, runs in runs_by_point(record).items() if "independent" in runs}
    start = "Smoke run. " if record["config"]["smoke"] else ""
    return [Grid(start + key.words(), *_table(runs, key.n_learners)) for key, runs in points.items()]


def summary(record: Record) -> Grid:
    """Return the default dial against independent training, at the main points."""
    points = runs_by_point(record)
    rows = []
    for key in SUMMARY:
        runs = points.get(key, {})
        if not {"independent", key.default} <= runs.keys():
            continue
        errors = [spread(100 * values(runs, arm, "error"), 2) for arm in ("independent", key.default)]
        losses = [mean(values(runs, arm, "log_loss"), 3) for arm in ("independent", key.default)]
        others = [
            spread(100 * values(runs, arm, "error"), 2) if arm in runs else NONE
            for arm in ("joint-logits", "single")
        ]
        share = gain(runs, key.default)
        rows.append([key.words(), *errors, signed(share), " → ".join(losses), *others, str(len(share))])
    headings = [
        "", "independent %", "default dial %", "fewer errors % [95 %]", "log-loss", "averaged logits %",
        "one network %", "n",
    ]  # fmt: skip
    return Grid("The default dial against independent training", headings, rows)


def signed(share: FloatArray) -> str:
    """Return a mean with its sign, and its interval if there are at least two values."""
    text = number(float(share.mean()), "+.1f")
    if len(share) < 2:
        return text
    low, high = interval(share)
    return f"{text} [{number(low, '.1f')}, {number(high, '.1f')}]"


def equivalences(record: Record) -> Grid:
    """Return the tests of whether the default costs nothing, where its gain is not beyond the margin.

    Part of a difference may be due to the vote, so the geometric vote of the independent networks is there too.
    """
    rows = []
    for key, runs in runs_by_point(record).items():
        if not {"independent", key.default} <= runs.keys():
            continue
        share = gain(runs, key.default)
        if len(share) < 2 or interval(share, 0.9)[0] > MARGIN:
            continue
        low, high = interval(share, 0.9)
        rows.append(
            [
                key.words(),
                number(float(share.mean()), "+.1f"),
                f"[{number(low, '.1f')}, {number(high, '.1f')}]",
                f"{equivalence(share):.3f}",
                signed(gain(runs, key.default, over="geometric")),
                *(signed(gain(runs, key.default, "log_loss", over)) for over in ("vote", "geometric")),
            ]
        )
    geometric = "than their geometric vote [95 %]"
    headings = [
        "", "fewer errors %", "90 % interval", f"p, within {MARGIN:g} %", geometric,
        "lower log-loss % [95 %]", geometric,
    ]  # fmt: skip
    return Grid("Where the default dial may make less than 1 % fewer errors", headings, rows)


def _table(runs: Runs, n_learners: int) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows; the column of D is there if the runs measured it."""
    headings = [
        "loss", "error %", "fewer %", "log-loss", "Brier", "ECE %", "learner %", "r_TL", "r_LL", "optimality", "D", "n",
    ]  # fmt: skip
    rows = [_row(runs, arm, n_learners) for arm in NAMES if arm in runs]
    rows.insert(1, _geometric(runs))
    at = headings.index("D")
    if all(row[at] in ("", NONE) for row in rows):
        for row in (headings, *rows):
            del row[at]
    return headings, rows


def _row(runs: Runs, arm: str, n_learners: int) -> list[str]:
    own = [values(runs, arm, name) for name in SCORES]
    learner = values(runs, arm, "learner_error", "")
    r_tl = values(runs, arm, "r_tl", "")
    others = [NONE] * 3
    if arm != "single":
        r_ll = values(runs, arm, "r_ll", "")
        others = [mean(r_ll, 2), mean(np.asarray(optimality(r_tl, r_ll, n_learners)), 2), NONE]
        if all("cross_entropy_diversity" in run for run in runs[arm].values()):  # older runs have none
            others[2] = mean(values(runs, arm, "cross_entropy_diversity", ""), 2)
    return [
        NAMES[arm],
        spread(100 * own[0], 2),
        NONE if arm == "independent" else signed(gain(runs, arm)),
        *_scores(own),
        spread(100 * learner, 1),
        mean(r_tl, 2),
        *others,
        str(len(own[0])),
    ]


def _geometric(runs: Runs) -> list[str]:
    """Return the row of independent training with the geometric vote."""
    own = [values(runs, "independent", name, "geometric") for name in SCORES]
    fewer = 100 * (1 - own[0] / values(runs, "independent", "error"))
    return [
        "independent, geometric vote",
        spread(100 * own[0], 2),
        signed(fewer),
        *_scores(own),
        *[""] * 5,
        str(len(own[0])),
    ]


def _scores(own: list[FloatArray]) -> list[str]:
    return [spread(own[1], 3), spread(own[2], 3), spread(100 * own[3], 1)]


def draw(record: Record) -> "Figure":
    """Draw the gain of each arm over the fit of independent learners, and the same for the log-loss."""
    from matplotlib.figure import Figure

    points = {key: runs for key, runs in runs_by_point(record).items() if "independent" in runs}
    with house_style():
        figure = Figure(figsize=(11.0, 6.4))
        axes = figure.subplots(1, 2)
        for ax, measure, title in zip(
            axes, ("error", "log_loss"), ("Fewer errors", "Lower log-loss"), strict=True
        ):
            _draw_gains(ax, points, measure)
            ax.axhline(0, color=PALETTE["muted"], lw=1, ls="--")
            ax.set(
                xlabel="Independent learners right on augmented training images, %",
                ylabel=f"{title} than independent, %",
            )
            ax.set_title(title)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
        figure.draw_without_rendering()  # the layout decides where there is room
        for ax, measure in zip(axes, ("error", "log_loss"), strict=True):
            _write_widths(ax, points, measure)
    return figure


def _fit(runs: Runs) -> float:
    """Return the accuracy of the independent learners on their training images, in %."""
    each = [one["history"]["learner_accuracy"][-1] for one in runs["independent"].values()]
    return 100 * float(np.mean(each))


def _draw_gains(ax: "Axes", points: Mapping[Key, Runs], measure: str) -> None:
    """Draw a marker for each arm and point: filled for CIFAR-10, hollow for CIFAR-100."""
    for key, runs in points.items():
        x = _fit(runs)
        hollow = key.data == "cifar100"
        for arm, (_, colour) in DRAWN.items():
            if arm in runs:
                face = "white" if hollow else PALETTE[colour]
                y = gain(runs, arm, measure).mean()
                ax.plot(x, y, "o", ms=5, mfc=face, mec=PALETTE[colour], zorder=2.5)
        if key.default in runs:
            share, blue = gain(runs, key.default, measure), PALETTE["blue"]
            low, high = interval(share) if len(share) > 1 else (share[0], share[0])
            ax.plot([x, x], [low, high], color=blue, lw=1.2, zorder=2.8)
            look = {"mfc": "white", "mec": blue} if hollow else {"mfc": blue, "mec": "white", "mew": 0.5}
            marker, front = (
                MARKERS.get(key.n_learners, "D"),
                3 + 1 / key.n_learners,
            )  # a triangle hides the least
            ax.plot(x, share.mean(), marker, ms=7.5, zorder=front, **look)
    low = min(
        (gain(runs, key.default, measure).mean() for key, runs in points.items() if key.default in runs),
        default=0,
    )
    high = ax.get_ylim()[1]
    ax.set_ylim(min(low - 8, -38), high)  # the log-loss of the paper's loss goes far below
    for n_learners, marker in MARKERS.items():
        ax.plot(
            [],
            [],
            marker,
            ms=8,
            color=PALETTE["blue"],
            label=f"default dial, {n_learners} learners; number: width",
        )
    for label, colour in DRAWN.values():
        ax.plot([], [], "o", ms=5, color=PALETTE[colour], label=label)
    ax.plot([], [], "o", ms=5, color=PALETTE["ink"], label="filled: CIFAR-10")
    ax.plot([], [], "o", ms=5, mfc="white", mec=PALETTE["ink"], label="hollow: CIFAR-100")


def _write_widths(ax: "Axes", points: Mapping[Key, Runs], measure: str) -> None:
    """Write the width beside each marker of the default dial, on the first side with room or that with the most."""
    drawn = [np.asarray(line.get_xydata()) for line in ax.lines if line.get_linestyle() != "--"]
    dense = [np.linspace(xy[0], xy[-1], 9) for xy in drawn if len(xy)]  # markers, and lines as points
    taken = ax.transData.transform(np.concatenate(dense) if dense else np.empty((0, 2)))
    points_per_pixel = 72 / ax.figure.dpi
    for key, runs in points.items():
        if key.default not in runs:
            continue
        at = (_fit(runs), gain(runs, key.default, measure).mean())
        others = points_per_pixel * (taken - ax.transData.transform(at))
        room = [np.hypot(*((others - side) / (1.5, 1)).T).min() for side in SIDES]  # numbers are wide
        best = next((i for i, free in enumerate(room) if free > ROOM), int(np.argmax(room)))
        ax.annotate(
            f"{key.width}",
            at,
            SIDES[best],
            textcoords="offset points",
            size=8,
            color=PALETTE["blue"],
            ha="center",
            va="center",
        )
        written = ax.transData.transform(at) + np.array(SIDES[best]) / points_per_pixel
        taken = np.concatenate([taken, [written]])
