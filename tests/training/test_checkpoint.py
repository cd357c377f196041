"""A checkpoint is whole or not there, and a killed run ends as if it had not been."""

import json
import os
import random
import struct
import subprocess
import sys
import textwrap
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from counterpoint.training import CorrelationLoss, Ensemble, fit, load_checkpoint, save_checkpoint
from counterpoint.training.checkpoint import restore_rng_state, rng_state

# Runs this short may end with a learner that began on the wrong side.
pytestmark = pytest.mark.filterwarnings("ignore::counterpoint.exceptions.LearnerWarning")


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


def test_nested_states_come_back_as_they_were(tmp_path):
    state = {
        "numbers": [1, 2.5, True, None, "text", float("inf")],
        "betas": (0.9, (0.1, 2)),
        "milestones": Counter({30: 1, 60: 2}),
        "state": {0: {"step": torch.tensor(3.0)}, 1: {}},
        "kind": "a key that the format uses itself",
        "nested": {"kind": 1, "a.b": torch.ones(2), "a": {"b": torch.zeros(3, dtype=torch.int64)}},
        "scalar": torch.tensor(1.5, dtype=torch.bfloat16),
        "empty": torch.empty(0, 4),
    }
    save_checkpoint(tmp_path / "deep" / "run.safetensors", state)
    assert equal(load_checkpoint(tmp_path / "deep" / "run.safetensors"), state)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["run.safetensors"]


def test_channels_last_tensors_keep_their_layout(tmp_path):
    tensor = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    save_checkpoint(tmp_path / "run", {"t": tensor})
    assert load_checkpoint(tmp_path / "run")["t"].is_contiguous(memory_format=torch.channels_last)


def test_tied_tensors_are_written(tmp_path):
    tensor = torch.ones(3)
    save_checkpoint(tmp_path / "run", {"a": tensor, "b": tensor})
    assert torch.equal(load_checkpoint(tmp_path / "run")["b"], tensor)


def test_the_file_is_safetensors_with_json_in_its_header(tmp_path):
    save_checkpoint(tmp_path / "run", {"epoch": 3, "model": {"weight": torch.ones(2)}})
    raw = (tmp_path / "run").read_bytes()
    header = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])  # the format's own definition
    assert header["model.weight"]["shape"] == [2]
    assert json.loads(header["__metadata__"]["counterpoint"])["epoch"] == 3


def test_other_objects_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match=r"`state` must hold tensors.* got <object.* at 'a.0'"):
        save_checkpoint(tmp_path / "run", {"a": [object()]})
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_kind_is_refused(tmp_path):
    from safetensors.torch import save_file

    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="`path` must be a checkpoint; got"):
        load_checkpoint(tmp_path / "text")
    save_file({"a": torch.ones(1)}, tmp_path / "other")
    with pytest.raises(ValueError, match="`path` must be a checkpoint of counterpoint; got another file"):
        load_checkpoint(tmp_path / "other")


@pytest.mark.parametrize(("path", "error"), [("", ValueError), (None, TypeError), (3, TypeError)])
def test_what_is_no_path_is_refused(path, error):
    for call in (load_checkpoint, lambda path: save_checkpoint(path, {})):
        with pytest.raises(error, match=r"^`path` must be the path of a file; got .+\.$"):
            call(path)


def test_a_state_is_a_mapping(tmp_path):
    with pytest.raises(TypeError, match=r"^`state` must be a mapping; got list\.$"):
        save_checkpoint(tmp_path / "a", [1])
    assert not list(tmp_path.iterdir())


def test_a_folder_is_refused(tmp_path):
    for call in (load_checkpoint, lambda path: save_checkpoint(path, {})):
        with pytest.raises(ValueError, match="`path` must be the path of a file; got the folder"):
            call(tmp_path)


def test_the_random_state_brings_back_every_generator(tmp_path):
    own = torch.Generator().manual_seed(5)
    draw = lambda: (  # noqa: E731
        torch.rand(3).tolist(),
        np.random.rand(3).tolist(),  # noqa: NPY002
        np.random.randn(),  # noqa: NPY002 - leaves a second Gaussian in store
        random.random(),
        torch.rand(2, generator=own).tolist(),
    )
    device = torch.device("cpu")
    before = rng_state(device, [own])
    try:
        draw()
        save_checkpoint(tmp_path / "run", rng_state(device, [own]))
        expected = draw()
        restore_rng_state(load_checkpoint(tmp_path / "run"), device, [own])
        assert draw() == expected
    finally:
        restore_rng_state(before, device, [own])


