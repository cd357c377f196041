import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import multivariate_normal, norm

from counterpoint import Assessment, assess
from counterpoint.assessment.votes import Ballot, wilson_interval
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import (
    MEASURES,
    bias_variance_diversity,
    brier_score,
    c_bound,
    calibration_error,
    diversity,
    error_correlations,
    learner_learner_correlation,
    log_loss,
    reliability,
    tandem_bound,
    truth_learner_correlation,
)
from counterpoint.outputs import Outputs, RunningVote
from counterpoint.theory import (
    best_weights,
    jury_accuracy,
    mixed_vote_accuracy,
    optimality,
    plurality_accuracy,
)


def make_votes(n_learners=7, n_samples=600, n_classes=3, accuracy=0.7, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_samples)
    wrong = (truth + rng.integers(1, n_classes, (n_learners, n_samples))) % n_classes
    return truth, np.where(rng.random((n_learners, n_samples)) < accuracy, truth, wrong)


def test_more_learners_than_samples_have_the_ceiling_of_the_best_weights():
    truth, votes = make_votes(n_learners=60, n_samples=40, n_classes=2)
    votes[7] = votes[3]  # twins
    result = assess(truth, votes).correlations
    expected = best_weights(result.r_tl_learners, result.matrix).ceiling
    assert expected == pytest.approx(1.0, abs=1e-6)
    assert result.ceiling == pytest.approx(expected, abs=1e-6)
    truth, votes = make_votes(n_learners=12, n_samples=400, n_classes=2)
    votes[7] = votes[3]
    found = assess(truth, votes)
    expected = best_weights(found.correlations.r_tl_learners, found.correlations.matrix).ceiling
    assert 0.5 < expected < 0.99
    assert found.correlations.ceiling == pytest.approx(expected, abs=1e-12)


def test_weights_that_tie_in_the_decimal_system_tie_in_every_vote():
    rng = np.random.default_rng(0)
    percent = np.array([18, 14, 14, 16, 8, 8, 18, 4])
    truth, votes = rng.integers(0, 2, 400), rng.integers(0, 2, (8, 400))
    own = percent @ (votes == truth)
    read = Outputs(votes, truth)
    expected = np.mean((own > 50) + 0.5 * (own == 50))
    assert RunningVote(read, "hard", percent / 100).credit().mean() == expected


def make_probabilities(seed=0, n_classes=3, n_samples=400):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_samples)
    logits = rng.standard_normal((5, n_samples, n_classes)) + 1.2 * np.eye(n_classes)[truth]
    proba = np.exp(logits)
    return truth, proba / proba.sum(axis=2, keepdims=True)


def plurality(truth, votes, weights=None):
    """The credit of each sample, by a plain loop: a tie is shared."""
    weights = np.ones(len(votes)) if weights is None else weights
    credit = []
    for sample, label in enumerate(truth):
        totals = {}
        for vote, weight in zip(votes[:, sample].tolist(), weights, strict=True):
            totals[vote] = totals.get(vote, 0.0) + weight
        winners = [k for k, total in totals.items() if total > max(totals.values()) - 1e-6]
        credit.append((label in winners) / len(winners))
    return np.array(credit)


GROUPS = ("correlations", "votes", "effective", "prediction", "certificates", "probabilities")


def codes(assessment):
    return {finding.code for finding in assessment.findings}


