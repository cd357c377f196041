"""The methods, their settings, and the candidates that each tries inside a training part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = [
    "BASELINE", "CANDIDATES", "EXPLICIT", "METHODS", "SEARCHES", "SMOKE", "USUAL", "Method", "Recipe", "Settings",
    "available", "candidates_of", "check_methods", "correlation", "diversity", "pool_of", "recipes",
]  # fmt: skip

BASELINE = "independent"
SEARCHES = ("diverse-cv", "correlation-cv")  # the diversity chosen on inner folds
# The first of equals is chosen; the default of the estimators comes first.
WEIGHT_DECAYS = (0.1, 0.03, 0.3, 0.0, 1.0)

Parameters = Mapping[str, Any]


def diversity(dial: float) -> str:
    """Return the name of training by ``DiversityLoss``.

    Examples
    --------
    >>> diversity(0.5)
    'diversity-0.5'
    """
    return f"diversity-{dial}"


def correlation(dial: float) -> str:
    """Return the name of training by ``CorrelationLoss``.

    Examples
    --------
    >>> correlation(0.5)
    'correlation-0.5'
    """
    return f"correlation-{dial}"


# Fixed diversities that compete; the search over the paper's loss tries its own besides independent training.
FIXED_DIVERSITIES = (0.5, 0.9)
CORRELATIONS = (0.25, 0.5, 0.9, 1.0)

# Methods with explicit diversity, in families: of the fixed diversities of one loss, reports name the best.
EXPLICIT: tuple[tuple[str, ...], ...] = (
    ("diverse-cv",),
    ("diversity",),
    (*map(diversity, FIXED_DIVERSITIES), "joint-logits"),
    ("correlation-cv",),
    tuple(map(correlation, CORRELATIONS)),
)


class Method(NamedTuple):
    """A method of the arena.

    Attributes
    ----------
    title : str
        A short description.
    batched : bool
        Whether it trains networks in a batched program.
    package : str or None
        The package that it needs besides those of the library.
    combined : bool
        Whether it combines the predictions of the other methods.

    Examples
    --------
    >>> from counterpoint.arena import METHODS
    >>> METHODS["independent"].batched, METHODS["independent"].package
    (True, None)
    """

    title: str
    batched: bool = False
    package: str | None = None
    combined: bool = False


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "one-net": Method("one network", batched=True),
        BASELINE: Method("networks trained independently, soft vote", batched=True),
        "bagged": Method("networks on bootstrap samples", batched=True),
        "joint": Method("networks trained by the cross-entropy of their mean", batched=True),
        "joint-logits": Method(
            "networks trained by the cross-entropy of their averaged logits", batched=True
        ),
        "ncl": Method("negative correlation learning", batched=True),
        "diversity": Method("DiversityLoss at its default diversity", batched=True),
        **{
            diversity(dial): Method(f"DiversityLoss at diversity {dial:g}", batched=True)
            for dial in FIXED_DIVERSITIES
        },
        "diverse-cv": Method("DiversityLoss, searched by DiverseEnsembleClassifierCV", package="torch"),
        **{
            correlation(dial): Method(f"the paper's loss at diversity {dial:g}", batched=True)
            for dial in CORRELATIONS
        },
        "correlation-cv": Method("the paper's loss, its diversity chosen by inner folds", batched=True),
        "decorate-tree": Method("DECORATE with decision trees"),
        "decorate-net": Method("DECORATE with networks"),
        "random-forest": Method("random forest"),
        "extra-trees": Method("extremely randomised trees"),
        "hist-gradient-boosting": Method("gradient boosting on histograms, scikit-learn"),
        "lightgbm": Method("LightGBM", package="lightgbm"),
        "catboost": Method("CatBoost", package="catboost"),
        "tabm": Method("TabM", package="tabm"),
        "greedy-selection": Method(
            "weighted vote of the other methods, chosen greedily (Caruana)", combined=True
        ),
        "stack": Method("logistic regression on the probabilities of the other methods", combined=True),
    }
)

# The default for a table of one's own: in common use, and fast enough for a few thousand rows.
USUAL = (
    BASELINE, "diversity", "diverse-cv", "random-forest", "extra-trees", "hist-gradient-boosting", "lightgbm",
    "catboost", "tabm", "greedy-selection", "stack",
)  # fmt: skip


_FOREST: tuple[Parameters, ...] = (
    {}, {"max_features": 0.3}, {"max_features": 0.6}, {"min_samples_leaf": 2}, {"min_samples_leaf": 5},
)  # fmt: skip

# Candidates of the other methods, the usual setting first.
CANDIDATES: Mapping[str, tuple[Parameters, ...]] = MappingProxyType(
    {
        "decorate-tree": ({}, *({"artificial_ratio": ratio} for ratio in (0.25, 0.5, 0.75, 2.0))),
        "decorate-net": (
            {"alpha": 0.01},
            {"alpha": 0.0001},
            {"alpha": 0.1},
            {"alpha": 1.0},
            {"alpha": 0.01, "artificial_ratio": 0.5},
        ),
        "random-forest": _FOREST,
        "extra-trees": _FOREST,
        "hist-gradient-boosting": (
            {},
            {"min_samples_leaf": 5},
            {"min_samples_leaf": 5, "max_leaf_nodes": 7},
            {"min_samples_leaf": 5, "learning_rate": 0.05},
            {"min_samples_leaf": 10, "learning_rate": 0.05, "l2_regularization": 1.0},
        ),
        "lightgbm": (
            {},
            {"min_child_samples": 5},
            {"min_child_samples": 5, "num_leaves": 7},
            {"min_child_samples": 5, "learning_rate": 0.05},
            {"min_child_samples": 10, "learning_rate": 0.05, "reg_lambda": 1.0},
        ),
        "catboost": (
            {},
            {"one_hot_max_size": 10, "l2_leaf_reg": 10.0},
            {"one_hot_max_size": 10, "depth": 4},
            {"one_hot_max_size": 10, "learning_rate": 0.1},
            {"one_hot_max_size": 10, "learning_rate": 0.1, "l2_leaf_reg": 10.0},
        ),
        "tabm": tuple({"weight_decay": decay} for decay in WEIGHT_DECAYS),
    }
)


class Recipe(NamedTuple):
    """A way to train networks."""

    training: str  # a batched method other than the search
    weight_decay: float


@dataclass(frozen=True)
class Settings:
    """Settings that all methods and tables share; a store holds jobs of one setting only.

    Parameters
    ----------
    n_folds : int, default=10
        Number of outer folds.
    n_learners : int, default=15
        Number of learners of an ensemble of networks and of DECORATE.
    hidden : int, default=64
        Number of hidden units of a network.
    epochs : int, default=100
        Number of epochs.
    learning_rate : float, default=0.003
        Learning rate of AdamW.
    n_trees : int, default=300
        Number of trees of a forest.
    n_rounds : int, default=1000
        Largest number of rounds of boosting, which stops early.
    smoke : bool, default=False
        Whether this is a smoke run.

    Examples
    --------
    >>> Settings(n_folds=5).n_folds, Settings().epochs
    (5, 100)
    """

    n_folds: int = 10
    n_learners: int = 15
    hidden: int = 64
    epochs: int = 100
    learning_rate: float = 0.003
    n_trees: int = 300
    n_rounds: int = 1000
    smoke: bool = False

    def batch_size(self, n_rows: int) -> int:
        """Return the largest size of a batch for a table of ``n_rows`` rows.

        Examples
        --------
        >>> [Settings().batch_size(n) for n in (150, 2310, 50_000)]
        [32, 64, 128]
        """
        return 32 if n_rows < 1000 else 64 if n_rows < 5000 else 128


# Small enough for a check of the program; the numbers mean nothing.
SMOKE = Settings(n_folds=3, n_learners=3, hidden=4, epochs=3, n_trees=5, n_rounds=5, smoke=True)


def available(names: Sequence[str] = tuple(METHODS)) -> list[str]:
    """Return the methods that are known and whose packages are installed.

    Examples
    --------
    >>> available(["one-net", "ncl"])
    ['one-net', 'ncl']
    """
    known = [name for name in names if name in METHODS]
    return [name for name in known if (needed := _package(METHODS[name])) is None or find_spec(needed)]


def _package(method: Method) -> str | None:
    """Return the optional package of a method: batched ones are networks."""
    return "torch" if method.batched else method.package


def check_methods(names: Sequence[str]) -> list[str]:
    """Return the methods in the order of ``METHODS``; raise if one is unknown or lacks its package.

    Examples
    --------
    >>> check_methods(["ncl", "one-net", "ncl"])
    ['one-net', 'ncl']
    """
    for name in names:
        if name not in METHODS:
            raise ValueError(f"`methods` must be among {', '.join(METHODS)}; got {name!r}.")
        if not available([name]):
            package = _package(METHODS[name])
            raise ImportError(f"`{package}` is needed here; install it with: pip install {package}.")
    return [name for name in METHODS if name in names]


def pool_of(methods: Sequence[str]) -> list[str]:
    """Return the methods that the combined ones of a run combine; raise ValueError if there are too few.

    Examples
    --------
    >>> pool_of(["ncl", "random-forest", "stack"])
    ['ncl', 'random-forest']
    """
    pool = [method for method in methods if not METHODS[method].combined]
    if len(pool) < 2 and (combined := [method for method in methods if METHODS[method].combined]):
        raise ValueError(
            f"`methods` must name at least two methods for {combined[0]} to combine; got {len(pool)}."
        )
    return pool


def recipes(method: str) -> list[Recipe]:
    """Return the candidates of a batched method: the search tries diversities, the others try weight decays.

    Examples
    --------
    >>> len(recipes("joint")), recipes("correlation-cv")[:2]
    (5, [Recipe(training='independent', weight_decay=0.1), Recipe(training='correlation-0.25', weight_decay=0.1)])
    """
    if method == "correlation-cv":
        return [
            Recipe(training, WEIGHT_DECAYS[0]) for training in (BASELINE, *map(correlation, CORRELATIONS))
        ]
    return [Recipe(method, decay) for decay in WEIGHT_DECAYS]


def candidates_of(method: str, pool: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the candidates of a method in their order, as a record holds them.

    Those of a combined method are the methods of its ``pool``; those of ``diverse-cv`` are the defaults of its class.

    Examples
    --------
    >>> candidates_of("decorate-net")[0], candidates_of("joint")[0]
    ({'alpha': 0.01}, {'training': 'joint', 'weight_decay': 0.1})
    >>> candidates_of("stack", ["ncl", "bagged"])
    [{'method': 'ncl'}, {'method': 'bagged'}]
    """
    if METHODS[method].batched:
        return [recipe._asdict() for recipe in recipes(method)]
    if METHODS[method].combined:
        return [{"method": one} for one in pool]
    if method == "diverse-cv":
        from counterpoint.estimators import DiverseEnsembleClassifierCV

        return [DiverseEnsembleClassifierCV().get_params()]
    return [dict(parameters) for parameters in CANDIDATES[method]]
