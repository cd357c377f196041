"""The demo: ensembles of trees and of networks on one data set, and where they stand against the bound."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.assessment import Assessment, assess_estimator
from counterpoint.assessment.result import rounded
from counterpoint.datasets import Dataset, load
from counterpoint.experiments._record import write_figure, write_record
from counterpoint.plots import PALETTE, TradeoffDisplay, house_style
from counterpoint.report import EnsembleReport
from counterpoint.theory import OperatingPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

TITLE = "Ensembles of trees and of networks against the bound"
N_LEARNERS = 15
TEST_SHARE = 1 / 3
DIVERSE, INDEPENDENT = "diverse nets", "independent nets"


def demo(out: Path, *, data: str, seed: int) -> list[Path]:
    """Train, assess, print and write; return the paths written."""
    from rich.console import Console

    console = Console()
    dataset = load(data)
    with_nets = find_spec("torch") is not None
    with console.status(f"training ensembles on {data}"):
        assessments, ways = train(dataset, seed, with_nets=with_nets)
    first = assessments[0]
    config = {
        "data": data,
        "seed": seed,
        "n_learners": N_LEARNERS,
        "n_train": len(dataset.y) - first.n_samples,
        "n_test": first.n_samples,
    }
    numbers = {a.name: a.to_dict() for a in assessments}
    report = EnsembleReport(assessments, title=f"{N_LEARNERS} learners on {data}", trajectories=ways)
    paths = [
        report.write_html(out / "report.html"),
        *write_figure(draw(assessments, ways, data), out, "tradeoff"),
        *write_record(
            out, "demo", title=TITLE, config=config, data={"assessments": numbers, "training": ways}
        ),
    ]
    console.print(
        f"{N_LEARNERS} learners each, trained on {config['n_train']} rows of {data} ({first.n_classes} classes), "
        f"judged on {first.n_samples} others.\n"
    )
    console.print(tabulate(assessments))
    console.print(f"\n{explain(assessments)}\n")
    if not with_nets:
        console.print(
            'With pip install "counterpoint[train]" ensembles of networks stand here too.\n', markup=False
        )
    for path in paths:
        console.print(str(path), soft_wrap=True, highlight=False, markup=False)
    return paths


def train(
    dataset: Dataset, seed: int, *, with_nets: bool
) -> tuple[list[Assessment], dict[str, OperatingPoint]]:
    """Fit the ensembles; return how they stand on held-out rows, and the way the networks took in training."""
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.model_selection import train_test_split

    X_train, X_test, y_train, y_test = train_test_split(
        dataset.X, dataset.y, test_size=TEST_SHARE, stratify=dataset.y, random_state=seed
    )
    table = _make_numeric()
    X_train, X_test = table.fit_transform(X_train), table.transform(X_test)
    size: dict[str, Any] = {"n_estimators": N_LEARNERS, "random_state": seed}
    forests = {"bagging": BaggingClassifier(**size), "random forest": RandomForestClassifier(**size)}
    assessments = [
        assess_estimator(forest.fit(X_train, y_train), X_test, y_test, name=name)
        for name, forest in forests.items()
    ]
    ways = {}
    if with_nets:
        from counterpoint.estimators import DiverseEnsembleClassifier

        for name, loss in ((INDEPENDENT, "independent"), (DIVERSE, "correlation")):
            nets = DiverseEnsembleClassifier(loss=loss, **size).fit(X_train, y_train)
            assessments.append(replace(nets.assess(X_test, y_test), name=name))
            ways[name] = nets.history_.trajectory
    return assessments, ways


def _make_numeric() -> Any:
    """Return a transformer: one-hot nominal columns, a missing number by the median of its column."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    return make_column_transformer(
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            make_column_selector(dtype_include="category"),
        ),
        remainder=SimpleImputer(strategy="median"),
    )


