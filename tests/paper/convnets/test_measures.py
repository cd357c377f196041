"""Measures of ensembles of ConvNets: those of the library."""

import math

import numpy as np
import pytest
import torch

from counterpoint import measures as library
from paper.convnets.measures import learner_measures, vote_errors


def test_the_measures_are_those_of_the_library():
    torch.manual_seed(3)
    logits, target = torch.randn(5, 200, 4), torch.randint(4, (200,)).numpy()
    proba = logits.softmax(-1).numpy()
    votes, pairs = proba.argmax(-1), np.triu_indices(5, 1)
    expected = {
        "r_tl": library.truth_learner_correlation(target, proba).mean(),
        "r_ll": library.learner_learner_correlation(proba)[pairs].mean(),
        "learner_error": np.mean(votes != target),
        "error_correlation": np.corrcoef(votes == target)[pairs].mean(),
        "cross_entropy_diversity": np.mean([library.log_loss(target, one) for one in proba])
        - library.log_loss(target, library.combine(proba, voting="geometric")),
    }
    found = learner_measures(logits, target)
    for name, value in expected.items():
        assert found[name] == pytest.approx(float(value), abs=1e-5), name
    errors = vote_errors(logits, target)
    assert errors["soft"] == np.mean(proba.mean(0).argmax(-1) != target)
    counts = np.stack([np.sum(votes == k, axis=0) for k in range(4)])
    clear = np.sum(counts == counts.max(0), axis=0) == 1
    hard = np.mean(counts.argmax(0)[clear] != target[clear]) * clear.mean()
    assert hard <= errors["hard"] <= hard + (~clear).mean()


def test_a_tie_of_the_hard_vote_is_broken_by_the_mean_probability():
    proba = torch.tensor([[[0.6, 0.4]], [[0.1, 0.9]]])
    assert vote_errors(proba.log(), np.array([1])) == {"soft": 0.0, "hard": 0.0}


def test_one_learner_has_no_pairs():
    found = learner_measures(torch.randn(1, 50, 3), np.arange(50) % 3)
    assert math.isnan(found["r_ll"])
    assert math.isnan(found["error_correlation"])
    assert found["optimality"] == found["r_tl"]
    assert found["cross_entropy_diversity"] == pytest.approx(0, abs=1e-12)


def test_learners_that_are_always_right_have_no_error_correlation():
    y = np.arange(20) % 2
    logits = 5 * torch.nn.functional.one_hot(torch.as_tensor(y), 2).float() + 0.1 * torch.randn(3, 20, 2)
    assert math.isnan(learner_measures(logits, y)["error_correlation"])
