"""Votes of several ensembles on the same samples, compared by a paired test.

Notation: n samples; d is the credit of one vote on a sample less that of the other. The exact McNemar test counts the
samples on which one vote is ahead, and on which the other is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._notebook import html_block, html_list, html_table
from counterpoint._plain import plain
from counterpoint._validation import FloatArray, check_choice, check_interval
from counterpoint.assessment.groups import Estimate
from counterpoint.assessment.learners import abstentions, named_outputs
from counterpoint.assessment.votes import Z, mcnemar, wilson_interval
from counterpoint.outputs import VOTINGS, Outputs, RunningVote, split_missing, two_class_probabilities

__all__ = [
    "PairedVotes",
    "VoteComparison",
    "compare_votes",
    "credit_estimate",
    "equal_credit",
    "holm",
    "paired_difference",
]

SURE = 0.05  # a smaller p-value counts as evidence


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


def credit_estimate(credit: ArrayLike) -> Estimate:
    """Return the accuracy of a vote with Wilson's 95 % interval, from its credit on each sample.

    Parameters
    ----------
    credit : array-like of shape (n_samples,)
        1 where the vote is right, 0 where it is wrong, and a share where it is a tie.

    Returns
    -------
    Estimate
        The mean and the ends of the interval.

    Examples
    --------
    >>> print(credit_estimate([1.0] * 9 + [0.0]))
    0.900 (0.596 to 0.982)
    """
    values = np.asarray(credit, dtype=np.float64)
    share = float(values.mean())
    return Estimate(share, *wilson_interval(share, len(values)))


def paired_difference(differences: ArrayLike) -> Estimate:
    r"""Return the mean of paired differences with its 95 % interval.

    Parameters
    ----------
    differences : array-like of shape (n_samples,)
        Credit of one vote less that of another, sample by sample: between -1 and 1.

    Returns
    -------
    Estimate
        The mean and the ends of the interval.

    Notes
    -----
    The interval of Bonett and Price (2012): the usual one after adding two samples, one that each vote wins. It holds
    where votes rarely differ, and has a width where they never do:

    .. math:: \tilde d \pm 1.96 \sqrt{\frac{\sum d^2 + 2}{(n + 2)^2} - \frac{\tilde d^2}{n + 2}}, \qquad
              \tilde d = \frac{\sum d}{n + 2}.

    Examples
    --------
    >>> [round(float(end), 3) for end in paired_difference([1.0] * 9 + [-1.0] + [0.0] * 90)]
    [0.08, 0.014, 0.143]
    >>> [round(float(end), 3) for end in paired_difference([0.0] * 100)]
    [0.0, -0.027, 0.027]
    """
    d = np.asarray(differences, dtype=np.float64)
    n = len(d) + 2
    middle = d.sum() / n
    half = Z * np.sqrt(max(((d**2).sum() + 2) / n - middle**2, 0) / n)
    return Estimate(float(d.mean()), max(float(middle - half), -1.0), min(float(middle + half), 1.0))


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
        Of the exact McNemar test.
    corrected : float
        The p-value, corrected by Holm's method for the number of pairs.

    Examples
    --------
    >>> pair = PairedVotes("old", "new", Estimate(0.004, -0.01, 0.02), 12, 10, 0.83, 0.83)
    >>> pair.apart, str(pair)
    (False, 'old and new cannot be told apart: +0.4 points (-1.0 to +2.0), p = 0.83.')
    """

    first: str
    second: str
    difference: Estimate
    ahead: int
    behind: int
    p_value: float
    corrected: float

    @property
    def apart(self) -> bool:
        """Whether the data tell the two apart: a corrected p-value below 0.05, and a difference surely above 0.

        Without shared ties the first implies the second. The test counts samples, whatever the credit on them; a vote
        that is ahead by half a credit on many and behind by a whole one on few need not be more accurate.
        """
        return self.corrected < SURE and self.difference.low > 0

    def __str__(self) -> str:
        value, low, high = (f"{100 * end:+.1f}" for end in self.difference)
        p = "p < 0.001" if self.corrected < 0.001 else f"p = {self.corrected:.2g}"
        points = f"{value} points ({low} to {high})"
        if self.apart:
            return f"{self.first} is more accurate than {self.second}: {points}, {p}."
        alike = f"{self.first} and {self.second} cannot be told apart: {points}"
        if self.corrected < SURE:
            one, many, few = self.first, self.ahead, self.behind
            if many < few:
                one, many, few = self.second, few, many
            return f"{alike}; {one} is ahead on {many} samples and behind on {few} ({p}), but ties are part of it."
        return f"{alike}, {p}."


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

    Examples
    --------
    >>> truth = [0, 1] * 20
    >>> print(compare_votes(truth, {"coin": [[0] * 40], "judges": [truth, truth, truth]}))
    judges is more accurate than coin: +50.0 points (+31.1 to +64.1), p < 0.001.
    """

    accuracies: Mapping[str, Estimate]
    n_samples: int
    pairs: tuple[PairedVotes, ...]

    @classmethod
    def from_credits(cls, by_name: Mapping[str, FloatArray]) -> "VoteComparison":
        """Return the comparison of votes whose credit on each sample is known, by the names of the ensembles.

        Samples on which some vote has no credit, because nobody voted, are left out.
        """
        known = ~np.isnan(np.array(list(by_name.values()))).any(axis=0)
        by_name, n = {name: credit[known] for name, credit in by_name.items()}, int(known.sum())
        accuracies = {name: credit_estimate(credit) for name, credit in by_name.items()}
        ranked = sorted(accuracies, key=lambda name: -round(accuracies[name].value, 9))
        found = []
        for first, second in combinations(ranked, 2):
            d = by_name[first] - by_name[second]
            ahead, behind = int((d > 0).sum()), int((d < 0).sum())
            found.append((first, second, paired_difference(d), ahead, behind, mcnemar(ahead, behind)))
        corrected = holm([pair[-1] for pair in found]).tolist()
        return cls(
            accuracies,
            n,
            tuple(PairedVotes(*pair, p) for pair, p in zip(found, corrected, strict=True)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings."""
        data: dict[str, Any] = plain(self)
        return data

    def __str__(self) -> str:
        return "\n".join(map(str, self.pairs))

    def _repr_html_(self) -> str:
        ranked = sorted(self.accuracies.items(), key=lambda entry: -entry[1].value)
        rows = [(name, str(accuracy)) for name, accuracy in ranked]
        title = f"{len(rows)} votes on {self.n_samples} samples"
        table = html_table(rows, ("ensemble", "right (95 % interval)"))
        return html_block(title, "", table, html_list(map(str, self.pairs)))


