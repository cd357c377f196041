"""Agreement without a truth, against published examples, other programs and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import fleiss_kappa, gwet_ac1, intraclass_correlation, krippendorff_alpha
from counterpoint.measures.agreement import label_pairs, label_sums

NAN = float("nan")
# Fleiss, Measuring nominal scale agreement among many raters, 1971, in the form of Wikipedia's page on his kappa:
# for each of ten subjects, how many of 14 raters chose each of five labels.
SUBJECTS = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip


def ratings(seed=5, n_learners=5, n_samples=40, missing=0.25):
    rng = np.random.default_rng(seed)
    base = rng.integers(1, 6, n_samples)
    scores = np.clip(base + rng.integers(-1, 2, (n_learners, n_samples)), 1, 6).astype(float)
    scores[rng.random(scores.shape) < missing] = np.nan
    return scores


def brute_alpha(scores, distance):
    """Krippendorff's alpha by a loop over all pairs of values."""
    units = [column[~np.isnan(column)] for column in scores.T]
    units = [unit for unit in units if len(unit) > 1]
    values = np.concatenate(units)
    within = sum(
        distance(a, b) / (len(unit) - 1) for unit in units for a, b in itertools.permutations(unit, 2)
    )
    apart = sum(distance(a, b) for a, b in itertools.permutations(values, 2)) / (len(values) - 1)
    return 1 - within / apart


def test_fleiss_kappa_of_the_published_example():
    votes = np.array([np.repeat(np.arange(5), counts) for counts in SUBJECTS]).T
    assert fleiss_kappa(votes) == pytest.approx(0.210, abs=5e-4)


def test_ac1_of_published_examples():
    # Gwet, Computing inter-rater reliability and its variance in the presence of high agreement, 2008, his formula by
    # hand: agreement 118/125, shares .972 and .028, so chance 2 * .972 * .028.
    rare = [[1] * 123 + [0] * 2, [1] * 118 + [0] * 5 + [1] * 2]
    chance = 2 * 0.972 * 0.028
    assert gwet_ac1(rare) == pytest.approx((118 / 125 - chance) / (1 - chance), abs=1e-12)
    # irrCAC 1.0 for R, by Gwet: gwet.ac1.table(cont3x3abstractors) in its vignette.
    first, second = np.nonzero(table := np.array([[13, 0, 0], [0, 20, 7], [0, 4, 56]]))
    times = table[first, second]
    votes = [np.repeat(first, times), np.repeat(second, times)]
    assert gwet_ac1(votes) == pytest.approx(0.8493305, abs=5e-8)
    # Missing labels: the shares are of samples with a label, the agreement of those with two.
    assert gwet_ac1([["a", "a", "b", None], ["a", "b", "b", "a"]]) == pytest.approx(
        (2 / 3 - 2 * (3.5 / 4 * 0 + 2.5 / 4 * 1.5 / 4)) / (1 - 2 * 2.5 / 4 * 1.5 / 4), abs=1e-12
    )


def test_a_class_that_nobody_chose_counts_for_ac1():
    assert gwet_ac1([[1, 1, 1], [1, 1, 1]], labels=[0, 1]) == 1
    assert gwet_ac1([[0, 1, 1], [0, 1, 0]], labels=[0, 1, 2]) > gwet_ac1([[0, 1, 1], [0, 1, 0]])


@given(st.integers(0, 2**31), st.integers(2, 5), st.integers(3, 12), st.integers(2, 30))
def test_sums_over_samples_give_the_shares_of_a_dense_table(seed, n_learners, n_samples, n_classes):
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, n_classes, (n_learners, n_samples)).astype(np.int32)
    codes[:2, :2] = [[0, 1], [1, 1]]
    dense = np.stack([(codes == k).sum(axis=0) for k in range(n_classes)], axis=1)
    total = dense.sum(axis=1)
    some, several = total >= 1, total >= 2
    observed = ((dense * (dense - 1)).sum(axis=1)[several] / (total * (total - 1))[several]).mean()
    q = (dense[some] / total[some, None]).mean(axis=0)
    guess = (q * (1 - q)).sum() / (n_classes - 1)
    sums = label_sums(codes, n_classes)
    found = sums.statistics(sums.rows.sum(axis=0, keepdims=True))[0]
    assert found[0] == pytest.approx(observed)
    assert found[1] == pytest.approx((observed - (q**2).sum()) / (1 - (q**2).sum()))
    assert found[3] == pytest.approx((observed - guess) / (1 - guess))
    # Drawn again, the shares change linearly but for the square of the change.
    weights = np.ones(n_samples) + 1e-4 * rng.normal(size=n_samples)
    again = sums.statistics((weights @ sums.rows)[None])[0]
    shares = (weights[some] @ (dense[some] / total[some, None])) / weights[some].sum()
    pairs = (dense * (dense - 1)).sum(axis=1)[several] / (total * (total - 1))[several]
    seen = weights[several] @ pairs / weights[several].sum()
    assert again[1] == pytest.approx((seen - (shares**2).sum()) / (1 - (shares**2).sum()), abs=1e-5)


def test_alpha_against_the_krippendorff_package():
    # krippendorff 0.9.0 from PyPI, alpha(scores, level_of_measurement=level)
    expected = {"nominal": 0.24361430395913142, "ordinal": 0.8012436149351451, "interval": 0.7762087454932052}
    for level, value in expected.items():
        assert krippendorff_alpha(ratings(), level=level) == pytest.approx(value, abs=1e-12)


