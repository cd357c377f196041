"""The random-forest study: eleven small forests, on the images they were grown on and on held-out ones.

Notation: ``r_tl`` and ``r_ll`` as in the paper, averaged over trees, pairs of trees and classes; ``m`` the number
of features a tree of a feature forest is given; ``d`` the largest depth of a tree of a depth forest.

The paper leaves two things open: whether feature and depth forests draw bootstrap samples too, and whether the m
features are drawn once for a tree or anew at each split. ``READINGS`` holds the answers that are tried; the first
is the one of the table and the figure.
"""

import platform
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.theory import optimality, truth_correlation_bounds

N_TREES = 5
N_REPEATS = 5
N_REPEATS_SMOKE = 2
PARTS = MappingProxyType({"train": "training", "held_out": "held-out"})
DIGITS = 6  # of a number in the record

Labels = NDArray[np.int64]
# forest -> part -> quantity -> one number for each seed
Measured = dict[str, dict[str, dict[str, list[float]]]]


class Forest(NamedTuple):
    """A forest of the paper's Table 1: its kind, and the m or d that sets it apart."""

    kind: str
    size: int | None = None

    @property
    def setting(self) -> str:
        """What is written beside its point: ``m = 3``, ``d = 5``."""
        return "" if self.size is None else f"{SYMBOLS[self.kind]} = {self.size}"

    @property
    def name(self) -> str:
        """Its name in tables and records."""
        return self.kind if self.size is None else f"{self.kind}, {self.setting}"


SYMBOLS = MappingProxyType({"feature": "m", "depth": "d"})
FEATURE = tuple(Forest("feature", m) for m in (1, 3, 5, 7, 20))
DEPTH = tuple(Forest("depth", d) for d in (3, 5, 7, 9, 11))
FORESTS = (Forest("original"), *FEATURE, *DEPTH)

# reading -> the forests that it changes
MAIN = "bootstrap"
READINGS: Mapping[str, tuple[Forest, ...]] = MappingProxyType(
    {MAIN: FORESTS, "all rows": (*FEATURE, *DEPTH), "each split": FEATURE}
)


class Images(NamedTuple):
    """Rows to grow forests on and rows kept from them."""

    name: str
    x_train: NDArray[np.float32]
    y_train: Labels
    x_test: NDArray[np.float32]
    y_test: Labels


class Standing(NamedTuple):
    """Where one forest stands on one part of the images."""

    r_tl: float
    r_ll: float
    bound: float
    optimality: float
    tree: float
    vote: float
    undefined: float


class Study(NamedTuple):
    """What was measured, for each reading, and how."""

    config: dict[str, Any]
    device: str
    seconds: float
    data: dict[str, Measured]


def study(readings: tuple[str, ...], *, data: Path | None, seed: int, smoke: bool) -> Study:
    """Grow every forest of some readings, once for each seed, and measure it on both parts."""
    from joblib import cpu_count

    images = load_images(data, smoke=smoke)
    seeds = list(range(seed, seed + (N_REPEATS_SMOKE if smoke else N_REPEATS)))
    found: dict[str, Measured] = {
        reading: {
            forest.name: {part: {field: [] for field in Standing._fields} for part in PARTS}
            for forest in READINGS[reading]
        }
        for reading in readings
    }
    start = time.perf_counter()
    for reading, forest, one_seed in _progress(
        [(r, f, s) for r in readings for f in READINGS[r] for s in seeds]
    ):
        for part, standing in grow(forest, reading, images, one_seed).items():
            for field, value in standing._asdict().items():
                found[reading][forest.name][part][field].append(round(value, DIGITS))
    config = {
        "smoke": smoke,
        "images": images.name,
        "n_train": len(images.y_train),
        "n_held_out": len(images.y_test),
        "n_features": images.x_train.shape[1],
        "n_trees": N_TREES,
        "seeds": seeds,
    }
    device = f"{platform.machine()} CPU, {cpu_count()} threads"
    return Study(config, device, round(time.perf_counter() - start, 1), found)


