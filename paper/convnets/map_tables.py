"""Tables and a figure of the map of image ensembles: errors, gains, and what predicts the gains.

Votes are those that the loss trains. A *part* is a point of the map with all its arms, a *cell* a part that has
independent training and a diversity of 0.9. The committed record also has parts and arms of earlier studies; the
tables skip them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import NONE, Grid, mean, spread
from paper.convnets.map_parts import LEARNERS, FloatArray, Part, Record, gain, parts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import ColorType

__all__ = ["QUANTITIES", "cells", "draw", "grids", "judge"]

ARMS = ("independent", "joint", "0.0", "0.5", "0.9", "1.0", "1.1")  # of the main table
THRESHOLD_PARTS = ("width-8", "width-32")
KINDS = {"width": "", "once": "one epoch", "few": "5,000 images", "learners": ""}
MARKERS = {"width": "o", "once": "^", "few": "s", "learners": "D"}
LEGEND = {"o": "50,000 images, 10 epochs", "^": "one epoch", "s": "5,000 images", "D": "fewer learners"}
# Predictors of the gain: measures of independently trained learners on their training images.
QUANTITIES: Mapping[str, Callable[[Mapping[str, FloatArray]], FloatArray]] = {
    "learner accuracy": lambda d: 1 - d["learner"],
    "vote accuracy": lambda d: 1 - d["soft"],
    "vote over learner": lambda d: d["learner"] - d["soft"],
    "r_TL": lambda d: d["r_tl"],
    "r_LL": lambda d: d["r_ll"],
    "optimality": lambda d: d["optimality"],
    "error correlation": lambda d: d["error_correlation"],
}


def grids(record: Record) -> list[Grid]:
    """Return the tables that the parts on record make possible."""
    tables = [_errors(record), _gains(record), _predictors(record), _tricks(record)]
    return [table for table in tables if table.rows]


def cells(record: Record) -> dict[str, Part]:
    """Return the parts that compare independent training with a diversity of 0.9 on the same views."""
    return {
        name: part
        for name, part in parts_of(record).items()
        if _kind(name) in KINDS and {"independent", "0.9"} <= part.found.keys()
    }


def judge(record: Record, quantity: str) -> tuple[float, int, int]:
    """Return how well a quantity that is known in training predicts whether a diversity of 0.9 pays.

    Returns
    -------
    rank : float
        Spearman's correlation of the quantity with the relative gain, over the cells.
    right, n : int
        In how many cells a threshold predicts the sign of the gain, and the number of cells. The threshold is the
        middle between two of the parts, which are not counted.
    """
    from scipy.stats import spearmanr

    found = cells(record)
    known = np.array([_known(part)[quantity].mean() for part in found.values()])
    gains = np.array([gain(part, "0.9").mean() for part in found.values()])
    ends = np.array([name in THRESHOLD_PARTS for name in found], dtype=bool)
    if ends.sum() < 2 or ends.all() or np.ptp(known) == 0 or np.ptp(gains) == 0:
        return np.nan, 0, 0
    rank = float(spearmanr(known, gains).statistic)
    sign = np.sign(
        np.diff(gains[ends]) * np.diff(known[ends])
    )  # whether more of the quantity is more of a gain
    right = (sign * (known[~ends] - known[ends].mean()) > 0) == (gains[~ends] > 0)
    return rank, int(right.sum()), int((~ends).sum())


def draw(record: Record) -> "Figure":
    """Draw the error over the diversity for each width, and the gain over what was known in training."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(11.0, 4.6))
        left, right = figure.subplots(1, 2, sharey=True)
        widths = sorted({part.width for part in (*_main(record).values(), *cells(record).values())})
        colours = dict(zip(widths, _shades(len(widths)), strict=True))
        _draw_diversities(left, record, colours)
        _draw_gains(right, record, colours)
    return figure


def _shades(count: int) -> "list[ColorType]":
    """Return colours for ordered levels, dark for the first."""
    import matplotlib

    return list(matplotlib.colormaps["plasma"](np.linspace(0.05, 0.85, count)))


def _known(part: Part) -> dict[str, FloatArray]:
    measured = {name: part.values("independent", name, "train") for name in ("soft", "learner", *LEARNERS)}
    return {name: quantity(measured) for name, quantity in QUANTITIES.items()}


def _kind(name: str) -> str:
    """Return the kind of a part; all numbers of learners are one kind."""
    kind = name.rsplit("-", 1)[0]
    return "learners" if kind.startswith("learners") else kind


def _main(record: Record) -> dict[int, Part]:
    """Return the part of each width on all images for all epochs."""
    parts = parts_of(record).items()
    found = {part.width: part for name, part in parts if _kind(name) == "width" and part.found}
    return dict(sorted(found.items()))


def _start(record: Record) -> str:
    return "Smoke run. " if record["config"]["smoke"] else ""


def _errors(record: Record) -> Grid:
    main, parts = _main(record), parts_of(record)
    arms = [arm for arm in ARMS if any(arm in part.found for part in main.values())]
    rows = []
    for width, part in main.items():
        row = [_percent(part.values(arm)) if arm in part.found else NONE for arm in arms]
        single = parts.get(f"single-{width}")
        row.append(NONE if single is None else _percent(single.values("independent")))
        rows.append([str(width), str(part.n_learners), *row])
    n_seeds = len(next(iter(main.values())).values("independent")) if main else 0
    title = f"{_start(record)}Error of the soft vote on the test images in %, n = {n_seeds}"
    return Grid(title, ["width", "N", *arms, "one network of the same size"], rows)


