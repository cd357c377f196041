r"""Agreement of several learners on labels or on scores, without a truth.

Notation: N learners, n samples; :math:`n_s` learners judge sample s, :math:`n_{sk}` of them give label k. Learners may
leave samples out. Every number here is a function of sums over samples, so that it can be resampled fast. Time and
memory for labels are linear in the number of votes, whatever the number of classes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from counterpoint._validation import FloatArray, IntArray, check_choice
from counterpoint.outputs import code_votes, ratio, split_missing, warn_undefined

__all__ = [
    "LEVELS",
    "IntraclassCorrelation",
    "LabelSums",
    "check_scores",
    "fleiss_kappa",
    "gwet_ac1",
    "intraclass_columns",
    "intraclass_correlation",
    "intraclass_from_sums",
    "krippendorff_alpha",
    "label_cells",
    "label_pairs",
    "label_sums",
    "score_columns",
    "score_statistics",
]

LEVELS = ("nominal", "ordinal", "interval")
_CHANCE = 1e-12  # disagreement by chance that is due to rounding
_FEW_CLASSES = 16  # for which a matrix product for each is fast


class IntraclassCorrelation(NamedTuple):
    """How well scores agree: those of one rater, and their mean.

    Attributes
    ----------
    single : float
        ICC(2,1), of one rater.
    average : float
        ICC(2,k), of the mean of all raters.

    Examples
    --------
    >>> IntraclassCorrelation(0.5, 0.8).average
    0.8
    """

    single: float
    average: float


def fleiss_kappa(outputs: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Measure the agreement of all learners on the labels, beyond chance.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities whose most probable class is the label, of at least two learners. None, NaN or masked
        where a learner gave none.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities.

    Returns
    -------
    float
        kappa, in [-1, 1]; 1 is perfect agreement and 0 that of chance.

    See Also
    --------
    gwet_ac1 : Chance that does not explode where nearly all labels are the same.
    krippendorff_alpha : Nearly the same on complete labels; also for numbers.

    Notes
    -----
    .. math:: \kappa = \frac{P - \sum_k q_k^2}{1 - \sum_k q_k^2}, \qquad
        P = \operatorname{mean}_s \frac{\sum_k n_{sk} (n_{sk} - 1)}{n_s (n_s - 1)}, \qquad
        q_k = \operatorname{mean}_s \frac{n_{sk}}{n_s}.

    Fleiss (1971); where learners leave samples out, in the form of Gwet (2014): P is over samples with two labels or
    more. It is undefined, NaN with a warning, where all labels are the same.

    Examples
    --------
    >>> votes = [["a", "a", "b", "b"], ["a", "b", "b", "b"], ["a", "a", "b", None]]
    >>> round(fleiss_kappa(votes), 3)
    0.657
    """
    return _nominal(outputs, labels, "fleiss_kappa", 1)


