"""How ensembles hold up: fewer learners, rounded weights, corrupted and unknown images, and their tables."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from counterpoint.measures import combine, disagreement, log_loss
from counterpoint.records import NONE, plain
from counterpoint.training import CorrelationLoss, DiversityLoss, Ensemble, IndependentLoss, fit
from counterpoint.vision import ImageBatches, backbone
from paper.convnets import robust, robust_tables
from paper.convnets.corruptions import corrupt
from paper.convnets.images import ImageSets
from paper.convnets.measures import evaluate

CPU = torch.device("cpu")
LOSSES = {
    "soft": IndependentLoss(),
    "geometric": DiversityLoss(0.9),
    "decoded": CorrelationLoss(0.9),
}


@pytest.fixture(scope="module")
def images():
    return ImageSets(None, smoke=True)["digits"]


@pytest.fixture(scope="module", params=LOSSES)
def ensemble(request, images):
    return trained(images, LOSSES[request.param])


def trained(images, loss, n_learners=4):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ensemble = Ensemble([backbone("convnet", 10, width=4) for _ in range(n_learners)])
    batches = ImageBatches(images.x_train, images.y_train, batch_size=50, crop_padding=1, device=CPU)
    optimizer = torch.optim.AdamW(ensemble.parameters(), lr=0.02)
    fit(ensemble, batches, loss=loss, optimizer=optimizer, epochs=4, progress=False)
    return ensemble


@pytest.fixture(scope="module")
def found(ensemble, images):
    unknown = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    return robust.robustness(ensemble, images.x_test, images.y_test, unknown, CPU)


def test_the_vote_of_all_learners_is_that_of_the_ensemble(ensemble, found, images):
    expected = evaluate(ensemble, images.x_test, images.y_test, CPU)
    assert [one["k"] for one in found["k_of_n"]] == [1, 2, 3, 4]
    assert [one["n_subsets"] for one in found["k_of_n"]] == [4, 6, 4, 1]
    assert found["k_of_n"][-1]["error"] == expected["vote"]["error"]
    assert found["k_of_n"][-1]["log_loss"] == pytest.approx(expected["vote"]["log_loss"], abs=1e-5)
    assert found["k_of_n"][-1]["error_sd"] == 0
    if ensemble.readout is None:  # else single learners have a read-out of their own
        assert found["k_of_n"][0]["error"] == pytest.approx(expected["learner_error"], abs=1e-6)


def test_subsets_vote_by_the_rule_of_the_ensemble(ensemble, found, images):
    ((x, _),) = ImageBatches(images.x_test, images.y_test, augment=False, device=CPU)
    learners, voting = ensemble.vote_learners(x)
    proba = learners.double().numpy()
    proba /= proba.sum(-1, keepdims=True)
    votes = [combine(np.delete(proba, left_out, axis=0), voting=voting) for left_out in range(4)]
    losses = [log_loss(images.y_test, vote, labels=range(10)) for vote in votes]
    errors = [np.mean(vote.argmax(1) != images.y_test) for vote in votes]
    three = found["k_of_n"][2]
    assert three["log_loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert three["error"] == pytest.approx(np.mean(errors))
    assert three["error_sd"] == pytest.approx(np.std(errors))


def test_many_subsets_are_sampled_by_the_seed():
    ensemble, y = Ensemble([nn.Linear(2, 3) for _ in range(10)]), np.arange(200) % 3
    outputs = torch.randn(10, 200, 3, generator=torch.Generator().manual_seed(0))
    first, same, other = (robust.subsets(ensemble, outputs, y, random_state=seed) for seed in (0, 0, 1))
    assert first == same != other
    assert [one["n_subsets"] for one in first] == [10, *[20] * 7, 10, 1]


def test_rounding_moves_weights_by_at_most_half_a_step_and_leaves_the_ensemble_alone(ensemble):
    before = {name: value.clone() for name, value in ensemble.state_dict().items()}
    copy = robust.rounded(ensemble)
    assert all(torch.equal(value, before[name]) for name, value in ensemble.state_dict().items())
    n_rounded = 0
    for ours, theirs in zip(copy.learners, ensemble.learners, strict=True):
        for (name, new), old in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            if new.dim() == 1:  # biases and normalisation
                assert torch.equal(new, old)
                continue
            n_rounded += 1
            step = old.flatten(1).abs().amax(1, keepdim=True) / 127
            moved = (new - old).flatten(1).abs()
            assert (moved <= 0.5001 * step).all(), name
            assert moved.any()
            levels = (new.flatten(1) / step).round()
            torch.testing.assert_close(levels * step, new.flatten(1))
            assert levels.abs().max() == 127
    assert n_rounded == 4 * 7


def test_a_channel_of_zeros_and_learners_that_are_not_stacked_are_rounded_too():
    learners = [nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2))]
    with torch.no_grad():
        learners[0].weight[0] = 0
    weight = learners[1][0].weight.detach().clone()
    ensemble = Ensemble(learners)
    copy = robust.rounded(ensemble)
    assert not ensemble.is_stacked
    assert torch.equal(copy.learners[0].weight[0], torch.zeros(3))
    assert not torch.equal(copy.learners[1][0].weight, weight)
    assert torch.equal(ensemble.learners[1][0].weight, weight)


def test_rounded_weights_change_the_scores_a_little(ensemble, found, images):
    expected = evaluate(ensemble, images.x_test, images.y_test, CPU)["vote"]
    assert found["int8"]["log_loss"] == pytest.approx(expected["log_loss"], rel=0.1)
    assert found["int8"]["log_loss"] != pytest.approx(expected["log_loss"], rel=1e-6)
    assert len(found["int8"]["learner_errors"]) == 4


def test_the_scores_under_shift_are_those_of_corrupted_images(ensemble, found, images):
    x = corrupt(images.x_test, "jpeg", 5)
    expected = evaluate(ensemble, x, images.y_test, CPU)["vote"]
    *_, strongest = found["shift"]["jpeg"]
    assert {key: strongest[key] for key in expected} == pytest.approx(expected, abs=1e-5)
    ((pixels, _),) = ImageBatches(x, images.y_test, augment=False, device=CPU)
    labels = ensemble.learner_proba(pixels).argmax(-1).numpy()
    assert strongest["learner_errors"] == pytest.approx((labels != images.y_test).mean(1), abs=1e-5)
    every = [one["error"] for name, each in found["shift"].items() if name != "mean" for one in each]
    assert len(every) == 25
    assert found["shift"]["mean"]["error"] == pytest.approx(np.mean(every))


def test_the_results_are_content_for_json(found):
    assert json.loads(json.dumps(plain(found))) == plain(found)
    assert found["unknown"].keys() == found["wrong"].keys()
    assert all(0 <= value <= 1 for value in found["unknown"].values())


def test_without_unknown_images_there_is_no_area(images):
    ensemble = Ensemble([backbone("convnet", 10, width=2)])
    found = robust.robustness(ensemble, images.x_test, images.y_test, None, CPU)
    assert found["unknown"] is None
    assert math.isnan(found["wrong"]["disagreement"])  # one learner has no pairs
    assert 0 <= found["wrong"]["confidence"] <= 1


def test_doubts_separate_images_on_which_learners_differ():
    ensemble = Ensemble([nn.Linear(2, 3) for _ in range(3)])
    sure = 5 * torch.eye(3)[[0, 1, 2, 0]].expand(3, 4, 3)  # all agree
    torn = 5 * torch.eye(3)[:, None].expand(3, 4, 3)  # each chooses another class
    low, high = robust.doubts(ensemble, sure), robust.doubts(ensemble, torn)
    for name in low:
        assert robust._auroc(low[name], high[name]) == 1, name
        assert robust._auroc(high[name], low[name]) == 0, name
    np.testing.assert_allclose(low["mutual_information"], 0, atol=1e-12)
    np.testing.assert_allclose(high["entropy"], math.log(3))
    assert math.isnan(robust._auroc(low["entropy"], np.array([])))


def test_disagreement_is_that_of_the_library():
    ensemble = Ensemble([nn.Linear(2, 3) for _ in range(5)])
    outputs = torch.randn(5, 100, 3, generator=torch.Generator().manual_seed(0))
    labels = outputs.argmax(-1).numpy()
    pairs = [(labels[i] != labels[j]).mean() for i in range(5) for j in range(i)]
    found = robust.doubts(ensemble, outputs)["disagreement"].mean()
    assert found == pytest.approx(np.mean(pairs))
    binary = outputs[..., :2]  # where the library's disagreement, of right and wrong, is that of the labels
    right = disagreement(np.zeros(100, dtype=int), binary.argmax(-1).numpy())[np.triu_indices(5, 1)]
    assert robust.doubts(ensemble, binary)["disagreement"].mean() == pytest.approx(right.mean())


def results(error, *, unknown=True):
    """Return results with known numbers."""
    scores = {"error": 2 * error, "log_loss": 4 * error, "calibration_error": error / 2}
    areas = {"confidence": 0.8, "entropy": 0.81, "mutual_information": 0.82, "disagreement": 0.83}
    return {
        "k_of_n": [{"k": k, "error": error * (1 + 1 / k)} for k in range(1, 11)],
        "int8": {"error": error + 0.01},
        "shift": {"noise": [{"error": error * s} for s in range(1, 6)], "mean": scores},
        "unknown": areas if unknown else None,
        "wrong": {name: area + 0.1 for name, area in areas.items()},
    }


def piece(arm, seed, error, *, n_learners=10, measured=True, unknown=True):
    config = {"data": "cifar10", "width": 8, "n_learners": n_learners, "epochs": 10, "arm": arm, "seed": seed}
    extra = {"robust": results(error, unknown=unknown)} if measured else {}
    return {"config": config, "data": {"vote": {"error": error}, **extra}}


def record_of(*pieces):
    return {"config": {"smoke": False}, "data": {f"job-{k}": one for k, one in enumerate(pieces)}}


def test_the_numbers_of_the_tables_follow_from_the_record():
    record = record_of(
        piece("0.9", 0, 0.10),
        piece("independent", 0, 0.20),
        piece("independent", 1, 0.22),
        piece("0.9", 1, 0.5, measured=False),  # left out
        piece("independent", 0, 0.1, n_learners=5, unknown=False),
    )
    fewer, other, small = robust_tables.grids(record)
    title = "CIFAR-10, 10 of width 8, 10 epochs"
    assert fewer.title.startswith(f"{title}: error % of the vote of k learners")
    assert fewer.headings == ["loss", *(f"k = {k}" for k in (1, 2, 3, 5, 8, 10)), "int8", "n"]
    assert fewer.rows == [
        ["independent, soft vote", "42.00 ± 2.83", "31.50 ± 2.12", "28.00 ± 1.89", "25.20 ± 1.70", "23.62 ± 1.59",
         "23.10 ± 1.56", "22.00 ± 1.41", "2"],
        ["DiversityLoss(0.9)", "20.00", "15.00", "13.33", "12.00", "11.25", "11.00", "11.00", "1"],
    ]  # fmt: skip
    assert other.title.startswith(f"{title}: means over corrupted images")
    assert other.rows == [
        ["independent, soft vote", "42.00 ± 2.83", "0.840 ± 0.057", "10.5 ± 0.7", "0.810 ± 0.000", "0.800 ± 0.000",
         "0.820 ± 0.000", "0.900 ± 0.000", "2"],
        ["DiversityLoss(0.9)", "20.00", "0.400", "5.0", "0.810", "0.800", "0.820", "0.900", "1"],
    ]  # fmt: skip
    assert small.title.startswith("CIFAR-10, 5 of width 8, 10 epochs")
    assert small.rows == [["independent, soft vote", "20.00", "0.400", "5.0", NONE, NONE, NONE, "0.900", "1"]]


def test_the_figure_draws_what_the_record_says():
    record = record_of(piece("independent", 0, 0.20), piece("independent", 1, 0.22), piece("0.9", 0, 0.10))
    left, right = robust_tables.draw(record).axes
    for ax, expected in ((left, [42.0, 31.5]), (right, [23.1, 21.0, 42.0])):
        assert [bars.get_label() for bars in ax.containers] == [
            "independent, soft vote",
            "DiversityLoss(0.9)",
        ]
        line = ax.containers[0].lines[0]
        np.testing.assert_allclose(line.get_ydata()[: len(expected)], expected)
    assert left.containers[0].lines[0].get_xdata().tolist() == list(range(1, 11))
    assert right.containers[0].lines[0].get_xdata().tolist() == list(range(6))


def test_a_record_without_measurements_has_no_tables_and_an_empty_figure():
    record = record_of(piece("independent", 0, 0.2, measured=False))
    assert robust_tables.grids(record) == []
    assert not any(ax.containers for ax in robust_tables.draw(record).axes)