def compare_votes(
    y_true: ArrayLike,
    ensembles: Mapping[str, Any],
    *,
    labels: ArrayLike | None = None,
    voting: str = "hard",
    abstain: Any = None,
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

    Returns
    -------
    VoteComparison
        Accuracies with intervals, and for every two ensembles the difference with its paired interval and the exact
        McNemar test, corrected by Holm's method. It prints as sentences.

    Notes
    -----
    The test is of the samples on which only one of the votes is right, and needs no approximation. A shared tie counts
    as ahead of a wrong vote and behind a right one. So with ties the test may find that one vote is ahead more often
    where their accuracies do not differ. A vote is called more accurate only if the interval of the difference, which
    weighs ties by their credit, is above 0 as well. Samples count as independent. Those on which an ensemble has no
    vote are left out.

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
    """
    check_choice(voting, "voting", VOTINGS)
    if not isinstance(ensembles, Mapping) or len(ensembles) < 2:
        raise ValueError(
            f"`ensembles` must be a mapping with at least two ensembles; got {_count(ensembles)}."
        )
    return VoteComparison.from_credits(
        {str(name): equal_credit(y_true, one, labels, voting, abstain) for name, one in ensembles.items()}
    )


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
    outputs = two_class_probabilities(named_outputs(outputs, None)[0], y_true, labels)
    array, missing = split_missing(outputs, abstentions(abstain, y_true))
    read = Outputs(array, y_true, labels, missing=missing)
    if voting != "hard" and read.probabilities is None:
        raise ValueError(f"`voting` must be 'hard' where ensembles have labels; got {voting!r}.")
    return RunningVote(read, voting, np.ones(read.n_learners)).credit()


def _count(ensembles: Any) -> str:
    return str(len(ensembles)) if isinstance(ensembles, Mapping) else type(ensembles).__name__
