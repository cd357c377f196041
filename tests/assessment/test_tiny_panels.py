"""Panels of one sample, one answer, one label: a result or one sentence, and no warning but the library's own."""

import warnings

import numpy as np
import pytest

from counterpoint import assess, exceptions, select
from counterpoint.assessment import assess_regression, assess_scores, compare_votes, dawid_skene
from counterpoint.report import EnsembleReport

OWN = [getattr(exceptions, name) for name in exceptions.__all__]


def panels(n_samples):
    """Yield truths with votes or probabilities of few learners, most of them degenerate."""
    rng = np.random.default_rng(0)
    truth = np.arange(n_samples) % 2
    for n in (1, 2, 6):
        yield truth, rng.integers(0, 2, (n, n_samples))
        yield np.arange(n_samples) % 3, rng.integers(0, 3, (n, n_samples))
        yield truth, np.tile(truth, (n, 1))
        yield truth, np.tile(1 - truth, (n, 1))
        yield truth, np.zeros((n, n_samples), dtype=int)
        yield 0 * truth, rng.integers(0, 2, (n, n_samples))
        yield 0 * truth, np.zeros((n, n_samples), dtype=int)
        yield truth, np.full((n, n_samples), 7)
        yield truth, np.where(np.arange(n)[:, None] == 0, 1 - truth, truth)
        chances = rng.random((n, n_samples))
        yield truth, np.stack([1 - chances, chances], axis=2)
        for certain in (
            rng.integers(0, 2, (n, n_samples)),
            np.tile(truth, (n, 1)),
            np.tile(1 - truth, (n, 1)),
        ):
            yield truth, np.eye(2)[certain]
        yield truth, np.full((n, n_samples, 2), 0.5)
        if n_samples > 1:
            votes = rng.integers(0, 2, (n, n_samples))
            alone = np.arange(n_samples) != np.arange(n)[:, None] % n_samples
            first = np.tile(np.arange(n_samples) > 0, (n, 1))
            for missing in (first, alone, first & (rng.random(first.shape) < 0.5)):
                yield truth, np.ma.masked_array(votes, missing)


def clusterings(n_samples):
    yield None
    yield np.arange(n_samples) // 2
    yield np.minimum(np.arange(n_samples), 1)  # one sample and all others


def describe(assessment):
    report = EnsembleReport(assessment)
    return report.html(), report.markdown(), str(assessment)


def calls(truth, outputs):
    """Yield everything that can be asked of a panel."""
    for groups in clusterings(len(truth)):
        for voting in ("hard",) if outputs.ndim == 2 else ("hard", "soft", "geometric"):
            yield lambda g=groups, v=voting: assess(truth, outputs, groups=g, voting=v)
    yield lambda: describe(assess(truth, outputs)) if len(outputs) == 2 else None
    yield lambda: compare_votes(truth, {"all": outputs, "first": outputs[:1]})
    if outputs.ndim == 3:
        return
    numbers = np.where(np.ma.getmaskarray(outputs), np.nan, np.ma.getdata(outputs).astype(float))
    for groups in clusterings(len(truth)):
        yield lambda g=groups: str(assess(outputs, groups=g))
    yield lambda: dawid_skene(outputs)
    yield lambda: assess_scores(numbers)
    yield lambda: str(assess_regression(truth.astype(float), np.nan_to_num(numbers)))
    for method in ("pursuit", "greedy", "caruana"):
        yield lambda m=method: select(truth, outputs, method=m)


@pytest.mark.parametrize("n_samples", [1, 2, 4])
def test_a_tiny_panel_gets_a_result_or_a_sentence_and_no_warning_of_numpy(n_samples):
    n_results, refusals = 0, []
    with warnings.catch_warnings(), np.errstate(divide="warn", over="warn", invalid="warn"):
        warnings.simplefilter("error")
        for category in OWN:
            warnings.simplefilter("ignore", category)
        for truth, outputs in panels(n_samples):
            for call in calls(truth, outputs):
                try:
                    call()
                    n_results += 1
                except (TypeError, ValueError) as error:
                    refusals.append(str(error))
    assert n_results > 80
    assert all("must" in refusal for refusal in refusals)  # the rule
