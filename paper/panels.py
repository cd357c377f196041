"""``panels``: the vote predicted from accuracies and shared errors, against the vote that is observed.

The items of each ensemble or panel are cut into two halves at random: one half gives the prediction, the other the vote
that is observed, and the reverse. The judges are those of JudgeBench (Tan et al., 2024), on 350 pairs of answers. The
record holds figures only, not what a judge decided on a pair.
"""

import csv
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint import assess
from counterpoint.assessment import Estimate
from counterpoint.datasets import load
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.outputs import Outputs, vote_accuracies
from counterpoint.plots import EffectiveVotesDisplay
from counterpoint.records import Grid, number, read_record, rich_table, write_figure, write_record, write_text
from counterpoint.records import markdown as in_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "panels"
TITLE = "The vote predicted from one half of the items, and observed on the other"
FIGURE = "effective-votes"
JUDGES = "judges of answers"
SMOKE = "forest on segment"
JUDGES_FILE = "panels/judgebench.csv"
N_CUTS, N_CUTS_SMOKE = 20, 1
FEW = 80  # rows to train on, so that the models err


class Votes(NamedTuple):
    """The answers of some learners to items with a known answer."""

    truth: NDArray[Any]  # (n_items,)
    votes: NDArray[Any]  # (n_learners, n_items)
    names: list[str] | None = None


def reproduce(out: Path, *, data: Path | None = None, seed: int = 0, smoke: bool = False) -> list[Path]:
    """Compare predicted and observed votes of every ensemble; print and write the table and the picture."""
    from rich.console import Console

    n_cuts = N_CUTS_SMOKE if smoke else N_CUTS
    pools = {SMOKE: POOLS[SMOKE]} if smoke else POOLS
    file = _judges_file(data)
    if file is None and not smoke:
        raise ValueError(f"`data` must be a folder with {JUDGES_FILE}; got {data and str(data)!r}.")
    found = {} if file is None else {JUDGES: compare_halves(read_judges(file), n_cuts, seed)}
    found |= {name: compare_halves(make(data, seed), n_cuts, seed) for name, make in pools.items()}
    config = {"n_cuts": n_cuts, "seed": seed, "smoke": smoke, "judges": "JudgeBench, answers of GPT-4o"}
    paths = write_record(out, NAME, title=TITLE, config=config, data=found)
    record = read_record(paths[0])
    Console().print(rich_table(grid(record)))
    path = out / f"{NAME}.md"
    write_text(path, in_markdown([grid(record)]))
    figures = [write for name, figure in draw(record).items() for write in write_figure(figure, out, name)]
    return [*paths, path, *figures]


