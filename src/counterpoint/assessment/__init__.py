"""Where any ensemble stands, from its predictions alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._notebook import progress_bar
from counterpoint._validation import check_choice, check_flag
from counterpoint.assessment._compute import Report, compute
from counterpoint.assessment.agreement import assess_agreement
from counterpoint.assessment.agreement_result import (
    AgreementAssessment,
    AgreementSummary,
    ConsensusBounds,
    DawidSkeneSummary,
    LabelSummary,
)
from counterpoint.assessment.answers import fold_label
from counterpoint.assessment.bootstrap import FEW_GROUPS, FEWEST_GROUPS, check_groups, stratified_parts
from counterpoint.assessment.comparison import (
    PairedVotes,
    VoteComparison,
    compare_votes,
    credit_estimate,
    equal_credit,
    error_of_mean,
    holm,
    paired_difference,
    paired_test,
)
from counterpoint.assessment.dawid_skene import DawidSkene, dawid_skene
from counterpoint.assessment.decision import UNDECIDED
from counterpoint.assessment.findings import with_findings
from counterpoint.assessment.groups import (
    Certificates,
    Challenge,
    Changes,
    ClassSummary,
    Confusion,
    CorrelationSummary,
    Coverage,
    Difference,
    EffectiveVotes,
    Estimate,
    Finding,
    Intervals,
    ProbabilitySummary,
    SubsetVotes,
    VotePrediction,
    VoteSummary,
)
from counterpoint.assessment.learners import LearnerOutputs, abstentions, learner_outputs, named_outputs
from counterpoint.assessment.partly import assess_partly, known_truth
from counterpoint.assessment.regression import assess_regression
from counterpoint.assessment.regression_result import ErrorComponents, RegressionAssessment
from counterpoint.assessment.result import SAMPLES, Assessment, check_names
from counterpoint.assessment.score_result import ScoreAssessment
from counterpoint.assessment.scores import assess_scores
from counterpoint.assessment.votes import wilson_interval
from counterpoint.outputs import (
    VOTINGS,
    Outputs,
    split_missing,
    two_class_probabilities,
    warn_undefined,
)

__all__ = [
    "FEWEST_GROUPS",
    "FEW_GROUPS",
    "AgreementAssessment",
    "AgreementSummary",
    "Assessment",
    "Certificates",
    "Challenge",
    "Changes",
    "ClassSummary",
    "Confusion",
    "ConsensusBounds",
    "CorrelationSummary",
    "Coverage",
    "DawidSkene",
    "DawidSkeneSummary",
    "Difference",
    "EffectiveVotes",
    "ErrorComponents",
    "Estimate",
    "Finding",
    "Intervals",
    "LabelSummary",
    "LearnerOutputs",
    "PairedVotes",
    "ProbabilitySummary",
    "RegressionAssessment",
    "ScoreAssessment",
    "SubsetVotes",
    "VoteComparison",
    "VotePrediction",
    "VoteSummary",
    "assess",
    "assess_estimator",
    "assess_regression",
    "assess_scores",
    "check_groups",
    "check_names",
    "compare_votes",
    "credit_estimate",
    "dawid_skene",
    "equal_credit",
    "error_of_mean",
    "fold_label",
    "holm",
    "learner_outputs",
    "named_outputs",
    "paired_difference",
    "paired_test",
    "stratified_parts",
    "wilson_interval",
]


@overload
def assess(
    y_true: ArrayLike,
    outputs: Any,
    *,
    labels: ArrayLike | None = None,
    voting: str = "hard",
    samples: str = "held_out",
    learners: Sequence[str] | None = None,
    abstain: Any = None,
    groups: ArrayLike | None = None,
    name: str = "ensemble",
    progress: bool = False,
) -> Assessment: ...


@overload
def assess(
    y_true: Any,
    outputs: None = None,
    *,
    labels: ArrayLike | None = None,
    learners: Sequence[str] | None = None,
    abstain: Any = None,
    groups: ArrayLike | None = None,
    name: str = "ensemble",
) -> AgreementAssessment: ...


def assess(
    y_true: Any,
    outputs: Any = None,
    *,
    labels: ArrayLike | None = None,
    voting: str = "hard",
    samples: str = "held_out",
    learners: Sequence[str] | None = None,
    abstain: Any = None,
    groups: ArrayLike | None = None,
    name: str = "ensemble",
    progress: bool = False,
) -> Assessment | AgreementAssessment:
    r"""Assess an ensemble: where it stands, what its ceiling is and what would help.

    ``assess(outputs)``, without a truth, tells how far the learners agree.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind. Where some are unknown (None, NaN or masked), the samples with a truth are
        assessed, and ``agreement`` of the result describes all of them. Without a truth, pass the outputs alone.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes), mapping or DataFrame
        Labels, or probabilities; of two classes also (n_learners, n_samples), the probability of the second one. A
        memory-mapped array is read in blocks and never copied whole. A mapping holds the outputs of each learner by
        its name, a DataFrame one column of labels for each learner. A label that is None, NaN, ``pandas.NA`` or masked
        is missing, and so is a row of probabilities that are all NaN or masked.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the sorted labels of ``y_true``, and of
        ``outputs`` where those are labels.
    voting : {"hard", "soft", "geometric"}, default="hard"
        The vote that counts: the most votes, the highest mean probability, or the highest geometric mean of the
        probabilities.
    samples : {"held_out", "training"}, default="held_out"
        Whether the learners saw these samples in training. On training samples the verdict and a finding say that the
        accuracies are too high for new data, and no bound on new data is given.
    learners : sequence of str, optional
        Distinct names of the learners; by default those of a mapping or a DataFrame, else L1, L2, ... Columns that
        cannot be answers, such as the names of the samples or their topics, are refused unless this names them.
    abstain : label or sequence of labels, optional
        Labels that mean no vote, such as "skip"; by default none.
    groups : array-like of shape (n_samples,), optional
        Which samples belong together, such as several items of one document. All intervals then
        allow for it; by default samples are independent.
    name : str, default="ensemble"
        The name of the ensemble.
    progress : bool, default=False
        Show a progress bar.

    Returns
    -------
    Assessment or AgreementAssessment
        The numbers and the advice; without a truth, an AgreementAssessment.

    Warns
    -----
    UndefinedMeasureWarning
        If a number is undefined, such as the correlation of a constant learner. It is NaN, and averages skip it.

    See Also
    --------
    assess_estimator : The same for a fitted scikit-learn ensemble.
    counterpoint.assessment.assess_regression : The same for numbers.
    counterpoint.assessment.assess_scores : Numbers on a scale without a truth.

    Notes
    -----
    The samples are read twice: once for the correlations of all pairs, by matrix products, and once for the votes.
    Time is linear in the samples; extra memory does not grow with them.

    Missing votes are data. A learner is judged on the samples that it answered, two learners are correlated over those
    that both answered, and the vote is that of those who voted. Samples without a vote are counted in ``coverage`` and
    are neither right nor wrong. The numbers hold for the samples that were answered: learners that leave out hard
    samples look better than they are.

    Examples
    --------
    >>> truth = ["ham", "ham", "spam", "spam", "ham", "spam"]
    >>> votes = [
    ...     ["ham", "ham", "spam", "spam", "spam", "spam"],
    ...     ["ham", "spam", "spam", "spam", "ham", "spam"],
    ...     ["ham", "ham", "spam", "ham", "spam", "spam"],
    ... ]
    >>> assessment = assess(truth, votes)
    >>> assessment.vote.value
    0.8333333333333334
    >>> round(assessment.r_tl, 3), round(assessment.r_ll, 3), round(assessment.optimality, 3)
    (0.583, 0.319, 0.788)
    >>> [finding.code for finding in assessment.findings]
    ['majority_baseline', 'more_learners', 'small_sample']

    Without the truth:

    >>> panel = assess(votes)
    >>> round(panel.agreement.krippendorff_alpha.value, 3), panel.consensus[:3]
    (0.338, ('ham', 'ham', 'spam'))

    The third learner leaves out every sixth answer:

    >>> votes = [vote * 10 for vote in votes]
    >>> votes[2][::6] = ["skip"] * 10
    >>> assess(truth * 10, votes, abstain="skip").coverage.answered
    array([60, 60, 50])
    """
    check_choice(voting, "voting", VOTINGS)
    check_choice(samples, "samples", SAMPLES)
    check_flag(progress, "progress")
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a string; got {name!r}.")
    if y_true is None or outputs is None:
        votes = y_true if outputs is None else outputs
        outputs, learners = named_outputs(votes, learners, call="assess({outputs})")
        if voting != "hard":
            raise ValueError(f"`voting` must be 'hard' without a truth; got {voting!r}.")
        outputs = _mask_abstentions(outputs, abstain)
        return assess_agreement(outputs, labels=labels, learners=learners, groups=groups, name=name)
    outputs, learners = named_outputs(outputs, learners, y_true, call="assess({truth}, {outputs})")
    if (known := known_truth(y_true)) is not None:
        options = {"labels": labels, "voting": voting, "samples": samples, "learners": learners, "name": name}
        outputs = _mask_abstentions(outputs, abstain)
        return assess_partly(assess, y_true, outputs, known, groups, options | {"abstain": abstain})
    outputs = two_class_probabilities(outputs, y_true, labels)
    outputs, missing = split_missing(outputs, abstentions(abstain, y_true))
    read = Outputs(outputs, y_true, labels, missing=missing)
    if voting != "hard" and read.probabilities is None:
        raise ValueError(f"`voting` must be 'hard' where `outputs` are labels; got {voting!r}.")
    names = check_names(learners, read.n_learners)
    with _progress_bar(progress, read.n_samples) as report:
        parts = compute(read, voting, samples, report, check_groups(groups, read.n_samples), names)
    result = Assessment(
        name=name,
        samples=samples,
        n_learners=read.n_learners,
        n_samples=read.n_samples,
        n_classes=len(read.classes),
        classes=tuple(read.classes.tolist()),
        learners=names,
        outputs="labels" if read.probabilities is None else "probabilities",
        voting=voting,
        findings=(),
        decision=UNDECIDED,
        **parts,
    )
    _warn_of_undefined(result)
    return with_findings(result)


def assess_estimator(
    estimator: Any, X: Any, y: ArrayLike, *, samples: str = "held_out", name: str | None = None
) -> Assessment:
    """Assess a fitted scikit-learn ensemble by the outputs of its learners.

    Parameters
    ----------
    estimator : fitted classifier, or sequence of fitted classifiers
        Any ensemble whose ``estimators_`` are classifiers that vote: forests, bagging (with its feature subsets),
        voting, the base layer of stacking, AdaBoost; also as the last step of a pipeline or inside a search. Or a list
        of classifiers. Each learner has one vote: ``weights`` and
        ``estimator_weights_`` are not used.
    X : array-like of shape (n_samples, n_features)
        The samples.
    y : array-like of shape (n_samples,)
        Their labels.
    samples : {"held_out", "training"}, default="held_out"
        Whether the ensemble was trained on these samples; see :func:`assess`.
    name : str, optional
        The name of the ensemble; by default that of its class.

    Returns
    -------
    Assessment
        The numbers and the advice. The vote that counts is that of the ensemble: soft if it averages probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(15, random_state=0).fit(X[::2], y[::2])
    >>> assessment = assess_estimator(forest, X[1::2], y[1::2])
    >>> assessment.name, assessment.n_learners, assessment.voting
    ('RandomForestClassifier', 15, 'soft')
    """
    learners = learner_outputs(estimator, X)
    default = "ensemble" if isinstance(estimator, Sequence) else type(estimator).__name__
    return assess(
        y,
        learners.outputs,
        labels=learners.classes,
        voting=learners.voting,
        samples=samples,
        learners=learners.names,
        name=default if name is None else name,
    )


def _mask_abstentions(outputs: Any, abstain: Any) -> Any:
    """Return labels masked where they mean no vote."""
    if abstain is None:
        return outputs
    array, missing = split_missing(outputs, abstentions(abstain))
    return outputs if missing is None or array.ndim == 3 else np.ma.masked_array(array, missing)


def _warn_of_undefined(a: Assessment) -> None:
    places = [f"r_tl of {a.learners[i]}" for i in np.flatnonzero(np.isnan(a.correlations.r_tl_learners))]
    places += [f"class {a.classes[k]!r}" for k in np.flatnonzero(np.isnan(a.correlations.r_tl_classes))]
    places += ["r_ll and everything derived from it"] if np.isnan(a.r_ll) else []
    places += ["the correlation of being correct"] if np.isnan(a.correlations.error_correlation) else []
    places += [key for key, value in a.measures.items() if np.isnan(value)] if a.n_learners > 1 else []
    warn_undefined("assess", places, stacklevel=4)


@contextmanager
def _progress_bar(show: bool, n_samples: int) -> Iterator[Report | None]:
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    parts = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with progress_bar(*parts, console=Console(stderr=True), transient=True) as bar:
        tasks = {phase: bar.add_task(f"assessing {phase}", total=n_samples) for phase in ("pairs", "votes")}
        yield lambda phase, done, _: bar.update(tasks[phase], completed=done)
