"""The weights of the learners with which their weighted sum correlates most with the truth."""

import numpy as np
from scipy.linalg import lapack, solve_triangular
from scipy.optimize import nnls

from counterpoint._validation import ROUNDING, FloatArray
from counterpoint.theory import is_correlation_matrix, nearest_correlation_matrix

__all__ = ["complete_correlations", "vote_weights"]


def vote_weights(r: FloatArray, matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return the best non-negative weights, which sum to one, and the ceiling of all weights."""
    weights = np.zeros(len(r))
    defined = np.flatnonzero(~np.isnan(r))
    if not len(defined):
        return np.full(len(r), 1 / len(r)), np.nan
    r, matrix = r[defined], complete_correlations(matrix[np.ix_(defined, defined)])
    whole = np.block([[np.ones((1, 1)), r[None]], [r[:, None], matrix]])
    if not is_correlation_matrix(whole):  # averages over different classes need not fit together
        whole = nearest_correlation_matrix(whole)
        r, matrix = whole[0, 1:], whole[1:, 1:]
    root, target = _square_root(matrix, r)
    ceiling = min(float(np.linalg.norm(target)), 1.0)  # that of `best_weights`
    # |A w - b|^2 is the squared distance of the weighted sum from the truth
    weights[defined], _ = nnls(root, target)
    total = weights.sum()
    return (weights / total if total > 0 else np.full(len(weights), 1 / len(weights))), ceiling


def _square_root(matrix: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return A and b with A'A = matrix and A'b = r.

    By Cholesky's method with pivots, which ends at the rank: several times faster than eigenvalues where there are many
    learners.
    """
    slack = ROUNDING * len(r)
    lower, pivots, rank, _ = lapack.dpstrf(matrix, tol=slack, lower=1)
    lower = np.tril(lower)[:, :rank]
    order = pivots - 1  # LAPACK counts from one
    root = np.empty((rank, len(r)))
    root[:, order] = lower.T
    return root, solve_triangular(lower[:rank], r[order[:rank]], lower=True)


def complete_correlations(matrix: FloatArray) -> FloatArray:
    """Return the matrix with 0 in place of NaN, and a unit diagonal."""
    filled = np.nan_to_num(matrix, nan=0.0)
    np.fill_diagonal(filled, 1.0)
    return filled
