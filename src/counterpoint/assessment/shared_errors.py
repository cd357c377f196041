r"""How accurate a consensus may be without a truth, if errors are shared.

Two learners of accuracy p whose being right is correlated by c, and whose wrong votes agree with probability a, agree
on

.. math:: A = p^2 + c p q + a (q^2 + c p q), \qquad q = 1 - p,

for two classes (a = 1) :math:`A = 1 - 2 p q (1 - c)`. The agreement alone cannot tell p from c: for every c there is
a p. The wrong votes show in samples on which three votes are all different, and c, if difficulty is what is shared, in
samples on which four votes are all equal. Being right is taken to vary over samples like a Beta variable, and wrong
votes are drawn from an urn of Polya, so that these probabilities are products.

Panels of language models have a correlation of about 0.36 (six judges of JudgeBench); ``MOST_SHARED`` is what the
bounds allow for.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.assessment.bootstrap import group_sums
from counterpoint.assessment.estimates import Estimate
from counterpoint.assessment.growth import voter_numbers
from counterpoint.assessment.votes import wilson_interval
from counterpoint.measures.agreement import label_cells
from counterpoint.outputs import ratio
from counterpoint.theory import plurality_accuracy

__all__ = ["MOST_SHARED", "SampleMoments", "consensus_bounds", "sample_moments"]

MOST_SHARED = 0.5  # correlation of being right that the bounds allow for
_USUAL = 0.25  # where the votes do not tell: half of that
_HIGHEST = 0.95  # correlation, of votes that are hardly ever apart
_MOST_WRONG = 50  # classes that wrong votes are spread over; more make no difference
_RESOLUTION = 0.002  # of probabilities on the grid of accuracies
_NUMBERS = 7  # of voters, if votes are missing
_Z = 1.96


class SampleMoments(NamedTuple):
    """How votes on one sample coincide, averaged over samples.

    Attributes
    ----------
    pairs, triples, quads, unanimous : float
        Probability that two votes are equal, that three are all different, that four are all equal, and that all are;
        each over the samples with that many votes, the last with two or more.
    covariance : ndarray of shape (4, 4)
        Of these four, over samples or groups of samples.
    scale : float
        The variance of a share of the samples, divided by that share and its complement: one over the number of
        samples, or more for groups of unequal size.
    voters : ndarray of int
        Number of samples with 0, 1, ... votes.

    Examples
    --------
    >>> codes = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 0]], dtype=np.int32)
    >>> found = sample_moments(codes, 2, None)
    >>> round(found.pairs, 3), found.triples, round(found.quads, 3), round(found.unanimous, 3)
    (0.611, 0.0, 0.333, 0.333)
    """

    pairs: float
    triples: float
    quads: float
    unanimous: float
    covariance: FloatArray
    scale: float
    voters: NDArray[np.int64]


def sample_moments(
    codes: NDArray[np.int32], n_classes: int, groups: NDArray[np.intp] | None
) -> SampleMoments:
    """Return how votes on one sample coincide."""
    n = codes.shape[1]
    sample, _, g = label_cells(codes, n_classes)
    total, squares, cubes = (np.bincount(sample, g**k, minlength=n) for k in (1, 2, 3))
    four = np.bincount(sample, g * (g - 1) * (g - 2) * (g - 3), minlength=n)
    most = np.zeros(n)
    np.maximum.at(most, sample, g)
    enough = np.stack([total >= 2, total >= 3, total >= 4, total >= 2], axis=1).astype(np.float64)
    ways = np.stack([total * (total - 1), total * (total - 1) * (total - 2)], axis=1)
    ways = np.column_stack([ways, ways[:, 1] * (total - 3), np.ones(n)])
    counts = [squares - total, total**3 - 3 * total * squares + 2 * cubes, four, most == total]
    share = np.stack(counts, axis=1) / np.maximum(ways, 1) * enough
    values = ratio(share.sum(axis=0), enough.sum(axis=0))
    influence = (share - np.nan_to_num(values) * enough) / np.maximum(enough.sum(axis=0), 1)
    scale = 1 / n
    if groups is not None:
        influence = group_sums(influence, groups)
        scale = float((np.bincount(groups) ** 2).sum()) / n**2
    pairs, triples, quads, unanimous = (float(value) for value in values)
    voters = np.bincount(total.astype(np.int64))
    return SampleMoments(pairs, triples, quads, unanimous, influence.T @ influence, scale, voters)


class _Panel(NamedTuple):
    """A panel of equal learners that agrees as much as the one that was seen."""

    p: float
    c: float
    a: float


def consensus_bounds(
    moments: SampleMoments,
    n_classes: int,
    claimed: float,
    *,
    shared: bool,
    chance: bool,
    learners: FloatArray | None = None,
    copies: SampleMoments | None = None,
) -> tuple[Estimate, Estimate, Estimate]:
    """Return the correlation of being right, the accuracy of a learner, and that of the consensus.

    Parameters
    ----------
    moments : SampleMoments
        How the votes coincide.
    n_classes : int
        The number of classes.
    claimed : float
        The accuracy of the consensus if errors are independent; NaN if it was not estimated.
    shared : bool
        Whether the votes show that errors are shared; the highest accuracy then allows for it.
    chance : bool
        Whether the agreement may be that of guesses or of copies; the lowest accuracy then is that of a guess.
    learners : ndarray of shape (n_learners,), optional
        The highest accuracies of the learners, if errors are independent.
    copies : SampleMoments, optional
        Those of learners that may be copies or nearly always right.

    Returns
    -------
    correlation, learner, consensus : Estimate
        The lowest accuracies belong to the highest correlation. The values are those of the correlation that the
        votes suggest, or of half the highest where they are too few to suggest one.

    Examples
    --------
    >>> votes = (np.random.default_rng(0).random((7, 2000)) < 0.8).astype(np.int32)
    >>> found = consensus_bounds(sample_moments(votes, 2, None), 2, 0.97, shared=False, chance=False)
    >>> [f"{one.low:.2f} to {one.high:.2f}" for one in found]
    ['0.00 to 0.50', '0.50 to 0.81', '0.50 to 0.98']
    """
    nothing = Estimate(np.nan, np.nan, np.nan)
    if np.isnan(moments.pairs):
        return nothing, nothing, nothing
    likely, least_likely = _correlation(moments, n_classes)
    low = least_likely if shared else 0.0
    high = MOST_SHARED if np.isnan(likely) else max(MOST_SHARED, likely)
    value = _USUAL if np.isnan(likely) else likely
    spread = _Z * float(np.sqrt(moments.covariance[0, 0]))
    worst = _panel(moments, n_classes, high, -spread, +1)
    best = _panel(moments, n_classes, low, +spread, -1)
    middle = _panel(moments, n_classes, value, 0.0, 0)
    votes = [_vote(panel, moments.voters, n_classes) for panel in (worst, middle, best)]
    # Weights that fit unequal learners gain as much as they would without shared errors.
    alone = _vote(_panel(moments, n_classes, 0.0, 0.0, 0), moments.voters, n_classes)
    gain = 0.0 if np.isnan(claimed) else max(claimed - alone, 0.0)
    ends = [min(votes[0], 1 / n_classes) if chance else votes[0], votes[2] + gain]
    most = best.p if learners is None or shared else max(best.p, float(learners.mean()))
    if copies is not None:  # if they are right, they are the consensus
        ends[1] = max(ends[1], _panel(copies, n_classes, 0.0, +spread, -1).p)
        most = max(most, ends[1])
    learner = _ordered(min(worst.p, 1 / n_classes) if chance else worst.p, middle.p, most)
    n = 1 / max(moments.scale, 1e-12)  # of the samples at hand, a share that differs by chance
    low_end = max(wilson_interval(min(ends[0], 1.0), n)[0], min(ends[0], 1 / n_classes))
    high_end = 1.0 if ends[1] > 1 - 0.5 / n else wilson_interval(ends[1], n)[1]
    consensus = _ordered(low_end, votes[1] + gain, high_end)
    return Estimate(value, low, 1.0 if chance else high), learner, consensus


def _ordered(low: float, value: float, high: float) -> Estimate:
    high = min(max(low, high), 1.0)
    return Estimate(min(max(value, low), high), low, high)


def _moment(p: FloatArray, c: float, right: int, wrong: int) -> FloatArray:
    """Return the probability that the first votes are right and the next ones wrong, for Beta difficulty."""
    s = c / (1 - c)
    result = np.ones(np.shape(p))
    for i in range(right):
        result = result * (p + i * s)
    for i in range(wrong):
        result = result * (1 - p + i * s)
    moment: FloatArray = result / np.prod(1 + s * np.arange(right + wrong))
    return moment


def _panel(moments: SampleMoments, n_classes: int, c: float, shift: float, side: int) -> _Panel:
    """Return the panel with correlation c and the agreement that was seen, shifted.

    If no three votes tell how much wrong votes agree, they agree as little (-1) or as much (+1) as they can.
    """
    agreement = float(np.clip(moments.pairs + shift, 0, 1))
    if n_classes == 2:
        pq = (1 - agreement) / (2 * (1 - c))
        return _Panel(0.5 + 0.5 * float(np.sqrt(max(1 - 4 * pq, 0.0))), c, 1.0)
    n_wrong = min(n_classes - 1, _MOST_WRONG)
    p = np.linspace(1 / n_classes, 1, 1001)
    a = (agreement - _moment(p, c, 2, 0)) / np.maximum(_moment(p, c, 0, 2), 1e-12)
    possible = np.clip(a, 1 / n_wrong, 1)
    missed = np.abs(_moment(p, c, 2, 0) + possible * _moment(p, c, 0, 2) - agreement)
    missed = np.where(missed < _RESOLUTION, 0.0, 1 + missed)  # first of all, the agreement
    if not np.isnan(moments.triples):
        apart = np.abs(_all_different(p, c, possible, n_wrong) - moments.triples)
    elif side == 0:
        apart = np.abs(possible - (1 / n_wrong + 1) / 2)
    else:
        apart = side * -possible
    cost = missed + apart
    best = int(np.flatnonzero(cost <= cost.min() + _RESOLUTION)[-1])  # of mirror images, most votes are right
    return _Panel(float(p[best]), c, float(possible[best]))


def _urn(a: FloatArray, n_wrong: int) -> FloatArray:
    """Return the inverse concentration of the urn whose draws agree with probability a."""
    return (a - 1 / n_wrong) / np.maximum(1 - a, 1e-12)


def _all_different(p: FloatArray, c: float, a: FloatArray, n_wrong: int) -> FloatArray:
    """Return the probability that three votes are all different."""
    three = (1 - a) * (1 - 2 / n_wrong) / (1 + 2 * _urn(a, n_wrong))
    different: FloatArray = 3 * _moment(p, c, 1, 2) * (1 - a) + _moment(p, c, 0, 3) * np.maximum(three, 0)
    return different


def _all_equal(panel: _Panel, n_classes: int) -> float:
    """Return the probability that four votes are equal."""
    n_wrong = min(n_classes - 1, _MOST_WRONG)
    p, a = np.array(panel.p), np.array(panel.a)
    alike = np.ones(())
    if n_classes > 2:
        t = _urn(a, n_wrong)
        for j in (1, 2, 3):
            alike = alike * (j * t + 1 / n_wrong) / (j * t + 1)
    return float(_moment(p, panel.c, 4, 0) + alike * _moment(p, panel.c, 0, 4))


def _correlation(moments: SampleMoments, n_classes: int) -> tuple[float, float]:
    """Return the correlation that explains how often four votes are equal, and the least one within the error.

    Of two correlations that do, it is the lower one.
    """
    if np.isnan(moments.quads):
        return np.nan, 0.0
    grid = np.linspace(0, _HIGHEST, 39)
    panels = [_panel(moments, n_classes, c, 0.0, 0) for c in grid]
    equal = np.array([_all_equal(panel, n_classes) for panel in panels])
    rising = slice(0, int(equal.argmax()) + 1)
    v = moments.covariance
    left = v[2, 2] - v[0, 2] ** 2 / v[0, 0] if v[0, 0] > 0 else v[2, 2]  # given how often two votes are equal
    seen = moments.quads - np.array([0, _Z]) * np.sqrt(max(left, 0.0))
    value, least = np.interp(seen, np.maximum.accumulate(equal[rising]), grid[rising]).tolist()
    return value, least


def _vote(panel: _Panel, voters: NDArray[np.int64], n_classes: int) -> float:
    numbers, shares = voter_numbers(voters, _NUMBERS)
    n_wrong = min(n_classes - 1, _MOST_WRONG)
    spread = None if n_classes == 2 else max(panel.a, 1 / n_wrong)
    c = min(panel.c, _HIGHEST)
    return float(shares @ plurality_accuracy(panel.p, c, numbers, n_classes=n_wrong + 1, agreement=spread))
