"""The random-forest study: eleven small forests, on their training images and on held-out ones.

Notation: ``r_tl`` and ``r_ll`` as in the paper, averaged over trees, pairs of trees and classes; ``m`` the number
of features of each tree in a feature forest; ``d`` the largest depth of a tree in a depth forest.

The paper leaves two things open: whether feature and depth forests draw bootstrap samples too, and whether the m
features are drawn once for a tree or again at each split. ``READINGS`` lists the readings that are tried; the table
and the figure show the first.
"""

import platform
import time
import warnings
from collections.abc import Iterable, Mapping
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
    """A forest of the paper's Table 1: its kind, and its m or d."""

    kind: str
    size: int | None = None

    @property
    def setting(self) -> str:
        """Label of its point: ``m = 3``, ``d = 5``."""
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
    """Training rows and held-out rows."""

    name: str
    x_train: NDArray[np.float32]
    y_train: Labels
    x_test: NDArray[np.float32]
    y_test: Labels


class Measurement(NamedTuple):
    """One forest on one part of the images."""

    r_tl: float
    r_ll: float
    bound: float
    optimality: float
    tree: float
    vote: float
    undefined: float


class Study(NamedTuple):
    """Measurements for each reading, and the settings behind them."""

    config: dict[str, Any]
    device: str
    seconds: float
    data: dict[str, Measured]


def study(readings: tuple[str, ...], *, data: Path | None, seed: int, smoke: bool) -> Study:
    """Grow every forest of some readings once for each seed, and measure it on both parts."""
    from joblib import cpu_count

    images = load_images(data, smoke=smoke)
    seeds = list(range(seed, seed + (N_REPEATS_SMOKE if smoke else N_REPEATS)))
    found: dict[str, Measured] = {
        reading: {
            forest.name: {part: {field: [] for field in Measurement._fields} for part in PARTS}
            for forest in READINGS[reading]
        }
        for reading in readings
    }
    start = time.perf_counter()
    for reading, forest, one_seed in _progress(
        [(r, f, s) for r in readings for f in READINGS[r] for s in seeds]
    ):
        for part, measurement in grow(forest, reading, images, one_seed).items():
            for field, value in measurement._asdict().items():
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
    """Return CIFAR-10, or for a smoke run the 8 x 8 digits of scikit-learn."""
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


def make_forest(forest: Forest, reading: str, seed: int) -> Any:
    """Return a forest as an unfitted scikit-learn ensemble."""
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


def grow(forest: Forest, reading: str, images: Images, seed: int) -> dict[str, Measurement]:
    """Fit one forest on the training images, and measure it on both parts."""
    fitted = make_forest(forest, reading, seed).fit(images.x_train, images.y_train)
    return {
        "train": measure(images.y_train, tree_votes(fitted, images.x_train)),
        "held_out": measure(images.y_test, tree_votes(fitted, images.x_test)),
    }


def tree_votes(fitted: Any, X: NDArray[np.float32]) -> Labels:
    """Return the vote of each tree on each row, (trees, rows)."""
    trees = fitted.estimators_
    columns = getattr(fitted, "estimators_features_", [slice(None)] * len(trees))
    codes = [tree.predict(X[:, chosen]).astype(np.int64) for tree, chosen in zip(trees, columns, strict=True)]
    votes: Labels = fitted.classes_[np.stack(codes)]
    return votes


def measure(y_true: Labels, votes: Labels) -> Measurement:
    """Return the correlations of an ensemble, its bound and the accuracy of its learners and its vote.

    A shallow tree never predicts some classes, and has no correlation in them: the averages leave them out, and
    ``undefined`` is the share of pairs of tree and class that are left out.
    """
    n_learners = len(votes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)  # they are counted instead
        of_class = truth_learner_correlation(y_true, votes, per_class=True)
        r_tl = np.nanmean(truth_learner_correlation(y_true, votes))
        r_ll = np.nanmean(learner_learner_correlation(votes)[np.triu_indices(n_learners, 1)])
    return Measurement(
        r_tl=float(r_tl),
        r_ll=float(r_ll),
        bound=float(truth_correlation_bounds(r_ll, n_learners).high),
        optimality=float(optimality(r_tl, r_ll, n_learners)),
        tree=float((votes == y_true).mean()),
        vote=shared_vote_accuracy(y_true, votes),
        undefined=float(np.isnan(of_class).mean()),
    )


def shared_vote_accuracy(y_true: Labels, votes: Labels) -> float:
    """Return the accuracy of the most frequent vote; of k tied labels each is right by 1/k.

    It is the mean accuracy if ties are broken at random.
    """
    labels = np.unique(votes)
    counts = np.stack([(votes == label).sum(axis=0) for label in labels])  # (labels, samples)
    most = counts.max(axis=0)
    right = (votes == y_true).sum(axis=0) == most
    return float((right / (counts == most).sum(axis=0)).mean())


def _progress(work: list[tuple[str, Forest, int]]) -> Iterable[tuple[str, Forest, int]]:
    """Iterate over the work with a bar on a terminal, and without output elsewhere."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(work, "growing forests", console=console, transient=True, disable=not console.is_terminal)
