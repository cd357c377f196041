"""Training on a mesh: the weights, measures and decisions of one process."""

import functools
import shutil

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from counterpoint.training import (
    Callback,
    ClipGradients,
    CorrelationLoss,
    DiversityLoss,
    DiversityWarmup,
    Ensemble,
    IndependentLoss,
    MemberAxis,
    ParallelEnsemble,
    fit,
    parallelize,
)

SHAPES = {"data": (1, 4), "learners": (4, 1), "both": (2, 2)}


@functools.cache
def mesh_of(shape):
    return init_device_mesh("cpu", SHAPES[shape], mesh_dim_names=("learners", "data"))


def samples(n=45, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    return x, ((x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1).long())


def stacked(n=6):
    torch.manual_seed(2)
    return Ensemble([nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)).double() for _ in range(n)])


def mixed():
    torch.manual_seed(2)
    nets = [nn.Linear(3, 3).double() for _ in range(3)]
    nets += [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)).double() for _ in range(2)]
    return Ensemble(nets)


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=0.03)


def split(*tensors, size=16):
    return list(zip(*(tensor.split(size) for tensor in tensors), strict=True))


class Stop(Callback):
    """One process alone asks to stop."""

    def on_epoch_end(self, state):
        state.stop = state.epoch == 2 and state.axes.is_main


