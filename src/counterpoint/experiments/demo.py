"""The demo: two ensembles of trees, and where they stand against the bound.

Notation: ``r_tl`` and ``r_ll`` as in the paper, averaged over learners, pairs and classes; ``p`` the mean
accuracy of the learners, ``c`` their mean correlation of being correct.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.datasets import Dataset, load
from counterpoint.experiments._record import write_figure, write_record
from counterpoint.measures import (
    error_correlations,
    learner_learner_correlation,
    truth_learner_correlation,
)
from counterpoint.plots import PALETTE, TradeoffDisplay, house_style
from counterpoint.theory import (
    error_correlation_bounds,
    jury_accuracy,
    optimality,
    truth_correlation_bounds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

TITLE = "Two ensembles of trees against the bound"
Labels = NDArray[Any]
N_LEARNERS = 15
TEST_SHARE = 1 / 3


class Standing(NamedTuple):
    """Where one ensemble stands on held-out data."""

    r_tl: float
    r_ll: float
    bound: float
    optimality: float
    p: float
    c: float
    vote: float
    predicted: float


def demo(out: Path, *, data: str, seed: int) -> list[Path]:
    """Train, place, print and write; return the paths written."""
    from rich.console import Console

    dataset = load(data)
    y_true, votes = train(dataset, seed)
    standings = {name: place(y_true, v) for name, v in votes.items()}
    n_classes = len(dataset.class_names)
    config = {
        "data": data,
        "seed": seed,
        "n_learners": N_LEARNERS,
        "n_train": len(dataset.y) - len(y_true),
        "n_test": len(y_true),
    }
    paths = [
        *write_figure(draw(standings, data), out, "tradeoff"),
        *write_record(out, "demo", title=TITLE, config=config, data=standings),
    ]
    console = Console()
    console.print(
        f"{N_LEARNERS} trees each, trained on {config['n_train']} rows of {data} ({n_classes} classes), "
        f"judged on {len(y_true)} others.\n"
    )
    console.print(tabulate(standings))
    console.print(f"\n{explain(standings, n_classes)}\n")
    for path in paths:
        console.print(str(path), soft_wrap=True, highlight=False, markup=False)
    return paths


def train(dataset: Dataset, seed: int) -> tuple[Labels, dict[str, Labels]]:
    """Fit both ensembles; return the held-out truth and the votes of their trees on it."""
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import LabelEncoder

    # The trees inside scikit-learn's ensembles answer in codes: with codes for labels they agree.
    encoder = LabelEncoder()
    y = encoder.fit_transform(dataset.y)
    X_train, X_test, y_train, y_test = train_test_split(
        dataset.X, y, test_size=TEST_SHARE, stratify=y, random_state=seed
    )
    table = _make_numeric()
    X_train, X_test = table.fit_transform(X_train), table.transform(X_test)
    votes = {}
    for name, ensemble in {
        "bagging": BaggingClassifier(n_estimators=N_LEARNERS, random_state=seed),
        "random forest": RandomForestClassifier(n_estimators=N_LEARNERS, random_state=seed),
    }.items():
        trees = ensemble.fit(X_train, y_train).estimators_
        codes = np.stack([tree.predict(X_test) for tree in trees]).astype(np.int64)
        votes[name] = encoder.classes_[codes]
    return encoder.classes_[y_test], votes


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


def place(y_true: Labels, votes: Labels) -> Standing:
    """Return where an ensemble stands: its correlations, its vote, and the vote predicted from ``p, c``."""
    n_learners = len(votes)
    pairs = np.triu_indices(n_learners, 1)
    r_tl = _mean(truth_learner_correlation(y_true, votes))
    r_ll = _mean(learner_learner_correlation(votes)[pairs])
    p = float((votes == y_true).mean())
    c = _mean(error_correlations(y_true, votes)[pairs])
    # Unequal learners may oppose each other a little more than equal ones can.
    possible = max(c, float(error_correlation_bounds(p, n_learners).low))
    return Standing(
        r_tl=r_tl,
        r_ll=r_ll,
        bound=float(truth_correlation_bounds(r_ll, n_learners).high),
        optimality=float(optimality(r_tl, r_ll, n_learners)),
        p=p,
        c=c,
        vote=float((plurality(votes) == y_true).mean()),
        predicted=float("nan") if np.isnan(c) else float(jury_accuracy(p, possible, n_learners)),
    )


def _mean(values: FloatArray) -> float:
    """Return the mean of what is defined; the measure has warned of the rest."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def plurality(votes: Labels) -> Labels:
    """Return the label with most votes for each sample; of several, the first."""
    labels = np.unique(votes)
    counts = np.stack([(votes == label).sum(axis=0) for label in labels])  # (classes, samples)
    winners: Labels = labels[counts.argmax(axis=0)]
    return winners


