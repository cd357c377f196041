"""Assessments of every kind that a report must show."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from counterpoint import assess
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.theory import VoteCurve


def noisy_votes(truth, accuracies, rng, n_classes=2):
    """Return labels that are right with the given chances, independently."""
    wrong = (truth + rng.integers(1, n_classes, (len(accuracies), len(truth)))) % n_classes
    return np.where(rng.random(wrong.shape) < np.asarray(accuracies)[:, None], truth, wrong)


@pytest.fixture(scope="session")
def five():
    """Five learners that give labels; one has a name that is markup."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    votes = noisy_votes(truth, [0.8, 0.75, 0.7, 0.85, 0.72], rng)
    labels = np.array(['the "good" ones', "<i>bad</i>"])
    names = ["logistic", "<script>alert(1)</script>", "naive | bayes", "k & n", "svm"]
    return assess(labels[truth], labels[votes], learners=names, name="Five </script> models")


@pytest.fixture(scope="session")
def soft():
    """Eleven learners that give probabilities over three classes."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 400)
    shared = rng.normal(size=(400, 3))
    scores = 1.2 * np.eye(3)[truth] + shared + rng.normal(size=(11, 400, 3))
    proba = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return assess(truth, proba, voting="soft", name="Soft")


@pytest.fixture(scope="session")
def thousand():
    """A hundred learners assessed, then taken ten times."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 500)
    hundred = assess(truth, noisy_votes(truth, rng.uniform(0.4, 0.6, 100), rng, 3), name="Thousand")
    matrix = np.tile(hundred.correlations.matrix, (10, 10))
    sizes, *curves = hundred.prediction.sizing
    sizing = VoteCurve(np.append(sizes, 1000), *(np.append(curve, curve[-1]) for curve in curves))
    return replace(
        hundred,
        prediction=replace(hundred.prediction, sizing=sizing),
        n_learners=1000,
        learners=tuple(f"L{i + 1}" for i in range(1000)),
        correlations=replace(ten_times(hundred.correlations, "r_tl_learners"), matrix=matrix),
        effective=ten_times(hundred.effective, "worth"),
        votes=ten_times(
            hundred.votes,
            "accuracies",
            "accuracy_low",
            "accuracy_high",
            "weights",
            "without",
            "without_error",
        ),
        probabilities=ten_times(hundred.probabilities, "learner_log_losses"),
    )


def ten_times(group, *names):
    """Return a group with some arrays repeated ten times."""
    return replace(group, **{name: np.tile(getattr(group, name), 10) for name in names})


@pytest.fixture(scope="session")
def lonely():
    """One learner: nothing between learners is defined."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        return assess(truth, noisy_votes(truth, [0.8], rng), name="One")


@pytest.fixture(scope="session")
def awkward():
    """Opposed learners, a constant one and a name of 200 letters."""
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 2, 200)
    right = np.stack([rng.permutation([1, 1, 1, 0, 0]) for _ in truth]).T
    votes = np.vstack([np.where(right == 1, truth, 1 - truth), np.zeros_like(truth)])
    names = ["w" * 200, "x", "y", "z", "u", "constant"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        return assess(truth, votes, learners=names, name="n" * 200)


@pytest.fixture(params=["five", "soft", "thousand", "lonely", "awkward"])
def any_assessment(request):
    return request.getfixturevalue(request.param)
