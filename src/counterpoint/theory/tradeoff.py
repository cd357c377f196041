r"""Where the training loss leads, and what reweighting can reach.

Notation: ``lam`` is the paper's :math:`\lambda` in the loss :math:`-(r_{TL} - \lambda r_{LL})`; ``reduction``
says whether the correlations in it are averaged (the paper's equation) or summed (its algorithm box).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import (
    ROUNDING,
    FloatArray,
    check_broadcast,
    check_choice,
    check_count,
    check_interval,
    check_square,
)
from counterpoint.theory.bounds import is_correlation_matrix

__all__ = ["BestWeights", "OperatingPoint", "best_weights", "critical_lambda", "operating_point"]


class OperatingPoint(NamedTuple):
    """A point of the plane of Theorem 2.

    Examples
    --------
    >>> OperatingPoint(r_tl=1.0, r_ll=1.0).r_ll
    1.0
    """

    r_tl: Any
    r_ll: Any


class BestWeights(NamedTuple):
    """The weights of the best weighted sum of learners, and its correlation with the truth.

    Examples
    --------
    >>> import numpy as np
    >>> BestWeights(weights=np.array([1.0]), ceiling=0.9).ceiling
    0.9
    """

    weights: FloatArray
    ceiling: float


def critical_lambda(n_learners: ArrayLike, *, reduction: str = "mean") -> Any:
    r"""Return the lambda above which the loss itself favours poor learners.

    Parameters
    ----------
    n_learners : int or array of int
        The number of learners, at least 2.
    reduction : {"mean", "sum"}, default="mean"
        Whether the loss averages the correlations or sums them.

    Returns
    -------
    float or array
        The critical lambda.

    Notes
    -----
    On the upper curve of Theorem 2, :math:`r_{TL} - \lambda r_{LL}` is largest at perfect learners
    (:math:`r_{TL} = r_{LL} = 1`) as long as :math:`\lambda \le \lambda_c`, with

    .. math:: \lambda_c = \frac{N - 1}{2N} \text{ (mean)}, \qquad \lambda_c = \frac{1}{N} \text{ (sum)}.

    The two reductions are related by :math:`\lambda_{mean} = \lambda_{sum} (N - 1) / 2`: equal at
    :math:`N = 3`, seven times apart at :math:`N = 15`.

    It is also where negative correlation learning becomes end-to-end training. With columns :math:`z_i` of mean 0 and
    mean square 1, their mean :math:`\bar z`, the truth T scaled in the same way, :math:`|\cdot|^2` the mean square over
    the samples and :math:`d = \lambda / \lambda_c`, the loss (mean form, one class) is

    .. math:: 2 (\lambda r_{LL} - r_{TL}) + 2 (1 - \lambda)
              = (1 - d) \frac1N \sum_i |T - z_i|^2 + d \, |T - \bar z|^2.

    So d, the library's ``diversity``, is Liu and Yao's strength on standardised outputs [1]_. At :math:`d = 1` only
    :math:`\bar z` counts. The identity holds for each class, and for the averages over classes; a constant column has
    no :math:`z_i` and is outside it.

    References
    ----------
    .. [1] Y. Liu and X. Yao (1999). Ensemble learning via negative correlation. Neural Networks 12(10), 1399-1404.

    Examples
    --------
    >>> float(critical_lambda(15).round(4)), float(critical_lambda(15, reduction="sum").round(4))
    (0.4667, 0.0667)
    """
    check_choice(reduction, "reduction", ("mean", "sum"))
    n = check_count(n_learners, "n_learners", minimum=2)
    return ((n - 1) / (2 * n) if reduction == "mean" else 1 / n)[()]


def operating_point(lam: ArrayLike, n_learners: ArrayLike, *, reduction: str = "mean") -> OperatingPoint:
    r"""Return the point of the plane at which the loss is lowest.

    Parameters
    ----------
    lam : array_like
        The weight of the learner-learner correlation in the loss, at least 0.
    n_learners : int or array of int
        The number of learners, at least 2.
    reduction : {"mean", "sum"}, default="mean"
        Whether the loss averages the correlations or sums them.

    Returns
    -------
    OperatingPoint
        ``r_tl`` and ``r_ll`` on the upper curve of Theorem 2.

    Notes
    -----
    Maximising :math:`r_{TL} - \lambda r_{LL}` along the upper curve gives

    .. math:: r_{TL}^* = \min(1, \lambda_c / \lambda), \qquad r_{LL}^* = \frac{N {r_{TL}^*}^2 - 1}{N - 1}.

    It is where flexible networks end up when the loss is fully minimised on the training data. The
    maximum is unique except at :math:`\lambda = 0`, where only :math:`r_{TL} = 1` matters, which forces
    :math:`r_{LL} = 1`.

    Examples
    --------
    >>> point = operating_point(0.9, n_learners=15)
    >>> float(point.r_tl.round(3)), float(point.r_ll.round(3))
    (0.519, 0.217)
    """
    check_broadcast(lam=lam, n_learners=n_learners)
    n = check_count(n_learners, "n_learners", minimum=2)
    lam_ = check_interval(lam, "lam", 0)
    critical = critical_lambda(n, reduction=reduction)
    r_tl = critical / np.maximum(lam_, critical)
    return OperatingPoint(r_tl, (n * r_tl**2 - 1) / (n - 1))


def best_weights(truth_correlations: ArrayLike, learner_correlations: ArrayLike) -> BestWeights:
    r"""Return the weights of the sum of learners that correlates best with the truth.

    Parameters
    ----------
    truth_correlations : array_like, shape (n_learners,)
        The correlation of each learner with the truth, :math:`r`.
    learner_correlations : array_like, shape (n_learners, n_learners)
        The correlation matrix of the learners, :math:`R`; singular is allowed.

    Returns
    -------
    BestWeights
        ``weights`` for the *standardised* learners, those of the regression of the truth on them, and
        ``ceiling``, the correlation of their weighted sum with the truth.

    Notes
    -----
    .. math:: w = R^+ r, \qquad \operatorname{corr}(w^\top L, T) = \sqrt{r^\top R^+ r},

    the multiple correlation: no reweighting of *these* learners does better. With equal learners the
    weights are equal and the ceiling is the optimality of Theorem 2. Learners that repeat each other
    share their weight. If no learner has any correlation with the truth, the weights are zero.

    Examples
    --------
    >>> result = best_weights([0.6, 0.6, 0.3], [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
    >>> result.weights.round(3)
    array([0.4, 0.4, 0.3])
    >>> round(result.ceiling, 3)
    0.755
    """
    matrix = check_square(learner_correlations, "learner_correlations")
    r = check_interval(truth_correlations, "truth_correlations", -1, 1)
    if matrix.ndim != 2 or r.shape != matrix.shape[:1]:
        raise ValueError(
            "`truth_correlations` must have one entry for each row of `learner_correlations`; "
            f"got shapes {r.shape} and {matrix.shape}."
        )
    together = np.block([[np.ones((1, 1)), r[None, :]], [r[:, None], matrix]])
    if not is_correlation_matrix(together):
        raise ValueError(
            "`learner_correlations` must form a valid correlation matrix together with "
            "`truth_correlations`; got one with a negative eigenvalue, an asymmetry or a diagonal "
            "other than 1 (see `nearest_correlation_matrix`)."
        )
    # An eigenvalue that the check above counts as zero is zero here too.
    values, vectors = np.linalg.eigh(matrix)
    kept = np.abs(values) > ROUNDING * len(together) * np.abs(values).max()
    weights = vectors[:, kept] @ ((r @ vectors[:, kept]) / values[kept])
    return BestWeights(weights, float(np.sqrt(np.clip(r @ weights, 0.0, 1.0))))