@given(st.integers(0, 2**31), st.integers(2, 5), st.integers(3, 12), st.floats(0, 0.5))
def test_alpha_is_that_of_all_pairs(seed, n_learners, n_samples, missing):
    scores = ratings(seed, n_learners, n_samples, missing)
    scores[0, :2], scores[1, :2] = [1, 2], [2, 5]  # something to compare
    scores[:, 0] = np.nan_to_num(scores[:, 0], nan=3)
    if np.isnan(scores).all(axis=1).any():
        return
    for level, distance in (("nominal", lambda a, b: float(a != b)), ("interval", lambda a, b: (a - b) ** 2)):
        found = krippendorff_alpha(scores, level=level)
        assert found == pytest.approx(brute_alpha(scores, distance), abs=1e-9)


def test_intraclass_correlations_against_analysis_of_variance():
    scores = ratings(missing=0.0)
    n, k = scores.shape[1], len(scores)
    grand = scores.mean()
    r = k * ((scores.mean(axis=0) - grand) ** 2).sum() / (n - 1)
    c = n * ((scores.mean(axis=1) - grand) ** 2).sum() / (k - 1)
    rest = scores - scores.mean(axis=0) - scores.mean(axis=1, keepdims=True) + grand
    e = (rest**2).sum() / ((n - 1) * (k - 1))
    found = intraclass_correlation(1e6 + scores)  # a shift changes nothing
    assert found.single == pytest.approx((r - e) / (r + (k - 1) * e + k * (c - e) / n), abs=1e-6)
    assert found.average == pytest.approx((r - e) / (r + (c - e) / n), abs=1e-6)


def test_samples_that_a_rater_left_out_do_not_count_for_the_intraclass_correlation():
    scores = ratings(missing=0.0)
    scores[2, 30:] = np.nan
    assert intraclass_correlation(scores) == pytest.approx(intraclass_correlation(scores[:, :30]))


def test_pairs_of_learners_against_scikit_learn():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (4, 60)).astype(np.int32)
    codes[1, :30] = codes[0, :30]
    codes[rng.random(codes.shape) < 0.2] = -1
    agreement, kappa, shared = label_pairs(codes, 3)
    for i, j in itertools.combinations(range(4), 2):
        both = (codes[i] >= 0) & (codes[j] >= 0)
        a, b = codes[i, both], codes[j, both]
        assert shared[i, j] == shared[j, i] == both.sum()
        assert agreement[i, j] == pytest.approx((a == b).mean())
        assert kappa[i, j] == pytest.approx(cohen_kappa_score(a, b))


def test_pairs_of_learners_are_the_same_for_many_classes():
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 3, (4, 60)).astype(np.int32)
    for few, many in zip(label_pairs(codes, 3), label_pairs(codes, 1000), strict=True):
        np.testing.assert_allclose(few, many)


def test_labels_may_be_of_any_kind_and_missing_in_any_way():
    words = [["a", "b", "b"], ["a", "b", None], ["a", "a", "b"]]
    numbers = [[0.0, 1.0, 1.0], [0.0, 1.0, NAN], [0.0, 0.0, 1.0]]
    masked = np.ma.masked_array([[0, 1, 1], [0, 1, 0], [0, 0, 1]], [[0, 0, 0], [0, 0, 1], [0, 0, 0]])
    found = {round(fleiss_kappa(votes), 12) for votes in (words, numbers, masked)}
    assert len(found) == 1
    proba = np.eye(2)[np.array([[0, 1, 1], [0, 1, 0], [0, 0, 1]])]
    proba[1, 2] = np.nan
    assert fleiss_kappa(proba) == pytest.approx(found.pop())


@pytest.mark.parametrize("measure", [fleiss_kappa, gwet_ac1, krippendorff_alpha, intraclass_correlation])
def test_agreement_on_a_constant_is_undefined(measure):
    with pytest.warns(UndefinedMeasureWarning, match=f"`{measure.__name__}` is undefined for these learners"):
        assert np.isnan(measure([[1, 1, 1], [1, 1, 1]])).all()


@pytest.mark.parametrize(
    ("outputs", "error", "words"),
    [
        ([[1, 2]], ValueError, "`outputs` must hold at least 2 learners, on its first axis; got 1"),
        ([1, 2], ValueError, "`outputs` must have axes"),
        ([[1, 2], [1, float("inf")]], ValueError, "`outputs` must be finite; got infinity"),
        ([["a", "b"], ["a", "c"]], TypeError, "`outputs` must hold numbers"),
        ([[1, None], ["a", 2]], TypeError, "`outputs` must hold numbers; got other objects"),
        ([[1, 2], [None, None]], ValueError, "at least one output of each learner; got none of learner 1"),
    ],
)
def test_bad_scores_are_refused(outputs, error, words):
    with pytest.raises(error, match=words):
        krippendorff_alpha(outputs, level="interval")
    with pytest.raises(error, match=words):
        intraclass_correlation(outputs)


def test_an_unknown_level_is_refused():
    with pytest.raises(
        ValueError, match="`level` must be one of 'nominal', 'ordinal', 'interval'; got 'ratio'"
    ):
        krippendorff_alpha([[1, 2], [1, 2]], level="ratio")
