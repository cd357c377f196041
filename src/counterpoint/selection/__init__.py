r"""Choose learners, and their weights, from a pool.

Notation: N learners in the pool, n of them chosen; r_tl is the correlation of a learner with the
truth, r_ll of two learners, both averaged over classes; :math:`\lambda` weighs the second.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, IntArray, check_choice, check_number, check_real, check_whole
from counterpoint.assessment import (
    check_groups,
    check_names,
    credit_estimate,
    named_outputs,
    paired_difference,
)
from counterpoint.outputs import VOTINGS, Outputs
from counterpoint.selection._choosers import Greedy
from counterpoint.selection._crossfit import Choice, CrossFit, Settings, panel_credits
from counterpoint.selection._effects import UNDEFINED, judge_choice, panel_votes
from counterpoint.selection._size import first_best
from counterpoint.selection.result import Panel, Selection, points, reverse

__all__ = ["Panel", "Selection", "points", "reverse", "select"]

METHODS = ("pursuit", "greedy", "caruana")
SIZES = ("smallest", "largest")


def select(
    y_true: ArrayLike,
    outputs: Any,
    size: int | str = "smallest",
    *,
    method: str = "pursuit",
    within: float = 0.75,
    costs: Mapping[str, float] | Sequence[float] | None = None,
    diversity: float = 0.5,
    voting: str = "auto",
    labels: ArrayLike | None = None,
    learners: Sequence[str] | None = None,
    groups: ArrayLike | None = None,
) -> Selection:
    r"""Choose the learners of a pool that are worth keeping, and their weights.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind, of samples that no learner was trained on.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes), mapping or DataFrame
        Labels or probabilities. A mapping holds the outputs of each learner by its name, a DataFrame one column of
        labels for each learner.
    size : int or {"smallest", "largest"}, default="smallest"
        "smallest" is the smallest panel, or with ``costs`` the cheapest, within the noise of the best; see Notes.
        "largest" leaves a learner out only if the given samples show that it hurts. A number is that of the picks.
    method : {"pursuit", "greedy", "caruana"}, default="pursuit"
        "pursuit" adds the learner that most reduces the squared error of the weighted vote. "greedy" adds the learner
        with the best score of accuracy and diversity. "caruana" adds, with replacement, the learner with the most
        accurate vote; the weight of a learner is its share of the picks.
    within : float, default=0.75
        What "smallest" counts as noise, in standard errors of the paired difference. More makes panels smaller.
    costs : mapping of str to float, or sequence of float, optional
        The cost of each learner, by name or in order; by default each costs 1.
    diversity : float, default=0.5
        For "greedy", lambda over its critical value. 0 ranks learners by their correlation with the truth; above 1
        the score favours poor learners.
    voting : {"auto", "hard", "soft", "geometric"}, default="auto"
        The vote whose accuracy counts: the most votes, the highest mean probability, or the highest
        geometric mean of the probabilities. "auto" is "hard" for labels and "soft" for probabilities.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the sorted labels of
        ``y_true``, and of ``outputs`` where those are labels.
    learners : sequence of str, optional
        Distinct names of the learners; by default those of a mapping or a DataFrame, else L1, L2, ...
    groups : array-like of shape (n_samples,), optional
        Which samples belong together, such as several items of one document; by default samples are independent.

    Returns
    -------
    Selection
        ``indices`` and ``weights``, what each learner is worth, and the panels that were compared.

    Notes
    -----
    *What is judged on other samples.* The samples are cut into five parts with equal shares of the classes. The whole
    choice is made without each part and judged on it: ``accuracy``, ``against_pool`` and ``effects``. To choose the
    smallest panel, panels of all sizes are fitted without each part and judged on it; the smallest one is taken whose
    accuracy is within ``within`` standard errors of the best. With fewer than 20 samples, fewer than five of all but
    one class, or fewer than five groups, nothing can be judged so, and "smallest" is "largest". Groups stay in one
    part, and all standard errors and intervals are then over groups.

    *Intervals.* Those of ``accuracy`` and ``against_pool`` are for the panel that is returned, chosen on all samples,
    as it will do on others. To the variance over samples they add a quarter of it, since the fits share samples (Nadeau
    and Bengio 2003), and the luck of the choice: the variance over samples of the difference between the panels that
    were judged and the one that is returned. ``docs/selection.md`` says how far they hold.

    *"pursuit"* is non-negative matching pursuit: after each pick the weights are refitted by non-negative least squares
    (:func:`scipy.optimize.nnls`). It also walks with equal weights, and takes the walk with the smaller squared error
    on samples that did not choose. With costs it also walks by the gain for each unit of cost; within each budget the
    better of the panels counts. The other methods do not look at costs while they pick. It stops at 50 picks.

    *"greedy"* scores n learners by the paper's trade-off, with the critical lambda of that n,

    .. math:: \bar r_{TL} - \lambda_n \bar r_{LL}, \qquad
              \lambda_n = \text{diversity} \cdot \frac{n - 1}{2 n},

    averages over learners and over pairs; one learner has no pairs and no second term. At diversity 1
    and fixed n the best score has the mean of the standardised learners nearest to the standardised
    truth. After one pass over the samples for all correlations a step takes O(N) operations. The correlations
    are of the outputs as given, whatever the vote. A learner without a correlation, because it is constant
    in all classes of ``y_true``, is never chosen, and a warning names it. A learner that is constant in
    some classes is averaged over the others; pairs that vary in no common class are left out of the average.

    *"caruana"* starts from the best learners, the number (up to 25) with the most accurate vote: from
    a single learner a vote of labels would never move. Each step costs a pass over the samples. It stops at 50 picks.

    "largest" cuts the path at the largest size whose vote is within one standard error of the most accurate vote on the
    path, on the given samples. Ties go to the learner that comes first.

    References
    ----------
    Caruana, Niculescu-Mizil, Crew and Ksikes, Ensemble selection from libraries of models (2004).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_true = rng.integers(0, 2, 500)
    >>> p = np.repeat([0.8, 0.5], 5)[:, None]  # five learners know something, five guess
    >>> votes = np.where(rng.random((10, 500)) < p, y_true, 1 - y_true)
    >>> selection = select(y_true, votes)
    >>> sorted(selection.indices.tolist()), round(selection.fitted_accuracy, 3)
    ([0, 1, 2, 3, 4], 0.958)
    """
    check_choice(method, "method", METHODS)
    check_choice(voting, "voting", ("auto", *VOTINGS))
    outputs, learners = named_outputs(outputs, learners, y_true, call="select({truth}, {outputs})")
    read = Outputs(outputs, y_true, labels)
    names = check_names(learners, read.n_learners)
    settings = Settings(
        method=method,
        voting=_resolve_voting(voting, read),
        diversity=check_number(diversity, "diversity", 0),
        size=_check_size(size),
        errors=check_number(within, "within", 0),
        costs=_check_costs(costs, names),
    )
    codes = check_groups(groups, read.n_samples)
    cross = CrossFit(read, settings, codes)
    _check_pool(cross)
    choice = cross.choose()
    worth = judge_choice(cross, choice)
    return Selection(
        learners=names,
        **_chosen(choice),
        **worth._asdict(),
        panels=_panels(choice, settings.costs, cross.groups_without(), panel_votes(cross, choice)),
        costs=settings.costs,
        fitted_accuracy=float(panel_credits(read, settings.voting, choice.weights[np.newaxis])[0].mean()),
        path=np.array(choice.fit.picks[-1], dtype=np.int64),
        scores=np.array([choice.fit.chooser.score(weights) for weights in choice.fit.weights]),
        method=method,
        voting=settings.voting,
        diversity=settings.diversity if method == "greedy" else None,
        n_groups=None if codes is None else int(codes.max()) + 1,
    )


def _resolve_voting(voting: str, read: Outputs) -> str:
    """Return the vote for these outputs, with "auto" resolved."""
    if read.probabilities is not None:
        return "soft" if voting == "auto" else voting
    if voting not in ("auto", "hard"):
        raise ValueError(f"`voting` must be 'auto' or 'hard' where `outputs` are labels; got {voting!r}.")
    return "hard"


def _chosen(choice: Choice) -> dict[str, Any]:
    return _members(choice.fit.picks[choice.at], choice.weights)


def _members(picks: Sequence[int], weights: FloatArray) -> dict[str, Any]:
    """Return the learners with a weight, in order of choice, and their weights."""
    indices = np.array([i for i in dict.fromkeys(picks) if weights[i] > 0], dtype=np.int64)
    return {"indices": indices, "weights": weights[indices]}


def _panels(
    choice: Choice, costs: FloatArray, groups: IntArray | None, votes: FloatArray
) -> tuple[Panel, ...]:
    """Return the panels of a fit, each set of learners once, with what is known of them on other samples."""
    found: dict[tuple[int, ...], Panel] = {}
    credit = choice.credit
    best = None if credit is None else credit[first_best(credit.mean(axis=1))]
    for at, (picks, weights) in enumerate(zip(choice.fit.picks, choice.fit.weights, strict=True)):
        members = _members(picks, weights)
        accuracy, behind = UNDEFINED, UNDEFINED
        if credit is not None and best is not None:
            accuracy = credit_estimate(credit[at], groups)
            behind = paired_difference(credit[at] - best, groups)
        key = tuple(sorted(members["indices"].tolist()))
        if key not in found or at <= choice.at:
            cost = float(costs[list(key)].sum())
            found[key] = Panel(**members, cost=cost, accuracy=accuracy, behind=behind, votes=float(votes[at]))
    return tuple(found.values())


def _check_size(size: Any) -> int | str:
    if isinstance(size, str):
        return str(check_choice(size, "size", SIZES))
    return check_whole(size, "size", minimum=1)


def _check_costs(costs: Any, learners: Sequence[str]) -> FloatArray:
    """Return the cost of each learner."""
    if costs is None:
        return np.ones(len(learners))
    if isinstance(costs, Mapping):
        if unknown := [name for name in costs if name not in learners]:
            raise ValueError(f"`costs` must name learners of the pool; got {unknown[0]!r}.")
        if missing := [name for name in learners if name not in costs]:
            raise ValueError(f"`costs` must have a cost for every learner; got none for {missing[0]!r}.")
        costs = [costs[name] for name in learners]
    values = check_real(costs, "costs")
    if values.shape != (len(learners),):
        raise ValueError(
            f"`costs` must have one entry for each of {len(learners)} learners; got shape {values.shape}."
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("`costs` must be finite and at least 0.")
    return values


def _check_pool(cross: CrossFit) -> None:
    """Raise ValueError if there is nothing to choose from, or less than the size."""
    chooser = cross.fits(frozenset())[0].chooser
    if isinstance(chooser, Greedy):
        chooser.check(cross.read)
    size, most = cross.settings.picks, len(chooser.pool)
    if (
        size is not None and size > most and cross.settings.method != "caruana"
    ):  # which may pick a learner again
        kind = "learners" if most == cross.read.n_learners else "learners with a correlation"
        raise ValueError(f"`size` must be at most {most}, the number of {kind}; got {size}.")
