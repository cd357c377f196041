"""Training uses as many threads as its work occupies, never more than the user set, and restores their number."""

import threading

import pytest
import torch
from torch import nn

from counterpoint import DiverseEnsembleClassifier
from counterpoint.training import (
    Callback,
    DiversityLoss,
    Ensemble,
    Fold,
    Group,
    Schedule,
    fit,
    fit_groups,
    mlp,
)
from counterpoint.training import threads as module
from counterpoint.training.threads import Threads, work_of

CPU = torch.device("cpu")
THREAD = 2**20  # multiplications that occupy one


@pytest.fixture(autouse=True)
def four(monkeypatch):
    """Set four threads, on a machine with at least so many cores, as far as joblib knows."""
    before = torch.get_num_threads()
    monkeypatch.setattr(module.joblib, "cpu_count", lambda: 8)
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


class Seen(Callback):
    """Keep the number of threads of each batch."""

    def __init__(self):
        self.found = []

    def on_batch_end(self, state):
        self.found.append(torch.get_num_threads())


def train(hidden, batch, *, epochs=1, **more):
    x, y = torch.randn(batch, 4), torch.arange(batch) % 2
    seen = Seen()
    ensemble = Ensemble([mlp([4, hidden, 2]) for _ in range(3)])
    options = {"loss": DiversityLoss(), "optimizer": torch.optim.Adam, "epochs": epochs, "progress": False}
    fit(ensemble, [(x, y)], callbacks=[seen, *more.pop("callbacks", ())], **options, **more)
    return seen.found


@pytest.mark.parametrize(
    ("work", "expected"), [(0, 1), (THREAD, 1), (2 * THREAD, 2), (3 * THREAD, 3), (2**40, 4)]
)
def test_threads_are_as_many_as_the_work_occupies_and_are_restored(work, expected):
    with Threads(CPU) as threads:
        threads.choose(work)
        assert torch.get_num_threads() == expected
        threads.choose(2**40)  # the first call counts
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == 4
    with Threads(torch.device("meta")) as threads:
        threads.choose(0)
        assert torch.get_num_threads() == 4


def test_a_container_with_fewer_cores_gets_no_more_threads(monkeypatch):
    monkeypatch.setattr(module.joblib, "cpu_count", lambda: 2)
    with Threads(CPU) as threads:
        threads.choose(2**40)
        assert torch.get_num_threads() == 2


def test_fit_takes_one_thread_for_small_networks_and_more_for_large_ones():
    assert train(8, 16, epochs=2) == [1, 1]
    assert torch.get_num_threads() == 4
    assert train(1024, 1024) == [4]


def test_what_the_user_set_is_the_largest_number():
    torch.set_num_threads(2)
    assert train(1024, 1024) == [2]
    assert torch.get_num_threads() == 2


class Fail(Callback):
    def on_batch_end(self, state):
        raise KeyboardInterrupt


def test_the_number_is_restored_when_training_fails_and_where_it_is_nested():
    with pytest.raises(KeyboardInterrupt):
        train(8, 16, callbacks=[Fail()])
    assert torch.get_num_threads() == 4

    class Inner(Callback):
        def on_batch_end(self, state):
            assert train(1024, 1024) == [4]  # by its own work, and the user's number
            assert torch.get_num_threads() == 1

    train(8, 16, callbacks=[Inner()])
    assert torch.get_num_threads() == 4


def test_fits_in_several_threads_leave_the_users_number():
    meet = threading.Barrier(2, timeout=20)

    class Meet(Callback):
        def on_epoch_end(self, state):
            meet.wait()

    def run():
        train(8, 16, epochs=2, callbacks=[Meet()])
        after.append(torch.get_num_threads())

    after = []
    several = [threading.Thread(target=run) for _ in range(2)]
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert after == [4, 4]
    assert torch.get_num_threads() == 4


def test_groups_and_estimators_choose_by_the_same_rule():
    x, y = torch.randn(40, 4), torch.arange(40) % 2
    seen = []
    fold = Fold(x, y, None, [mlp([4, 8, 2]) for _ in range(3)])
    schedule = Schedule(epochs=1, n_batches=2)
    fit_groups(
        [Group(fold, DiversityLoss())], schedule, on_step=lambda *_: seen.append(torch.get_num_threads())
    )
    assert seen == [1, 1]
    DiverseEnsembleClassifier(n_estimators=3, epochs=1).fit(x.numpy(), y.numpy())
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(
    ("networks", "x", "expected"),
    [
        (nn.Linear(4, 3), torch.zeros(10, 4), 120),
        (nn.Linear(4, 3), [torch.zeros(10, 4), torch.zeros(10, 4)], 120),
        (nn.Linear(4, 3), {"a": torch.zeros(10, 4)}, 120),
        (nn.Linear(4, 3), torch.zeros(10, 7, 4), 840),
        (nn.Embedding(5, 6), torch.zeros(10, 7, dtype=torch.long), 5 * 6 * 70),
        (nn.Conv2d(3, 8, 3), torch.zeros(10, 3, 32, 32), 3 * 8 * 9 * 10 * 64),
        (nn.Linear(4, 3), object(), 12),
        (nn.Linear(4, 3), [], 12),
        (nn.ReLU(), torch.zeros(10, 4), 0),
    ],
)
def test_the_work_is_that_of_the_weights_at_each_place(networks, x, expected):
    assert work_of(networks, x) == expected


def test_stacked_networks_work_together_and_others_one_by_one():
    x, networks = torch.zeros(10, 4), [nn.Linear(4, 3) for _ in range(5)]
    stacked = Ensemble(networks)
    mixed = Ensemble([*networks, nn.Sequential(nn.Linear(4, 3))])
    assert work_of(stacked, x) == 5 * 120
    assert work_of(mixed, x) == 120