# Forked from a process that has imported torch already, each run starts at once.
SCRIPT = textwrap.dedent(
    """
    import os, signal, sys, time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    from counterpoint.training import (
        CorrelationLoss, Callback, DiversityWarmup, Ensemble, fit, save_checkpoint
    )

    class Tell(Callback):
        def __init__(self, pipe):
            self.pipe = pipe
        def on_epoch_begin(self, state):
            os.write(self.pipe, b".")

    def train(folder, epochs, pipe):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        x = torch.randn(120, 4)
        y = (x[:, 0] > x[:, 1]).long() + (x[:, 2] > 1).long()
        net = lambda: nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)
        )
        ensemble = Ensemble([net() for _ in range(3)])
        history = fit(
            ensemble,
            DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True),
            loss=CorrelationLoss(0.8),
            optimizer=lambda p: torch.optim.AdamW(p, lr=0.01),
            scheduler=lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [10, 30]),
            epochs=epochs,
            validation=[(x[:50], y[:50])],
            callbacks=[Tell(pipe), DiversityWarmup(20)],
            checkpoint=folder + "/run.safetensors",
            resume=True,
            progress=False,
        )
        save_checkpoint(folder + "/final.safetensors", {
            "weights": ensemble.state_dict(),
            "records": [{k: v for k, v in record.items() if k != "seconds"} for record in history],
            "draw": torch.rand(3),
        })

    def run(folder, epochs, kill_after):
        os.makedirs(folder, exist_ok=True)
        heard, told = os.pipe()
        if not (child := os.fork()):
            train(folder, epochs, told)
            os._exit(0)
        os.close(told)
        if kill_after is not None:
            os.read(heard, 1)
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(heard)
        if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status):
            sys.exit("a run has failed")
        return os.WIFSIGNALED(status)

    torch.optim.AdamW([nn.Parameter(torch.zeros(1))])  # imports half of torch, once for all children
    epochs = int(sys.argv[2])
    run(sys.argv[1] + "/whole", epochs, None)
    killed = 0
    for number, row in enumerate(sys.argv[3:]):
        folder = f"{sys.argv[1]}/{number}"
        killed += sum(run(folder, epochs, float(moment)) for moment in row.split(","))
        run(folder, epochs, None)
    print(killed)
    """
)


def check_kills(tmp_path, n_runs, n_kills, epochs, longest):
    moments = np.random.default_rng(0).uniform(0, longest, (n_runs, n_kills))
    rows = [",".join(map(str, row)) for row in moments]
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(epochs), *rows]
    killed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(killed) >= 0.8 * moments.size  # others had finished
    expected = load_checkpoint(tmp_path / "whole" / "final.safetensors")
    assert len(expected["records"]) == epochs
    for number in range(n_runs):
        assert equal(load_checkpoint(tmp_path / str(number) / "final.safetensors"), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_run_killed_at_random_moments_ends_bit_by_bit_the_same(tmp_path):
    check_kills(tmp_path, n_runs=1, n_kills=3, epochs=40, longest=0.2)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_hundred_kills_change_nothing(tmp_path):
    check_kills(tmp_path, n_runs=20, n_kills=5, epochs=150, longest=0.4)


def small(n_features=2, width=4):
    return Ensemble([nn.Sequential(nn.Linear(n_features, width), nn.Linear(width, 2)) for _ in range(3)])


def fit_small(path, ensemble=None, **changes):
    torch.manual_seed(0)
    x = torch.randn(40, 2)
    options = {
        "loss": CorrelationLoss(0.5),
        "optimizer": lambda p: torch.optim.Adam(p, lr=0.01),
        "epochs": 3,
        "checkpoint": path,
        "resume": True,
        "progress": False,
    }
    ensemble = small() if ensemble is None else ensemble
    return fit(ensemble, [(x, (x[:, 0] > 0).long())], **(options | changes))


def test_a_finished_run_returns_its_history_and_its_best_weights(tmp_path):
    x = torch.randn(30, 2)
    validation = [(x, (x[:, 1] > 0).long())]
    first, second = small(), small()
    history = fit_small(tmp_path / "run", first, validation=validation)
    before = (tmp_path / "run").read_bytes()
    again = fit_small(tmp_path / "run", second, validation=validation)
    assert again == history  # with the seconds of the first run
    assert equal(dict(second.state_dict()), dict(first.state_dict()))
    assert (tmp_path / "run").read_bytes() == before


def test_more_epochs_continue_a_finished_run(tmp_path):
    torch.manual_seed(1)
    whole = small()
    start = {name: value.clone() for name, value in whole.state_dict().items()}
    fit_small(None, whole, epochs=5)
    parts = small()
    parts.load_state_dict(start)
    fit_small(tmp_path / "run", parts, epochs=2)
    assert len(fit_small(tmp_path / "run", small(), epochs=4)) == 4
    assert len(fit_small(tmp_path / "run", parts, epochs=5)) == 5
    assert equal(dict(parts.state_dict()), dict(whole.state_dict()))


def test_a_checkpoint_is_not_overwritten_unless_resume_is_asked_for(tmp_path):
    fit_small(tmp_path / "run", epochs=5, resume=False)
    before = (tmp_path / "run").read_bytes()
    message = r"`checkpoint` must not exist unless `resume` is True; got '.*run'\. Pass resume=True"
    with pytest.raises(FileExistsError, match=message):
        fit_small(tmp_path / "run", epochs=2, resume=False)
    assert (tmp_path / "run").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"ensemble": small(width=5)},
            r"of the same architecture \(body.layers.0.weight: float32 \(3, 5, 2\) here",
        ),
        (
            {"ensemble": Ensemble([nn.Linear(2, 2) for _ in range(3)])},
            "of the same architecture",
        ),
        ({"optimizer": torch.optim.SGD}, r"of the same optimizer \(kind: SGD here, Adam there\)"),
        (
            {"optimizer": lambda p: torch.optim.Adam(p, lr=0.5)},
            r"of the same optimizer \(0.lr: 0.5 here, 0.01 there\)",
        ),
        (
            {"validation": [(torch.zeros(2, 2), torch.arange(2))]},
            r"of the same metric \(val_vote_accuracy here",
        ),
        ({"loss": CorrelationLoss(0.9)}, r"of the same loss \(CorrelationLoss\(diversity=0.9"),
        (
            {"scheduler": lambda o: torch.optim.lr_scheduler.StepLR(o, 1)},
            "of the same optimizer|of the same scheduler",
        ),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, changes, message):
    fit_small(tmp_path / "run")
    with pytest.raises(ValueError, match=f"`checkpoint` must be {message}"):
        fit_small(tmp_path / "run", **changes)


