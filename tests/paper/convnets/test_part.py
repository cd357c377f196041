"""A part of the map: groups train as if alone, and are measured as the library measures."""

import numpy as np
import pytest
import torch

from counterpoint import measures as library
from paper.convnets import part as program_of
from paper.convnets.arms import ARMS
from paper.convnets.images import load_images
from paper.convnets.part import Part, measures, run

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images():
    return load_images(None, smoke=True)


@pytest.mark.parametrize("own_views", [False, True])
def test_an_arm_trains_beside_others_as_it_does_alone(images, own_views):
    def part(*names):
        return Part(
            "some", 2, 2, tuple(ARMS[n] for n in names), (3,), 1, 100, own_views=own_views, batch_size=25
        )

    alone = run(part("0.9"), images, CPU)
    beside = run(part("independent", "0.9", "joint"), images, CPU)
    for name in ("soft", "learner", "r_tl", "r_ll"):
        found, expected = (one["test"]["raw"][name] for one in (beside, alone))
        np.testing.assert_allclose(found[:, 1], expected[:, 0], atol=2e-3)
    np.testing.assert_allclose(
        beside["history"]["r_tl"][:, :, 1], alone["history"]["r_tl"][:, :, 0], atol=1e-3
    )


def test_seeds_are_run_one_by_one_where_memory_is_short(images, monkeypatch):
    part = Part("some", 2, 2, (ARMS["independent"], ARMS["0.9"]), (0, 1), 1, 100, batch_size=25)
    whole, at_once = run(part, images, CPU), program_of._run

    def short_of_memory(part, *rest):
        if len(part.seeds) > 1:
            raise torch.OutOfMemoryError("too many nets")
        return at_once(part, *rest)

    monkeypatch.setattr(program_of, "_run", short_of_memory)
    found = run(part, images, CPU)
    assert found.keys() == whole.keys()
    assert found["n_parameters"] == whole["n_parameters"]
    for name, expected in whole["history"].items():
        np.testing.assert_allclose(found["history"][name], expected, atol=1e-3)
    np.testing.assert_allclose(found["test"]["read"]["r_tl"], whole["test"]["read"]["r_tl"], atol=1e-2)
    monkeypatch.setattr(program_of, "_run", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("any")))
    with pytest.raises(torch.OutOfMemoryError, match="any"):
        run(part._replace(seeds=(0,)), images, CPU)


def test_the_measures_are_those_of_the_library():
    torch.manual_seed(3)
    logits, target = torch.randn(1, 2, 5, 200, 4), torch.randint(4, (200,))
    found = measures(logits, target)
    for arm in range(2):
        proba, truth = logits[0, arm].softmax(-1).numpy(), target.numpy()
        votes = proba.argmax(-1)
        expected = {
            "r_tl": library.truth_learner_correlation(truth, proba),
            "r_ll": library.learner_learner_correlation(proba)[np.triu_indices(5, 1)],
            "soft": np.mean(proba.mean(0).argmax(-1) != truth),
            "learner": np.mean(votes != truth),
            "error_correlation": np.corrcoef(votes == truth)[np.triu_indices(5, 1)].mean(),
        }
        for name, value in expected.items():
            assert found[name][0, arm] == pytest.approx(float(np.mean(value)), abs=1e-5), name
        counts = np.stack([np.sum(votes == k, axis=0) for k in range(4)])
        clear = np.sum(counts == counts.max(0), axis=0) == 1
        hard = np.mean(counts.argmax(0)[clear] != truth[clear]) * clear.mean()
        assert hard <= found["hard"][0, arm] <= hard + (~clear).mean()