def test_the_numbers_are_those_of_measures_and_theory():
    truth, votes = make_votes()
    a = assess(truth, votes)
    pairs = np.triu_indices(7, 1)
    assert a.correlations.r_tl_learners == pytest.approx(truth_learner_correlation(truth, votes))
    assert a.correlations.r_tl_classes == pytest.approx(
        truth_learner_correlation(truth, votes, per_class=True).mean(0)
    )
    assert a.correlations.matrix == pytest.approx(learner_learner_correlation(votes))
    assert a.r_ll == pytest.approx(learner_learner_correlation(votes)[pairs].mean())
    assert a.optimality == pytest.approx(optimality(a.r_tl, a.r_ll, 7))
    assert a.accuracies == pytest.approx((votes == truth).mean(1))
    assert a.correlations.error_correlation == pytest.approx(error_correlations(truth, votes)[pairs].mean())
    assert a.prediction.equal == pytest.approx(
        plurality_accuracy(
            a.accuracies.mean(),
            a.correlations.error_correlation,
            7,
            n_classes=3,
            agreement=a.prediction.agreement,
        )
    )
    assert a.prediction.mixed == pytest.approx(
        mixed_vote_accuracy(
            a.accuracies, error_correlations(truth, votes), n_classes=3, agreement=a.prediction.agreement
        )
    )
    assert dict(a.measures) == pytest.approx({name: diversity(truth, votes, name) for name in MEASURES})
    assert a.certificates.c_bound == pytest.approx(c_bound(truth, votes))
    assert a.certificates.tandem_bound == pytest.approx(tandem_bound(truth, votes).bound)


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(2, 4), st.integers(0, 10**6))
def test_the_votes_are_those_of_a_plain_count(n_learners, n_classes, seed):
    truth, votes = make_votes(n_learners, 40, n_classes, 0.6, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        a = assess(truth, votes)
    assert a.votes.hard.value == pytest.approx(plurality(truth, votes).mean())
    if n_learners > 1:
        before = plurality(truth, votes)
        delta = [plurality(truth, np.delete(votes, i, axis=0)) - before for i in range(n_learners)]
        assert a.votes.without == pytest.approx([d.mean() for d in delta], abs=1e-6)
        assert a.votes.without_error == pytest.approx([d.std() / np.sqrt(40) for d in delta], abs=1e-6)


def test_the_soft_vote_is_the_highest_mean_probability():
    truth, proba = make_probabilities()
    a = assess(truth, proba, voting="soft")
    soft = proba.mean(axis=0).argmax(axis=1) == truth
    assert a.votes.soft.value == pytest.approx(soft.mean())
    assert a.vote == a.votes.soft
    assert a.votes.hard.value == pytest.approx(plurality(truth, proba.argmax(axis=2)).mean())
    left_out = np.delete(proba, 2, axis=0).mean(axis=0).argmax(axis=1) == truth
    assert a.votes.without[2] == pytest.approx(left_out.mean() - soft.mean())


def geometric_mean(proba, weights=None):
    """The normalised geometric mean, (n_samples, n_classes), by its definition."""
    weights = np.full(len(proba), 1 / len(proba)) if weights is None else weights
    product = np.prod(proba ** weights[:, None, None], axis=0)
    return product / product.sum(axis=1, keepdims=True)


def test_the_geometric_vote_is_the_highest_geometric_mean_of_the_probabilities():
    truth, proba = make_probabilities()
    a = assess(truth, proba, voting="geometric")
    geometric = geometric_mean(proba).argmax(axis=1) == truth
    assert a.votes.geometric.value == pytest.approx(geometric.mean())
    assert a.vote == a.votes.geometric
    assert a.votes.soft == assess(truth, proba, voting="soft").votes.soft
    assert "The geometric vote is right on" in a.verdict
    left_out = geometric_mean(np.delete(proba, 2, axis=0)).argmax(axis=1) == truth
    assert a.votes.without[2] == pytest.approx(left_out.mean() - geometric.mean())
    delta = left_out.astype(float) - geometric
    assert a.votes.without_error[2] == pytest.approx(delta.std() / np.sqrt(len(truth)))


def test_a_probability_of_zero_rules_a_class_out_of_the_geometric_vote_alone():
    proba = [[[0.0, 1.0]], [[0.6, 0.4]], [[0.999, 0.001]]]
    with pytest.warns(UndefinedMeasureWarning):
        a = assess([0], proba, voting="geometric", labels=[0, 1])
    assert (a.votes.hard.value, a.votes.soft.value, a.votes.geometric.value) == (1, 1, 0)
    assert a.probabilities.log_loss == pytest.approx(-np.log(np.finfo(np.float64).eps))
    assert a.probabilities.learner_log_losses == pytest.approx(
        [-np.log(np.finfo(np.float64).eps), -np.log(0.6), -np.log(0.999)]
    )


def test_the_zeros_of_all_learners_tie_in_the_geometric_vote():
    proba = [[[0.0, 0.0, 1.0]], [[0.0, 1.0, 0.0]]]
    with pytest.warns(UndefinedMeasureWarning):
        a = assess([1], proba, voting="geometric", labels=[0, 1, 2])
    assert a.vote.value == 0.5  # two classes share what is ruled out by one learner each


@pytest.mark.parametrize(
    ("voting", "pool"), [("soft", lambda p: p.mean(axis=0)), ("geometric", geometric_mean)]
)
def test_the_probabilities_of_the_vote_that_counts_are_judged(voting, pool):
    truth, proba = make_probabilities()
    a = assess(truth, proba, voting=voting)
    vote = pool(proba)
    assert a.probabilities.log_loss == pytest.approx(log_loss(truth, vote))
    assert a.probabilities.brier_score == pytest.approx(brier_score(truth, vote))
    assert a.probabilities.calibration_error == pytest.approx(calibration_error(truth, vote))
    for found, expected in zip(a.probabilities.reliability, reliability(truth, vote), strict=True):
        np.testing.assert_allclose(found, expected)
    assert a.probabilities.learner_log_losses == pytest.approx([log_loss(truth, one) for one in proba])
    credit = np.nan_to_num(a.probabilities.reliability.accuracy) @ a.probabilities.reliability.count
    assert credit / len(truth) == pytest.approx(a.vote.value)


def test_the_geometric_vote_beats_its_average_learner_by_their_diversity():
    # Wood et al. (2023): mean_i CE(p_i) = CE(vote) + mean_i KL(vote || p_i)
    truth, proba = make_probabilities()
    a = assess(truth, proba, voting="geometric")
    diversity_term = bias_variance_diversity(truth, proba, loss="cross_entropy").diversity
    assert a.probabilities.learner_log_losses.mean() - a.probabilities.log_loss == pytest.approx(
        diversity_term
    )


def test_labels_and_the_hard_vote_have_no_probabilities_to_judge():
    truth, votes = make_votes()
    for a in (assess(truth, votes), assess(truth, np.eye(3)[votes])):
        found = a.probabilities
        assert np.isnan([found.log_loss, found.brier_score, found.calibration_error]).all()
        assert [len(part) for part in a.probabilities.reliability] == [0, 0, 0, 0]
        assert "log-loss" not in str(a)
    labels = assess(truth, votes)
    assert np.isnan(labels.votes.geometric).all()
    assert np.isnan(labels.probabilities.learner_log_losses).all()
    assert labels.probabilities.learner_log_losses.shape == (7,)


def test_the_bootstrap_interval_is_that_of_resampled_credit():
    credit = np.repeat([0.0, 0.5, 1.0], [30, 10, 60])
    ballot = Ballot()
    ballot.add(credit)
    value, low, high = ballot.estimate()
    rng = np.random.default_rng(1)
    resampled = rng.choice(credit, (4000, 100)).mean(axis=1)
    assert value == pytest.approx(0.65)
    assert [low, high] == pytest.approx(np.quantile(resampled, [0.025, 0.975]), abs=0.015)


@pytest.mark.parametrize("voting", ["hard", "soft", "geometric"])
def test_json_brings_back_the_same_assessment(voting):
    truth, proba = make_probabilities()
    a = assess(np.array(["a", "b", "c"])[truth], proba, voting=voting, learners=list("vwxyz"), name="five")
    b = Assessment.from_json(a.to_json())
    assert b.to_dict() == a.to_dict()
    assert b.findings == a.findings
    assert b.decision == a.decision
    assert b.votes.against_best == a.votes.against_best
    for found, expected in ((b, a), *((getattr(b, group), getattr(a, group)) for group in GROUPS)):
        assert {key: type(value) for key, value in vars(found).items()} == {
            key: type(value) for key, value in vars(expected).items()
        }
    assert b.prediction.sizing.accuracy == pytest.approx(a.prediction.sizing.accuracy)
    for found, expected in zip(b.probabilities.reliability, a.probabilities.reliability, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert b.classes == ("a", "b", "c")
    assert type(b.votes.hard) is type(a.votes.hard)


def test_undefined_numbers_are_said_to_be_and_survive_json_as_null():
    truth, votes = make_votes(n_learners=1)
    with pytest.warns(UndefinedMeasureWarning, match="r_ll"):
        a = assess(truth, votes)
    assert "undefined" in str(a)
    assert json.loads(a.to_json())["correlations"]["r_ll"] is None
    assert np.isnan(Assessment.from_json(a.to_json()).r_ll)


def test_a_foreign_json_is_refused():
    words = r"^`data` must have the fields of Assessment; got none named 'name'\.$"
    with pytest.raises(ValueError, match=words):
        Assessment.from_dict({"schema": 4})
    a = assess(*make_votes()).to_dict()
    del a["votes"]["hard"]
    with pytest.raises(
        ValueError, match=r"^`data` must have the fields of VoteSummary; got none named 'hard'\.$"
    ):
        Assessment.from_dict(a)
    for text in ("{}", "x", "3", None):
        with pytest.raises(ValueError, match=f"^`text` must be the JSON of an Assessment; got {text!r}.$"):
            Assessment.from_json(text)


@pytest.mark.parametrize("schema", [0, 3, None, "4"])
def test_another_schema_is_refused_in_one_sentence(schema):
    data = assess(*make_votes()).to_dict() | {"schema": schema}
    words = f"^`data` must be an Assessment with schema 4; got schema {schema!r}\\.$"
    with pytest.raises(ValueError, match=words):
        Assessment.from_dict(data)
    with pytest.raises(ValueError, match=words):
        Assessment.from_json(json.dumps(data))


def test_training_samples_are_declared_and_bound_nothing_on_new_data():
    truth, votes = make_votes()
    held_out, training = assess(truth, votes), assess(truth, votes, samples="training")
    assert (held_out.samples, training.samples) == ("held_out", "training")
    assert codes(training) - codes(held_out) == {"training_samples"}
    assert np.isnan(training.certificates.tandem_bound)
    assert training.certificates.c_bound == held_out.certificates.c_bound
    assert "600 training samples" in training.verdict
    assert "600 samples" in held_out.verdict
    assert Assessment.from_json(training.to_json()).samples == "training"


def test_it_prints_a_verdict_the_numbers_and_the_advice():
    truth, votes = make_votes()
    a = assess(truth, votes, name="seven <b>")
    assert a.verdict.startswith(a.decision.text)
    assert " ".join(a.verdict.split()) in " ".join(str(a).split())
    assert "The hard vote is right on" in a.verdict
    assert "learner-learner correlation r_LL" in str(a)
    assert all(finding.text in str(a) for finding in a.findings)
    assert "seven &lt;b&gt;" in a._repr_html_()
    assert "<b>" not in a._repr_html_().replace("<b>info</b>", "").replace("<b>good</b>", "").replace(
        "<b>warning</b>", ""
    )
    assert repr(a).startswith("<Assessment 'seven <b>': 7 learners")


@pytest.mark.parametrize("voting", ["soft", "geometric"])
def test_it_shows_how_good_the_probabilities_are(voting):
    truth, proba = make_probabilities()
    a = assess(truth, proba, voting=voting)
    found = a.probabilities
    scores = f"{found.log_loss:.3f}, {found.brier_score:.3f}, {found.calibration_error:.3f}"
    assert dict(a.summary())[f"{voting}: log-loss, Brier, calibration error"] == scores
    assert dict(a.summary())["geometric vote"] == a.votes.geometric.as_percent()
    assert scores in str(a)
    assert scores in a._repr_html_()


def test_strings_numbers_and_codes_give_one_and_the_same_assessment():
    truth, votes = make_votes()
    words = np.array(["no", "perhaps", "yes"])
    a, b = assess(truth, votes), assess(words[truth], words[votes])
    assert a.r_tl == b.r_tl
    assert a.votes.hard == b.votes.hard


@pytest.mark.parametrize("voting", ["soft", "geometric"])
def test_blocks_do_not_change_the_result(voting, monkeypatch):
    truth, proba = make_probabilities()
    whole = assess(truth, proba, voting=voting).to_dict()
    monkeypatch.setattr("counterpoint.outputs.outputs.BLOCK_ENTRIES", 5 * 37)
    monkeypatch.setattr("counterpoint.outputs.pool._PART_ENTRIES", 5 * 3 * 7)
    parts = assess(truth, proba, voting=voting).to_dict()
    for group in (*GROUPS, "measures"):
        for key, value in whole[group].items():
            if isinstance(value, float):
                assert parts[group][key] == pytest.approx(value, abs=1e-9), key
    for group, key in (("votes", "without"), ("probabilities", "learner_log_losses")):
        assert parts[group][key] == pytest.approx(whole[group][key])
    bins = [one["probabilities"]["reliability"]["count"] for one in (parts, whole)]
    assert bins[0] == bins[1]


def test_a_progress_bar_is_shown_on_request(capsys, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    truth, votes = make_votes()
    assess(truth, votes, progress=True)
    assert "assessing" in capsys.readouterr().err


def test_the_front_door_and_the_module_of_the_same_subject_do_not_collide():
    import counterpoint
    import counterpoint.assessment

    assert counterpoint.assess is counterpoint.assessment.assess


# What follows from the numbers


def test_a_healthy_ensemble_gets_no_warning():
    truth, votes = make_votes(n_learners=9, n_samples=3000, accuracy=0.75)
    a = assess(truth, votes)
    assert (a.decision.code, a.decision.severity) == ("keep_vote", "good")
    assert all(finding.severity != "warning" for finding in a.findings)


def test_a_learner_that_hurts_is_named():
    truth, votes = make_votes(n_learners=5, n_samples=2000, n_classes=2)
    votes[3] = 1 - truth
    a = assess(truth, votes)
    found = {finding.code: finding for finding in a.findings}
    assert found["leave_out"].numbers["learners"] == [3]
    assert found["leave_out"].text.startswith(f"Leave out L4: {a.changes.leave_out_gain} (chosen on half")
    assert found["against_truth"].numbers["learners"] == [3]
    # The other half of the samples tells about the same as all of them.
    assert found["leave_out"].numbers["gain"] == pytest.approx(a.votes.without[3], abs=0.01)
    assert found["reweighting"].severity == "warning"
    assert found["reweighting"].text.startswith(f"Reweight the learners: {a.changes.reweighting} (")


def test_harmless_learners_are_seldom_accused():
    accused = 0
    for seed in range(25):
        truth, votes = make_votes(n_learners=9, n_samples=500, n_classes=2, accuracy=0.7, seed=seed)
        accused += "leave_out" in codes(assess(truth, votes))
    assert accused <= 3


def test_near_duplicates_are_grouped():
    truth, votes = make_votes(n_learners=6, n_samples=1000)
    votes[4] = votes[1]
    votes[4, 0] = (votes[4, 0] + 1) % 3
    votes[5] = votes[1]
    found = {finding.code: finding for finding in assess(truth, votes).findings}
    assert found["families"].numbers == {"families": [[1, 4, 5]], "copies": [[1, 4, 5]], "removable": 2}
    assert "L2, L5 and L6 make the same errors" in found["families"].text


@pytest.mark.parametrize("accuracy", [0.99, 0.995])
def test_accurate_learners_with_independent_errors_get_no_false_advice(accuracy):
    said = []
    for seed in range(15):
        truth, votes = make_votes(n_learners=5, n_samples=1000, n_classes=10, accuracy=accuracy, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMeasureWarning)
            said += codes(assess(truth, votes))
    assert said.count("families") <= 2
    assert said.count("opposed_errors") <= 2


def test_a_copy_that_the_vote_needs_is_not_called_removable():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 2000)
    wrong = rng.random(2000) < 0.2
    votes = np.where(rng.random((4, 2000)) < 0.45, 1 - truth, truth)
    votes[:2] = np.where(wrong, 1 - truth, truth)  # two that always agree outweigh the others
    a = assess(truth, votes)
    assert (a.votes.without[:2] < -4 * a.votes.without_error[:2]).all()
    (found,) = (finding for finding in a.findings if finding.code == "families")
    assert found.text.endswith("they are one opinion with several votes.")
    assert (found.severity, found.numbers["removable"]) == ("info", 0)


def test_a_difference_within_chance_is_not_called_one():
    # The vote is right on 335 of 400 samples, its best learner on 339: they differ on 24 of them.
    truth = np.zeros(400, dtype=int)
    votes = np.zeros((3, 400), dtype=int)
    votes[:, :51] = 1  # where all err
    votes[1:, 51:65] = 1  # where only the first is right
    votes[0, 65:75] = 1  # where only the first errs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        a = assess(truth, votes, labels=[0, 1])
    assert (a.vote.value, a.accuracies.max()) == (0.8375, 0.8475)
    assert a.votes.against_best.says == "alike"
    assert a.decision.code == "no_difference"
    assert a.verdict.startswith("The vote and L1 cannot be told apart (difference -1.0 points, ")


def test_rare_positives_and_guessers_are_seen_through():
    rng = np.random.default_rng(1)
    truth = (rng.random(3000) < 0.03).astype(int)
    votes = (rng.random((5, 3000)) < 0.1).astype(int)
    a = assess(truth, votes)
    assert a.vote.value > 0.95
    assert a.by_class.baseline == pytest.approx(1 - truth.mean())
    assert a.by_class.balanced_accuracy == pytest.approx(np.mean(a.by_class.recalls))
    assert a.by_class.balanced_accuracy < 0.55
    found = {finding.code: finding for finding in a.findings}
    assert found["majority_baseline"].severity == "warning"
    assert "Always answering 0 would be right on" in found["majority_baseline"].text


def test_the_confusion_matrix_counts_samples_by_true_and_chosen_class():
    a = assess(["a", "a", "b", "b"], [["a", "b", "b", "b"], ["a", "b", "b", "a"]])
    # On the last sample the two learners disagree: the tie is shared.
    np.testing.assert_array_equal(a.by_class.confusion.table(2), [[1, 1], [0.5, 1.5]])
    assert a.by_class.confusion.errors().counts.tolist() == [1, 0.5]
    np.testing.assert_array_equal(a.by_class.recalls, [0.5, 0.75])
    np.testing.assert_array_equal(a.by_class.shares, [0.5, 0.5])


def test_intervals_hold_near_the_edge():
    assert wilson_interval(1.0, 2)[0] < 0.4
    rng, covered = np.random.default_rng(0), 0
    for _ in range(500):
        right = rng.random(100) < 0.99
        low, high = wilson_interval(right.mean(), 100)
        covered += low <= 0.99 <= high
    assert covered / 500 >= 0.9  # it was 0.62 with the bootstrap


@pytest.mark.parametrize("kind", ["mapping", "pandas"])
def test_a_mapping_or_a_frame_names_the_learners(kind):
    truth, votes = make_votes(n_learners=3)
    named = dict(zip(("first", "second", "third"), votes, strict=True))
    a = assess(truth, named if kind == "mapping" else pd.DataFrame(named))
    assert a.learners == ("first", "second", "third")
    np.testing.assert_array_equal(a.accuracies, assess(truth, votes).accuracies)
    assert assess(truth, named, learners=["x", "y", "z"]).learners == ("x", "y", "z")


def test_an_empty_mapping_is_refused():
    with pytest.raises(
        ValueError, match=r"^`outputs` must hold at least one learner; got an empty mapping\.$"
    ):
        assess([0, 1], {})


def test_the_text_lists_the_learners_best_first():
    truth, votes = make_votes(n_learners=15, n_samples=500)
    a = assess(truth, votes)
    rows = a.learner_rows()
    order = np.argsort(-a.accuracies, kind="stable")
    assert [name for name, *_ in rows] == [
        "learner", *(a.learners[i] for i in order[:6]), "... 3 more", *(a.learners[i] for i in order[-6:])
    ]  # fmt: skip
    assert rows[1][1] in str(a)


def test_collusion_is_seen_through():
    # Each of seven learners is right on 4/7 of the samples in rotation: together always, alone hardly.
    truth = np.tile([0, 1], 700)
    right = (np.arange(1400)[None, :] + np.arange(7)[:, None]) % 7 < 4
    a = assess(truth, np.where(right, truth, 1 - truth))
    assert a.vote.value == 1
    assert a.optimality > 0.9
    assert "collusion" in codes(a)
    assert "opposed_errors" in codes(a)


@pytest.mark.parametrize("n_learners", [25, 51])
def test_many_independent_learners_do_not_collude(n_learners):
    truth, votes = make_votes(n_learners, n_samples=2000, n_classes=2)
    a = assess(truth, votes)
    assert a.optimality > 0.9
    assert "collusion" not in codes(a)


def test_errors_in_common_are_seen():
    truth, votes = make_votes(n_learners=5, n_samples=1000, n_classes=2, accuracy=0.7)
    alike = np.where(np.random.default_rng(0).random(votes.shape) < 0.9, votes[0], votes)
    a = assess(truth, alike)
    assert a.correlations.error_correlation > 0.6
    assert "common_errors" in codes(a)


def test_a_vote_worse_than_its_best_learner_is_said_to_be():
    truth, votes = make_votes(n_learners=5, n_samples=1000, n_classes=2, accuracy=0.55)
    votes[2] = np.where(np.random.default_rng(9).random(1000) < 0.97, truth, 1 - truth)
    a = assess(truth, votes)
    assert a.decision.code == "use_best"
    assert a.decision.numbers["learner"] == a.best_learner == 2
    assert a.effective.best == "L3"
    assert a.effective.votes.high < 1


def test_more_learners_are_promised_what_the_theory_says():
    truth, votes = make_votes(n_learners=5, n_samples=4000, n_classes=2, accuracy=0.65)
    a = assess(truth, votes)
    found = {finding.code: finding for finding in a.findings}["more_learners"]
    now, two, twice = jury_accuracy(0.65, 0.0, [5, 7, 11])
    for name, gain in (("one_more", two - now), ("twice", twice - now), ("independent", two - now)):
        # These err independently already, so two that do are two more of them.
        assert found.numbers[f"{name}_low"] <= gain <= found.numbers[f"{name}_high"]
        assert found.numbers[name] == pytest.approx(gain, abs=0.01)
    low, high = (100 * found.numbers[f"one_more_{end}"] for end in ("low", "high"))
    gain = 100 * found.numbers["one_more"]
    assert (
        f"Two more learners like these would add about {gain:.1f} points on average ({low:.1f} to {high:.1f})."
        in found.text
    )
    assert "Two that make their own mistakes would add" in found.text
    assert found.numbers["size"] == 11


def test_an_independent_learner_is_worth_more_than_one_like_the_others():
    rng = np.random.default_rng(0)
    truth, common = rng.integers(0, 2, 3000), rng.normal(size=3000)
    votes = np.where(common + rng.normal(size=(6, 3000)) < 0.8, truth, 1 - truth)
    found = {finding.code: finding for finding in assess(truth, votes).findings}["more_learners"]
    assert found.numbers["independent"] > 2 * found.numbers["one_more"]


@pytest.mark.parametrize(("n_learners", "n_classes"), [(5, 2), (4, 2), (4, 5), (7, 5)])
def test_learners_with_mistakes_of_their_own_gain_what_such_learners_do_gain(n_learners, n_classes):
    rng = np.random.default_rng(1)
    n = 20_000
    truth, common = rng.integers(0, n_classes, n), rng.normal(size=n)
    wrong = (truth + rng.integers(1, n_classes, (n_learners, n))) % n_classes
    votes = np.where(common + rng.normal(size=(n_learners, n)) < 0.4, truth, wrong)
    a = assess(truth, votes)
    others = (truth + rng.integers(1, n_classes, (2, n))) % n_classes
    others = np.where(rng.random((2, n)) < a.accuracies.mean(), truth, others)[: a.prediction.added]
    gain = assess(truth, np.vstack([votes, others])).votes.hard.value - a.votes.hard.value
    # The others are drawn by chance: a vote that changes on a tenth of the samples
    assert a.prediction.different.value == pytest.approx(gain, abs=4 * np.sqrt(0.1 / n))
    assert a.prediction.added == (2 if n_learners == 5 else 1)


def test_more_learners_are_promised_no_more_than_is_left():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    for n_learners in (3, 8):
        found = assess(truth, np.where(rng.random((n_learners, 400)) < 0.97, truth, 1 - truth))
        for gain in (found.prediction.more, found.prediction.twice, found.prediction.different):
            assert (
                -found.votes.hard.value <= gain.low <= gain.value <= gain.high <= 1 - found.votes.hard.value
            )


def test_nothing_is_promised_to_a_vote_that_is_always_right():
    right = (np.arange(1400)[None, :] + np.arange(7)[:, None]) % 7 < 4
    truth = np.tile([0, 1], 700)
    a = assess(truth, np.where(right, truth, 1 - truth))
    assert a.vote.value == 1
    assert "more_learners" not in codes(a)


def test_votes_tied_together_in_threes_are_found_to_defy_the_prediction():
    # Two of three are always right, in rotation, on 90 % of the samples; on the others all are wrong.
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 3000)
    right = (rng.integers(0, 3, 3000)[None, :] != np.arange(3)[:, None]) & (rng.random(3000) < 0.9)
    a = assess(truth, np.where(right, truth, 1 - truth))
    assert a.votes.hard.value == pytest.approx(0.9, abs=0.02)
    assert "prediction_off" in codes(a)


def test_the_samples_that_the_error_correlation_needs_bring_it_to_five_hundredths():
    truth, votes = correlated_votes(300, seed=3)
    (finding,) = [f for f in assess(truth, votes).findings if f.code == "more_samples"]
    assert finding.text.startswith("With 300 samples the correlation of being correct is known to ± 0.0")
    needed = finding.numbers["samples_needed"]
    assert 300 < needed < 900
    found = assess(*correlated_votes(needed, seed=4))
    c = found.effective.error_correlation
    assert (c.high - c.low) / 2 == pytest.approx(0.05, abs=0.008)
    assert "more_samples" not in codes(assess(*correlated_votes(3 * needed, seed=5)))


def correlated_votes(n_samples, seed):
    """Return six learners that are right on about 70 % and share the difficulty of the samples."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n_samples)
    skill = rng.normal(size=n_samples) * np.sqrt(0.55) + rng.normal(size=(6, n_samples)) * np.sqrt(0.45)
    return truth, np.where(skill < 0.524, truth, 1 - truth)


def test_small_samples_are_said_to_be_small():
    truth, votes = make_votes(n_samples=50)
    assert "small_sample" in codes(assess(truth, votes))


@pytest.mark.parametrize("n_samples", [3, 20])
def test_a_vote_without_an_error_is_not_known_exactly(n_samples):
    truth = np.arange(n_samples) % 2
    votes = np.tile(truth, (3, 1))
    votes[[0, 1, 2], [0, 1, 2]] = 1 - truth[:3]  # each errs once, the vote never
    with pytest.warns(UndefinedMeasureWarning, match="ratio_errors"):
        a = assess(truth, votes)
    assert a.vote.low == pytest.approx(1 / (1 + 1.96**2 / n_samples), abs=1e-4)  # Wilson's lower end of 100 %
    assert a.vote.high == 1
    found = {finding.code: finding for finding in a.findings}
    assert found["small_sample"].numbers["half_width"] == pytest.approx((1 - a.vote.low) / 2)
    assert a.decision.code == "unclear"
    assert "prediction_off" not in found


@pytest.mark.parametrize(("n_samples", "said"), [(3, False), (20, True)])
def test_a_few_ties_do_not_tell_that_a_learner_beats_the_vote(n_samples, said):
    truth = np.arange(n_samples) % 2
    with pytest.warns(UndefinedMeasureWarning):
        a = assess(truth, np.stack([truth, 1 - truth]))
    assert (a.vote.value, a.accuracies[0]) == (0.5, 1)
    assert (a.decision.code == "use_best") is said


# Borders


def test_a_constant_learner_is_nan_and_named():
    truth, votes = make_votes()
    votes[2] = 1
    with pytest.warns(UndefinedMeasureWarning, match="r_tl of L3"):
        a = assess(truth, votes)
    assert np.isnan(a.correlations.r_tl_learners[2])
    assert np.isfinite([a.r_tl, a.r_ll, a.optimality, a.vote.value]).all()
    assert a.votes.weights[2] == 0
    assert "constant_learner" in codes(a)
    rest = assess(truth, np.delete(votes, 2, axis=0))
    assert [a.r_tl, a.r_ll, a.correlations.bound, a.optimality] == pytest.approx(
        [rest.r_tl, rest.r_ll, rest.correlations.bound, rest.optimality]
    )


def test_constant_learners_are_named_although_no_other_is_left():
    with pytest.warns(UndefinedMeasureWarning):
        a = assess([0, 1] * 10, [[0] * 20, [1] * 20])
    found = {finding.code: finding for finding in a.findings}["constant_learner"]
    assert found.numbers["learners"] == [0, 1]
    assert found.text == "L1 and L2 gave constant outputs, which say nothing about the truth."


def test_a_learner_of_labels_unknown_to_the_truth_is_not_constant():
    with pytest.warns(UndefinedMeasureWarning, match="class 2, class 3"):
        a = assess([0, 1] * 10, [[0, 1] * 10, [2, 3] * 10])
    assert "constant_learner" not in codes(a)
    np.testing.assert_allclose(a.correlations.r_tl_learners, [1, 0], atol=1e-12)


def test_a_constant_truth_is_not_the_fault_of_those_who_know_it():
    with pytest.warns(UndefinedMeasureWarning):
        a = assess([0] * 20, [[0] * 20, [0, 1] * 10])
    assert "constant_learner" not in codes(a)


def test_learners_that_agree_in_one_class_alone_are_no_duplicates():
    with pytest.warns(UndefinedMeasureWarning):
        a = assess([0, 1] * 10, [[0, 1] * 10, [0, 2] * 10])
    assert a.correlations.matrix[0, 1] == pytest.approx(0.5)  # 1 in the class that both give
    assert "families" not in codes(a)


def test_bytes_are_read_as_text():
    truth, votes = make_votes()
    words = np.array([b"no", b"perhaps", b"yes"])
    a = assess(words[truth], words[votes])
    assert Assessment.from_json(a.to_json()).classes == ("no", "perhaps", "yes")
    assert a.vote == assess(words.astype(str)[truth], words[votes]).vote
    with pytest.raises(ValueError, match=r"`y_true` must hold bytes that are UTF-8; got b'\\xff'"):
        assess(np.array([b"\xff", b"a"]), [[b"a", b"a"]])


def test_labels_beyond_63_bits_are_refused():
    huge = np.array([2**63 + 1, 2**63 + 5], dtype=np.uint64)
    with pytest.raises(ValueError, match="`outputs` must hold whole numbers of at most 9223372036854775807"):
        assess([1, 2], [huge, huge])


def test_tensors_in_training_are_read():
    torch = pytest.importorskip("torch")
    truth, proba = make_probabilities()
    a = assess(truth, torch.tensor(proba, requires_grad=True))
    assert a.to_dict() == assess(truth, proba).to_dict()


def test_one_class_only_leaves_the_accuracies():
    with pytest.warns(UndefinedMeasureWarning):
        a = assess(np.zeros(20, int), np.zeros((3, 20), int))
    assert a.vote.value == 1
    assert np.isnan(a.r_tl)
    assert codes(a) == {"no_errors", "small_sample"}


def test_an_absent_class_and_an_unseen_label_are_told_apart():
    truth, votes = make_votes()
    proba = np.eye(4)[votes]
    with pytest.warns(UndefinedMeasureWarning, match="class 3"):
        a = assess(truth, proba, labels=[0, 1, 2, 3])
    assert a.n_classes == 4
    votes[0, 0] = 7  # a label that the truth does not know
    with pytest.warns(UndefinedMeasureWarning, match="class 7"):
        assert assess(truth, votes).classes == (0, 1, 2, 7)


def test_two_learners_and_one():
    truth, votes = make_votes(n_learners=2)
    assert np.isfinite(assess(truth, votes).r_ll)
    with pytest.warns(UndefinedMeasureWarning, match="r_ll and everything derived from it"):
        one = assess(truth, votes[:1])
    assert [one.vote.value, one.prediction.equal, one.prediction.mixed] == pytest.approx(
        [one.accuracies[0]] * 3
    )
    assert np.isnan(one.votes.without).all()


def test_perfect_learners_have_no_error_correlation():
    truth, _ = make_votes()
    with pytest.warns(UndefinedMeasureWarning, match="being correct"):
        a = assess(truth, np.tile(truth, (3, 1)))
    assert a.vote.value == 1
    assert a.optimality == pytest.approx(1)
    assert "families" not in codes(a)  # without an error there is nothing to tell copies by


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            lambda y, p: (y, np.where((np.arange(400)[:, None] == 7) & (np.arange(3) == 1), np.nan, p)),
            ValueError,
            "`outputs` must not be NaN; got nan at learner 0, sample 7",
        ),
        (lambda y, p: (y, p * 0.9), ValueError, "must hold probabilities that sum to one"),
        (lambda y, p: (y[:-1], p), ValueError, "`outputs` must have 399 samples, as `y_true`"),
        (lambda y, p: (y, p.swapaxes(0, 1)), ValueError, "learners are the first axis"),
        (lambda y, p: (y, p[0]), ValueError, "."),
        (
            lambda y, p: (y + 5, p[:, :, :2] / p[:, :, :2].sum(2, keepdims=True)),
            ValueError,
            "`labels` must name the 2 columns",
        ),
    ],
)
def test_bad_outputs_are_refused_by_name_rule_and_value(change, error, words):
    with pytest.raises(error, match=words):
        assess(*change(*make_probabilities()))


def test_bad_options_are_refused():
    truth, votes = make_votes()
    with pytest.raises(ValueError, match="`voting` must be one of 'hard', 'soft', 'geometric'; got 'loud'"):
        assess(truth, votes, voting="loud")
    with pytest.raises(ValueError, match="`samples` must be one of 'held_out', 'training'; got 'test'"):
        assess(truth, votes, samples="test")
    for voting in ("soft", "geometric"):
        words = f"`voting` must be 'hard' where `outputs` are labels; got '{voting}'"
        with pytest.raises(ValueError, match=words):
            assess(truth, votes, voting=voting)
    with pytest.raises(ValueError, match="`learners` must have one name for each of the 7 learners; got 2"):
        assess(truth, votes, learners=["a", "b"])
    with pytest.raises(ValueError, match="`learners` must be distinct; got 'a' twice"):
        assess(truth, votes, learners=list("abcdefa"))
    with pytest.raises(ValueError, match=r"`labels` must be one row of distinct labels; got .{77}\.\.\.\.$"):
        assess(truth, votes, labels=np.arange(600) % 2)
    for learners in (3, "abcdefg"):
        with pytest.raises(TypeError, match=f"`learners` must be a sequence of names; got {learners!r}"):
            assess(truth, votes, learners=learners)
    with pytest.raises(TypeError, match="`name` must be a string; got 3"):
        assess(truth, votes, name=3)
    with pytest.raises(TypeError, match="`progress` must be True or False; got 'no'"):
        assess(truth, votes, progress="no")


def test_a_million_samples_take_seconds():
    truth, votes = make_votes(n_learners=5, n_samples=1_000_000, n_classes=2)
    a = assess(truth.astype(np.int8), votes.astype(np.int8))
    assert a.prediction.mixed == pytest.approx(a.votes.hard.value, abs=0.003)


def test_a_class_that_only_learners_vote_for_is_in_neither_average():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 500)
    votes = np.where(rng.random((10, 500)) < 0.95, truth, 2)
    with pytest.warns(UndefinedMeasureWarning, match="class 2"):
        a = assess(truth, votes)
    shown = learner_learner_correlation(votes, per_class=True)[:2].mean(axis=0)
    assert a.correlations.matrix == pytest.approx(shown)
    assert np.isnan(a.correlations.r_ll_classes[2])
    assert a.optimality == pytest.approx(optimality(a.r_tl, a.r_ll, 10))
    assert a.r_tl < a.correlations.ceiling < 1


@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")
def test_learners_constant_in_some_classes_do_not_pass_their_bound():
    # The first never says 0, the second never 1: they share class 2 alone, where they differ most.
    truth, votes = [2, 1, 0, 2], [[2, 1, 2, 1], [2, 2, 0, 2]]
    a = assess(truth, votes)
    by_class = truth_learner_correlation(truth, votes).mean()
    pairs = learner_learner_correlation(votes)[0, 1]
    assert by_class > np.sqrt((pairs + 1) / 2) + 0.05  # Theorem 2 is for averages over the same classes
    assert a.correlations.pooled
    assert a.r_tl < a.correlations.bound == pytest.approx(np.sqrt((a.r_ll + 1) / 2))


def test_guessers_do_not_go_against_the_truth():
    rng = np.random.default_rng(0)
    for _ in range(6):
        truth = rng.integers(0, 2, 100)
        votes = np.where(rng.random((5, 100)) < 0.8, truth, 1 - truth)
        assert "against_truth" not in codes(assess(truth, np.vstack([votes, rng.integers(0, 2, 100)])))
    assert "against_truth" in codes(assess(truth, np.vstack([votes, 1 - truth])))
    few = [[0, 1, 0, 1, 0, 1, 0, 0], [0, 1, 0, 1, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0, 1, 1]]
    assert "against_truth" in codes(assess([0, 1] * 4, few))


def test_nothing_is_promised_where_there_is_nothing_to_gain():
    with pytest.warns(UndefinedMeasureWarning):
        a = assess([1, 0, 0], [[0, 0, 0], [0, 0, 0], [1, 0, 0]])
    found = next(finding for finding in a.findings if finding.code == "more_learners")
    assert "would help on average cannot be told" in found.text


def test_a_mask_that_hides_nothing_changes_nothing():
    truth, votes = make_votes()
    assert assess(np.ma.masked_array(truth), votes).vote == assess(truth, votes).vote


# Effective votes


def correlated(n_learners, n_samples, c, *, accuracy=0.7, n_classes=2, seed=0, group_size=1):
    """Return votes of the one-factor probit; samples of a group share their difficulty."""
    rng = np.random.default_rng(seed)
    rho = 0.0
    if c:
        rho = brentq(lambda r: phi_of(accuracy, r) - c, 0, 0.999)
    factor = np.repeat(rng.normal(size=-(-n_samples // group_size)), group_size)[:n_samples]
    latent = np.sqrt(rho) * factor + np.sqrt(1 - rho) * rng.normal(size=(n_learners, n_samples))
    truth = rng.integers(0, n_classes, n_samples)
    wrong = (truth + rng.integers(1, n_classes, latent.shape)) % n_classes
    return truth, np.where(latent < norm.ppf(accuracy), truth, wrong)


def phi_of(p, rho):
    """Return the correlation of two answers whose latent variables correlate by rho."""
    t = norm.ppf(p)
    both = multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf([t, t])
    return (both - p**2) / (p * (1 - p))


@pytest.mark.parametrize("c", [0.0, 0.3])
@pytest.mark.parametrize(("n_learners", "n_samples"), [(3, 400), (6, 300)])
def test_the_intervals_of_effective_votes_hold(n_learners, n_samples, c):
    independence = n_learners / (1 + (n_learners - 1) * c)
    held = np.zeros(2)
    for seed in range(20):
        found = assess(*correlated(n_learners, n_samples, c, seed=seed)).effective
        held += [
            found.error_correlation.low <= c <= found.error_correlation.high,
            found.independence.low <= independence <= found.independence.high,
        ]
    assert (held >= 16).all()


def test_groups_widen_the_intervals_as_they_must():
    truth, votes = correlated(5, 1000, 0.3, group_size=20)
    alone, together = assess(truth, votes), assess(truth, votes, groups=np.arange(1000) // 20)
    for name in ("votes", "independence", "error_correlation"):
        one, other = getattr(alone.effective, name), getattr(together.effective, name)
        # What chance alone does enters the level of the best, and its own uncertainty, which the groups leave alone.
        votes = name == "votes"
        assert one.value == pytest.approx(other.value, rel=0.02 if votes else 1e-12)
        assert other.high - other.low > (1.1 if votes else 1.5) * (one.high - one.low)


def test_equal_votes_are_worth_one_and_independent_ones_their_number():
    truth, votes = make_votes(n_learners=7, n_samples=20000, n_classes=2, accuracy=0.7)
    apart, copies = assess(truth, votes).effective, assess(truth, np.tile(votes[0], (7, 1))).effective
    assert apart.votes.value == pytest.approx(7, abs=0.5)
    assert apart.independence.value == pytest.approx(7, abs=0.3)
    assert copies.votes.value == pytest.approx(1)
    assert copies.independence.value == pytest.approx(1)


@pytest.mark.parametrize("n_classes", [3, 10])
def test_a_plurality_is_predicted_not_a_majority(n_classes):
    truth, votes = correlated(6, 20000, 0.2, accuracy=0.6, n_classes=n_classes)
    a = assess(truth, votes)
    assert a.prediction.equal == pytest.approx(a.votes.hard.value, abs=0.005)
    assert a.prediction.mixed == pytest.approx(a.votes.hard.value, abs=0.005)
    assert a.prediction.agreement == pytest.approx(1 / (n_classes - 1), abs=0.01)
    assert a.prediction.independent > a.prediction.equal + 0.01


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([0, 1], "must have one entry for each of the 600 samples"),
        ([0] * 600, "at least two groups; got one"),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups, words):
    with pytest.raises(ValueError, match=words):
        assess(*make_votes(), groups=groups)