def gwet_ac1(outputs: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Measure the agreement of all learners on the labels, beyond the chance of random labels.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities whose most probable class is the label, of at least two learners. None, NaN or masked
        where a learner gave none.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the labels that occur. A class that
        nobody chose counts as one that could have been chosen.

    Returns
    -------
    float
        AC1, at most 1; 1 is perfect agreement and 0 that of chance.

    See Also
    --------
    fleiss_kappa : The same with another chance.

    Notes
    -----
    .. math:: \mathrm{AC}_1 = \frac{P - P_e}{1 - P_e}, \qquad P_e = \frac{1}{m - 1} \sum_k q_k (1 - q_k),

    with P and :math:`q_k` of :func:`fleiss_kappa` and m classes; Gwet (2008). Kappa takes every label for a possible
    guess, so that two learners who both say "no" on 97% of the samples agree "by chance" on 94%. AC1 takes only the
    labels of hard samples for guesses, as many as there can be if the labels are spread like :math:`q`. It is therefore
    high where one label prevails, for learners that are right and for learners that never look. It is undefined, NaN
    with a warning, where all labels are the same and no other class is named.

    Examples
    --------
    >>> rare = [[1] * 118 + [1] * 5 + [0] * 2, [1] * 118 + [0] * 5 + [1] * 2]  # agreement 0.944
    >>> round(gwet_ac1(rare), 3), round(fleiss_kappa(rare), 3)
    (0.941, -0.029)
    """
    return _nominal(outputs, labels, "gwet_ac1", 3)


def krippendorff_alpha(
    outputs: ArrayLike, *, level: str = "nominal", labels: ArrayLike | None = None
) -> float:
    r"""Measure the agreement of all learners on labels, ranks or numbers, beyond chance.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples)
        Labels for the nominal level (also probabilities with a third axis), numbers for the others, of at least two
        learners. None, NaN or masked where a learner gave none.
    level : {"nominal", "ordinal", "interval"}, default="nominal"
        What counts as disagreement: any difference, the number of values between, or the squared difference.
    labels : array-like of shape (n_classes,), optional
        The classes, for the nominal level.

    Returns
    -------
    float
        alpha, at most 1; 1 is perfect agreement and 0 that of chance.

    Notes
    -----
    .. math:: \alpha = 1 - \frac{D_o}{D_e},

    the mean disagreement of two values of one sample over that of two values of any samples. Samples with one value
    alone do not count. The ordinal level is the interval level of mid-ranks. Krippendorff (2004). It is undefined,
    NaN with a warning, where all values are the same.

    Examples
    --------
    >>> nan = float("nan")  # the example of Krippendorff (2011)
    >>> scores = [
    ...     [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
    ...     [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
    ...     [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan],
    ...     [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
    ... ]
    >>> [round(krippendorff_alpha(scores, level=level), 3) for level in ("nominal", "ordinal", "interval")]
    [0.743, 0.815, 0.849]
    """
    if check_choice(level, "level", LEVELS) == "nominal":
        return _nominal(outputs, labels, "krippendorff_alpha", 2)
    scores = check_scores(outputs)
    sums = score_columns(scores, level).sum(axis=0, keepdims=True)
    return _warned("krippendorff_alpha", score_statistics(sums))


def intraclass_correlation(outputs: ArrayLike) -> IntraclassCorrelation:
    r"""Measure how well the scores of raters agree in value, for raters that could be others.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples)
        Scores of at least two raters. Samples that some rater left out do not count.

    Returns
    -------
    IntraclassCorrelation
        ``single``, ICC(2,1), and ``average``, ICC(2,k).

    Notes
    -----
    With mean squares of samples R, raters C and error E of the two-way table,

    .. math:: \mathrm{ICC}(2,1) = \frac{R - E}{R + (N - 1) E + N (C - E) / n}, \qquad
        \mathrm{ICC}(2,k) = \frac{R - E}{R + (C - E) / n}.

    Shrout and Fleiss (1979). They are undefined, NaN with a warning, for fewer than two samples, and where all scores
    are the same.

    Examples
    --------
    >>> # the example of Shrout and Fleiss
    >>> scores = [[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]]
    >>> icc = intraclass_correlation(scores)
    >>> round(icc.single, 2), round(icc.average, 2)
    (0.29, 0.62)
    """
    scores = check_scores(outputs)
    sums = intraclass_columns(scores).sum(axis=0, keepdims=True)
    single, average = intraclass_from_sums(sums, len(scores))[0].tolist()
    _warned("intraclass_correlation", np.array([[single]]))
    return IntraclassCorrelation(single, average)


def check_scores(outputs: ArrayLike) -> FloatArray:
    """Return scores (n_learners, n_samples) as floats, NaN where there is none.

    Examples
    --------
    >>> check_scores([[1, None], [2, 3]])
    array([[ 1., nan],
           [ 2.,  3.]])
    """
    array, missing = split_missing(outputs)
    if array.ndim != 2:
        raise ValueError(f"`outputs` must have axes (n_learners, n_samples); got shape {array.shape}.")
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError("`outputs` must hold numbers; got other objects.") from None
    if array.dtype.kind not in "fiu" or array.size == 0:
        raise TypeError(f"`outputs` must hold numbers; got shape {array.shape} of dtype {array.dtype}.")
    if len(array) < 2:
        raise ValueError(f"`outputs` must hold at least 2 learners, on its first axis; got {len(array)}.")
    if np.isinf(array).any():
        raise ValueError("`outputs` must be finite; got infinity.")
    scores = array.astype(np.float64)
    return scores if missing is None else np.where(missing, np.nan, scores)


class LabelSums(NamedTuple):
    """What the agreement on labels sums over samples.

    Attributes
    ----------
    rows : ndarray of shape (n_samples, 7)
        Equal pairs as a share; two labels or more; one or more; equal pairs over ``n_s - 1``; labels where there are
        two or more; and the mean of the classes' shares over the labels of the sample, of all samples and of those
        with two labels or more.
    n_classes : int
        The number of classes.

    Examples
    --------
    >>> sums = label_sums(np.array([[0, 1, 0], [0, 1, 1]], dtype=np.int32), 2)
    >>> sums.statistics(sums.rows.sum(axis=0, keepdims=True)).round(3)
    array([[0.667, 0.333, 0.444, 0.333]])
    """

    rows: FloatArray
    n_classes: int

    def statistics(self, sums: FloatArray) -> FloatArray:
        """Return observed agreement, Fleiss' kappa, Krippendorff's alpha and Gwet's AC1, (n_resamples, 4).

        A sum of squared shares is linear near those of all samples: ``sum q*^2 = 2 sum q q* - sum q^2`` but for the
        square of the change, which is of the order of one sample.
        """
        whole = self.rows.sum(axis=0)
        agreed, several, voted, equal, total, near, near_several = sums.T
        observed = ratio(agreed, several)
        chance = 2 * ratio(near, voted) - whole[5] / max(whole[2], 1)
        kappa = ratio(observed - chance, np.where(chance > 1 - _CHANCE, 0.0, 1 - chance))
        expected = 2 * ratio(near_several, total) - whole[6] / max(whole[4], 1)
        unequal = total**2 * (1 - expected)  # n (n - 1) D_e
        unequal = np.where(1 - expected <= _CHANCE, 0.0, unequal)
        alpha = 1 - ratio((total - equal) * (total - 1), unequal)
        guess = (1 - chance) / max(self.n_classes - 1, 1)
        ac1 = ratio(observed - guess, np.full(len(sums), self.n_classes > 1) * (1 - guess))
        return np.column_stack([observed, kappa, alpha, ac1])


def label_cells(
    codes: NDArray[np.int32], n_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
    """Return the samples, classes and numbers of votes of all labels that occur on a sample, sample by sample.

    Examples
    --------
    >>> sample, label, count = label_cells(np.array([[0, 1], [0, -1], [2, -1]], dtype=np.int32), 3)
    >>> sample.tolist(), label.tolist(), count.tolist()
    ([0, 0, 1], [0, 2, 1], [2.0, 1.0, 1.0])
    """
    n = codes.shape[1]
    if n * n_classes <= codes.size:  # no sorting
        where = np.arange(n) * n_classes
        counts = np.zeros(n * n_classes)
        for row in codes:
            voted = row >= 0
            counts[where[voted] + row[voted]] += 1
        keys = np.flatnonzero(counts)
        return keys // n_classes, keys % n_classes, counts[keys]
    learner, sample = np.nonzero(codes >= 0)
    keys, numbers = np.unique(sample * n_classes + codes[learner, sample], return_counts=True)
    return keys // n_classes, keys % n_classes, numbers.astype(np.float64)


def label_sums(codes: NDArray[np.int32], n_classes: int) -> LabelSums:
    """Return what the agreement on labels sums over samples.

    Examples
    --------
    >>> label_sums(np.array([[0, 1], [0, -1]], dtype=np.int32), 2).rows
    array([[1. , 1. , 1. , 2. , 2. , 0.5, 2. ],
           [0. , 0. , 1. , 0. , 0. , 0.5, 0. ]])
    """
    n = codes.shape[1]
    sample, label, given = label_cells(codes, n_classes)  # n_sk
    total = np.bincount(sample, given, minlength=n)  # n_s
    pairs = np.bincount(sample, given * (given - 1), minlength=n)
    several = total >= 2
    share = given / total[sample]
    q = np.bincount(label, share, minlength=n_classes) / max(int(np.count_nonzero(total)), 1)
    often = given * several[sample]
    nu = np.bincount(label, often, minlength=n_classes) / max(float(often.sum()), 1.0)
    rows = np.column_stack(
        [
            np.where(several, pairs / np.maximum(total * (total - 1), 1), 0.0),
            several,
            total >= 1,
            np.where(several, pairs / np.maximum(total - 1, 1), 0.0),
            total * several,
            np.bincount(sample, share * q[label], minlength=n),
            np.bincount(sample, often * nu[label], minlength=n),
        ]
    )
    return LabelSums(rows, n_classes)


def label_pairs(codes: NDArray[np.int32], n_classes: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return agreement, Cohen's kappa and the number of shared samples of every two learners, (N, N) each.

    Examples
    --------
    >>> agreement, kappa, shared = label_pairs(np.array([[0, 0, 1, 1], [0, 1, 1, -1]], dtype=np.int32), 2)
    >>> float(agreement[0, 1]).__round__(3), float(kappa[0, 1]).__round__(3), int(shared[0, 1])
    (0.667, 0.4, 3)
    """
    count = _pairs_by_class if n_classes <= _FEW_CLASSES else _pairs_by_learner
    shared, equal, chance = count(codes, n_classes)
    kappa = ratio(
        shared * equal - chance, shared**2 - chance
    )  # whole numbers, so that a chance of one is exact
    return ratio(equal, shared), kappa, shared.astype(np.int64)


def _pairs_by_class(codes: NDArray[np.int32], n_classes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return shared samples, equal votes and the sum of products of the numbers of votes for each class."""
    n_learners, n_samples = codes.shape
    shape = (n_learners, n_learners)
    shared, equal, chance = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    width = max(1, 2**23 // n_learners)
    given = np.zeros((n_classes, *shape))  # votes of the first for k where the second votes
    for start in range(0, n_samples, width):
        block = codes[:, start : start + width]
        voted = (block >= 0).astype(np.float32)
        shared += voted @ voted.T
        for k in range(n_classes):
            votes = (block == k).astype(np.float32)
            equal += votes @ votes.T
            given[k] += votes @ voted.T
    for votes_for in given:
        chance += votes_for * votes_for.T
    return shared, equal, chance


def _pairs_by_learner(codes: NDArray[np.int32], n_classes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the same in time and memory that are linear in the number of classes."""
    shape = (len(codes), len(codes))
    shared, equal, chance = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for i, own in enumerate(codes):
        for j in range(i, len(codes)):
            both = (own >= 0) & (codes[j] >= 0)
            first, second = own[both], codes[j][both]
            shared[i, j] = shared[j, i] = len(first)
            equal[i, j] = equal[j, i] = np.count_nonzero(first == second)
            often = np.bincount(first, minlength=n_classes) @ np.bincount(second, minlength=n_classes)
            chance[i, j] = chance[j, i] = often
    return shared, equal, chance


def score_columns(scores: FloatArray, level: str) -> FloatArray:
    """Return what the alpha of scores sums over samples, (n_samples, 4).

    Examples
    --------
    >>> score_columns(np.array([[1.0, 2.0], [2.0, np.nan]]), "interval")
    array([[1. , 2. , 0. , 0.5],
           [0. , 0. , 0. , 0. ]])
    """
    known = ~np.isnan(scores)
    known &= known.sum(axis=0) >= 2
    values = np.zeros(scores.shape)
    if known.any():
        values[known] = rankdata(scores[known]) if level == "ordinal" else scores[known]
        values[known] -= values[known].mean()
    count, total, squares = known.sum(axis=0), values.sum(axis=0), (values**2).sum(axis=0)
    within = np.where(count >= 2, (count * squares - total**2) / np.maximum(count - 1, 1), 0.0)
    return np.column_stack([within, count, total, squares])


def score_statistics(sums: FloatArray) -> FloatArray:
    """Return Krippendorff's alpha from sums of the columns of scores, (n_resamples, 1).

    Examples
    --------
    >>> score_statistics(np.array([[0.0, 4.0, 0.0, 4.0]]))
    array([[1.]])
    """
    within, count, total, squares = sums.T
    apart = count * squares - total**2  # n (n - 1) D_e / 2
    apart = np.where(apart <= _CHANCE * count * squares, 0.0, apart)
    alpha: FloatArray = 1 - ratio(within * (count - 1), apart)
    return alpha[:, None]


def intraclass_columns(scores: FloatArray) -> FloatArray:
    """Return what the intraclass correlations sum over complete samples, (n_samples, n_learners + 3).

    Examples
    --------
    >>> intraclass_columns(np.array([[1.0, 2.0], [3.0, np.nan]]))
    array([[-1.,  1.,  2.,  0.,  1.],
           [ 0.,  0.,  0.,  0.,  0.]])
    """
    complete = ~np.isnan(scores).any(axis=0)
    values = np.where(complete, scores, 0.0)
    if complete.any():
        values -= values.sum() / (complete.sum() * len(scores)) * complete
    return np.column_stack([values.T, (values**2).sum(axis=0), values.sum(axis=0) ** 2, complete])


def intraclass_from_sums(sums: FloatArray, n_learners: int) -> FloatArray:
    """Return ICC(2,1) and ICC(2,k) from sums of the columns, (n_resamples, 2); NaN where undefined.

    Examples
    --------
    >>> intraclass_from_sums(intraclass_columns(np.array([[1.0, 2.0], [1.0, 2.0]])).sum(axis=0)[None], 2)
    array([[1., 1.]])
    """
    n = np.maximum(sums[:, -1], 1)
    squares, row_squares = sums[:, -3], sums[:, -2]
    means = sums[:, :n_learners] / n[:, None]
    grand = n * n_learners * means.mean(axis=1) ** 2
    rows = np.maximum(row_squares / n_learners - grand, 0.0)
    columns = np.maximum(n * (means**2).sum(axis=1) - grand, 0.0)
    error = np.maximum(squares - grand - rows - columns, 0.0)
    defined = (sums[:, -1] > 1.5) & (squares - grand > _CHANCE * np.maximum(squares, 1e-300))
    r = rows / np.maximum(n - 1, 1)
    c = columns / (n_learners - 1)
    e = error / np.maximum((n - 1) * (n_learners - 1), 1)
    single = ratio(r - e, np.where(defined, r + (n_learners - 1) * e + n_learners * (c - e) / n, 0.0))
    average = ratio(r - e, np.where(defined, r + (c - e) / n, 0.0))
    return np.column_stack([single, average])


def _nominal(outputs: ArrayLike, labels: ArrayLike | None, name: str, place: int) -> float:
    votes = code_votes(outputs, labels=labels)
    sums = label_sums(votes.codes, len(votes.classes))
    return _warned(name, sums.statistics(sums.rows.sum(axis=0, keepdims=True))[:, place : place + 1])


def _warned(name: str, values: FloatArray) -> float:
    value = float(values[0, 0])
    warn_undefined(name, ["these learners"] if np.isnan(value) else [], stacklevel=4)
    return value
