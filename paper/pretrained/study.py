"""What is run for Tables 4 to 6: all trunks, then every way to go on from them."""

import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import Timeout

from counterpoint._validation import check_choice, check_count
from counterpoint.records import mean, rich_table, write_figure, write_text
from counterpoint.training import pick_device
from counterpoint.vision import NETWORKS
from paper.pretrained.laboratory import (
    Laboratory,
    Settings,
    provenance,
    start_of,
)
from paper.pretrained.learning import LABEL_SMOOTHING, Images
from paper.pretrained.notebook import Notebook, alone
from paper.pretrained.paper import TABLE_4, TABLE_5, TABLE_6, TABLE_6_CIFAR_100, Table
from paper.pretrained.tables import brief, draw, grid, markdown

SMOKE_NETWORKS = ("convnet", "cifar_resnet18")
N_SEEDS, N_SEEDS_SMOKE = 3, 1


def reproduce_table(
    table: Table,
    out: Path,
    *,
    data: Path | None = None,
    weights: Path | None = None,
    networks: Sequence[str] | None = None,
    epochs: int | None = None,
    more_epochs: int | None = None,
    size: int | None = None,
    seeds: int | None = None,
    seed: int = 0,
    device: str = "auto",
    compiled: bool = False,
    smoke: bool = False,
) -> list[Path]:
    """Train what a table needs that is not on record yet; print it, write the record, the table and the figure.

    Trunks are kept in ``out`` too, for this table and others; processes with the same ``out`` share the work.
    ``weights`` is a folder of ``NAME.safetensors``, by default torchvision's download; networks that the folder does
    not hold train from scratch. ``epochs`` are those of each network alone, ``more_epochs`` of the ensembles after
    that, ``size`` the pixels that images are resized to. ``seeds`` is how many there are, from ``seed`` on.
    ``compiled`` networks train faster, after a minute or more at the start.
    """
    where = pick_device(device)
    chosen = _check_networks(table, networks, smoke=smoke)
    source = check_weights(weights, chosen, smoke=smoke)
    images = load_images(table, data, smoke=smoke)  # which may be a download
    small: dict[str, Any] = {"batch_size": 32, "width": 4} if smoke else {}
    settings = Settings(
        epochs=_count(epochs, "epochs", 1 if smoke else table.epochs),
        more_epochs=_count(more_epochs, "more_epochs", 2 if smoke else table.more_epochs),
        size=_count(size, "size", 16 if smoke else table.size),
        compiled=compiled,
        cutout=table.cutout,
        **small,
    )
    count = _count(seeds, "seeds", N_SEEDS_SMOKE if smoke else N_SEEDS)
    laboratory = Laboratory(images, settings, weights=source, folder=out / "trunks", device=where)
    for network in chosen:  # weights or sizes that do not fit are found now, not after minutes
        laboratory.check(network)
    notebook = Notebook(out, table, _config(laboratory, chosen, smoke=smoke), provenance(where))
    Study(table, notebook, laboratory).work(range(seed, seed + count))
    return _show(table, notebook, out)


table_4 = partial(reproduce_table, TABLE_4)
table_5 = partial(reproduce_table, TABLE_5)
table_6 = partial(reproduce_table, TABLE_6)
table_6_cifar100 = partial(reproduce_table, TABLE_6_CIFAR_100)


def load_images(table: Table, data: Path | None, *, smoke: bool) -> Images:
    """Return the images of a table, or for a smoke run scikit-learn's digits, in colour and 32 pixels wide."""
    if not smoke:
        from counterpoint import datasets

        loaded = getattr(datasets, f"load_{table.dataset}")(data, classes=table.classes)
        name = " ".join(("CIFAR-" + table.dataset.removeprefix("cifar"), *(table.classes or ())))
        train, test = (loaded.x_train, loaded.y_train), (loaded.x_test, loaded.y_test)
        return Images.split(name, train, test, len(loaded.class_names))
    if data is not None:
        raise ValueError("`--data` has no meaning with `--smoke`.")
    from sklearn.datasets import load_digits

    n_classes = len(table.classes or range(10))
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    x = np.repeat(np.kron(X.reshape(-1, 8, 8), np.ones((4, 4)))[..., None] * 15, 3, axis=-1).astype(np.uint8)
    y = y.astype(np.int64)
    train, test = ((x[part], y[part]) for part in (slice(0, 160), slice(160, 260)))
    return Images.split(f"digits 0-{n_classes - 1}", train, test, n_classes)


class Job(NamedTuple):
    """A piece of work: what it is called, what it costs in epochs of one network, and how to do it.

    ``do`` says what was found, or returns None where that is on record by now. Where another process is at it, ``do``
    waits, or else raises :class:`filelock.Timeout`.
    """

    label: str
    cost: int
    do: Callable[[bool], str | None]