def load_images(data: Path | None, *, smoke: bool) -> Images:
    """Return CIFAR-10, or for a smoke run the 8 x 8 digits that scikit-learn carries."""
    if not smoke:
        from counterpoint.datasets import load_cifar10

        cifar = load_cifar10(data)
        x_train, x_test = (x.reshape(len(x), -1).astype(np.float32) for x in (cifar.x_train, cifar.x_test))
        return Images("CIFAR-10", x_train, cifar.y_train, x_test, cifar.y_test)
    if data is not None:
        raise ValueError("`--data` has no meaning with `--smoke`.")
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        X.astype(np.float32), y.astype(np.int64), test_size=1 / 3, stratify=y, random_state=0
    )
    return Images("8 x 8 digits", x_train, y_train, x_test, y_test)


def make(forest: Forest, reading: str, seed: int) -> Any:
    """Return the forest as an unfitted scikit-learn ensemble."""
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    bootstrap = reading != "all rows" or forest.kind == "original"
    if forest.kind == "feature" and reading != "each split":
        return BaggingClassifier(
            DecisionTreeClassifier(),
            N_TREES,
            max_features=forest.size,
            bootstrap=bootstrap,
            random_state=seed,
        )
    special = {"original": {}, "feature": {"max_features": forest.size}, "depth": {"max_depth": forest.size}}
    return RandomForestClassifier(
        N_TREES, bootstrap=bootstrap, random_state=seed, n_jobs=-1, **special[forest.kind]
    )


def grow(forest: Forest, reading: str, images: Images, seed: int) -> dict[str, Standing]:
    """Fit one forest on the training images; return where it stands on both parts."""
    fitted = make(forest, reading, seed).fit(images.x_train, images.y_train)
    return {
        "train": place(images.y_train, tree_votes(fitted, images.x_train)),
        "held_out": place(images.y_test, tree_votes(fitted, images.x_test)),
    }


def tree_votes(fitted: Any, X: NDArray[np.float32]) -> Labels:
    """Return the label each tree gives to each row, (trees, rows)."""
    trees = fitted.estimators_
    columns = getattr(fitted, "estimators_features_", [slice(None)] * len(trees))
    codes = [tree.predict(X[:, chosen]).astype(np.int64) for tree, chosen in zip(trees, columns, strict=True)]
    votes: Labels = fitted.classes_[np.stack(codes)]
    return votes


def place(y_true: Labels, votes: Labels) -> Standing:
    """Return the correlations of an ensemble, its bound and the accuracy of its learners and its vote.

    A shallow tree never names some classes, and has no correlation in them: the averages are over the others, and
    ``undefined`` is the share of pairs of tree and class that were left out.
    """
    n_learners = len(votes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)  # it is counted instead
        of_class = truth_learner_correlation(y_true, votes, per_class=True)
        r_tl = np.nanmean(truth_learner_correlation(y_true, votes))
        r_ll = np.nanmean(learner_learner_correlation(votes)[np.triu_indices(n_learners, 1)])
    return Standing(
        r_tl=float(r_tl),
        r_ll=float(r_ll),
        bound=float(truth_correlation_bounds(r_ll, n_learners).high),
        optimality=float(optimality(r_tl, r_ll, n_learners)),
        tree=float((votes == y_true).mean()),
        vote=shared_vote_accuracy(y_true, votes),
        undefined=float(np.isnan(of_class).mean()),
    )


def shared_vote_accuracy(y_true: Labels, votes: Labels) -> float:
    """Return the accuracy of the largest group of votes; k labels that tie are right by 1/k each.

    It is what a coin thrown among the tied labels gives on average.
    """
    labels = np.unique(votes)
    counts = np.stack([(votes == label).sum(axis=0) for label in labels])  # (labels, samples)
    most = counts.max(axis=0)
    right = (votes == y_true).sum(axis=0) == most
    return float((right / (counts == most).sum(axis=0)).mean())


def _progress(work: list[tuple[str, Forest, int]]) -> Iterator[tuple[str, Forest, int]]:
    """Go through the work with a bar on the terminal; say nothing into a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("growing forests", total=len(work))
        for reading, forest, seed in work:
            bar.update(task, description=f"{forest.name} ({reading}), seed {seed}")
            yield reading, forest, seed
            bar.advance(task)
