"""A paired test for folds that share their training rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from counterpoint._validation import check_interval, check_real

__all__ = ["PairedTest", "corrected_paired_test"]


class PairedTest(NamedTuple):
    """The outcome of :func:`corrected_paired_test`.

    Attributes
    ----------
    difference : float
        Mean difference.
    standard_error : float
        Its corrected standard error.
    p_value : float
        Two-sided p-value.

    Examples
    --------
    >>> from counterpoint.estimators import corrected_paired_test
    >>> test = corrected_paired_test([0.02, 0.01, 0.03, 0.02, 0.02], test_share=0.25)
    >>> print(f"{test.difference:.3f} ± {test.standard_error:.3f}, p = {test.p_value:.3f}")
    0.020 ± 0.005, p = 0.014
    """

    difference: float
    standard_error: float
    p_value: float


def corrected_paired_test(differences: ArrayLike, test_share: float) -> PairedTest:
    r"""Return the corrected resampled t-test of paired differences over folds.

    Parameters
    ----------
    differences : array-like of shape (n_folds,)
        Score of one method less that of the other, fold by fold.
    test_share : float
        Number of test rows over that of training rows, in a fold.

    Returns
    -------
    PairedTest
        Mean difference, standard error and two-sided p-value.

    Notes
    -----
    Overlapping training sets make the scores of the folds dependent, and the plain t-test finds differences where there
    are none. Nadeau and Bengio (2003), "Inference for the generalization error", correct the variance of the mean of J
    differences to :math:`(1/J + n_{test} / n_{train}) s^2`. Equal differences have no spread: p is 1 if they
    are zero, else 0.

    Examples
    --------
    >>> corrected_paired_test([0.02, 0.01, 0.03, 0.02, 0.02], test_share=0.25).p_value.round(4)
    np.float64(0.0135)
    """
    d = check_real(differences, "differences")
    share = float(check_interval(test_share, "test_share", 0))
    if d.ndim != 1 or len(d) < 2:
        raise ValueError(
            f"`differences` must hold one number for each of at least two folds; got shape {d.shape}."
        )
    mean, error = d.mean(), np.sqrt((1 / len(d) + share) * d.var(ddof=1))
    if error < 1e-12:
        return PairedTest(mean, 0.0, float(abs(mean) < 1e-12))
    return PairedTest(mean, error, 2 * stats.t.sf(abs(mean) / error, len(d) - 1))