def _gains(record: Record) -> Grid:
    rows = []
    for name, part in cells(record).items():
        known, base = _known(part), part.values("independent")
        rows.append(
            [
                _words(name, part),
                _percent(base),
                _points(part.values("0.9") - base),
                mean(100 * gain(part, "0.9"), 1),
                *(mean(known[key], 3) for key in ("learner accuracy", "r_TL", "r_LL", "optimality")),
            ]
        )
    headings = [
        "part", "independent", "0.9: points", "0.9: % less",
        "train accuracy", "train r_TL", "train r_LL", "train optimality",
    ]  # fmt: skip
    title = (
        f"{_start(record)}What diversity 0.9 changes, and the fit of the learners under independent training"
    )
    return Grid(title, headings, rows)


def _tricks(record: Record) -> Grid:
    rows = []
    parts = parts_of(record)
    for width, part in _main(record).items():
        names = {kind: f"{kind}-{width}" for kind in ("tricks", "views")}
        more = {kind: parts[name] for kind, name in names.items() if name in parts}
        visible = [(arm, part, arm) for arm in ("independent", "0.9") if more]
        for kind, other in more.items():
            visible += [(f"{arm}{', own views' * (kind == 'views')}", other, arm) for arm in other.found]
        for words, other, arm in visible:
            found, learners, base = (
                other.values(arm),
                other.values(arm, "learner"),
                part.values("independent"),
            )
            n = min(len(found), len(base))  # one may have been run with more seeds than the other
            rows.append(
                [str(width), words, _percent(found), _points(found[:n] - base[:n]), _percent(learners)]
            )
    title = f"{_start(record)}Variants: error in %, and points against independent training"
    return Grid(title, ["width", "arm", "vote", "against independent", "learners"], rows, n_words=2)


def _predictors(record: Record) -> Grid:
    rows = []
    for name in QUANTITIES:
        rank, right, n = judge(record, name)
        if n:
            rows.append([name, mean([rank], 2), f"{right} of {n}"])
    if rows:
        from scipy.stats import spearmanr

        found = cells(record)
        gains, learnt = (
            np.array([gain(one, "0.9", images).mean() for one in found.values()])
            for images in ("test", "train")
        )
        new = np.array([name not in THRESHOLD_PARTS for name in found])
        right = int(np.sum((learnt > 0)[new] == (gains > 0)[new]))
        rank = spearmanr(learnt, gains).statistic
        rows.append(["gain of 0.9 on training images", mean([rank], 2), f"{right} of {new.sum()}"])
        rows.append(["always", NONE, f"{np.sum(gains[new] > 0)} of {new.sum()}"])
    title = (
        f"{_start(record)}What predicts the gain of 0.9: measures of independent training on training images"
    )
    return Grid(title, ["quantity", "rank correlation with the gain", "correct signs, other parts"], rows)


def _words(name: str, part: Part) -> str:
    kind = KINDS[_kind(name)]
    return f"width {part.width}, N = {part.n_learners}{', ' * bool(kind)}{kind}"


def _percent(errors: FloatArray) -> str:
    return spread(100 * errors, 2)


def _points(errors: FloatArray) -> str:
    text = spread(100 * errors, 2)
    return text if np.mean(errors) < 0 else f"+{text}"


def _draw_diversities(ax: "Axes", record: Record, colours: "Mapping[int, ColorType]") -> None:
    main = _main(record)
    for width, part in main.items():
        fixed = [arm for arm in part.found if arm.replace(".", "").isdigit()]
        points = [(float(arm), -100 * gain(part, arm)) for arm in fixed]
        label = f"width {width}, N = {part.n_learners}"
        _draw_points(ax, points, color=colours[width], marker="o", ms=4, label=label)
    ax.axhline(0, color=PALETTE["muted"], lw=1)
    ax.set_xticks([0, 0.5, 0.9, 1.0, 1.1], ["0", "0.5", "0.9", "1", "1.1"])
    ax.set_xlabel("Diversity, as a share of the critical λ")
    ax.set_ylabel("Error against independent training, %")
    ax.set_title("By diversity")
    if main:
        ax.legend()


def _draw_points(ax: "Axes", points: Sequence[tuple[float, FloatArray]], **style: Any) -> None:
    """Draw mean and standard deviation of the values at each place."""
    x, values = zip(*points, strict=True)
    ax.errorbar(x, [each.mean() for each in values], [_sd(each) for each in values], capsize=2, **style)


def _draw_gains(ax: "Axes", record: Record, colours: "Mapping[int, ColorType]") -> None:
    found = cells(record)
    for name, part in found.items():
        x, y, width = _known(part)["r_TL"].mean(), -100 * gain(part, "0.9").mean(), part.width
        ax.scatter(x, y, color=colours[width], marker=MARKERS[_kind(name)], s=40)
        ax.annotate(f"{width}", (x, y), (7, -3), textcoords="offset points", size=9, color=colours[width])
    for marker in dict.fromkeys(MARKERS[_kind(name)] for name in found):
        ax.scatter([], [], color=PALETTE["muted"], marker=marker, label=LEGEND[marker])
    ax.axhline(0, color=PALETTE["muted"], lw=1)
    ax.margins(x=0.08)
    ax.set_xlabel("Learners' r_TL on training images, independent training")
    ax.set_title("At diversity 0.9, by the fit in training")
    if found:
        ax.legend(title="Numbers are widths", alignment="left")


def _sd(values: FloatArray) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
