"""Train 15 MLPs of 64 hidden units on segment, ours beside its peers: ``python benchmarks/bench_training.py``.

The same epochs, batch size and optimiser for all, in one run; each time is the median of several, and what counts are
the ratios. TorchEnsemble (``pip install --no-deps torchensemble==0.2.0``) is left out where it is not installed.
"""

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.ensemble import BaggingClassifier
from sklearn.neural_network import MLPClassifier
from torch import nn

from counterpoint import __version__
from counterpoint.datasets import load
from counterpoint.training import CorrelationLoss, DiversityLoss, Ensemble, IndependentLoss, calibrate, fit

N_LEARNERS, HIDDEN, BATCH, RATE = 15, 64, 64, 1e-3


def net(n_features: int, n_classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_classes))


class Batches:
    """Shuffled batches of tensors, as an iterable that starts anew each epoch."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        """Count them."""
        return (len(self.x) + BATCH - 1) // BATCH

    def __iter__(self):  # type: ignore[no-untyped-def]
        """Yield the batches of an epoch."""
        for rows in torch.randperm(len(self.x)).split(BATCH):
            yield self.x[rows], self.y[rows]


def ours(
    x: torch.Tensor, y: torch.Tensor, loss: nn.Module, epochs: int, n_learners: int = N_LEARNERS
) -> Ensemble:
    n_classes = int(y.max()) + 1
    ensemble = Ensemble([net(x.shape[1], n_classes) for _ in range(n_learners)])
    optimizer = torch.optim.Adam(ensemble.parameters(), RATE, fused=True)
    fit(ensemble, Batches(x, y), loss=loss, optimizer=optimizer, epochs=epochs, progress=False)
    return ensemble


def plain_loop(x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    n_classes = int(y.max()) + 1
    for _ in range(N_LEARNERS):
        learner = net(x.shape[1], n_classes)
        optimizer = torch.optim.Adam(learner.parameters(), RATE, fused=True)
        for _ in range(epochs):
            for x_batch, y_batch in Batches(x, y):
                optimizer.zero_grad()
                nn.functional.cross_entropy(learner(x_batch), y_batch).backward()
                optimizer.step()


def scikit_learn(x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    learner = MLPClassifier(
        (HIDDEN,),
        batch_size=BATCH,
        learning_rate_init=RATE,
        alpha=0.0,
        max_iter=epochs,
        n_iter_no_change=epochs,
    )
    BaggingClassifier(learner, N_LEARNERS, bootstrap=False).fit(x.numpy(), y.numpy())


def torch_ensemble(x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    import logging

    from torchensemble import VotingClassifier

    logging.disable(logging.INFO)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = net(x.shape[1], int(y.max()) + 1)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.layers(batch)
            return result

    model = VotingClassifier(estimator=Net, n_estimators=N_LEARNERS, cuda=False, n_jobs=1)
    model.set_optimizer("Adam", lr=RATE)
    model.set_criterion(nn.CrossEntropyLoss())
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=BATCH, shuffle=True)
    model.fit(loader, epochs=epochs, log_interval=10**9, save_model=False)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("results/bench_training.json"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    table = load("segment")
    features = table.X.to_numpy()
    x = torch.tensor((features - features.mean(0)) / (features.std(0) + 1e-12), dtype=torch.float32)
    y = torch.tensor(np.unique(table.y, return_inverse=True)[1])
    contestants: dict[str, Callable[[], object]] = {
        "stacked, independent": lambda: ours(x, y, IndependentLoss(), args.epochs),
        "stacked, diversity": lambda: ours(x, y, DiversityLoss(), args.epochs),
        "stacked, correlation": lambda: ours(x, y, CorrelationLoss(0.5), args.epochs),
        "plain loop": lambda: plain_loop(x, y, args.epochs),
        "scikit-learn bagging": lambda: scikit_learn(x, y, args.epochs),
    }
    try:
        import torchensemble  # noqa: F401

        contestants["TorchEnsemble 0.2.0"] = lambda: torch_ensemble(x, y, args.epochs)
    except ImportError:
        print("TorchEnsemble is not installed and left out.")
    times: dict[str, list[float]] = {name: [] for name in contestants}
    order = random.Random(0)
    for repeat in range(args.repeats + 1):
        # Side by side, so that a busy machine slows all alike; in random order, so that none always follows another.
        # The stacked ones are quick and lie close together, so they have more runs.
        runs = [name for name in contestants for _ in range(6 if name.startswith("stacked") else 1)]
        for name in order.sample(runs, len(runs)):
            seconds = timed(contestants[name])
            if repeat:  # the first warms up
                times[name].append(seconds)
    median = {name: statistics.median(values) for name, values in times.items()}
    base, joint = median["stacked, independent"], median["stacked, correlation"]
    trained = ours(x, y, CorrelationLoss(0.5), args.epochs)
    read_out = statistics.median(
        timed(lambda: calibrate(trained, Batches(x, y), decode=True)) for _ in range(2 * args.repeats)
    )
    sizes = {
        n: statistics.median(timed(lambda n=n: ours(x, y, CorrelationLoss(0.5), 3, n)) for _ in range(3))
        for n in (8, 16, 32, 64, 128)
    }
    record = {
        "config": {
            "learners": N_LEARNERS,
            "hidden": HIDDEN,
            "batch": BATCH,
            "epochs": args.epochs,
            "data": "segment",
            "threads": args.threads,
            "repeats": args.repeats,
        },
        "seconds": {name: {"median": median[name], "all": times[name]} for name in times},
        "times_as_long_as_stacked": {name: value / base for name, value in median.items()},
        "diversity_over_independent": median["stacked, diversity"] / base,
        "correlation_over_independent": joint / base,
        "read_out_seconds": read_out,
        "correlation_over_independent_before_the_read_out": (joint - read_out) / base,
        "seconds_by_learners": sizes,
        "versions": {
            "counterpoint": __version__,
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "device": f"{platform.machine()} CPU, {args.threads} threads",
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record["times_as_long_as_stacked"], indent=2), json.dumps(sizes))
    print(record["correlation_over_independent_before_the_read_out"], "before the read-out")
    print(record["diversity_over_independent"], "for the default loss")


if __name__ == "__main__":
    main()
