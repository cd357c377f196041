"""Assessments of panels without a truth, and of scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoint.cli._printing import echo
from counterpoint.cli._reading import Layout, about, shown
from counterpoint.cli._unlabelled import read_unlabelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from counterpoint.assessment import Assessment, RegressionAssessment
    from counterpoint.assessment.base import AssessmentBase
    from counterpoint.io import Predictions

_MANY = 20  # numbers that are more than the labels of a scale


def assess_without_truth(
    path: Path, learner: Sequence[str] | None, drop: Sequence[str] | None, layout: Layout, name: str
) -> "AssessmentBase":
    """Return the agreement on labels or on scores."""
    from counterpoint.assessment import assess, assess_scores

    read, _ = read_unlabelled(path, None, learner, drop, layout)
    with about(path):
        if layout.scores:
            return assess_scores(read.outputs, learners=read.learners, groups=read.groups, name=name)
        return assess(read.outputs, labels=read.labels, learners=read.learners, groups=read.groups, name=name)


def assess_scores_with_truth(
    path: Path, read: "Predictions", voting: str, name: str
) -> "Assessment | RegressionAssessment":
    """Return the assessment of probabilities of one of two classes, or of numbers on the scale of the truth."""
    import numpy as np

    from counterpoint.assessment import assess, assess_regression

    assert read.y_true is not None
    classes = np.unique(np.ma.compressed(read.y_true))
    if not _are_probabilities(read, classes):
        if classes.dtype.kind == "U":
            raise ValueError(
                f"{shown(path)} must hold scores on the scale of the truth, or probabilities of one of two labels; "
                f"got {len(classes)} labels and scores from {read.outputs.min():.6g} to {read.outputs.max():.6g}."
            )
        if voting != "hard":
            raise ValueError("`--voting` needs labels or probabilities; numbers are averaged.")
        if read.groups is not None:
            raise ValueError(
                "`--group` needs labels, or scores without a truth; leave the column out with --drop."
            )
        complete = _complete(path, read)
        with about(path):
            return assess_regression(
                np.ma.getdata(read.y_true)[complete],
                np.ma.getdata(read.outputs)[:, complete],
                learners=read.learners,
                name=name,
            )
    echo(f"The scores are read as probabilities of {_plain(classes[1])!r}.", err=True)
    both = np.ma.stack([1 - read.outputs, read.outputs], axis=2)
    with about(path):
        return assess(
            read.y_true,
            both,
            labels=classes,
            voting=voting,
            learners=read.learners,
            groups=read.groups,
            name=name,
        )


def note_numbers(path: Path, read: "Predictions", advice: str) -> None:
    """Note that a truth of many different fractions is read as labels."""
    import numpy as np

    assert read.y_true is not None
    labels = np.unique(np.ma.compressed(read.y_true)).tolist()
    if len(labels) > _MANY and any("." in str(label) for label in labels) and all(map(_is_number, labels)):
        echo(
            f"{shown(path)}: the truth has {len(labels)} different numbers, read as labels. {advice}",
            err=True,
        )


def _is_number(label: Any) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _complete(path: Path, read: "Predictions") -> "NDArray[np.bool_]":
    """Return which samples have a truth and the scores of all learners; a note counts the others."""
    import numpy as np

    assert read.y_true is not None
    without_score = np.asarray(np.ma.getmaskarray(read.outputs).any(axis=0))
    without_truth = np.ma.getmaskarray(read.y_true)
    for missing, what in ((without_truth, "the truth"), (without_score, "the score of a learner")):
        if count := int(missing.sum()):
            left = f"{count} of {len(missing)} samples"
            echo(f"{shown(path)}: left out {left}, which lack {what}.", err=True)
    found: NDArray[np.bool_] = ~(without_score | without_truth)
    return found


def _are_probabilities(read: "Predictions", classes: Any) -> bool:
    """Return True for scores from 0 to 1 beside two labels, or beside the numbers 0 and 1."""
    two = len(classes) == 2 and (classes.dtype.kind == "U" or classes.tolist() == [0, 1])
    return two and float(read.outputs.min()) >= 0 and float(read.outputs.max()) <= 1


def _plain(label: Any) -> Any:
    value = label.item()
    return int(value) if isinstance(value, float) else value
