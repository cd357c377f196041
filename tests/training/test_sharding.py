"""Weights spread over the data axis by FSDP2: losses, gradients and weights of one process."""

import shutil
import warnings

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from counterpoint.training import (
    ClipGradients,
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    IndependentLoss,
    JointLoss,
    fit,
    parallelize,
)
from counterpoint.training.parallel import whole_state

from .test_mesh_fit import adam, mesh_of, mixed, outcome, samples, split, stacked

pytest.importorskip("torch.distributed.fsdp", reason="torch is built without torch.distributed")
if not hasattr(torch.distributed.fsdp, "fully_shard"):
    pytest.skip("fully_shard came with torch 2.6", allow_module_level=True)

MAKES = {"stacked": stacked, "mixed": mixed}
RUNS = {"stacked": "both", "mixed": "data"}  # the mesh on which fit trains each
LOSSES = (CorrelationLoss, DiversityLoss, JointLoss, IndependentLoss)


def one_step(rank, shape):
    """Return the differences in loss and gradient from one process, for each loss."""
    x, y = samples(44)
    mesh, found = mesh_of(shape), {}
    place = mesh.get_local_rank("data")
    rows = x.tensor_split(mesh.size(1))[place], y.tensor_split(mesh.size(1))[place]
    for name, make in MAKES.items():
        for kind in LOSSES:
            spread, alone = parallelize(make(), mesh, shard=True), make()
            before = whole_state(make())
            values = []
            for ensemble, loss, batch in (
                (spread, kind(mesh=mesh), rows),
                (alone, kind(mesh="local"), (x, y)),
            ):
                value = loss(ensemble(batch[0]), batch[1])
                value.backward()
                torch.optim.SGD(ensemble.parameters(), 1.0).step()  # the weights change by the gradient
                values.append(float(value.detach()))
            ours, theirs = whole_state(spread), whole_state(alone)
            moved = max(float((theirs[k] - before[k]).abs().max()) for k in theirs if k.startswith("body."))
            apart = max(float((ours[k] - theirs[k]).abs().max()) for k in theirs if k.startswith("body."))
            held = sum(p.to_local().numel() for p in spread.parameters() if hasattr(p, "to_local"))
            whole = sum(p.numel() for p in spread.parameters())
            found[name, kind.__name__] = (abs(values[0] - values[1]), apart, moved, held / whole)
    return found


@pytest.mark.parametrize("shape", ["data", "both"])
def test_loss_and_gradient_are_those_of_one_process_and_each_holds_a_part(ranks, shape):
    every = ranks(one_step, shape)
    for found in every:
        for value, gradient, moved, _ in found.values():
            assert value < 1e-12
            assert gradient < 1e-12 < 1e-4 < moved
    n_data = {"data": 4, "both": 2}[shape]
    for case in every[0]:
        assert np.mean([found[case][3] for found in every]) == pytest.approx(1 / n_data, rel=0.35)


def options(loss, **more):
    x, y = samples(21, seed=1)
    return {"loss": loss, "optimizer": adam, "progress": False, "validation": split(x, y, size=8)} | more


def train(rank, folder):
    """Return what sharded runs end with, resumed from each other's checkpoints, and what one process ends with."""
    x, y = samples()
    found = {}
    for name, make in MAKES.items():
        more = {"callbacks": [ClipGradients(0.05)], "patience": 2}
        alone = make()
        history = fit(alone, split(x, y), epochs=3, **options(CorrelationLoss(0.8, mesh="local"), **more))
        found[name, "alone"] = outcome(alone, history)
        shape = RUNS[name]
        mesh = mesh_of(shape)
        spread = parallelize(make(), mesh, shard=True)
        path, own = f"{folder}/{name}", f"{folder}/{name}-{rank}"
        given = options(CorrelationLoss(0.8), mesh=mesh, **more)
        fit(spread, split(x, y), epochs=1, checkpoint=path, **given)
        dist.barrier()
        shutil.copy(path, own)  # for the run of one process
        dist.barrier()
        spread = parallelize(make(), mesh, shard=True)
        history = fit(spread, split(x, y), epochs=3, checkpoint=path, resume=True, **given)
        whole = make()
        whole.load_state_dict(whole_state(spread))
        found[name, shape] = outcome(whole, history)
        found[name, f"{shape} predicts"] = float(
            (spread.predict_proba(x) - whole.predict_proba(x)).abs().max()
        )
        later = make()
        single = options(CorrelationLoss(0.8, mesh="local"), **more)
        history = fit(later, split(x, y), epochs=3, checkpoint=own, resume=True, **single)
        found[name, f"{shape} then alone"] = outcome(later, history)
    return found


@pytest.fixture(scope="module")
def trained(ranks, tmp_path_factory):
    return ranks(train, str(tmp_path_factory.mktemp("sharded")))


@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize("then", ["", " then alone"])
def test_fit_ends_with_the_weights_and_decisions_of_one_process_and_resumes_on_one(trained, name, then):
    shape = RUNS[name]
    for found in trained:
        ours, expected = found[name, shape + then], found[name, "alone"]
        for key, value in expected["state"].items():
            np.testing.assert_allclose(ours["state"][key], value, rtol=0, atol=1e-12, err_msg=key)
        np.testing.assert_allclose(ours["proba"], expected["proba"], atol=1e-6)
        assert ours["best"] == expected["best"]
        np.testing.assert_allclose(ours["history"]["val_loss"], expected["history"]["val_loss"], atol=1e-9)
        assert found[name, f"{shape} predicts"] < 1e-6


def wrapped(rank):
    """Return the distance from one process of an ensemble that the user has sharded, and what is refused."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    x, y = samples(44)
    inner, alone = stacked(), stacked()
    fully_shard(inner.body, mesh=mesh_of("data")["data"])
    own = [(x.tensor_split(4)[rank], y.tensor_split(4)[rank])]
    basic = {"optimizer": adam, "epochs": 2, "progress": False}
    with warnings.catch_warnings(record=True):  # newer versions of torch warn that the outputs are a view
        with pytest.raises(ValueError, match="`mesh` must be given to a loss"):
            CorrelationLoss(0.8)(inner(own[0][0]), own[0][1])
        fit(inner, own, loss=CorrelationLoss(0.8), **basic)
    fit(alone, [(x, y)], loss=CorrelationLoss(0.8, mesh="local"), **basic)
    old = FullyShardedDataParallel(nn.Sequential(stacked()), device_id=torch.device("cpu"))
    with pytest.raises(TypeError, match=r"use `parallelize\(ensemble, mesh, shard=True\)`"):
        fit(old, own, loss=CorrelationLoss(0.8), **basic)
    two = fully_shard(Ensemble([nn.Linear(3, 3).double() for _ in range(8)]), mesh=mesh_of("both"))
    with pytest.raises(ValueError, match=r"over one mesh with one dimension, .*; got 2 dimensions"):
        fit(two, own, loss=CorrelationLoss(0.8), **basic)
    with pytest.raises(TypeError, match="`shard` must be"):
        parallelize(stacked(), mesh_of("data"), shard="yes")
    ours, theirs = whole_state(inner), whole_state(alone)
    torchs = get_model_state_dict(inner, options=StateDictOptions(full_state_dict=True))  # as the page says
    assert all(torch.equal(torchs[k], ours[k]) for k in theirs if k.startswith("body."))
    return max(float((ours[k] - theirs[k]).abs().max()) for k in theirs if k.startswith("body."))


def test_an_ensemble_that_users_shard_trains_by_the_loss_of_the_whole_batch(ranks):
    assert max(ranks(wrapped)) < 1e-12
