"""Votes of several ensembles on the same samples, compared by a paired test.

Notation: n samples in G groups that belong together; d is the credit of one vote on a sample less that of the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len
from scipy.special import ndtr, ndtri

from counterpoint._notebook import html_block, html_list, html_table
from counterpoint._plain import plain
from counterpoint._validation import (
    ROUNDING,
    FloatArray,
    IntArray,
    check_choice,
    check_interval,
    check_number,
)
from counterpoint.assessment.bootstrap import FEW_GROUPS, FEWEST_GROUPS, GroupSums, check_groups
from counterpoint.assessment.groups import Estimate
from counterpoint.assessment.learners import abstentions, named_outputs
from counterpoint.assessment.votes import Z, wilson_interval
from counterpoint.outputs import VOTINGS, Outputs, RunningVote, split_missing, two_class_probabilities

__all__ = [
    "PairedVotes",
    "VoteComparison",
    "compare_votes",
    "credit_estimate",
    "equal_credit",
    "error_of_mean",
    "holm",
    "paired_difference",
    "paired_test",
]

SURE = 0.05  # a smaller p-value counts as evidence
GRIDS = (1, 2, 6, 12, 60, 420, 840, 2520)  # tied votes are shared: credits are whole in one of these parts
FINE = 2**15  # steps of a grid for sums that are on none
MOST_STEPS = 2**24  # of all different sums together


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values corrected for multiple testing by Holm's method.

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        Uncorrected p-values.

    Returns
    -------
    ndarray of shape (n_tests,)

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = check_interval(p_values, "p_values", 0, 1)
    order = np.argsort(p)
    corrected = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(corrected, 1.0)
    return adjusted


def credit_estimate(
    credit: ArrayLike, groups: ArrayLike | None = None, *, more_variance: float = 0.0
) -> Estimate:
    """Return the accuracy of a vote with Wilson's 95 % interval, from its credit on each sample.

    Parameters
    ----------
    credit : array-like of shape (n_samples,)
        1 where the vote is right, 0 where it is wrong, and a share where it is a tie. Samples with NaN, on which nobody
        voted, are left out.
    groups : array-like of shape (n_samples,), optional
        Which samples belong together; by default each is on its own.
    more_variance : float, default=0
        Variance of the mean that does not come from the samples, such as that of a choice.

    Returns
    -------
    Estimate
        The mean and the ends of the interval, which are NaN with fewer than five groups.

    Notes
    -----
    With groups, the interval is that of as many independent samples as have the variance of the mean over groups, but
    not more than there are, with Student's quantile in place of the normal one.

    Examples
    --------
    >>> print(credit_estimate([1.0] * 9 + [0.0]))
    0.900 (0.596 to 0.982)
    >>> print(credit_estimate([1.0] * 27 + [0.0] * 3, groups=np.arange(30) // 3))
    0.900 (0.523 to 0.987)
    """
    values, codes = _defined(credit, groups)
    share, n = float(values.mean()), float(len(values))
    spread, limit, most = share * (1 - share) / n, Z, n
    if codes is not None:
        sums = GroupSums.of(values, codes)
        if len(sums.sizes) < FEWEST_GROUPS:
            return Estimate(share, np.nan, np.nan)
        spread, limit = sums.variance(share), sums.limit()
        most = n if spread > 0 else float(len(sums.sizes))
    spread += more_variance
    worth = min(share * (1 - share) / spread, most) if spread > 0 else most
    # Wilson's interval depends on the quantile and n by z^2 / n alone.
    return Estimate(share, *wilson_interval(share, worth * (Z / limit) ** 2))


def paired_difference(
    differences: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    more_variance: float = 0.0,
) -> Estimate:
    r"""Return the mean of paired differences with its 95 % interval.

    Parameters
    ----------
    differences : array-like of shape (n_samples,)
        Credit of one vote less that of another, sample by sample: between -1 and 1. Samples with NaN are left out.
    groups : array-like of shape (n_samples,), optional
        Which samples belong together; by default each is on its own.
    confidence : float, default=0.95
        The confidence of the interval.
    more_variance : float, default=0
        Variance of the mean that does not come from the samples, such as that of a choice.

    Returns
    -------
    Estimate
        The mean and the ends of the interval, which are NaN with fewer than five groups.

    Notes
    -----
    The interval of Bonett and Price (2012): the usual one after adding two samples, one that each vote wins. It holds
    where votes rarely differ, and has a width where they never do:

    .. math:: \tilde d \pm 1.96 \sqrt{\frac{\sum d^2 + 2}{(n + 2)^2} - \frac{\tilde d^2}{n + 2}}, \qquad
              \tilde d = \frac{\sum d}{n + 2}.

    With groups, two groups are added, of as many samples as groups differ by on average where they do; each vote wins
    one of them. The variance is that of the groups' sums, corrected for their leverage (CR2; Bell and McCaffrey
    2002), and Student's quantile has the degrees of freedom of Satterthwaite.

    Examples
    --------
    >>> [round(float(end), 3) for end in paired_difference([1.0] * 9 + [-1.0] + [0.0] * 90)]
    [0.08, 0.014, 0.143]
    >>> [round(float(end), 3) for end in paired_difference([0.0] * 100)]
    [0.0, -0.027, 0.027]
    """
    d, codes = _defined(differences, groups)
    tail = (1 + check_number(confidence, "confidence", 0, 1, closed=False)) / 2
    if codes is None:
        n = len(d) + 2
        middle, limit = d.sum() / n, ndtri(tail)
        spread = max((d**2).sum() + 2 - n * middle**2, 0) / n**2
    else:
        sums = GroupSums.of(d, codes)
        if len(sums.sizes) < FEWEST_GROUPS:
            return Estimate(float(d.mean()), np.nan, np.nan)
        more = sums.with_a_win_each()
        middle = d.sum() / more.sizes.sum()
        spread, limit = more.variance(middle), more.limit(tail)
    half = limit * np.sqrt(spread + more_variance)
    return Estimate(float(d.mean()), max(float(middle - half), -1.0), min(float(middle + half), 1.0))


def paired_test(differences: ArrayLike, groups: ArrayLike | None = None) -> float:
    """Return the p-value of a paired test: whether two votes on the same samples are equally accurate.

    Parameters
    ----------
    differences : array-like of shape (n_samples,)
        Credit of one vote less that of another, sample by sample: between -1 and 1. Samples with NaN are left out.
    groups : array-like of shape (n_samples,), optional
        Which samples belong together; by default each is on its own.

    Returns
    -------
    float
        The two-sided p-value; NaN with fewer than five groups.

    Notes
    -----
    If the votes are equally accurate, the sum of the differences over a group is as often positive as negative. The
    total is compared with that of all choices of the signs of the groups' sums, and its own probability counts half
    (mid-p). Where each sample is its own group and no vote is tied, this is McNemar's test in its mid-p form, the one
    with the best level (Fagerland, Lydersen and Laake 2013). All choices of signs are counted by a Fourier transform;
    where there are too many different sums for it, their normal limit is used.

    Examples
    --------
    >>> round(paired_test([1.0] * 9 + [-1.0] + [0.0] * 90), 4), paired_test([0.0] * 100)
    (0.0117, 1.0)

    Ten pairs of equal samples are ten samples:

    >>> round(paired_test([1.0] * 18 + [-1.0] * 2, groups=np.arange(20) // 2), 4)
    0.0117
    """
    d, codes = _defined(differences, groups)
    sums = d if codes is None else GroupSums.of(d, codes).sums
    if codes is not None and len(sums) < FEWEST_GROUPS:
        return float("nan")
    return _sign_flip_test(sums[np.abs(sums) > ROUNDING])


def error_of_mean(values: ArrayLike, groups: ArrayLike | None = None, *, sure: float | None = None) -> float:
    """Return the standard error of a mean, over samples or over groups of samples.

    Parameters
    ----------
    values : array-like of shape (n_samples,)
        What is averaged; NaN is left out.
    groups : array-like of shape (n_samples,), optional
        Which samples belong together; by default each is on its own.
    sure : float, optional
        The number of standard errors that will count as evidence: with few groups the error is then widened by what
        Student's quantile has over the normal one.

    Returns
    -------
    float
        NaN with fewer than two samples or groups.

    Examples
    --------
    >>> values = np.array([1.0, 0.0, 1.0, 1.0])
    >>> round(error_of_mean(values), 3), round(error_of_mean(np.repeat(values, 2), np.arange(8) // 2), 3)
    (0.25, 0.25)
    """
    known, codes = _defined(values, groups)
    if codes is None:
        codes = np.arange(len(known))
    if len(np.unique(codes)) < 2:
        return float("nan")
    sums = GroupSums.of(known, codes)
    wider = 1.0 if sure is None or groups is None else sums.limit(float(ndtr(sure))) / sure
    return wider * float(np.sqrt(sums.variance(float(known.mean()))))


def _defined(values: ArrayLike, groups: ArrayLike | None) -> tuple[FloatArray, IntArray | None]:
    """Return the values that are not NaN, and their groups as 0, 1, ...; None where each is on its own."""
    numbers = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(numbers)
    if groups is None:
        return numbers[known], None
    found, codes = np.unique(np.asarray(groups)[known], return_inverse=True)
    return numbers[known], None if len(found) == len(codes) else codes


def _sign_flip_test(sums: FloatArray) -> float:
    """Return the two-sided mid-p of the total of the sums, among those of all choices of their signs."""
    if not len(sums):
        return 1.0
    size = np.abs(sums)
    scale = next((one for one in GRIDS if np.allclose(size * one, np.rint(size * one), atol=1e-6)), None)
    # Sums that are not on a grid are rounded to a fine one; a test of the rounded sums is as good.
    steps = np.rint(sums * (FINE / size.sum() if scale is None else scale)).astype(np.int64)
    values, counts = np.unique(np.abs(steps), return_counts=True)
    most = int(values @ counts)
    different = len(values) if scale is not None else len(sums)
    if most * different > MOST_STEPS:
        return float(2 * ndtr(-abs(sums.sum()) / np.sqrt(sums @ sums)))
    # The sum K of those with a minus sign has the characteristic function prod (1 + exp(i v t)) / 2; the total is
    # most - 2 K.
    length = next_fast_len(most + 1, real=True)
    half_angle = np.pi * np.arange(length // 2 + 1) / length
    transform = np.exp(-1j * half_angle * most)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        transform *= np.cos(half_angle * value) ** count
    chances = np.maximum(irfft(transform, length), 0.0)
    reached = (most - abs(int(steps.sum()))) // 2
    return float(min(2 * chances[:reached].sum() + chances[reached], 1.0))


class PairedVotes(NamedTuple):
    """Two votes on the same samples.

    Attributes
    ----------
    first, second : str
        The names of the ensembles; the first has the more accurate vote.
    difference : Estimate
        Accuracy of the first less that of the second, with its paired 95 % interval.
    ahead, behind : int
        Samples on which the first has the greater credit, and on which the second has.
    p_value : float
        Of :func:`paired_test`.
    corrected : float
        The p-value, corrected by Holm's method for the number of pairs.
    margin : float or None
        The difference that does not matter, if one was given.
    at_most : float
        The upper end of the one-sided 95 % interval of the difference: by how much the second may be worse.

    Examples
    --------
    >>> pair = PairedVotes("old", "new", Estimate(0.004, -0.01, 0.02), 12, 10, 0.67, 0.67, 0.02, 0.017)
    >>> pair.apart, pair.no_worse
    (False, True)
    >>> str(pair)
    'old and new cannot be told apart: +0.4 points (-1.0 to +2.0), p = 0.67; new is no worse by 2 points (at most 1.7).'
    """

    first: str
    second: str
    difference: Estimate
    ahead: int
    behind: int
    p_value: float
    corrected: float
    margin: float | None = None
    at_most: float = np.nan

    @property
    def apart(self) -> bool:
        """Whether the data tell the two apart: a corrected p-value below 0.05, and an interval above 0."""
        return self.corrected < SURE and self.difference.low > 0

    @property
    def no_worse(self) -> bool | None:
        """Whether the second is surely no worse than the first by the margin; None without a margin.

        A one-sided test at 5 %. The first is ahead, so then neither is worse than the other by the margin: the two are
        equivalent by two one-sided tests (TOST).
        """
        return None if self.margin is None else bool(self.at_most < self.margin)

    def __str__(self) -> str:
        if np.isnan(self.p_value):
            value = f"{100 * self.difference.value:+.1f} points"
            why = f"there are fewer than {FEWEST_GROUPS} groups"
            return f"{self.first} and {self.second}: {value}, without an interval or a test, as {why}."
        value, low, high = (f"{100 * end + 0.0:+.1f}" for end in self.difference)
        p = "p < 0.001" if self.corrected < 0.001 else f"p = {self.corrected:.2g}"
        if not self.apart and low[0] == "+":  # the interval is that of one pair
            p += " after correction for all pairs"
        said = "is more accurate than {}" if self.apart else "and {} cannot be told apart"
        points = f"{value} points ({low} to {high})"
        return f"{self.first} {said.format(self.second)}: {points}, {p}{self._equivalence()}."

    def _equivalence(self) -> str:
        if self.margin is None:
            return ""
        margin, most = f"{100 * self.margin:g} points", f"at most {100 * self.at_most:.1f}"
        if self.no_worse:
            return f"; {self.second} is no worse by {margin} ({most})"
        return f"; it is not shown that {self.second} is no worse by {margin} ({most})"


@dataclass(frozen=True)
class VoteComparison:
    """The votes of several ensembles on the same samples, and a paired test of every two.

    Returned by :func:`compare_votes`.

    Attributes
    ----------
    accuracies : dict of str to Estimate
        Accuracy of each vote by the name of its ensemble.
    n_samples : int
        The number of samples.
    pairs : tuple of PairedVotes
        Every two ensembles, those of the most accurate vote first.
    n_groups : int or None
        The number of groups of samples that belong together; None where each sample is on its own.

    Examples
    --------
    >>> truth = [0, 1] * 20
    >>> print(compare_votes(truth, {"coin": [[0] * 40], "judges": [truth, truth, truth]}))
    judges is more accurate than coin: +50.0 points (+31.1 to +64.1), p < 0.001.
    """

    accuracies: Mapping[str, Estimate]
    n_samples: int
    pairs: tuple[PairedVotes, ...]
    n_groups: int | None = None

    @classmethod
    def from_credits(
        cls,
        by_name: Mapping[str, FloatArray],
        groups: ArrayLike | None = None,
        margin: float | None = None,
    ) -> "VoteComparison":
        """Return the comparison of votes whose credit on each sample is known, by the names of the ensembles.

        Samples on which some vote has no credit, because nobody voted, are left out.
        """
        known = ~np.isnan(np.array(list(by_name.values()))).any(axis=0)
        if not known.any():
            raise ValueError(
                f"`ensembles` must have votes on a common sample; {' and '.join(by_name)} have none."
            )
        codes = check_groups(groups, len(known))
        by_name, n = {name: credit[known] for name, credit in by_name.items()}, int(known.sum())
        codes = None if codes is None else codes[known]
        accuracies = {name: credit_estimate(credit, codes) for name, credit in by_name.items()}
        ranked = sorted(accuracies, key=lambda name: -round(accuracies[name].value, 9))
        every = list(combinations(ranked, 2))
        differences = [by_name[first] - by_name[second] for first, second in every]
        p_values = np.array([paired_test(d, codes) for d in differences])
        corrected = p_values if np.isnan(p_values).any() else holm(p_values)
        pairs = [
            PairedVotes(
                first,
                second,
                paired_difference(d, codes),
                ahead=int((d > ROUNDING).sum()),
                behind=int((d < -ROUNDING).sum()),
                p_value=float(p),
                corrected=float(holms),
                margin=None if margin is None else check_number(margin, "margin", 0, 1),
                at_most=paired_difference(d, codes, confidence=0.9).high,
            )
            for (first, second), d, p, holms in zip(every, differences, p_values, corrected, strict=True)
        ]
        return cls(accuracies, n, tuple(pairs), None if codes is None else len(np.unique(codes)))

    @property
    def note(self) -> str:
        """What to know about the groups of samples, as a sentence; empty if there are none or enough."""
        few = self.n_groups is not None and FEWEST_GROUPS <= self.n_groups < FEW_GROUPS
        return (
            f"The samples are of {self.n_groups} groups only: intervals and tests are rough." if few else ""
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings."""
        data: dict[str, Any] = plain(self)
        data["pairs"] = [plain({**pair._asdict(), "no_worse": pair.no_worse}) for pair in self.pairs]
        return data

    def __str__(self) -> str:
        return "\n".join([*map(str, self.pairs), *([self.note] if self.note else [])])

    def _repr_html_(self) -> str:
        ranked = sorted(self.accuracies.items(), key=lambda entry: -entry[1].value)
        rows = [(name, str(accuracy)) for name, accuracy in ranked]
        title = f"{len(rows)} votes on {self.n_samples} samples"
        table = html_table(rows, ("ensemble", "right (95 % interval)"))
        return html_block(title, self.note, table, html_list(map(str, self.pairs)))


def compare_votes(
    y_true: ArrayLike,
    ensembles: Mapping[str, Any],
    *,
    labels: ArrayLike | None = None,
    voting: str = "hard",
    abstain: Any = None,
    groups: ArrayLike | None = None,
    margin: float | None = None,
) -> VoteComparison:
    """Compare the votes of ensembles on the same samples, by a paired test of every two.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels.
    ensembles : mapping of str to outputs
        At least two ensembles by name, on the same samples in the same order. Outputs are whatever
        :func:`counterpoint.assess` takes: arrays of labels or probabilities, learners first, mappings or DataFrames,
        also with missing votes.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the sorted labels.
    voting : {"hard", "soft", "geometric"}, default="hard"
        How the ensembles vote.
    abstain : label or sequence of labels, optional
        Labels that mean no vote, such as "skip"; by default none.
    groups : array-like of shape (n_samples,), optional
        Which samples belong together, such as several items of one document; by default samples are independent.
    margin : float, optional
        A difference in accuracy that does not matter, such as 0.02: each pair then also says whether the less accurate
        vote is no worse by that much.

    Returns
    -------
    VoteComparison
        Accuracies with intervals, and for every two ensembles the difference with its paired interval and the p-value
        of :func:`paired_test`, corrected by Holm's method. It prints as sentences.

    Notes
    -----
    The test flips the signs of the differences of samples, or of the sums over groups. Without groups and ties it is
    McNemar's, in its mid-p form. A tie counts by its credit. A vote is called more accurate if the test rejects and the
    interval of the difference is above 0. Samples on which an ensemble has no vote are left out. From fewer than five
    groups there is no interval and no test.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 400)
    >>> votes = np.where(rng.random((7, 400)) < 0.75, truth, 1 - truth)
    >>> print(compare_votes(truth, {"three": votes[:3], "five": votes[:5], "all": votes}))
    all is more accurate than five: +4.2 points (+1.7 to +6.7), p < 0.001.
    all is more accurate than three: +10.2 points (+6.7 to +13.7), p < 0.001.
    five is more accurate than three: +6.0 points (+2.8 to +9.2), p < 0.001.
    >>> print(compare_votes(truth, {"a": votes[:5], "b": votes[2:]}, margin=0.05))
    b and a cannot be told apart: +0.2 points (-3.2 to +3.7), p = 0.89; a is no worse by 5 points (at most 3.2).
    """
    check_choice(voting, "voting", VOTINGS)
    if not isinstance(ensembles, Mapping) or len(ensembles) < 2:
        raise ValueError(
            f"`ensembles` must be a mapping with at least two ensembles; got {_count(ensembles)}."
        )
    by_name = {
        str(name): equal_credit(y_true, one, labels, voting, abstain) for name, one in ensembles.items()
    }
    return VoteComparison.from_credits(by_name, groups, margin)


def equal_credit(
    y_true: ArrayLike, outputs: Any, labels: ArrayLike | None, voting: str, abstain: Any = None
) -> FloatArray:
    """Return the credit of the equal vote on each sample.

    Parameters
    ----------
    y_true, outputs, labels, voting, abstain
        As for :func:`counterpoint.assess`.

    Returns
    -------
    ndarray of shape (n_samples,)
        1 where the vote is right, 0 where it is wrong, a share where it is tied, NaN where nobody voted.

    Examples
    --------
    >>> equal_credit([0, 1, 1], {"a": [0, 1, None], "b": [1, 1, None]}, None, "hard")
    array([0.5, 1. , nan])
    """
    named = named_outputs(outputs, None, y_true, call='compare_votes({truth}, {{"name": {outputs}, ...}})')[0]
    outputs = two_class_probabilities(named, y_true, labels)
    array, missing = split_missing(outputs, abstentions(abstain, y_true))
    read = Outputs(array, y_true, labels, missing=missing)
    if voting != "hard" and read.probabilities is None:
        raise ValueError(f"`voting` must be 'hard' where ensembles have labels; got {voting!r}.")
    return RunningVote(read, voting, np.ones(read.n_learners)).credit()


def _count(ensembles: Any) -> str:
    return str(len(ensembles)) if isinstance(ensembles, Mapping) else type(ensembles).__name__
