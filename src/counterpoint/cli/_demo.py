"""The demo: ensembles of trees and networks on one data set, and whether explicit diversity pays."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoint.assessment import Assessment, assess_estimator
from counterpoint.cli._printing import console, echo_json
from counterpoint.cli._screen import rounded
from counterpoint.datasets import Dataset, load
from counterpoint.exceptions import LearnerWarning, UndefinedMeasureWarning
from counterpoint.plots import PALETTE, TradeoffDisplay, house_style
from counterpoint.records import write_figure, write_record
from counterpoint.report import EnsembleReport
from counterpoint.theory import OperatingPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

    from counterpoint.estimators import DiverseEnsembleClassifierCV

TITLE = "Ensembles of trees and networks, and whether explicit diversity pays"
N_LEARNERS = 15
TEST_SHARE = 1 / 3
HIDDEN_UNITS = (1, 64)  # of small networks, which underfit, and of the library's default
DIVERSITY = 0.9
MOST_EPOCHS, MOST_STEPS = 100, 1000  # fewer epochs for large tables
BATCH_SIZE, LEARNING_RATE = 64, 0.01
FOLDS = {"n_splits": 5, "n_repeats": 2}


class Comparison(NamedTuple):
    """Diverse against independent training of the same networks, by cross-validation on the training rows.

    Attributes
    ----------
    hidden_units : int
        Number of hidden units of the networks.
    verdict : str
        The verdict of ``DiverseEnsembleClassifierCV``.
    test : dict
        Its test: difference in accuracy, standard error and p-value.
    accuracy, log_loss : dict
        Means over the folds, for each diversity.
    """

    hidden_units: int
    verdict: str
    test: dict[str, float]
    accuracy: dict[float, float]
    log_loss: dict[float, float]

    @classmethod
    def from_search(cls, search: "DiverseEnsembleClassifierCV", hidden_units: int) -> "Comparison":
        """Return the comparison that a fitted search made."""
        found = search.cv_results_
        diversities = found["param_diversity"].tolist()
        accuracy, log_loss = (
            dict(zip(diversities, found[name].tolist(), strict=True))
            for name in ("mean_test_score", "mean_test_log_loss")
        )
        return cls(hidden_units, search.verdict_, search.test_._asdict(), accuracy, log_loss)

    def __str__(self) -> str:
        return f"{_units(self.hidden_units, 'hidden unit')}: {self.verdict}"


class Trained(NamedTuple):
    """The ensembles on held-out rows, the trajectories of the networks in training, and the comparisons on folds."""

    assessments: list[Assessment]
    trajectories: dict[str, OperatingPoint]
    comparisons: list[Comparison]


def demo(out: Path, *, data: str, seed: int, as_json: bool = False) -> list[Path]:
    """Train, assess, print and write; return the paths of the files."""
    screen = console()
    dataset = load(data)
    with_networks = find_spec("torch") is not None
    with screen.status(f"loading {data}") as status:
        assessments, trajectories, comparisons = train(
            dataset, seed, with_networks=with_networks, on_step=lambda step: status.update(f"{data}: {step}")
        )
        status.update("writing the report and the figures")
        first = assessments[0]
        n_train = len(dataset.y) - first.n_samples
        config = {
            "data": data,
            "seed": seed,
            "n_learners": N_LEARNERS,
            "n_train": n_train,
            "n_test": first.n_samples,
            "networks": _settings(n_train) | {"hidden_units": HIDDEN_UNITS, "folds": FOLDS},
        }
        numbers = {
            "assessments": {a.name: a.to_dict() for a in assessments},
            "training": trajectories,
            "comparisons": [comparison._asdict() for comparison in comparisons],
        }
        report = EnsembleReport(
            assessments, title=f"{N_LEARNERS} learners on {data}", trajectories=trajectories
        )
        paths = [
            report.write_html(out / "report.html"),
            *write_figure(draw(assessments, trajectories, data), out, "tradeoff"),
            *write_record(out, "demo", title=TITLE, config=config, data=numbers),
        ]
    if as_json:
        echo_json({"config": config, **numbers, "files": [str(path) for path in paths]})
        return paths
    screen.print(
        f"Each ensemble has {N_LEARNERS} learners, trained on {n_train} rows of {data} ({first.n_classes} classes) and "
        f"judged on the other {first.n_samples}."
    )
    screen.print(tabulate(assessments))  # with an empty line above and below
    screen.print("\n\n".join(explain(assessments, comparisons)), markup=False)
    if not with_networks:
        screen.print(
            '\nTo compare ensembles of networks too: pip install "counterpoint[train]".', markup=False
        )
    screen.print()
    for path in paths:
        screen.print(str(path), soft_wrap=True, highlight=False, markup=False)
    return paths


def train(
    dataset: Dataset, seed: int, *, with_networks: bool, on_step: Callable[[str], Any] = lambda step: None
) -> Trained:
    """Fit the ensembles, assess them on held-out rows, and compare the networks on folds of the training rows.

    ``on_step`` is called with a description of each step as it begins.
    """
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.model_selection import train_test_split

    X_train, X_test, y_train, y_test = train_test_split(
        dataset.X, dataset.y, test_size=TEST_SHARE, stratify=dataset.y, random_state=seed
    )
    table = _make_numeric()
    X_train, X_test = table.fit_transform(X_train), table.transform(X_test)
    size: dict[str, Any] = {"n_estimators": N_LEARNERS, "random_state": seed}
    forests = {"bagged trees": BaggingClassifier(**size), "random forest": RandomForestClassifier(**size)}
    on_step("training trees")
    trained = Trained([], {}, [])
    for name, forest in forests.items():
        fitted = forest.fit(X_train, y_train)
        trained.assessments.append(assess_estimator(fitted, X_test, y_test, name=name))
    if with_networks:
        # The report names the learners that are constant or turned against the truth.
        with _one_thread(), warnings.catch_warnings(category=LearnerWarning, action="ignore"):
            warnings.simplefilter("ignore", UndefinedMeasureWarning)
            for n_units in HIDDEN_UNITS:
                networks = f"networks of {_units(n_units, 'hidden unit')}"
                on_step(f"comparing diverse with independent {networks}")
                search = _search(n_units, len(y_train), seed).fit(X_train, y_train)
                trained.comparisons.append(Comparison.from_search(search, n_units))
                for how, diversity in (("independent", 0.0), ("diverse", DIVERSITY)):
                    on_step(f"training {how} {networks}")
                    name = f"{_units(n_units, 'unit')}, {how}"
                    ensemble = search.estimator(diversity, seed).fit(X_train, y_train)
                    trained.assessments.append(replace(ensemble.assess(X_test, y_test), name=name))
                    trained.trajectories[name] = ensemble.history_.trajectory
    return trained


@contextmanager
def _one_thread() -> Iterator[None]:
    """Train on one thread: as fast for small networks, and much faster on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _search(n_units: int, n_rows: int, seed: int) -> "DiverseEnsembleClassifierCV":
    """Return the search that compares diverse with independent training."""
    from sklearn.model_selection import RepeatedStratifiedKFold

    from counterpoint.estimators import DiverseEnsembleClassifierCV

    settings = _settings(n_rows)
    return DiverseEnsembleClassifierCV(
        n_estimators=N_LEARNERS,
        hidden_layer_sizes=(n_units,),
        diversities=(DIVERSITY,),
        cv=RepeatedStratifiedKFold(**FOLDS, random_state=seed),
        weight_decay=0.1,
        n_pieces=0,
        random_state=seed,
        **settings | {"epochs": (settings["epochs"],)},  # the dial is the only difference
    )