def tabulate(assessments: Sequence[Assessment]) -> "Table":
    """Return the numbers as a table, one row for each ensemble."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    columns: dict[str, Callable[[Assessment], float]] = {
        "r_TL": lambda a: a.r_tl,
        "r_LL": lambda a: a.r_ll,
        "share": lambda a: a.optimality,
        "alike": lambda a: a.error_correlation,
        "one": lambda a: float(a.accuracies.mean()),
        "vote": lambda a: a.vote.value,
        "forecast": lambda a: a.predicted_vote,
    }
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for a in assessments:
        table.add_row(a.name, *(rounded(value(a)) for value in columns.values()))
    return table


def explain(assessments: Sequence[Assessment]) -> str:
    """Return what the numbers mean, for someone who sees them for the first time."""
    diverse = min(assessments, key=lambda a: a.r_ll)
    nearest = max(assessments, key=lambda a: a.optimality)
    best = max(assessments, key=lambda a: a.vote.value)
    text = (
        "r_TL is how well a learner follows the truth, r_LL how alike the learners are; r_LL sets a bound on r_TL "
        "(Theorem 2), of which it reaches a share. Alike is the correlation of being right; one and vote are the "
        "accuracies of a learner and of all together. "
        f"Most diverse (lowest r_LL): {diverse.name}. Nearest to its bound: {nearest.name}. Best vote: {best.name}. "
        "The forecast knows only how often a learner is right and how much they err together, and is for equal "
        "learners."
    )
    if best.n_classes > 2:
        text += (
            f" With {best.n_classes} classes the largest group of votes wins even short of a majority, so the vote can "
            "be better than forecast."
        )
    by_name = {a.name: a for a in assessments}
    if DIVERSE in by_name:
        gap = 100 * (by_name[DIVERSE].vote.value - by_name[INDEPENDENT].vote.value)
        text += (
            f" Explicit diversity changed the vote of the networks by {gap:+.1f} points on these rows; "
            "DiverseEnsembleClassifierCV tells whether such a change is more than chance."
        )
    return text


def draw(assessments: Sequence[Assessment], ways: Mapping[str, OperatingPoint], data: str) -> "Figure":
    """Draw the plane with the ways taken in training and, beside it, the part around the ensembles."""
    from matplotlib.figure import Figure

    points = {a.name: (a.r_tl, a.r_ll) for a in assessments}
    with house_style():
        figure = Figure(figsize=(10.0, 4.6))
        whole, near = figure.subplots(1, 2)
        TradeoffDisplay(N_LEARNERS, points=points).plot(whole)
        handles = {handle.get_label(): handle for handle in whole.get_legend_handles_labels()[0]}
        for name, way in ways.items():
            whole.plot(way.r_ll, way.r_tl, color=handles[name].get_color(), lw=1.2, alpha=0.7, zorder=2.5)
        whole.set_title(f"Ensembles of {N_LEARNERS} on {data}" + (", and their training" if ways else ""))
        TradeoffDisplay(N_LEARNERS, points=points).plot(near, legend=False)
        near.set_title("From nearby: r$_{TL}$ as a share of its bound")
        _zoom(near, assessments)
    return figure


def _zoom(ax: "Axes", assessments: Sequence[Assessment]) -> None:
    """Show the ensembles and the gap between each and the bound."""
    ordered = sorted(assessments, key=lambda a: a.r_ll)
    left, right = ordered[0].r_ll, ordered[-1].r_ll
    low, high = min(a.r_tl for a in ordered), max(a.bound for a in ordered)
    height = max(high - low, 0.02)
    width = max(right - left, height)
    previous, row = -np.inf, 0
    for a in ordered:
        row = row + 1 if a.r_ll - previous < 0.12 * width else 0  # neighbours take turns, one under the other
        previous = a.r_ll
        ax.vlines(a.r_ll, a.r_tl, a.bound, color=PALETTE["muted"], ls=":", lw=1.5, zorder=2)
        colour = next(line.get_color() for line in ax.lines if line.get_label() == a.name)
        style: dict[str, Any] = {"ha": "center", "va": "top", "color": colour, "weight": "bold"}
        ax.annotate(
            f"{a.optimality:.1%}", (a.r_ll, a.r_tl), (0, -9 - 14 * row), textcoords="offset points", **style
        )
    ax.set(
        xlim=(left - 0.25 * width, right + 0.25 * width),
        ylim=(low - 0.5 * height, high + 0.25 * height),
    )