def tabulate(standings: Mapping[str, Standing]) -> "Table":
    """Return the numbers as a table, one column for each ensemble."""
    from rich.table import Table

    rows = {
        "r_tl": "truth-learner correlation r_TL",
        "r_ll": "learner-learner correlation r_LL",
        "bound": "highest r_TL at this r_LL (Theorem 2)",
        "optimality": "optimality: r_TL over that bound",
        "p": "accuracy of a tree, mean",
        "c": "correlation of being correct, mean",
        "vote": "accuracy of the vote, measured",
        "predicted": "accuracy of the vote, predicted",
    }
    table = Table("", *standings)
    for column in table.columns[1:]:
        column.justify = "right"
    for field, meaning in rows.items():
        table.add_row(meaning, *(_number(getattr(one, field)) for one in standings.values()))
    return table


def _number(value: float) -> str:
    return "undefined" if np.isnan(value) else f"{value:.3f}"


def explain(standings: Mapping[str, Standing], n_classes: int) -> str:
    """Return what the numbers mean, for someone who sees them for the first time."""
    diverse = min(standings, key=lambda name: standings[name].r_ll)
    best = max(standings, key=lambda name: standings[name].optimality)
    text = (
        "r_TL says how well a tree follows the truth, r_LL how alike the trees are; r_LL sets a bound on "
        f"r_TL. More diverse (lower r_LL): {diverse}. Closer to its bound: {best}. The prediction knows "
        "only how often a tree is right and how much the trees err together, and is for equal trees."
    )
    if n_classes > 2:
        text += (
            f" With {n_classes} classes the largest group of votes wins even short of a majority, so the "
            "measured vote can be better than predicted."
        )
    return text


def draw(standings: Mapping[str, Standing], data: str) -> "Figure":
    """Draw the plane and, beside it, the part around the ensembles."""
    from matplotlib.figure import Figure

    display = TradeoffDisplay(
        N_LEARNERS, points={name: (one.r_tl, one.r_ll) for name, one in standings.items()}
    )
    with house_style():
        figure = Figure(figsize=(10.0, 4.6))
        whole, near = figure.subplots(1, 2)
        display.plot(whole)
        whole.set_title(f"Two ensembles of {N_LEARNERS} trees on {data}")
        display.plot(near, legend=False)
        near.set_title("From nearby: r$_{TL}$ as a share of its bound")
        _zoom(near, standings)
    return figure


def _zoom(ax: "Axes", standings: Mapping[str, Standing]) -> None:
    """Show the ensembles and the gap between each and the bound."""
    ordered = sorted(standings.items(), key=lambda item: item[1].r_ll)
    for (name, one), side, to in zip(ordered, ("right", "left"), (-1, 1), strict=True):
        ax.vlines(one.r_ll, one.r_tl, one.bound, color=PALETTE["muted"], ls=":", lw=1.5, zorder=2)
        text = f"{name}\n{one.optimality:.1%}"
        at, offset = (one.r_ll, one.r_tl), (10 * to, -2)
        ax.annotate(text, at, offset, textcoords="offset points", ha=side, va="top", multialignment=side)
    left, right = ordered[0][1].r_ll, ordered[1][1].r_ll
    low, high = min(one.r_tl for _, one in ordered), max(one.bound for _, one in ordered)
    height = max(high - low, 0.02)
    width = max(right - left, height)  # the labels need room at both sides
    ax.set(
        xlim=(left - 0.7 * width, right + 0.7 * width),
        ylim=(low - 0.5 * height, high + 0.4 * height),
    )
