"""The definitions as plain loops over samples and pairs, slow and easy to read."""

import math
from itertools import combinations

import numpy as np
from hypothesis import strategies as st


def random_votes(seed, n_learners, n_samples, n_classes, accuracy=0.6):
    """Return a truth and votes that are right more often than not."""
    rng = np.random.default_rng(seed)
    y_true = rng.integers(0, n_classes, n_samples)
    guess = rng.integers(0, n_classes, (n_learners, n_samples))
    return y_true, np.where(rng.random(guess.shape) < accuracy, y_true, guess)


def random_probabilities(seed, n_learners, n_samples, n_classes):
    """Return a truth that holds every class, and probabilities that lean towards it."""
    rng = np.random.default_rng(seed)
    y_true = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_samples - n_classes)])
    logits = rng.normal(size=(n_learners, n_samples, n_classes)) + np.eye(n_classes)[y_true]
    exponentials = np.exp(logits)
    return y_true, exponentials / exponentials.sum(axis=2, keepdims=True)


ensembles = st.builds(
    random_votes,
    seed=st.integers(0, 2**32 - 1),
    n_learners=st.integers(2, 7),
    n_samples=st.integers(4, 60),
    n_classes=st.integers(2, 5),
    accuracy=st.floats(0.0, 1.0),
)
soft_ensembles = st.builds(
    random_probabilities,
    seed=st.integers(0, 2**32 - 1),
    n_learners=st.integers(2, 7),
    n_samples=st.integers(8, 60),
    n_classes=st.integers(2, 5),
)


def count_pair(y_true, first, second):
    """Return N11, N10, N01, N00 by a loop over samples."""
    n11 = n10 = n01 = n00 = 0
    for truth, a, b in zip(y_true, first, second, strict=True):
        n11 += a == truth and b == truth
        n10 += a == truth and b != truth
        n01 += a != truth and b == truth
        n00 += a != truth and b != truth
    return int(n11), int(n10), int(n01), int(n00)


def divide(numerator, denominator):
    return numerator / denominator if denominator else math.nan


def q_statistic(n11, n10, n01, n00):
    return divide(n11 * n00 - n01 * n10, n11 * n00 + n01 * n10)


def correlation_rho(n11, n10, n01, n00):
    product = (n11 + n10) * (n01 + n00) * (n11 + n01) * (n10 + n00)
    return divide(n11 * n00 - n01 * n10, math.sqrt(product))


def disagreement(n11, n10, n01, n00):
    return (n01 + n10) / (n11 + n10 + n01 + n00)


def double_fault(n11, n10, n01, n00):
    return n00 / (n11 + n10 + n01 + n00)


def correctness_kappa(n11, n10, n01, n00):
    n = n11 + n10 + n01 + n00
    observed = (n11 + n00) / n
    row, column = n11 + n10, n11 + n01
    by_chance = row * column + (n - row) * (n - column)
    return divide(observed - by_chance / n**2, 1 - by_chance / n**2)


def ratio_errors(n11, n10, n01, n00):
    return divide(n01 + n10, n00)


def pair_average(y_true, votes, formula):
    """Average a formula over the pairs for which it is defined."""
    values = [formula(*count_pair(y_true, a, b)) for a, b in combinations(votes, 2)]
    defined = [value for value in values if not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan


def right_counts(y_true, votes):
    """Return the number of learners right on each sample."""
    return [sum(row[s] == y_true[s] for row in votes) for s in range(len(y_true))]
