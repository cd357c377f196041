r"""Agreement of every two learners on the labels themselves; the truth is not needed.

Notation, for learners i and j: :math:`A_{ij}` share of the samples with equal labels, :math:`q_{ik}` share of the
samples to which learner i gives label k.
"""

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray
from counterpoint.outputs import (
    FEWEST_SHARED,
    LabelCounts,
    Outputs,
    ratio,
    sufficient_statistics,
    warn_undefined_pairs,
)

__all__ = ["label_kappa", "label_kappa_from_counts"]


def label_kappa(outputs: ArrayLike, *, labels: ArrayLike | None = None) -> FloatArray:
    r"""Measure the agreement on the labels beyond chance, for every two learners.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities whose most probable class is the label, of at least two learners.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        kappa, in [-1, 1]; low is diverse. The diagonal is 1, or NaN for a learner that gives one label only.

    See Also
    --------
    correctness_kappa : Agreement on being right.

    Notes
    -----
    .. math:: \kappa_{ij} = \frac{A_{ij} - \sum_k q_{ik} q_{jk}}{1 - \sum_k q_{ik} q_{jk}}

    Cohen's kappa (1960), the agreement that Margineantu and Dietterich (1997) plot. Accurate learners agree on the
    labels because they are right; whether they err together is another question, which `correctness_kappa` and
    `error_correlations` answer. It is undefined, NaN with a warning that names the pair, where both give the same
    label to every sample.

    Examples
    --------
    >>> label_kappa([["a", "a", "b", "c"], ["a", "b", "b", "c"], ["a", "a", "b", "c"]]).round(3)
    array([[1.   , 0.636, 1.   ],
           [0.636, 1.   , 0.636],
           [1.   , 0.636, 1.   ]])
    """
    counts = sufficient_statistics(Outputs(outputs, labels=labels, at_least=2), labels=True).labels
    assert counts is not None
    return warn_undefined_pairs("label_kappa", label_kappa_from_counts(counts))


def label_kappa_from_counts(counts: LabelCounts) -> FloatArray:
    """Return Cohen's kappa of the labels from counts that were gathered before.

    Parameters
    ----------
    counts : LabelCounts
        Counts of the labels given.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        kappa; NaN where undefined.

    Examples
    --------
    >>> read = Outputs([[0, 0, 1, 1], [0, 1, 1, 1]])
    >>> label_kappa_from_counts(sufficient_statistics(read, labels=True).labels)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    n, chance = counts.shared, counts.by_chance  # whole numbers, so that a chance of one is exact
    few = (
        (n < FEWEST_SHARED) & (n < n.max()) & ~np.eye(len(n), dtype=bool)
    )  # of votes of which some are missing
    scale = np.where(few, 0, n**2 - chance)
    return np.clip(ratio(n * counts.alike - chance, scale), -1.0, 1.0)
