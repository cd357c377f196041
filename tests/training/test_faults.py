"""Signals, a full disk and long use: a run ends as if nothing had happened, and nothing is left open."""

import gc
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from counterpoint.training import Callback, DiversityLoss, Ensemble, fit, load_checkpoint, save_checkpoint

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX"),
    pytest.mark.filterwarnings("ignore::counterpoint.exceptions.LearnerWarning"),
]


class Slow(Callback):
    """Tells of each epoch, and takes its time."""

    def __init__(self, pipe):
        self.pipe = pipe

    def on_epoch_begin(self, state):
        os.write(self.pipe, b".")
        time.sleep(0.01)


def train_long(folder, callbacks=()):
    torch.manual_seed(0)
    x = torch.randn(60, 3)
    y = (x[:, 0] > x[:, 1]).long()
    ensemble = Ensemble([nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 2)) for _ in range(3)])
    fit(
        ensemble,
        DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True),
        loss=DiversityLoss(),
        optimizer=lambda p: torch.optim.AdamW(p, lr=0.01),
        epochs=15,
        validation=[(x[:20], y[:20])],
        callbacks=callbacks,
        checkpoint=folder / "run",
        resume=True,
        progress=False,
    )
    save_checkpoint(folder / "final", {"weights": ensemble.state_dict(), "draw": torch.rand(3)})


@pytest.fixture(autouse=True, scope="module")
def warm():
    """Import half of torch, which the first optimizer does, once for all children."""
    torch.optim.AdamW([nn.Parameter(torch.zeros(1))])


def in_child(work):
    """Do some work in a forked process, and return its id."""
    if child := os.fork():
        return child
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        work()
        code = 0
    except KeyboardInterrupt:
        code = 130
    finally:
        os._exit(code)


def ending(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_run_ended_by_any_signal_resumes_bit_for_bit(tmp_path):
    (tmp_path / "whole").mkdir()
    assert ending(in_child(lambda: train_long(tmp_path / "whole"))) == 0
    whole = load_checkpoint(tmp_path / "whole" / "final")
    for name, expected in {"SIGTERM": -15, "SIGINT": 130, "SIGKILL": -9, "SIGHUP": -1}.items():
        folder = tmp_path / name
        folder.mkdir()
        heard, told = os.pipe()
        child = in_child(lambda folder=folder, told=told: train_long(folder, [Slow(told)]))
        for _ in range(3):
            os.read(heard, 1)
        os.kill(child, getattr(signal, name))
        assert ending(child) == expected
        os.close(heard)
        os.close(told)
        assert 0 < len(load_checkpoint(folder / "run")["history"]["epochs"]) < 15
        assert ending(in_child(lambda folder=folder: train_long(folder))) == 0
        found = load_checkpoint(folder / "final")
        assert torch.equal(found["draw"], whole["draw"])
        assert all(torch.equal(found["weights"][key], value) for key, value in whole["weights"].items())
        assert sorted(path.name for path in folder.iterdir()) == ["final", "run", "run.previous"]


def small(width=4):
    torch.manual_seed(1)
    return Ensemble([nn.Sequential(nn.Linear(2, width), nn.Linear(width, 2)) for _ in range(3)])


def train(path, epochs=2, width=4, **more):
    torch.manual_seed(0)
    x = torch.randn(40, 2)
    batches = [(x, (x[:, 0] > 0).long())]
    options = {"loss": DiversityLoss(), "optimizer": torch.optim.SGD, "checkpoint": path, "resume": True}
    return fit(small(width), batches, epochs=epochs, progress=False, **(options | more))


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a disk of 300 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("cannot mount a small disk here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_a_clear_error_and_leaves_the_former_checkpoint(small_disk):
    history = train(small_disk / "run", epochs=2)
    before = (small_disk / "run").read_bytes()
    free = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize))
    with pytest.raises(OSError, match=rf"No space left on device: '{small_disk}/run'"):
        train(small_disk / "run", epochs=3)
    assert (small_disk / "run").read_bytes() == before
    assert sorted(path.name for path in small_disk.iterdir()) == ["ballast", "run", "run.previous"]
    (small_disk / "ballast").unlink()
    assert len(train(small_disk / "run", epochs=3)) == len(history) + 1


def test_a_limit_on_the_size_of_files_is_a_clear_error_and_leaves_the_former_checkpoint(tmp_path):
    import resource

    save_checkpoint(tmp_path / "run", {"a": torch.ones(10)})

    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with pytest.raises(OSError, match="File too large"):
            save_checkpoint(tmp_path / "run", {"a": torch.ones(100_000)}, previous=True)

    assert ending(in_child(work)) == 0
    assert len(load_checkpoint(tmp_path / "run")["a"]) == 10
    assert {path.name for path in tmp_path.iterdir()} <= {"run", "run.previous"}


def test_two_processes_that_save_one_checkpoint_never_tear_it(tmp_path):
    path = tmp_path / "run"
    save_checkpoint(path, {"writer": 0, "a": torch.zeros(20_000)})
    children = []
    for writer in (1, 2):
        state = {"writer": writer, "a": torch.full((20_000,), float(writer))}
        children.append(in_child(lambda state=state: [save_checkpoint(path, state) for _ in range(60)]))
    reads = 0
    while children:
        found = load_checkpoint(path)
        assert (found["a"] == found["writer"]).all()
        reads += 1
        children = [child for child in children if os.waitpid(child, os.WNOHANG)[0] == 0]
    assert reads > 10
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def resources():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    descriptors = len(os.listdir("/dev/fd")) if Path("/dev/fd").exists() else 0  # noqa: PTH208
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, descriptors, threading.active_count()


def check_soak(tmp_path, n, megabytes):
    for i in range(5):  # caches fill
        train(tmp_path / f"warm{i}")
    memory, descriptors, threads = resources()
    for i in range(n):
        train(tmp_path / str(i % 5), epochs=2, resume=True)
        for path in tmp_path.glob(f"{i % 5}*"):
            path.unlink()
    now = resources()
    assert now[1:] == (descriptors, threads)
    assert now[0] - memory < megabytes


def test_fits_in_one_process_leave_nothing_open(tmp_path):
    check_soak(tmp_path, 10, 40)


@pytest.mark.slow
def test_a_thousand_fits_in_one_process_do_not_grow(tmp_path):
    check_soak(tmp_path, 1000, 40)


@pytest.mark.slow
def test_estimators_in_one_process_do_not_grow():
    import numpy as np

    from counterpoint.estimators import DiverseEnsembleClassifier

    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    for i in range(250):
        if i == 50:
            memory, descriptors, threads = resources()
        DiverseEnsembleClassifier(n_estimators=2, hidden_layer_sizes=(4,), epochs=2, random_state=i).fit(X, y)
    now = resources()
    assert now[1] == descriptors
    assert now[2] <= threads
    assert now[0] - memory < 60


def test_the_same_seed_gives_the_same_weights_in_another_process(tmp_path):
    for name in "ab":
        assert ending(in_child(lambda name=name: train(tmp_path / name))) == 0
    train(tmp_path / "c")
    first, *others = (load_checkpoint(tmp_path / name)["ensemble"] for name in "abc")
    for other in others:
        assert all(torch.equal(value, other[key]) for key, value in first.items())
