"""The groups of numbers that make up an assessment, as small frozen dataclasses.

Notation: N learners, m classes; ``r_tl`` and ``r_ll`` are the mean truth-learner and learner-learner correlations.
Undefined numbers are NaN.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.coverage import Coverage
from counterpoint.assessment.estimates import Difference, Estimate
from counterpoint.measures import Reliability
from counterpoint.theory import VoteCurve

__all__ = [
    "Certificates",
    "Challenge",
    "Changes",
    "ClassSummary",
    "Confusion",
    "CorrelationSummary",
    "Coverage",
    "Difference",
    "EffectiveVotes",
    "Estimate",
    "Finding",
    "Intervals",
    "ProbabilitySummary",
    "SubsetVotes",
    "VotePrediction",
    "VoteSummary",
]

SURE = 0.05  # a smaller p-value counts as evidence


class SubsetVotes(NamedTuple):
    """Accuracy of the hard vote of some of the learners, by their number.

    Attributes
    ----------
    sizes : array of int, shape (n_sizes,)
        Numbers of learners.
    mean, low, high : array, shape (n_sizes,)
        The mean over subsets of that size, and the range of the middle 90 % of them.

    Examples
    --------
    >>> import numpy as np
    >>> SubsetVotes(np.array([1, 3]), np.array([0.7, 0.8]), np.array([0.6, 0.8]), np.array([0.8, 0.8])).sizes.tolist()
    [1, 3]
    """

    sizes: IntArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray

    def odd(self) -> "SubsetVotes":
        """Return the odd sizes and the last: an even number may tie, so that it is no better than one learner less."""
        kept = (self.sizes % 2 == 1) | (self.sizes == self.sizes[-1])
        return SubsetVotes(*(values[kept] for values in self))


class Challenge(NamedTuple):
    """The vote against its most accurate learner, on the samples that this one answered.

    Attributes
    ----------
    learner : int
        Its position.
    difference : Estimate
        The accuracy of the vote less that of the learner, with its paired 95 % interval.
    p_value : float
        Of a paired test; where the learner is ahead, it was chosen on other samples than it is judged on.
    n_groups : int
        The number of groups of samples that belong together; of samples where each is on its own.

    Examples
    --------
    >>> Challenge(0, Estimate(-0.06, -0.1, -0.02), 0.02, 350).says
    'worse'
    """

    learner: int
    difference: Estimate
    p_value: float
    n_groups: int

    @property
    def says(self) -> str:
        """Whether the vote is ``"better"`` or ``"worse"`` than the learner, else ``"alike"``."""
        if not self.p_value < SURE:
            return "alike"
        return "better" if self.difference.value > 0 else "worse"


@dataclass(frozen=True)
class Finding:
    """One piece of advice: a code for programs, a sentence for people, the numbers behind it.

    Attributes
    ----------
    code : str
        The kind of finding, such as ``"families"``; ``docs/assess.md`` lists them.
    severity : {"good", "info", "warning"}
        Whether it is good news, worth knowing or worth acting on.
    text : str
        A sentence.
    numbers : dict
        The numbers in the sentence.

    Examples
    --------
    >>> Finding("small_sample", "info", "Few samples.", {"n_samples": 20}).code
    'small_sample'
    """

    code: str
    severity: str
    text: str
    numbers: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class CorrelationSummary:
    """How the learners correlate with the truth, with each other, and in their errors.

    Attributes
    ----------
    pooled : bool
        Whether correlations are pooled over the classes. They are averages over the classes that occur in the truth
        unless, for a learner or for two of them, the classes with a correlation hold less than 90 % of the samples: of
        free text only the answers that all hit would count. :func:`counterpoint.measures.truth_learner_correlation`
        has both.
    r_tl, r_ll : float
        Mean truth-learner and learner-learner correlation, over learners or pairs.
    bound, optimality : float
        The highest ``r_tl`` possible at this ``r_ll`` (Theorem 2), and ``r_tl`` as a share of it. With learners that
        are constant in some classes, ``r_tl`` may exceed the theorem; ``bound`` is then ``abs(r_tl)``.
    ceiling : float
        The highest correlation with the truth of any weighted sum of these learners.
    error_correlation : float
        Mean correlation of being correct.
    r_tl_learners : array, shape (n_learners,)
        Each learner's correlation with the truth.
    r_tl_classes, r_ll_classes : array, shape (n_classes,)
        The two means, class by class.
    matrix : array, shape (n_learners, n_learners)
        The correlation of every two learners, averaged over classes or pooled.
    same_errors, any_errors : array of int, shape (n_learners, n_learners)
        Samples on which two learners give the same wrong label, and samples on which at least one of them errs.
    families : tuple of tuples of int
        Learners whose errors coincide more than the rest of the panel has in common; at most 5 % of the pairs that
        connect them are expected to be found by chance.

    Examples
    --------
    >>> from counterpoint import assess
    >>> found = assess(list("00001111"), [list("00011110"), list("00101101"), list("01011111")]).correlations
    >>> print(f"r_TL {found.r_tl:.2f}, r_LL {found.r_ll:.2f}, at most {found.bound:.2f}")
    r_TL 0.53, r_LL 0.19, at most 0.68
    """

    pooled: bool
    r_tl: float
    r_ll: float
    bound: float
    optimality: float
    ceiling: float
    error_correlation: float
    r_tl_learners: FloatArray
    r_tl_classes: FloatArray
    r_ll_classes: FloatArray
    matrix: FloatArray
    same_errors: IntArray
    any_errors: IntArray
    families: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class VoteSummary:
    """How accurate the learners and their votes are.

    Attributes
    ----------
    accuracies : array, shape (n_learners,)
        Each learner's accuracy, on the samples that it answered.
    accuracy_low, accuracy_high : array, shape (n_learners,)
        Their 95 % intervals, Wilson's; samples that belong together are allowed for. NaN with fewer than five groups.
    hard, soft, geometric : Estimate
        Accuracy of the plurality vote, of the mean and of the geometric mean of the probabilities (NaN for labels). A
        tie is shared. Votes are over those who voted.
    weights : array, shape (n_learners,)
        The best non-negative weights, fitted to these samples; they sum to one. ``changes.reweighting`` tells what such
        weights bring on other samples.
    without, without_error : array, shape (n_learners,)
        The change of the vote's accuracy if that learner is left out, on the samples that others answered, and its
        standard error.
    against_best : Challenge
        The vote that counts against its most accurate learner.
    subsets : SubsetVotes
        Accuracy of the hard vote of some of the learners.

    Examples
    --------
    >>> from counterpoint import assess
    >>> found = assess(list("00001111"), [list("00011110"), list("00101101"), list("01011111")]).votes
    >>> found.accuracies, found.hard.value
    (array([0.75, 0.75, 0.75]), 0.875)
    """

    accuracies: FloatArray
    accuracy_low: FloatArray
    accuracy_high: FloatArray
    hard: Estimate
    soft: Estimate
    geometric: Estimate
    weights: FloatArray
    without: FloatArray
    without_error: FloatArray
    against_best: Challenge
    subsets: SubsetVotes


class Confusion(NamedTuple):
    """True classes by the classes that the vote chose, where a sample is: with many classes a table is mostly zeros.

    Attributes
    ----------
    true, chosen : array of int, shape (n_entries,)
        Positions of the classes, ordered by the true one.
    counts : array, shape (n_entries,)
        Samples; a tie is shared.

    Examples
    --------
    >>> from counterpoint import assess
    >>> found = assess(list("00001111"), [list("00011110"), list("00101101"), list("01011111")]).by_class
    >>> found.confusion.table(2)
    array([[3., 1.],
           [0., 4.]])
    """

    true: IntArray
    chosen: IntArray
    counts: FloatArray

    def table(self, n_classes: int) -> FloatArray:
        """Return it as a matrix, true classes by chosen ones, (n_classes, n_classes)."""
        table = np.zeros((n_classes, n_classes))
        table[self.true, self.chosen] = self.counts
        return table

    def errors(self) -> "Confusion":
        """Return the entries where the vote is wrong, the most frequent first."""
        order = np.argsort(-self.counts, kind="stable")
        order = order[self.true[order] != self.chosen[order]]
        return Confusion(*(values[order] for values in self))


@dataclass(frozen=True, eq=False)
class ClassSummary:
    """How the vote that counts does, class by class, on the samples that have votes.

    Attributes
    ----------
    shares : array, shape (n_classes,)
        The share of the samples in each class.
    recalls : array, shape (n_classes,)
        The share of each class that the vote finds; NaN for a class without samples.
    confusion : Confusion
        Samples by their class and the class that the vote chose; ``confusion.table(n_classes)`` is the matrix.
    baseline : float
        Accuracy of always choosing the most frequent class.
    balanced_accuracy : float
        The mean recall.

    Examples
    --------
    >>> from counterpoint import assess
    >>> found = assess(list("00001111"), [list("00011110"), list("00101101"), list("01011111")]).by_class
    >>> found.recalls, found.baseline
    (array([0.75, 1.  ]), 0.5)
    """

    shares: FloatArray
    recalls: FloatArray
    confusion: Confusion
    baseline: float
    balanced_accuracy: float


@dataclass(frozen=True)
class Changes:
    """What a change of the vote would bring, judged on samples that did not choose the change.

    Attributes
    ----------
    leave_out : tuple of int
        Learners without which the vote is best, dropped one after the other.
    leave_out_gain : Difference
        What leaving out brings, chosen on one half of the samples and judged on the other.
    reweighting : Difference
        What the best weights bring, fitted to one half of the samples and judged on the other.

    Examples
    --------
    >>> from counterpoint import assess
    >>> assess(list("00001111"), [list("00011110"), list("00101101"), list("01011111")]).changes.leave_out
    ()
    """

    leave_out: tuple[int, ...]
    leave_out_gain: Difference
    reweighting: Difference


@dataclass(frozen=True, eq=False)
class VotePrediction:
    """The accuracy of the hard vote that theory predicts from accuracies, error correlations and wrong answers.

    Attributes
    ----------
    equal : float
        For equal learners with the mean accuracy and the mean error correlation.
    mixed : float
        For these learners, each with its own accuracy.
    independent : float
        ``equal`` if the learners erred independently.
    agreement : float
        How often two learners that both err give the same answer.
    sizing : VoteCurve
        The vote of other numbers of learners like these, with 95 % intervals: measured up to their number, beyond it
        predicted from a mixture of easy and hard samples.
    more, twice : Estimate
        What ``added`` more learners like these, and one more than as many again, would change in the vote's accuracy,
        on average over such learners.
    different : Estimate
        The same of ``added`` learners as accurate as these that make their own mistakes.
    added : int
        Two where one more of an odd number of learners could only cause ties, else one.

    Examples
    --------
    >>> from counterpoint import assess
    >>> found = assess(list("00001111"), [list("00011110"), list("00101101"), list("01011111")]).prediction
    >>> print(f"{found.equal:.3f}, independent learners {found.independent:.3f}")
    0.883, independent learners 0.844
    """

    equal: float
    mixed: float
    independent: float
    agreement: float
    sizing: VoteCurve
    more: Estimate
    twice: Estimate
    different: Estimate
    added: int


@dataclass(frozen=True, eq=False)
class EffectiveVotes:
    """What the panel is worth, in judges as good as its best that err independently.

    Attributes
    ----------
    votes : Estimate
        The number of such judges, with its 95 % interval: signal over noise of the mean output, over that of the best
        learner. Below 1 the best learner alone is worth more than the vote.
    independence : Estimate
        How many independent judges err as little together: ``N / (1 + (N - 1) c)``, Kish's number, from the mean
        correlation c of being correct alone. Where votes are missing, N is the mean number of learners that answer.
    best : str
        The name of the learner that is most probably the best; empty if there is none.
    worth, worth_error : array, shape (n_learners,)
        By how much ``votes`` falls if a learner is left out, and its standard error; below zero the vote is better
        without it.
    with_weights : float
        ``votes`` with the best non-negative weights, fitted to four fifths of the samples and judged on the others.
    error_correlation : Estimate
        The mean correlation of being correct.
    mean_accuracy : Estimate
        The mean accuracy of the learners.
    samples_needed : float
        About how many samples bring the interval of the error correlation to plus or minus 0.05.
    undefined : str
        Why ``votes`` is undefined; empty if it is not.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoint import assess
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 1000)
    >>> panel = np.where(rng.random((5, 1000)) < 0.75, truth, 1 - truth)
    >>> found = assess(truth, panel).effective
    >>> print(found.votes.as_count(), found.independence.as_count(), sep=", ")
    4.5 (3.6 to 5.7), 4.8 (4.5 to 5.3)
    """

    votes: Estimate
    independence: Estimate
    best: str
    worth: FloatArray
    worth_error: FloatArray
    with_weights: float
    error_correlation: Estimate
    mean_accuracy: Estimate
    samples_needed: float
    undefined: str


@dataclass(frozen=True, eq=False)
class Intervals:
    """What else is known with a 95 % interval; samples that belong together are allowed for.

    Attributes
    ----------
    r_tl, r_ll : Estimate
        The mean truth-learner and learner-learner correlations.
    optimality : Estimate
        ``r_tl`` as a share of its bound.
    predicted : Estimate
        The accuracy of the hard vote that theory predicts for learners with their own accuracies. The interval allows
        for the error of the theory, by how much the measured vote differs.

    Examples
    --------
    >>> from counterpoint import assess
    >>> print(assess(list("00001111"), [list("00011110"), list("00101101"), list("01011111")]).intervals.r_tl)
    0.526 (0.108 to 0.786)
    """

    r_tl: Estimate
    r_ll: Estimate
    optimality: Estimate
    predicted: Estimate


@dataclass(frozen=True, eq=False)
class Certificates:
    """Upper bounds on the error of the hard vote.

    Attributes
    ----------
    c_bound : float
        On these samples.
    tandem_bound : float
        On new data, with 95 % confidence; NaN for training samples, on which it does not hold.

    Examples
    --------
    >>> from counterpoint import assess
    >>> round(assess(list("00001111"), [list("00011110"), list("00101101"), list("01011111")]).certificates.c_bound, 3)
    0.438
    """

    c_bound: float
    tandem_bound: float


@dataclass(frozen=True, eq=False)
class ProbabilitySummary:
    """How good the probabilities are.

    Attributes
    ----------
    log_loss, brier_score, calibration_error : float
        Of the vote that counts, by the functions of ``counterpoint.measures``; low is good. NaN for labels and for the
        hard vote.
    reliability : Reliability
        How often that vote is right, by its confidence; without bins for labels and for the hard vote.
    learner_log_losses : array, shape (n_learners,)
        Each learner's log-loss; NaN for labels.

    Examples
    --------
    >>> from counterpoint import assess
    >>> proba = [[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [[0.6, 0.4], [0.4, 0.6], [0.8, 0.2]]]
    >>> found = assess([0, 1, 1], proba, voting="soft").probabilities
    >>> print(f"log-loss {found.log_loss:.3f}, Brier score {found.brier_score:.3f}")
    log-loss 0.616, Brier score 0.428
    """

    log_loss: float
    brier_score: float
    calibration_error: float
    reliability: Reliability
    learner_log_losses: FloatArray
