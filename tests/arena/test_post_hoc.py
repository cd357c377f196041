"""The search over all diversities and weight decays, from cells that were made without it."""

import pytest

from counterpoint.arena.jobs import ArenaJob
from counterpoint.arena.post_hoc import describe_search, post_hoc_search

# errors on the two folds, and the inner accuracies of each
A = {
    "independent": ([0.30, 0.30], [[0.6, 0.7], [0.8, 0.8]]),
    "correlation-0.25": (
        [0.26, 0.20],
        [[0.5, 0.7], [0.8, 0.7]],
    ),  # equal, but independent training stands first
    "correlation-0.5": (
        [0.10, 0.22],
        [[0.9, 0.1], [0.1, 0.1]],
    ),  # by its one good weight decay, in the first fold
    "correlation-0.9": ([0.40, 0.24], [[0.8, 0.8], [0.7, 0.7]]),
    "correlation-1.0": ([0.50, 0.12], [[0.1, 0.1], [0.2, 0.3]]),
    "correlation-cv": ([0.20, 0.20], [[0.5, 0.5], [0.5, 0.5]]),
    "decorate-net": ([0.25, 0.25], [[0.5, 0.5], [0.5, 0.5]]),
}
B = {method: (errors, [[0.5, 0.5], [0.5, 0.5]]) for method, (errors, _) in A.items()}


def cells(tables, repeat=0):
    shared = dict.fromkeys(("learner_accuracy", "r_tl", "r_ll", "optimality")) | {"seconds": 1.0}
    facts = {"rows": 40, "numeric": 2, "nominal": 0, "classes": 2}
    return [
        {
            "config": ArenaJob(table, method, repeat).config({"n_folds": 2, "smoke": False}, facts),
            "data": {
                "folds": [
                    {"error": e, "inner_accuracies": i, **shared} for e, i in zip(errors, inner, strict=True)
                ]
            },
        }
        for table, found in tables.items()
        for method, (errors, inner) in found.items()
    ]


def test_it_takes_in_each_fold_the_best_inner_accuracy_and_the_first_of_equals():
    found = post_hoc_search(cells({"a": A, "segment": B}))
    # a: 0.5 in the first fold, independent training in the second; segment: independent training in both
    assert found["errors"] == pytest.approx({"a": (0.10 + 0.30) / 2, "segment": 0.30})
    assert found["search_errors"] == pytest.approx({"a": 0.2, "segment": 0.2})
    assert found["against"] == {
        "correlation-cv": {"lower": 0, "higher": 1, "same": 1},
        "decorate-net": {"lower": 1, "higher": 1, "same": 0},
        "independent": {"lower": 1, "higher": 0, "same": 1},
    }
    # means of the others: 0.30, 0.23, 0.16, 0.32, 0.31, 0.25; so second on a, and fourth and a half on segment
    assert found["mean_rank"] == pytest.approx((2 + 4.5) / 2)
    assert found["search_rank"] == 2
    assert describe_search(found).startswith(
        "It errs 25.00 % on average (correlation-cv 20.00 %), 30.00 % on segment (20.00 %), and in the place of "
        "correlation-cv it would have a mean rank of 3.25 (2.00).\n\n| against |"
    )


def test_all_repeats_count():
    other = {method: ([error + 0.1 for error in errors], inner) for method, (errors, inner) in A.items()}
    found = post_hoc_search(cells({"a": A, "b": A}) + cells({"a": other, "b": other}, repeat=1))
    assert found["errors"] == pytest.approx({"a": 0.25, "b": 0.25})


@pytest.mark.parametrize("missing", ["correlation-0.9", "correlation-cv", "decorate-net"])
def test_without_a_method_that_it_needs_there_is_nothing_to_say(missing):
    some = {method: one for method, one in A.items() if method != missing}
    assert post_hoc_search(cells({"a": some, "b": B})) is None
    assert post_hoc_search(cells({"a": A})) is None  # no ranks over one table
    assert post_hoc_search(cells({"a": A, "b": B}) + cells({"a": some}, repeat=1)) is None
