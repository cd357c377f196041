"""The measures by name, with their direction, range and reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, check_choice
from counterpoint.measures import pairwise, pooled
from counterpoint.measures.correlation import learner_learner_correlation
from counterpoint.measures.decomposition import ambiguity_decomposition, ambiguity_of
from counterpoint.measures.labels import label_kappa, label_kappa_from_counts
from counterpoint.outputs import (
    Outputs,
    Statistics,
    mean_of_pairs,
    sufficient_statistics,
    warn_undefined,
)

__all__ = ["MEASURES", "Measure", "diversity"]


@dataclass(frozen=True)
class Measure:
    """The properties of a measure.

    Attributes
    ----------
    function : callable
        The public function.
    kind : {"pairwise", "pooled"}
        Whether it is a matrix over pairs of learners or one number for the ensemble.
    compares : {"correctness", "labels", "outputs"}
        Whether it sees only who is right, the labels, or the labels or probabilities as they are.
    direction : {"lower", "higher"}
        Which values are more diverse.
    range : tuple of float
        The smallest and the largest possible value.
    reference : str
        Where it comes from.
    from_statistics : callable
        Returns the measure as one number, from statistics that were gathered before.

    Examples
    --------
    >>> from counterpoint.measures import MEASURES
    >>> MEASURES["disagreement"].direction, MEASURES["disagreement"].range
    ('higher', (0.0, 1.0))
    """

    function: Callable[..., Any]
    kind: Literal["pairwise", "pooled"]
    compares: Literal["correctness", "labels", "outputs"]
    direction: Literal["lower", "higher"]
    range: tuple[float, float]
    reference: str
    from_statistics: Callable[[Statistics], float] = field(repr=False)


def diversity(
    y_true: ArrayLike,
    outputs: ArrayLike,
    measure: str = "disagreement",
    *,
    labels: ArrayLike | None = None,
) -> float:
    """Measure the diversity of an ensemble as one number.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities, of at least two learners.
    measure : str, default="disagreement"
        A name from `counterpoint.measures.MEASURES`, which also says whether low or high values are
        diverse. Disagreement is the default because it is defined for every ensemble, higher is
        more diverse, and it is easy to interpret: how often exactly one of two learners is right.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the sorted labels of
        ``y_true``.

    Returns
    -------
    float
        The average over the pairs for which a pairwise measure is defined, or the pooled measure.
        NaN with a warning where it is defined for no pair.

    Examples
    --------
    >>> votes = [[0, 0, 1, 0], [0, 1, 1, 1], [0, 0, 0, 1]]
    >>> diversity([0, 0, 1, 1], votes)
    0.5
    >>> round(diversity([0, 0, 1, 1], votes, "learner_learner_correlation"), 3)
    0.111
    >>> MEASURES["learner_learner_correlation"].direction
    'lower'
    """
    known = MEASURES[check_choice(measure, "measure", MEASURES)]
    gathered = sufficient_statistics(
        Outputs(outputs, y_true, labels, at_least=2),
        columns=known.compares == "outputs",
        correctness=known.compares == "correctness",
        pairs=known.kind == "pairwise" or known.compares == "outputs",
        labels=known.compares == "labels",
    )
    value = known.from_statistics(gathered)
    warn_undefined(measure, ["this ensemble"] if np.isnan(value) else [])
    return value


def _pairwise(formula: Callable[[pairwise.Contingency], FloatArray]) -> Callable[[Statistics], float]:
    def from_statistics(gathered: Statistics) -> float:
        assert gathered.correctness is not None
        return pairwise.mean_over_pairs(formula, gathered.correctness)

    return from_statistics


def _pooled(formula: Callable[[Any], float]) -> Callable[[Statistics], float]:
    def from_statistics(gathered: Statistics) -> float:
        assert gathered.correctness is not None
        histogram = gathered.correctness.histogram
        return formula(histogram) if histogram.any() else float("nan")  # no sample that all learners answered

    return from_statistics


def _correlation(gathered: Statistics) -> float:
    assert gathered.columns is not None
    return gathered.columns.averages.every_class


def _label_kappa(gathered: Statistics) -> float:
    assert gathered.labels is not None
    return mean_of_pairs(label_kappa_from_counts(gathered.labels))


def _ambiguity(gathered: Statistics) -> float:
    assert gathered.columns is not None
    n = gathered.n_learners
    return ambiguity_of(gathered.columns, np.full(n, 1 / n)).ambiguity


_COHEN = "Cohen, A coefficient of agreement, 1960"
_KUNCHEVA = "Kuncheva and Whitaker, Measures of diversity in classifier ensembles, 2003"
_PARTRIDGE = "Partridge and Krzanowski, Software diversity, 1997"

# name: (direction, range, reference)
_FACTS: dict[str, tuple[Literal["lower", "higher"], tuple[float, float], str]] = {
    "coincident_failure_diversity": ("higher", (0.0, 1.0), _PARTRIDGE),
    "correctness_fleiss_kappa": ("lower", (-1.0, 1.0), "Fleiss, Statistical methods for rates, 1981"),
    "correctness_kappa": ("lower", (-1.0, 1.0), _COHEN),
    "correlation_rho": ("lower", (-1.0, 1.0), _KUNCHEVA),
    "difficulty": ("lower", (0.0, 0.25), "Hansen and Salamon, Neural network ensembles, 1990"),
    "disagreement": ("higher", (0.0, 1.0), "Skalak, The sources of increased accuracy, 1996"),
    "double_fault": ("lower", (0.0, 1.0), "Giacinto and Roli, Design of effective ensembles, 2001"),
    "entropy": ("higher", (0.0, 1.0), _KUNCHEVA),
    "generalized_diversity": ("higher", (0.0, 1.0), _PARTRIDGE),
    "kohavi_wolpert_variance": ("higher", (0.0, 0.25), "Kohavi and Wolpert, Bias plus variance, 1996"),
    "q_statistic": ("lower", (-1.0, 1.0), "Yule, On the association of attributes, 1900"),
    "ratio_errors": ("higher", (0.0, np.inf), "Aksela, Comparison of classifier selection, 2003"),
}


def _catalogue() -> Mapping[str, Measure]:
    measures = {
        "ambiguity_decomposition": Measure(
            ambiguity_decomposition,
            "pooled",
            "outputs",
            "higher",
            (0.0, 1.0),
            "Krogh and Vedelsby, Neural network ensembles, cross validation, 1995",
            _ambiguity,
        ),
        "label_kappa": Measure(label_kappa, "pairwise", "labels", "lower", (-1.0, 1.0), _COHEN, _label_kappa),
        "learner_learner_correlation": Measure(
            learner_learner_correlation,
            "pairwise",
            "outputs",
            "lower",
            (-1.0, 1.0),
            "Pearson correlation of one-hot labels or probabilities, class by class",
            _correlation,
        ),
    }
    for name, paired in pairwise.FORMULAS.items():
        function = getattr(pairwise, name)
        measures[name] = Measure(function, "pairwise", "correctness", *_FACTS[name], _pairwise(paired))
    for name, whole in pooled.FORMULAS.items():
        function = getattr(pooled, name)
        measures[name] = Measure(function, "pooled", "correctness", *_FACTS[name], _pooled(whole))
    return MappingProxyType(dict(sorted(measures.items())))


MEASURES: Mapping[str, Measure] = _catalogue()