def test_a_checkpoint_that_is_no_run_is_refused(tmp_path):
    save_checkpoint(tmp_path / "run", {"epoch": 1})
    with pytest.raises(ValueError, match="`checkpoint` must be of a training run; got another file"):
        fit_small(tmp_path / "run")


@pytest.mark.parametrize(
    "scheduler",
    [
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=6),
        lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.001, 0.1, step_size_up=2, cycle_momentum=False),
        lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 4]),
        lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=10.0),
        lambda o: torch.optim.lr_scheduler.SequentialLR(
            o,
            [
                torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=2),
                torch.optim.lr_scheduler.CosineAnnealingLR(o, 4),
            ],
            [2],
        ),
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.5**epoch),
    ],
    ids=["onecycle", "cyclic", "multistep", "plateau", "sequential", "lambda"],
)
def test_schedulers_go_on_where_they_were(tmp_path, scheduler):
    class Stop:
        def on_epoch_begin(self, state):
            if state.epoch == 4:
                raise KeyboardInterrupt

    torch.manual_seed(1)
    whole = small()
    start = {name: value.clone() for name, value in whole.state_dict().items()}
    expected = fit_small(None, whole, scheduler=scheduler, epochs=6)
    parts = small()
    parts.load_state_dict(start)
    with pytest.raises(KeyboardInterrupt):
        fit_small(tmp_path / "run", parts, scheduler=scheduler, epochs=6, callbacks=[Stop()])
    parts = small()
    history = fit_small(tmp_path / "run", parts, scheduler=scheduler, epochs=6)
    np.testing.assert_array_equal(history["lr"], expected["lr"])
    assert len(set(history["lr"])) > 1
    assert equal(dict(parts.state_dict()), dict(whole.state_dict()))


def test_the_generator_of_a_loader_goes_on_where_it_was(tmp_path):
    from torch.utils.data import DataLoader, TensorDataset

    x = torch.randn(30, 2)
    data = TensorDataset(x, (x[:, 0] > 0).long())

    def loader(seed):
        generator = torch.Generator().manual_seed(seed)
        return DataLoader(data, 7, shuffle=True, drop_last=True, generator=generator)

    def go(path, epochs, ensemble):
        return fit(
            ensemble,
            loader(3),
            validation=loader(4),  # which leaves out other rows in each epoch
            metric="loss",
            loss=CorrelationLoss(),
            optimizer=torch.optim.Adam,
            epochs=epochs,
            checkpoint=path,
            resume=True,
            progress=False,
        )

    whole = small()
    start = {name: value.clone() for name, value in whole.state_dict().items()}
    at_once = go(None, 4, whole)
    parts = small()
    parts.load_state_dict(start)
    go(tmp_path / "run", 2, parts)
    resumed = go(tmp_path / "run", 4, parts)
    assert resumed["val_loss"].tolist() == at_once["val_loss"].tolist()
    assert equal(dict(parts.state_dict()), dict(whole.state_dict()))
