"""The weights of the learners with which their weighted sum correlates most with the truth."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular
from scipy.optimize import nnls

from counterpoint._validation import ROUNDING, FloatArray
from counterpoint.theory import is_correlation_matrix, nearest_correlation_matrix

__all__ = ["complete_correlations", "vote_weights"]

_MANY = 200  # learners for which nnls, which adds them one by one, takes much longer than whole blocks
_RIDGE, _KKT = 1e-8, 1e-9
_MOST_EXCHANGES, _PATIENCE = 100, 3


def vote_weights(r: FloatArray, matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return the best non-negative weights, which sum to one, and the ceiling of all weights."""
    weights = np.zeros(len(r))
    defined = np.flatnonzero(~np.isnan(r))
    if not len(defined):
        return np.full(len(r), 1 / len(r)), np.nan
    whole = np.ones((len(defined) + 1, len(defined) + 1))
    whole[0, 1:] = whole[1:, 0] = r = r[defined]
    whole[1:, 1:] = matrix if len(defined) == len(weights) else matrix[np.ix_(defined, defined)]
    matrix = whole[1:, 1:]
    np.copyto(matrix, 0.0, where=np.isnan(matrix))
    np.fill_diagonal(matrix, 1.0)
    if not is_correlation_matrix(whole):  # averages over different classes need not fit together
        whole = nearest_correlation_matrix(whole)
        r, matrix = whole[0, 1:], whole[1:, 1:]
    root, target = _square_root(matrix, r)
    ceiling = min(float(np.linalg.norm(target)), 1.0)  # that of `best_weights`
    found = _exchanged_in_blocks(matrix, r) if len(r) > _MANY else None
    # |A w - b|^2 is the squared distance of the weighted sum from the truth
    weights[defined] = nnls(root, target)[0] if found is None else found
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


def _exchanged_in_blocks(matrix: FloatArray, r: FloatArray) -> FloatArray | None:
    """Return the non-negative w with the least w'Mw / 2 - r'w, or None if it was not found.

    Block principal pivoting (Kim and Park 2011, "Fast nonnegative matrix factorization"): all learners with a negative
    weight leave together, and all whose gradient is negative enter. A small ridge lets more learners than samples
    begin; the answer is without it, and satisfies the conditions of the minimum.
    """
    inside, fewest, patience = r > 0, len(r) + 1, _PATIENCE
    for _ in range(_MOST_EXCHANGES):
        w = _solved(matrix, r, inside, _RIDGE)
        if w is None:
            return None
        bad = np.where(inside, w, matrix @ w - r) < -_KKT
        n_bad = int(bad.sum())
        if not n_bad:
            break
        if n_bad < fewest:
            fewest, patience = n_bad, _PATIENCE
        elif patience:
            patience -= 1
        else:  # one alone: this ends for certain
            last = np.flatnonzero(bad)[-1]
            bad[:] = False
            bad[last] = True
        inside = inside ^ bad
    w = _solved(matrix, r, inside, 0.0)
    if w is None or (np.where(inside, w, matrix @ w - r) < -_KKT).any():
        return None
    return w.clip(min=0.0)


def _solved(matrix: FloatArray, r: FloatArray, inside: NDArray[np.bool_], ridge: float) -> FloatArray | None:
    """Return the w that is 0 outside and solves M w = r inside, or None if M is singular there."""
    w, places = np.zeros(len(r)), np.flatnonzero(inside)
    if len(places):
        square = matrix[np.ix_(places, places)]
        square[np.diag_indices_from(square)] += ridge
        try:
            w[places] = cho_solve(cho_factor(square, lower=True), r[places])
        except LinAlgError:
            return None
    return w