class Study:
    """All trunks, then every way with every seed, but for what is on record or being done by other processes."""

    def __init__(self, table: Table, notebook: Notebook, laboratory: Laboratory) -> None:
        self.table, self.notebook, self.laboratory = table, notebook, laboratory
        self.networks = list(notebook.record["config"]["networks"])
        self.failed: set[tuple[str, int]] = set()

    def work(self, seeds: Sequence[int]) -> None:
        """Do what is to be done, and say how long it will take; what fails is left out, with a warning."""
        from rich.console import Console

        console = Console(stderr=True, highlight=False, soft_wrap=True)
        todo = deque(self.jobs(seeds))
        total, spent, done = len(todo), 0.0, 0
        postponed: set[str] = set()
        while todo:
            job, began = todo.popleft(), time.perf_counter()
            try:
                found = job.do(job.label in postponed)
            except Timeout:  # the others come first
                postponed.add(job.label)
                todo.append(job)
                continue
            except (FloatingPointError, RuntimeError) as error:  # the other rows are worth having
                warnings.warn(f"{job.label} was left out: {error}", RuntimeWarning, stacklevel=2)
                continue
            if found is not None and job.cost:  # what was only read says nothing of the time that is left
                spent, done = spent + time.perf_counter() - began, done + job.cost
                left = spent / done * sum(later.cost for later in todo)
                found += f"; about {left:.0f} s left"
            console.print(f"{total - len(todo)}/{total}  {job.label}: {found or 'on record'}")

    def jobs(self, seeds: Sequence[int]) -> list[Job]:
        """Return what is not on record yet."""
        table, laboratory = self.table, self.laboratory
        wanted = [
            (group, way, seed)
            for way in table.ways
            for group in table.groups
            for seed in seeds
            if not self.notebook.has("runs", group=group, way=way, seed=seed)
        ]
        learners = {
            (group, seed): table.learners(group, self.networks, seed)
            for group in table.groups
            for seed in seeds
        }
        trunks = dict.fromkeys(trunk for group, _, seed in wanted for trunk in learners[group, seed])
        return [
            *(
                Job(
                    f"{network} alone, seed {seed}",
                    0 if laboratory.trunk_file(network, seed).exists() else laboratory.epochs_of(network),
                    partial(self.train, network, seed),
                )
                for network, seed in trunks
            ),
            *(
                Job(
                    f"{group}, {way}, seed {seed}",
                    1 if way == "vote" else len(learners[group, seed]) * laboratory.settings.more_epochs,
                    partial(self.run, learners[group, seed], group, way, seed),
                )
                for group, way, seed in wanted
            ),
        ]

    def train(self, network: str, seed: int, wait: bool) -> str | None:
        """Put a trunk on record; say how long it took, or None where it is on record by now."""
        try:
            trunk = self.laboratory.trunk(network, seed, wait=wait)
        except (FloatingPointError, RuntimeError):
            self.failed.add((network, seed))
            raise
        added = self.notebook.add("trunks", {key: value for key, value in trunk.items() if key != "net"})
        return f"{trunk['seconds']:.0f} s" if added else None

    def run(
        self, learners: Sequence[tuple[str, int]], group: str, way: str, seed: int, wait: bool
    ) -> str | None:
        """Put an ensemble on record; say what it reached, or None where it is on record by now."""
        if missing := sorted(self.failed.intersection(learners)):
            raise RuntimeError(f"there is no {missing[0][0]} of seed {missing[0][1]}")
        entry = {"group": group, "way": way, "seed": seed}
        with alone(self.laboratory.run_file(learners, way, seed), wait=wait):
            self.notebook.read()
            if self.notebook.has("runs", **entry):
                return None
            found = self.laboratory.run(learners, way, seed)
            self.notebook.add("runs", entry | found)
        return f"{found['test']['soft']:.2f} % in {found['seconds']:.0f} s"


def _show(table: Table, notebook: Notebook, out: Path) -> list[Path]:
    """Print the table; return the paths of the record, the table and the figure."""
    from rich.console import Console

    with alone(notebook.path):
        notebook.read()
        record = notebook.record
        if not record["data"]["runs"]:
            raise RuntimeError(f"Nothing of {table.name} could be trained; the warnings above say why.")
        path = out / f"{table.name}.md"
        write_text(path, markdown(record, table))
        Console().print(rich_table(brief(grid(record, table, mean))))
        return [notebook.path, path, *write_figure(draw(record, table), out, table.name)]


def _config(laboratory: Laboratory, networks: Sequence[str], *, smoke: bool) -> dict[str, Any]:
    """Return what tells one study from another."""
    images = laboratory.images
    return {
        "smoke": smoke,
        "images": images.name,
        **{f"n_{part}": len(y) for part, (_, y) in images.parts.items()},
        "networks": {network: start_of(network, laboratory.weights) for network in networks},
        "origins": {network: laboratory.origin(network) for network in networks},
        **asdict(laboratory.settings),
        "more_lr": laboratory.settings.more_lr,
        "label_smoothing": LABEL_SMOOTHING,
        "reduction": "mean",
    }


def _check_networks(table: Table, networks: Sequence[str] | None, *, smoke: bool) -> tuple[str, ...]:
    """Return the networks to use: different ones, or the only one of which there are several."""
    if networks is None:
        return SMOKE_NETWORKS[: len(table.networks)] if smoke else table.networks
    for network in networks:
        check_choice(network, "networks", NETWORKS)
    alike = "networks" not in table.groups
    if len(set(networks)) < len(networks) or (len(networks) != 1 if alike else len(networks) < 2):
        rule = "one network" if alike else "two or more different networks"
        raise ValueError(f"`networks` must be {rule} for {table.name}; got {', '.join(networks)}.")
    return tuple(networks)


def check_weights(weights: Path | None, networks: Sequence[str], *, smoke: bool) -> str | Path | None:
    """Return where networks start."""
    if weights is None:
        return None if smoke else "imagenet"
    if smoke:
        raise ValueError("`--weights` has no meaning with `--smoke`.")
    if not weights.is_dir():
        raise ValueError(f"`weights` must be a folder that exists; got '{weights}'.")
    if all(start_of(network, weights) == "from scratch" for network in networks):
        listed = ", ".join(f"{network}.safetensors" for network in networks)
        raise ValueError(f"`weights` must be a folder with one or more of {listed}; got '{weights}'.")
    return weights


def _count(value: int | None, name: str, default: int) -> int:
    return default if value is None else int(check_count(value, name, minimum=1))