def settings(case):
    """Return an ensemble and the other arguments of fit."""
    x, y = samples()
    valid = split(*samples(21, seed=1), size=8)
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(x, y), 16, shuffle=True, generator=generator)
    views = [([x + i / 10 for i in range(6)], y)]
    weight = torch.rand(45, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    labels = y.index_fill(
        0, torch.arange(8, 32), -100
    )  # half of the first batch, which one process has, and the second
    masked = {"loss": DiversityLoss(ignore_index=-100), "validation": split(x, labels, size=8)}
    basic = {"optimizer": adam, "epochs": 3, "progress": False}
    cases = {
        "correlation": (stacked(), loader, {"loss": CorrelationLoss(0.8), "validation": valid}),
        "diversity": (stacked(), split(x, y), {"loss": DiversityLoss(), "validation": valid, "patience": 1}),
        "few-rows": (stacked(), split(x, y, size=42), {"loss": CorrelationLoss(0.5)}),
        "row-each": (stacked(), split(x[:44], y[:44], size=4), {"loss": CorrelationLoss(0.5)}),
        "mixed": (
            mixed(),
            split(x, y),
            {"loss": CorrelationLoss(0.8), "callbacks": [ClipGradients(0.05), DiversityWarmup(2)]},
        ),
        "weights": (
            mixed(),
            split(x, y, weight),
            {"loss": DiversityLoss(0.5, pool="probabilities"), "validation": valid, "metric": "log_loss"},
        ),
        "accumulated": (stacked(), split(x, y, size=7), {"loss": CorrelationLoss(0.8), "accumulate": 2}),
        "ignored": (stacked(), split(x, labels), masked),
        "ignored-accumulated": (stacked(), split(x, labels, size=4), masked | {"accumulate": 2}),
        "tokens": (
            stacked(),
            split(x[:, None].expand(-1, 2, -1), torch.stack([labels, labels], 1)),
            {"loss": lambda logits, y: CorrelationLoss(0.5, mesh="local")(logits, y)},
        ),
        "views": (stacked(), views, {"loss": IndependentLoss(), "callbacks": [Stop()]}),
        "callable": (
            stacked(),
            split(x, y),
            {
                "loss": lambda logits, y: CorrelationLoss(0.5, mesh="local")(logits, y).exp(),
                "validation": valid,
                "metric": first_right,
            },
        ),
    }
    ensemble, batches, own = cases[case]
    return ensemble, batches, basic | own


CASES = (
    "correlation",
    "diversity",
    "few-rows",
    "row-each",
    "mixed",
    "weights",
    "accumulated",
    "ignored",
    "ignored-accumulated",
    "tokens",
    "views",
    "callable",
)
# Every case on a mesh with both axes, where it can go wrong in two ways; some on those of one axis.
RUNS = [("both", case) for case in CASES if "row" not in case] + [
    ("data", "correlation"),
    ("data", "few-rows"),
    ("data", "row-each"),
    ("data", "accumulated"),
    ("learners", "correlation"),
    ("learners", "mixed"),
]


def first_right(logits, target):
    return float((logits[0].argmax(-1) == target).double().mean())


def outcome(ensemble, history):
    """Return what a run ends with, as arrays."""
    x, _ = samples()
    return {
        "state": {k: v.numpy() for k, v in ensemble.state_dict().items() if "readout" not in k},
        "proba": ensemble.predict_proba(x).numpy(),
        "learners": ensemble.learner_proba(x).numpy(),
        "history": {k: history[k] for k in history.columns if k != "seconds"},
        "best": history.best_epoch,
        "vote": ensemble.vote,
    }


def train_all(rank):
    found = {}
    for case in CASES if rank == 0 else ():
        ensemble, batches, options = settings(case)
        found["alone", case] = outcome(ensemble, fit(ensemble, batches, **options))
    for shape, case in RUNS:
        ensemble, batches, options = settings(case)
        found[shape, case] = outcome(ensemble, fit(ensemble, batches, mesh=mesh_of(shape), **options))
    return found


@pytest.fixture(scope="module")
def found(ranks):
    return ranks(train_all)


@pytest.mark.parametrize(("shape", "case"), RUNS)
def test_a_mesh_ends_with_the_weights_measures_and_decisions_of_one_process(found, shape, case):
    expected = found[0]["alone", case]
    for rank in found:
        ours = rank[shape, case]
        assert ours["state"].keys() == expected["state"].keys()
        for name, value in ours["state"].items():
            np.testing.assert_allclose(value, expected["state"][name], rtol=0, atol=1e-12)
        np.testing.assert_allclose(ours["proba"], expected["proba"], atol=1e-6)
        np.testing.assert_allclose(ours["learners"], expected["learners"], atol=1e-6)
        assert ours["history"].keys() == expected["history"].keys()
        for name, values in ours["history"].items():
            np.testing.assert_allclose(values, expected["history"][name], atol=1e-6, err_msg=name)
        assert (ours["best"], ours["vote"]) == (expected["best"], expected["vote"])


@pytest.mark.parametrize(("shape", "case"), RUNS)
def test_all_processes_have_the_same_decisions_bit_for_bit(found, shape, case):
    first, *others = [rank[shape, case] for rank in found]
    for other in others:
        for part in ("state", "history"):
            for name, value in first[part].items():
                np.testing.assert_array_equal(other[part][name], value)
        np.testing.assert_array_equal(other["proba"], first["proba"])


def test_one_process_may_stop_all(found):
    assert len(found[0]["both", "views"]["history"]["epoch"]) == 2


def resume_all(rank, folder, ways):
    """Return the weights of runs that began on one mesh and ended on another; None is a process by itself."""
    found = {}
    x, y = samples()
    options = {"loss": CorrelationLoss(0.8), "optimizer": adam, "progress": False, "validation": split(x, y)}
    options |= {"scheduler": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}
    for make, meshes in ways.items():
        for first, second in ((None, None), *meshes):
            path = f"{folder}/{make.__name__}-{first}-{second}"
            own = f"{path}-{rank}"
            ensemble = make()
            begin = {"checkpoint": own} if first is None else {"checkpoint": path, "mesh": mesh_of(first)}
            fit(ensemble, split(x, y), epochs=1, **begin, **options)
            if (first is None) != (second is None):
                dist.barrier()
                shutil.copy(*((path, own) if first else (f"{path}-0", path)))
                dist.barrier()
            ensemble = make()
            rest = {"checkpoint": own} if second is None else {"checkpoint": path, "mesh": mesh_of(second)}
            fit(ensemble, split(x, y), epochs=3, resume=True, **rest, **options)
            found[make.__name__, first, second] = {k: v.numpy() for k, v in ensemble.state_dict().items()}
    return found


SOME = {stacked: (("both", "learners"), (None, "data")), mixed: (("learners", None),)}
LAYOUTS = (None, *SHAPES)
EVERY = {make: [(a, b) for a in LAYOUTS for b in LAYOUTS if a != b] for make in (stacked, mixed)}


@pytest.mark.parametrize("ways", [SOME, pytest.param(EVERY, marks=pytest.mark.slow)], ids=["some", "every"])
def test_a_checkpoint_resumes_on_any_other_mesh_and_on_one_process(ranks, tmp_path, ways):
    for rank in ranks(resume_all, str(tmp_path), ways):
        for (make, *path), state in rank.items():
            expected = rank[make, None, None]
            assert state.keys() == expected.keys()
            for name, value in state.items():
                tolerance = 1e-5 if "readout" in name else 1e-12
                np.testing.assert_allclose(value, expected[name], rtol=0, atol=tolerance, err_msg=str(path))


def dropping(rank, folder, shape):
    """Return the weights of a run with dropout, at once and interrupted."""
    x, y = samples()
    options = {"loss": DiversityLoss(), "optimizer": adam, "progress": False, "mesh": mesh_of(shape)}
    found = []
    for name, parts in (("whole", (3,)), ("parts", (1, 3))):
        for epochs in parts:
            torch.manual_seed(5)
            nets = [
                nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 3)).double() for _ in range(4)
            ]
            ensemble = Ensemble(nets)
            torch.manual_seed(rank if epochs == parts[0] else 1000)  # each process drops units of its own
            file = f"{folder}/{name}"
            fit(ensemble, split(x, y), epochs=epochs, checkpoint=file, resume=epochs != parts[0], **options)
        found.append({k: v.numpy() for k, v in ensemble.state_dict().items()})
    return found