def _settings(n_rows: int) -> dict[str, Any]:
    """Return the training settings of the networks."""
    n_batches = -(-n_rows // BATCH_SIZE)
    epochs = max(1, min(MOST_EPOCHS, MOST_STEPS // n_batches))
    return {"epochs": epochs, "batch_size": BATCH_SIZE, "learning_rate": LEARNING_RATE}


def _units(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _make_numeric() -> Any:
    """Return a transformer that encodes nominal columns as one-hot and fills missing numbers with the median."""
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
        "alike": lambda a: a.correlations.error_correlation,
        "learner": lambda a: float(a.accuracies.mean()),
        "vote": lambda a: a.vote.value,
        "log-loss": lambda a: a.probabilities.log_loss,
    }
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True)
    table.add_column("", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for a in assessments:
        table.add_row(a.name, *(rounded(value(a)) for value in columns.values()))
    return table


def explain(assessments: Sequence[Assessment], comparisons: Sequence[Comparison]) -> list[str]:
    """Return paragraphs that explain the numbers to a new user."""
    return [
        "r_TL is the mean correlation of a learner with the truth, r_LL that of two learners. r_LL limits r_TL "
        "(Theorem 2); share is r_TL divided by that bound. Alike is the correlation of being right. Learner is the "
        "mean accuracy of a learner, vote the accuracy of the ensemble. Log-loss scores the probabilities of the vote: "
        "lower is better, and confident errors cost most. Trees average their probabilities, networks their logits.",
        f"Most diverse (lowest r_LL): {_first(assessments, lambda a: -a.r_ll)}. "
        f"Nearest to the bound: {_first(assessments, lambda a: a.optimality)}. "
        f"Best vote: {_first(assessments, lambda a: a.vote.value)}. "
        f"Lowest log-loss: {_first(assessments, lambda a: -a.probabilities.log_loss)}.",
        *_compare(comparisons),
    ]


def _first(assessments: Sequence[Assessment], score: Callable[[Assessment], float]) -> str:
    """Return the name of the ensemble with the highest score; ties are all named."""
    scores = np.array([score(a) for a in assessments])
    best = np.flatnonzero(np.isclose(scores, np.nanmax(scores))).tolist()
    names = [f"'{assessments[k].name}'" for k in best]
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])


def _compare(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the verdicts of the search, one for each size of the networks."""
    if not comparisons:
        return []
    sizes = " or ".join(str(comparison.hidden_units) for comparison in comparisons)
    return [
        f"Does explicit diversity pay? The networks have {sizes} hidden units. Independent training is diversity 0, "
        f"diverse training diversity {DIVERSITY:g}. DiverseEnsembleClassifierCV compares them on folds of the training "
        "rows:",
        *map(str, comparisons),
    ]


def draw(
    assessments: Sequence[Assessment], trajectories: Mapping[str, OperatingPoint], data: str
) -> "Figure":
    """Draw the plane with the trajectories of training and, beside it, the part around the ensembles."""
    from matplotlib.figure import Figure

    points = {a.name: (a.r_tl, a.r_ll) for a in assessments}
    with house_style():
        figure = Figure(figsize=(12.0, 4.6))
        whole, near = figure.subplots(1, 2)
        for ax in (whole, near):
            TradeoffDisplay(N_LEARNERS, points=points).plot(ax, legend=False)
        marks = {line.get_label(): line for line in whole.lines if line.get_label() in points}
        for name, path in trajectories.items():
            whole.plot(path.r_ll, path.r_tl, color=marks[name].get_color(), lw=1.2, alpha=0.7, zorder=2.5)
        whole.set_title(f"Ensembles on {data}" + (", with their training" if trajectories else ""))
        near.set_title("Close-up, with the distance to the bound")
        _zoom(near, assessments)
        near.legend(
            [marks[a.name] for a in assessments],
            [f"{a.name}: {a.optimality:.1%}" for a in assessments],
            title="r$_{TL}$ as a share of its bound",
            alignment="left",
            loc="center left",
            bbox_to_anchor=(1.02, 0.5),
        )
    return figure


def _zoom(ax: "Axes", assessments: Sequence[Assessment]) -> None:
    """Zoom in on the ensembles and mark the gap between each and the bound."""
    left, right = min(a.r_ll for a in assessments), max(a.r_ll for a in assessments)
    low, high = min(a.r_tl for a in assessments), max(a.correlations.bound for a in assessments)
    height = max(high - low, 0.02)
    width = max(right - left, height)
    for a in assessments:
        ax.vlines(a.r_ll, a.r_tl, a.correlations.bound, color=PALETTE["muted"], ls=":", lw=1.5, zorder=2)
    ax.set(
        xlim=(left - 0.15 * width, min(right + 0.15 * width, 1.05)),
        ylim=(low - 0.25 * height, high + 0.15 * height),
    )
