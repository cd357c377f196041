"""Intervals of the correlations with the truth and between learners, of optimality, and of the predicted vote.

Notation: N learners, m classes, B samples in a block; z standardised outputs of a class. A sample adds to a correlation
r of two columns its influence, z_1 z_2 - r (z_1² + z_2²) / 2. The mean influence on an average of correlations has the
variance of its estimate. Where votes are missing, a learner is standardised over what it answered, and each answer
stands for as many samples as it takes to make up for the others.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import CorrelationSummary, Coverage, Estimate, VotePrediction
from counterpoint.assessment.uncertainty import Uncertainty, covariance_of_means, from_z, slope, to_z
from counterpoint.measures.correlation import truth_correlations
from counterpoint.outputs import Columns, Outputs, ratio
from counterpoint.theory import error_correlation_bounds, plurality_accuracy

__all__ = ["correlation_intervals", "predicted_interval"]

UNKNOWN = Estimate(np.nan, np.nan, np.nan)
_EQUAL = 1e-9  # less than one, of a correlation: rounding
_NONE_SEEN = 3.69  # the highest mean of a Poisson number that is 0 with 2.5 %
_STEP = 1e-3  # of an accuracy or a correlation, for the slope of the predicted vote


def correlation_intervals(
    read: Outputs,
    columns: Columns,
    found: CorrelationSummary,
    groups: NDArray[np.intp] | None,
    limit: float,
) -> tuple[Estimate, Estimate, Estimate]:
    """Return r_TL, r_LL and optimality with their 95 % intervals.

    Parameters
    ----------
    read : Outputs
        The outputs with the truth.
    columns : Columns
        Their moments.
    found : CorrelationSummary
        The correlations.
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together.
    limit : float
        Half the width of an interval, in standard errors.
    """
    if np.isnan(found.r_tl) or np.isnan(found.r_ll):
        return UNKNOWN, UNKNOWN, UNKNOWN
    influence, n = sample_influence(read, columns, found), int(np.sum(~np.isnan(found.r_tl_learners)))
    covariance = covariance_of_means(read, groups, lambda block: influence[:, block], 2)
    error = np.sqrt(np.maximum(np.diagonal(covariance), 0))
    r_tl, r_ll = found.r_tl, found.r_ll
    z, half = np.arctanh(np.clip(r_tl, -1 + 1e-9, 1 - 1e-9)), limit * error[0] / max(1 - r_tl**2, 1e-9)
    with_truth = Estimate(r_tl, min(float(np.tanh(z - half)), r_tl), max(float(np.tanh(z + half)), r_tl))
    middle, half = float(to_z(r_ll, n)), limit * error[1] * slope(r_ll, n)
    between = (
        Estimate(r_ll, r_ll, r_ll)  # copies
        if r_ll > 1 - _EQUAL
        else Estimate(r_ll, min(from_z(middle - half, n), r_ll), max(from_z(middle + half, n), r_ll))
    )
    room = max(((n - 1) * r_ll + 1) / n, 1e-9)  # the square of the bound of Theorem 2
    gradient = np.array([room**-0.5, -r_tl * (n - 1) / (2 * n) * room**-1.5])
    share = Estimate(found.optimality, np.nan, np.nan)
    if not np.isnan(limit) and not np.isnan(found.optimality):
        least = _error_alone(columns, read.n_samples if groups is None else int(groups.max()) + 1)
        share = optimality_interval(found.optimality, gradient @ influence, groups, least)
    return with_truth, between, share


def optimality_interval(
    share: float, influence: FloatArray, groups: NDArray[np.intp] | None, least: float
) -> Estimate:
    r"""Return optimality with its 95 % interval.

    Parameters
    ----------
    share : float
        Optimality.
    influence : ndarray of shape (n_samples,)
        That of each sample.
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together.
    least : float
        By how much one sample, or group, that all learners got wrong would lower the square of a perfect correlation.

    Notes
    -----
    Optimality is the correlation of the summed standardised learners with the truth, so that Fisher's z is less skewed.
    Near 1 few samples, those with errors, make up its variance, which is then little known itself: Student's t has the
    degrees of freedom that it has, :math:`2 v^2 / \operatorname{Var}(v)` (Satterthwaite), and half a sample is added
    that is as far off as the furthest. Without any error, the lower end is that of a rate of which none was seen.

    Examples
    --------
    >>> influence = np.r_[np.full(95, 0.02), np.full(5, -0.38)]
    >>> print(optimality_interval(0.95, influence, None, 0.04))
    0.950 (0.926 to 0.967)
    >>> print(optimality_interval(1.0, np.zeros(100), None, 0.04))
    1.000 (0.923 to 1.000)
    """
    n = len(influence)
    around = influence - influence.mean()
    sums = around if groups is None else np.bincount(groups, around).astype(np.float64)
    squares = sums**2
    total, n_sums = float(squares.sum()), len(sums)
    if total <= _EQUAL**2:
        low = float(np.sqrt(max(1 - _NONE_SEEN * least, 0.0)))
        return Estimate(share, min(low, share), 1.0) if share > 0 else Estimate(share, -1.0, max(-low, share))
    freedom = 2 * total**2 / max(float((squares**2).sum()) - total**2 / n_sums, 1e-300)
    limit = float(stdtrit(np.clip(freedom, 1, n_sums - 1), 0.975))
    variance = (total * n_sums / (n_sums - 1) + squares.max() / 2) / n**2
    z = np.arctanh(np.clip(share, -1 + _EQUAL, 1 - _EQUAL))
    half = limit * np.sqrt(variance) / max(1 - share**2, _EQUAL)
    return Estimate(share, min(float(np.tanh(z - half)), share), max(float(np.tanh(z + half)), share))


def _error_alone(columns: Columns, n: int) -> float:
    """Return by how much one of n samples that all learners got wrong lowers the square of a perfect correlation."""
    assert columns.truth_means is not None
    return float(2 / max(n * (columns.truth_means * (1 - columns.truth_means)).sum(), 1e-300))


def predicted_interval(
    prediction: VotePrediction, known: Uncertainty, coverage: Coverage, n_classes: int
) -> Estimate:
    """Return the predicted vote of learners with their own accuracies, with its 95 % interval.

    How far it moves with the mean accuracy and the error correlation is that of equal learners. By how much the
    measured vote differs is added, as the error of the model.
    """
    if np.isnan(prediction.mixed):
        return UNKNOWN
    wrong: dict[str, Any] = {"n_classes": max(n_classes, 2), "agreement": prediction.agreement}
    n = max(round(coverage.mean_voters), 2)
    p = float(np.clip(known.accuracy, 2 * _STEP, 1 - 2 * _STEP))
    low = float(error_correlation_bounds(p - _STEP, n).low) + 2 * _STEP
    c = float(np.clip(known.correlation, max(low, 0.0), 1 - 2 * _STEP))
    by_p, by_c = (
        (float(plurality_accuracy(p + a, c + b, n, **wrong)) - float(plurality_accuracy(p, c, n, **wrong)))
        / _STEP
        for a, b in ((_STEP, 0.0), (0.0, _STEP))
    )
    gradient = np.array([by_p, by_c / slope(known.correlation, known.n_learners)])
    half = known.limit * float(np.sqrt(max(gradient @ known.covariance[1:, 1:] @ gradient, 0.0)))
    half += abs(known.vote - prediction.mixed)
    return Estimate(prediction.mixed, max(prediction.mixed - half, 0.0), min(prediction.mixed + half, 1.0))


def sample_influence(read: Outputs, columns: Columns, found: CorrelationSummary) -> FloatArray:
    """Return the influence of each sample on r_TL and r_LL, (2, n)."""
    few = read.probabilities is not None or not read.has_many_classes
    scale = _scale(read, columns, found)
    return (_by_class if few else _by_codes)(read, columns, found, scale)


class _Scale(NamedTuple):
    """What standardises outputs and truth, and weighs the correlations, (N, m) each.

    Of averages over classes each class has its own scale; pooled, all classes have one, and each counts fully.
    """

    mean: FloatArray
    unit: FloatArray  # one over the spread of a learner; 0 where it does not vary
    truth_mean: FloatArray
    truth_unit: FloatArray
    weights: FloatArray  # of the correlations with the truth, which add up to one
    r_tl: FloatArray
    own: FloatArray  # (N,), samples for which an answer stands


def _scale(read: Outputs, columns: Columns, found: CorrelationSummary) -> _Scale:
    assert columns.truth_means is not None
    shape = columns.means.shape
    own, truth = np.ones(len(columns.means)), np.broadcast_to(columns.truth_means, shape)
    if columns.shared is not None:
        assert columns.shared.truth_means is not None
        own, truth = read.n_samples / np.diagonal(columns.shared.counts), columns.shared.truth_means
    variance = np.where(columns.constant, 0.0, columns.spread) * own[:, None] / read.n_samples
    truth_variance = truth * (1 - truth)
    if found.pooled:
        variance, truth_variance = (
            np.broadcast_to(one.sum(axis=1, keepdims=True), shape) for one in (variance, truth_variance)
        )
        r_tl = np.broadcast_to(found.r_tl_learners[:, None], shape)
        share = 1.0 / np.sum(~np.isnan(found.r_tl_learners))
    else:
        r_tl = truth_correlations(columns)
        known = ~np.isnan(r_tl)
        share = 1 / np.maximum(known.sum(axis=1, keepdims=True), 1) / known.any(axis=1).sum()
    weights = np.where(np.isnan(r_tl), 0.0, share * own[:, None])
    return _Scale(
        columns.means, _unit(variance), truth, _unit(truth_variance), weights, np.nan_to_num(r_tl), own
    )


def _unit(variance: FloatArray) -> FloatArray:
    """Return one over the spread, 0 where there is none."""
    spread = np.sqrt(variance)
    return np.divide(1.0, spread, out=np.zeros(spread.shape), where=spread > 1e-12)


def _by_class(read: Outputs, columns: Columns, found: CorrelationSummary, scale: _Scale) -> FloatArray:
    """Return the influence of each sample, class by class."""
    total = np.zeros((2, read.n_samples))
    assert read.truth_codes is not None
    for k, rows, even, weights, sums in _pair_weights(read, columns, found):
        if not sums.any() and not scale.weights[:, k].any():
            continue
        for block in read.blocks():
            given = read.column(k, block) if read.probabilities is not None else read.one_hot(k, block)
            here = read.present(block) if read.missing is not None else None
            z = (given - scale.mean[:, k][:, None]) * scale.unit[:, k][:, None]
            z = z if here is None else z * here
            own = z[rows]
            squares = own**2
            if rows.start == 0 or rows.start is None:
                true = (read.truth_codes[block] == k).astype(np.float64)
                t = (true - scale.truth_mean[:, k][:, None]) * scale.truth_unit[:, k][:, None]
                t = t if here is None else t * here
                every = squares if len(own) == len(z) else z**2
                total[0, block] += scale.weights[:, k] @ (
                    z * t - scale.r_tl[:, k][:, None] * (every + t**2) / 2
                )
            if weights is None:  # of equal weights, in fewer steps
                total[1, block] += even * (own.sum(axis=0) * z.sum(axis=0) - squares.sum(axis=0))
            else:
                total[1, block] += (own * (weights @ z)).sum(axis=0)
            total[1, block] -= sums @ squares
    return total


def _pair_weights(
    read: Outputs, columns: Columns, found: CorrelationSummary
) -> Iterator[tuple[int, slice, float, FloatArray | None, FloatArray]]:
    """Yield the weights of pairs in each class, or one weight for all, and the weighted sums of r_LL.

    Of some learners at a time, (n_rows, N), and (n_rows,). The weights of both orders of a pair are one together, over
    all pairs and classes.
    """
    assert columns.pairs is not None
    shared = None if columns.shared is None else columns.shared.counts
    averages, varied = (None if found.pooled else columns.averages), columns.varied
    n_pairs = _n_pairs(found.matrix)
    for slab in columns.pairs.slabs():
        k, rows = slab.classes.start, slab.rows
        if averages is None:
            correlations, classes = found.matrix[rows], np.ones((1, 1))
        else:
            correlations, classes = slab.correlations()[0], np.maximum(averages.n_classes[rows], 1)
            if not varied[k]:
                correlations[:] = np.nan
        weights = ~np.isnan(correlations) / (classes * np.float64(n_pairs))
        if shared is not None:
            weights *= read.n_samples / np.maximum(shared[rows], 1)
        own = np.arange(len(weights)), np.arange(weights.shape[1])[rows]
        even = float(weights[0, 1 if own[1][0] == 0 else 0])
        weights[own] = even
        same = bool(weights.min() == weights.max())
        weights[own] = 0.0
        sums = np.einsum("ij,ij->i", weights, np.nan_to_num(correlations))
        yield k, rows, even, None if same else weights, sums


def _n_pairs(matrix: FloatArray) -> int:
    """Return the number of pairs with a correlation, in both orders."""
    known = ~np.isnan(matrix)
    return max(int(known.sum() - np.diagonal(known).sum()), 1)


def _by_codes(read: Outputs, columns: Columns, found: CorrelationSummary, scale: _Scale) -> FloatArray:
    r"""Return the influence of each sample from the codes of the votes, at a cost linear in samples and classes.

    A standardised vote is :math:`z_{ik} = u_{ik} (1[c_i = k] - q_{ik})`: a number for the class that is voted for, and
    another for all the rest, whose sums over the classes are known in advance. The weights of pairs are taken for
    products of weights of the two learners, which they nearly are.
    """
    weight, sums = _learner_weights(columns, found, scale)  # (N,), (N, m)
    mean, unit, truth_mean, truth_unit = scale[:4]
    # The truth: w (z t - r (z² + t²) / 2), whose products are w u v (1[c = T] - ...)
    both = scale.weights * unit * truth_unit
    own = -both * truth_mean - scale.weights * scale.r_tl * unit**2 * (1 - 2 * mean) / 2  # by the vote
    true = (
        -both * mean - scale.weights * scale.r_tl * truth_unit**2 * (1 - 2 * truth_mean) / 2
    )  # by the truth
    rest = both * mean * truth_mean
    rest -= scale.weights * scale.r_tl * (unit**2 * mean**2 + truth_unit**2 * truth_mean**2) / 2
    # Pairs: the square of S_k = sum of w_i z_ik, less its own squares, less those that the correlations take
    spread = weight[:, None] * unit
    squares = (weight[:, None] ** 2 + sums) * unit**2
    offsets = spread * mean
    products, by_class = offsets @ offsets.T, offsets.sum(axis=0)
    own_square, rest_square = squares * (1 - 2 * mean), (squares * mean**2).sum(axis=1)
    rest = rest.sum(axis=1)
    codes, compact = read.codes, read.compact
    total = np.zeros((2, read.n_samples))
    assert read.truth_codes is not None
    for block in read.blocks():
        given, truth = codes[:, block], read.truth_codes[block]
        here = read.present(block).astype(np.float64)
        right = given == truth
        total[0, block] = (
            (_at(own, given) + np.where(right, both[:, truth], 0.0) + true[:, truth] + rest[:, None]) * here
        ).sum(axis=0)
        scores = _at(spread, given) * here
        tallies = np.zeros((len(compact.classes), given.shape[1]))
        for rank, row in zip(compact.votes[:, block], scores, strict=True):
            tallies[rank, np.arange(len(row))] += row  # a missing one adds 0
        if read.missing is None:
            with_rest, all_rest = (scores * by_class[given]).sum(axis=0), products.sum()
        else:
            with_rest = np.zeros(given.shape[1])
            for answers, offset in zip(here, offsets, strict=True):
                with_rest += answers * (scores * offset[given]).sum(axis=0)
            all_rest = (here * (products @ here)).sum(axis=0)
        total[1, block] = (tallies**2).sum(axis=0) - 2 * with_rest + all_rest
        total[1, block] -= ((_at(own_square, given) + rest_square[:, None]) * here).sum(axis=0)
    return total


def _learner_weights(
    columns: Columns, found: CorrelationSummary, scale: _Scale
) -> tuple[FloatArray, FloatArray]:
    """Return weights of learners whose products are those of pairs, (N,), and the weighted sums of r_LL, (N, m)."""
    known = ~np.isnan(found.matrix)
    np.fill_diagonal(known, val=False)
    one = np.where(known, 1.0 if found.pooled else 1 / np.maximum(columns.averages.n_classes, 1), 0.0)
    total = max(float(one.sum()), 1e-300)
    weight = ratio(one.sum(axis=1), known.sum(axis=1))
    weight = np.nan_to_num(weight) / np.sqrt(total)  # exact where all are equal
    weight *= scale.own
    if found.pooled:
        matrix = np.where(known, found.matrix, 0.0)
        return weight, np.broadcast_to((weight * (matrix @ weight))[:, None], scale.mean.shape)
    sums = np.zeros(scale.mean.shape)
    assert columns.pairs is not None
    for slab in columns.pairs.slabs():
        correlations = np.where(columns.varied[slab.classes, None, None], slab.correlations(), np.nan)
        learners = np.arange(len(weight))
        correlations[:, learners[slab.rows][:, None] == learners] = 0.0
        sums[slab.rows, slab.classes] = (np.nan_to_num(correlations) @ weight).T * weight[slab.rows, None]
    return weight, sums


def _at(table: FloatArray, codes: NDArray[Any]) -> FloatArray:
    """Return the entry of each learner's row of a table, (N, m), for each code, (N, B)."""
    return np.take_along_axis(table, codes.astype(np.intp), axis=1)