@pytest.mark.parametrize("shape", ["data", pytest.param("both", marks=pytest.mark.slow)])
def test_a_resumed_run_draws_the_dropout_of_each_process(ranks, tmp_path, shape):
    for whole, parts in ranks(dropping, str(tmp_path), shape):
        for name, value in whole.items():
            np.testing.assert_allclose(parts[name], value, rtol=0, atol=1e-14)  # DDP sums in another order


def wrapped_alone(rank):
    """Train ensembles that users have wrapped themselves, each process with batches of its own."""
    x, y = samples()
    found = {}
    weights = {}
    for name, loss in (("correlation", CorrelationLoss(0.8)), ("diversity", DiversityLoss())):
        inner = stacked()
        # 18, 9, 9 and 9 samples: other sizes, and the first has one batch more
        parts = [x[:18], x[18:27], x[27:36], x[36:]], [y[:18], y[18:27], y[27:36], y[36:]]
        own = split(parts[0][rank], parts[1][rank], size=9)
        options = {"loss": loss, "optimizer": adam, "epochs": 3, "progress": False, "patience": 1}
        history = fit(DistributedDataParallel(inner), own, validation=own, **options)
        found[name] = outcome(inner, history)
        whole = stacked()
        first = torch.cat([x[:9], x[18:27], x[27:36], x[36:]]), torch.cat([y[:9], y[18:27], y[27:36], y[36:]])
        batches = [first, (x[9:18], y[9:18])]
        weights[name] = outcome(whole, fit(whole, batches, validation=batches, **options))
    sampler = DistributedSampler(TensorDataset(x[:44], y[:44]), shuffle=True)
    loader = DataLoader(TensorDataset(x[:44], y[:44]), 4, sampler=sampler)
    ensemble = stacked()
    options = {"loss": CorrelationLoss(0.8), "optimizer": adam, "epochs": 2, "progress": False}
    found["sampler"] = outcome(ensemble, fit(ensemble, loader, mesh=dist.group.WORLD, **options))
    return found, weights