def compare_halves(pool: Votes, n_cuts: int, seed: int) -> dict[str, Any]:
    """Return predicted, observed and independent votes over random halves, and the effective votes of all items."""
    rng = np.random.default_rng(seed)
    n_items = len(pool.truth)
    halves: dict[str, list[float]] = {"predicted": [], "independent": [], "observed": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        labels = np.unique([*np.unique(pool.votes), *np.unique(pool.truth)])
        for _ in range(n_cuts):
            order = rng.permutation(n_items)
            first, second = order[: n_items // 2], order[n_items // 2 :]
            for one, other in ((first, second), (second, first)):
                prediction = assess(pool.truth[one], pool.votes[:, one], labels=labels).prediction
                halves["predicted"].append(prediction.mixed)
                halves["independent"].append(prediction.independent)
                judged = Outputs(pool.votes[:, other], pool.truth[other], labels)
                halves["observed"].append(vote_accuracies(judged, "hard", range(len(pool.votes)))[-1])
        whole = assess(pool.truth, pool.votes, labels=labels, learners=pool.names)
    return {
        "n_learners": whole.n_learners,
        "n_items": n_items,
        "n_classes": len(np.unique(pool.truth)),
        "mean_learner": float(whole.accuracies.mean()),
        "best": whole.effective.best,
        "best_learner": float(whole.accuracies[whole.best_learner]),
        "decision": whole.decision.text,
        "difference": whole.votes.against_best.difference,
        "vote": whole.vote,
        "if_independent": whole.prediction.independent,
        "error_correlation": whole.effective.error_correlation,
        "effective": whole.effective.votes,
        "independence": whole.effective.independence,
        "halves": {name: [round(value, 5) for value in values] for name, values in halves.items()},
    }


def grid(record: Mapping[str, Any]) -> Grid:
    """Return the table: means over the halves, in per cent, and what each prediction misses by, in points."""
    rows = []
    for name, one in record["data"].items():
        observed, predicted, independent = (
            100 * float(np.mean(one["halves"][key])) for key in ("observed", "predicted", "independent")
        )
        votes = Estimate(**one["effective"])
        apart = 100 * np.subtract(one["halves"]["predicted"], one["halves"]["observed"])
        rows.append(
            [
                name,
                str(one["n_learners"]),
                f"{one['n_items']:,}",
                str(one["n_classes"]),
                f"{votes.value:.1f} ({votes.low:.1f} to {votes.high:.1f})",
                f"{observed:.1f}",
                f"{predicted:.1f}",
                f"{number(predicted - observed, '+.1f')} ± {apart.std():.1f}",
                f"{independent:.1f}",
                number(independent - observed, "+.1f"),
            ]
        )
    headings = [
        "ensemble",
        "learners",
        "items",
        "classes",
        "effective votes",
        "observed",
        "predicted",
        "off by",
    ]
    cuts = record["config"]["n_cuts"]
    title = f"Accuracy of the vote in %, means over {cuts} random cuts into halves, each used both ways"
    return Grid(title, [*headings, "if independent", "off by then"], rows)


def judges_text(record: Mapping[str, Any]) -> str:
    """Return what the panel of judges is worth, in words."""
    one = record["data"][JUDGES]
    vote, votes, own, apart = (
        Estimate(**one[key]) for key in ("vote", "effective", "independence", "difference")
    )
    best, c = one["best"], Estimate(**one["error_correlation"])
    return (
        f"On {one['n_items']} pairs of answers, the vote of the {one['n_learners']} judges is right on "
        f"{100 * vote.value:.1f} % (95 % interval {100 * vote.low:.1f} to {100 * vote.high:.1f}), and one of them, "
        f"{best}, on {100 * one['best_learner']:.1f} %: a difference of {100 * apart.value:+.1f} points "
        f"({100 * apart.low:+.1f} to {100 * apart.high:+.1f}). The {one['n_learners']} are worth "
        f"**{votes.value:.1f} times that one alone** ({votes.low:.1f} to {votes.high:.1f}). Being right "
        f"has a correlation of {c.value:.2f} between two judges ({c.low:.2f} to {c.high:.2f}), so they err like "
        f"{own.value:.1f} independent judges ({own.low:.1f} to {own.high:.1f})."
    )


def draw(record: Mapping[str, Any]) -> "dict[str, Figure]":
    """Return the picture of the judges: what they are worth."""
    from matplotlib.figure import Figure

    if JUDGES not in record["data"]:
        return {}
    one = record["data"][JUDGES]
    figure = Figure(figsize=(6.4, 3.1), layout="constrained")
    display = EffectiveVotesDisplay(
        one["n_learners"],
        Estimate(**one["effective"]),
        best=one["best_learner"],
        vote=one["vote"]["value"],
        mean_learner=one["mean_learner"],
    )
    display.plot(figure.subplots(), noun="judges")
    return {FIGURE: figure}


def read_judges(path: Path) -> Votes:
    """Return the decisions of the judges on the pairs as shown first; a tie is an answer that is never right."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["order"] == "0"]
    pairs, judges = (list(dict.fromkeys(row[key] for row in rows)) for key in ("pair_id", "judge"))
    truth = {row["pair_id"]: row["truth"] for row in rows}
    said = {(row["judge"], row["pair_id"]): row["decision"] for row in rows}
    return Votes(
        np.array([truth[pair] for pair in pairs]),
        np.array([[said[judge, pair] for pair in pairs] for judge in judges]),
        judges,
    )


def _judges_file(data: Path | None) -> Path | None:
    folder = data or (Path(given) if (given := os.environ.get("COUNTERPOINT_DATA")) else None)
    return folder / JUDGES_FILE if folder and (folder / JUDGES_FILE).is_file() else None


def _trained(X: NDArray[Any], y: NDArray[Any], learners: list[Any], n_train: int, seed: int) -> Votes:
    """Return the votes of classifiers on the rows that they were not trained on."""
    from sklearn.exceptions import ConvergenceWarning

    order = np.random.default_rng(seed).permutation(len(y))
    train, rest = order[:n_train], order[n_train:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # networks that are stopped early
        votes = [learner.fit(X[train], y[train]).predict(X[rest]) for learner in learners]
    return Votes(y[rest], np.array(votes))


def _digits() -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16, y


def _segment() -> tuple[NDArray[Any], NDArray[Any]]:
    table = load("segment")
    X = table.X.to_numpy(dtype=np.float64)
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9), table.y


def _networks(data: Path | None, seed: int) -> Votes:
    from sklearn.neural_network import MLPClassifier

    learners = [MLPClassifier((6,), max_iter=60, random_state=seed + k) for k in range(9)]
    return _trained(*_digits(), learners, 500, seed)


def _forest_digits(data: Path | None, seed: int) -> Votes:
    return _trained(*_digits(), _trees(seed, 15, 5), 500, seed)


def _forest_segment(data: Path | None, seed: int) -> Votes:
    return _trained(*_segment(), _trees(seed, 15, 4), 500, seed)


def _trees(seed: int, count: int, depth: int) -> list[Any]:
    """Return the trees of a random forest, each on rows of its own."""
    from sklearn.ensemble import RandomForestClassifier

    return [RandomForestClassifier(1, max_depth=depth, random_state=seed + k) for k in range(count)]


def _mixed(seed: int) -> list[Any]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    return [
        LogisticRegression(C=0.1, max_iter=500),
        LinearDiscriminantAnalysis(),
        GaussianNB(),
        KNeighborsClassifier(15),
        SVC(C=0.5),
        DecisionTreeClassifier(max_depth=5, random_state=seed),
        DecisionTreeClassifier(max_depth=5, max_features=0.3, random_state=seed),
    ]


def _mixed_digits(data: Path | None, seed: int) -> Votes:
    return _trained(*_digits(), _mixed(seed), FEW, seed)


def _mixed_segment(data: Path | None, seed: int) -> Votes:
    return _trained(*_segment(), _mixed(seed), FEW, seed)


def _mixed_splice(data: Path | None, seed: int) -> Votes:
    import pandas as pd

    table = load("splice", data)
    return _trained(pd.get_dummies(table.X).to_numpy(dtype=np.float64), table.y, _mixed(seed), FEW, seed)


POOLS: Mapping[str, Callable[[Path | None, int], Votes]] = MappingProxyType(
    {
        "networks on digits": _networks,
        "forest on digits": _forest_digits,
        "forest on segment": _forest_segment,
        "mixed models on digits": _mixed_digits,
        "mixed models on segment": _mixed_segment,
        "mixed models on splice": _mixed_splice,
    }
)
