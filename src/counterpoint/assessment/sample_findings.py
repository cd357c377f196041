"""Rules about the samples: how many there are, which votes are missing, and what they cannot tell."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from counterpoint._answers import spellings
from counterpoint.assessment.bootstrap import few_groups
from counterpoint.assessment.effective import CLOSE
from counterpoint.assessment.estimates import Estimate
from counterpoint.assessment.groups import Finding
from counterpoint.assessment.label_findings import LABEL_RULES
from counterpoint.assessment.result import Assessment
from counterpoint.outputs import FEWEST_SHARED, listed

__all__ = ["SAMPLE_RULES", "name_learners", "noise", "points"]

FEW = 30  # samples, from which nothing is said about more
_NAMED = 5


def _sample(a: Assessment) -> Finding | None:
    """Find too few samples for firm conclusions."""
    wide = noise(a.vote)
    n = a.coverage.n_voted
    if np.isnan(wide) or (n >= 100 and wide <= 0.05):
        return None
    text = (
        f"With {a.counted} the vote's accuracy is known to within {points(wide)} only; "
        "small differences mean nothing."
    )
    return Finding("small_sample", "info", text, {"n_samples": n, "half_width": wide})


def _no_errors(a: Assessment) -> Finding | None:
    """Report that errors which do not occur say nothing about how they go together."""
    few = a.coverage.fewest_shared < min(FEWEST_SHARED, a.n_samples)
    if a.n_learners < 2 or not np.isnan(a.correlations.error_correlation) or few:
        return None
    how = "wrong" if a.accuracies.mean() > 0.5 else "right"
    text = (
        f"Fewer than two learners are ever {how} on these samples, so how much they err together, and how many votes "
        "they are worth, cannot be told."
    )
    return Finding("no_errors", "info", text, {"n_samples": a.n_samples})


def _never_true(a: Assessment) -> Finding | None:
    """Find labels that are never true: they may mean no vote."""
    spelt = {label for group in spellings(a.classes) for label in group}
    labels = [str(a.classes[k]) for k in np.flatnonzero(a.by_class.shares == 0) if a.classes[k] not in spelt]
    if a.outputs != "labels" or not labels or a.n_samples < FEW or len(labels) > _NAMED:  # many: free text
        return None
    text = (
        f"No sample has the truth {listed([repr(one) for one in labels])}: a vote for it counts as wrong. If it means "
        "no vote, say so with `abstain`."
    )
    return Finding("never_true", "info", text, {"labels": labels})


def _pooled(a: Assessment) -> Finding | None:
    """Report that correlations are pooled, since averages over classes would leave out samples."""
    if not a.correlations.pooled:
        return None
    text = (
        "Correlations are pooled over the classes: averages over the classes that every learner gives and the truth "
        "takes would leave out more than 10 % of the samples."
    )
    return Finding("pooled_correlations", "info", text, {"n_classes": a.n_classes})


def _missing(a: Assessment) -> Finding | None:
    """Report that votes are missing, and what follows from it."""
    found = a.coverage
    if found.complete:
        return None
    least, nobody = int(np.argmin(found.answered)), int(found.voters[0])
    lowest = float(found.answered[least] / a.n_samples)
    who = (
        f"{a.learners[least]} answered least, {100 * lowest:.1f} % of the samples"
        if found.answered.min() < found.answered.max()
        else "all learners answered equally many samples"
    )
    share = f"{100 * (1 - found.share):.1f} %"
    text = f"{share} of the votes are missing; {who}. Each learner is judged on what it answered."
    if nobody:
        text += f" {_samples(nobody)} without any vote, counted neither as right nor as wrong."
    if not found.voters[-1]:
        text += " No sample was answered by all, so measures of the whole ensemble at once are undefined."
    numbers = {"missing": 1 - found.share, "learner": least, "answered": lowest, "no_votes": nobody}
    return Finding("missing_votes", "info", text, numbers)


def _few_shared(a: Assessment) -> Finding | None:
    """Find pairs of learners that share too few samples for a correlation."""
    pairs = np.argwhere(np.triu(a.coverage.shared < min(FEWEST_SHARED, a.n_samples), k=1)).tolist()
    if a.coverage.complete or not pairs:
        return None
    n_pairs = a.n_learners * (a.n_learners - 1) // 2
    if len(pairs) == n_pairs:
        text = f"No two learners share {FEWEST_SHARED} samples: how their errors correlate cannot be told."
    else:
        text = (
            f"{len(pairs)} of {n_pairs} pairs of learners share fewer than {FEWEST_SHARED} samples, such as "
            f"{name_learners(a.learners, pairs[0])}: how they correlate cannot be told, and the means leave them out."
        )
    return Finding("few_shared", "warning", text, {"pairs": pairs})


def _few_groups(a: Assessment) -> Finding | None:
    """Find too few groups of samples to say how much numbers vary from group to group."""
    n_groups = a.coverage.n_groups
    for finding in () if n_groups is None else few_groups(np.arange(n_groups)):
        text = f"{finding.text} What leaving out or reweighting learners would bring is not judged."
        return replace(finding, text=text)
    return None


def _correlation_sample(a: Assessment) -> Finding | None:
    """Report how many samples would tell how much the learners err together."""
    needed = a.effective.samples_needed
    size = float(f"{needed:.2g}")  # an estimate itself
    if a.n_samples < FEW or not size > a.n_samples or np.isnan(a.effective.error_correlation.low):
        return None
    known = CLOSE * float(np.sqrt(needed / a.n_samples))
    text = (
        f"With {a.n_samples:,} samples the correlation of being correct is known to ± {known:.2f}; about {size:,.0f} "
        f"would bring it to ± {CLOSE}."
    )
    return Finding("more_samples", "info", text, {"half_width": known, "samples_needed": int(needed)})


def _training(a: Assessment) -> Finding | None:
    """Report that the samples were trained on, if the caller declared it."""
    if a.samples != "training":
        return None
    text = "The learners were trained on these samples: expect lower accuracies on new data."
    return Finding("training_samples", "info", text, {"n_samples": a.n_samples})


SAMPLE_RULES: Sequence[Callable[[Assessment], Finding | None]] = (
    _missing,
    _never_true,
    _few_shared,
    _few_groups,
    _pooled,
    _no_errors,
    _sample,
    _correlation_sample,
    _training,
    *LABEL_RULES,
)


def _samples(number: int) -> str:
    return "1 sample is" if number == 1 else f"{number} samples are"


def noise(vote: Estimate) -> float:
    """Return the uncertainty of a vote's accuracy: half its interval."""
    return (vote.high - vote.low) / 2


def name_learners(every: Sequence[str], learners: Sequence[int]) -> str:
    """Return the names of some learners as words of a sentence."""
    names = [every[i] for i in learners]
    if 1 < len(names) <= _NAMED:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return listed(names, _NAMED)


def points(share: float) -> str:
    """Return a share as points, in words."""
    points = 100 * share
    digits = 1 if abs(points) >= 0.1 or abs(points) < 0.005 else 2
    text = f"{points:z.{digits}f}"
    return f"{text} point{'' if text == '1.0' else 's'}"