def test_an_ensemble_inside_ddp_trains_by_the_loss_of_the_whole_batch(ranks):
    found = ranks(wrapped_alone)
    for ours, expected in found:
        for name, theirs in expected.items():
            for key, value in ours[name]["state"].items():
                np.testing.assert_allclose(value, theirs["state"][key], rtol=0, atol=1e-12)
            assert ours[name]["best"] == theirs["best"]
            np.testing.assert_allclose(ours[name]["history"]["loss"], theirs["history"]["loss"], atol=1e-9)
        for key, value in ours["sampler"]["state"].items():
            np.testing.assert_array_equal(value, found[0][0]["sampler"]["state"][key])


class Heads(nn.Module):
    """Three learners with one BatchNorm, whose statistics DistributedDataParallel exchanges in each forward pass."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.learners = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def forward(self, x):
        normed = self.norm(x)
        return torch.stack([learner(normed) for learner in self.learners])


def as_many_rows_as_learners(rank):
    """Train where one process alone has as many samples as learners, so that its axes may be mixed up."""
    x, y = samples()
    options = {"loss": DiversityLoss(), "optimizer": adam, "epochs": 1, "progress": False}
    batches = split(x[:9], y[:9], size=9)  # 3, 2, 2 and 2
    steps = [
        fit(Heads().double(), 2 * batches, mesh=mesh_of("data"), accumulate=k, **options) for k in (1, 2)
    ]
    return [len(history) for history in steps]


def test_one_process_may_look_at_its_outputs_alone(ranks):
    assert ranks(as_many_rows_as_learners) == [[1, 1]] * 4


def own_loop(rank):
    """Return the distance from one process of a training loop without fit, and what is refused."""
    x, y = samples()
    mesh = mesh_of("both")
    parallel, whole = parallelize(stacked(), mesh), stacked()
    loss = CorrelationLoss(0.8, mesh=mesh)
    rows = x.tensor_split(2)[mesh.get_local_rank("data")], y.tensor_split(2)[mesh.get_local_rank("data")]
    steps = (parallel, loss, *rows), (whole, CorrelationLoss(0.8, mesh="local"), x, y)
    for ensemble, own, inputs, target in steps:
        optimizer = torch.optim.SGD(ensemble.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            own(ensemble(inputs), target).backward()
            optimizer.step()
    distance = float((parallel.predict_proba(x) - whole.predict_proba(x)).abs().max())
    found = parallel.whole()
    assert isinstance(parallel, ParallelEnsemble)
    assert torch.allclose(found(x), whole(x), atol=1e-12)
    said = refused(rank, mesh, x, y)
    return distance, said


def refused(rank, mesh, x, y):
    options = {"loss": DiversityLoss(), "optimizer": adam, "epochs": 1, "progress": False}
    trunk = MemberAxis(nn.Sequential(nn.Linear(3, 6), nn.Unflatten(1, (2, 3))).double(), 2)
    ensemble = stacked()
    bad = [
        (trunk, [(x, y)], {"mesh": mesh}, TypeError, "`ensemble` must be an Ensemble"),
        (stacked(2), [(x, y)], {"mesh": mesh_of("learners")}, ValueError, "a learner for each of the 4"),
        (
            ensemble,
            [(x, y)],
            {"mesh": mesh, "optimizer": torch.optim.SGD(ensemble.parameters(), 0.1)},
            TypeError,
            "must be a callable",
        ),
        (parallelize(stacked(), mesh), [(x, y)], {}, ValueError, "must be given for an ensemble"),
        (parallelize(stacked(), mesh), [(x, y)], {"mesh": dist.group.WORLD}, ValueError, "must be that of"),
        (
            stacked(),
            [(x, y)],
            {"loss": DiversityLoss(mesh=mesh)},
            ValueError,
            "`mesh` must be given to `fit`",
        ),
        (stacked(), [(x + rank, y)], {"mesh": mesh}, ValueError, "must yield the same batches"),
    ]
    for ensemble, batches, given, kind, words in bad:
        with pytest.raises(kind, match=words):
            fit(ensemble, batches, **options | given)
    alone = stacked()  # each process by itself, as in a sweep
    fit(alone, [(x + rank, y)], **options)
    return len(bad)


def test_a_loop_of_the_users_own_takes_the_mesh_with_the_loss(ranks):
    assert all(distance < 1e-12 for distance, _ in ranks(own_loop))
