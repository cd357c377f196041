"""What is run for Tables 4 to 6: a job for every trunk, then one for every arm, group and seed."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from counterpoint.records import Job, mean
from counterpoint.training import pick_device
from counterpoint.vision import NETWORKS
from paper.pretrained.images import load_images
from paper.pretrained.networks import Weights, start_of
from paper.pretrained.paper import TABLES, Table
from paper.pretrained.recipe import Settings
from paper.pretrained.tables import brief, draw, find_runs, grid, markdown
from paper.pretrained.trainer import N_ROBUST, Trainer
from paper.runner import Study, run_study

__all__ = [
    "check_weights",
    "list_jobs",
    "reproduce_table",
    "table_4",
    "table_5",
    "table_5_short",
    "table_6",
    "table_6_cifar100",
    "table_6_short",
]

SMOKE_NETWORKS = ("convnet", "cifar_resnet18")
SMOKE_EMA = 0.5  # for a few steps
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
    parts: str | None = None,
    device: str = "auto",
    compiled: bool = False,
    smoke: bool = False,
) -> list[Path]:
    """Run the jobs of a table that are not done yet, print the table, and write record, page and figure.

    Trunks are kept in ``out/trunks``, for this table and others; processes with the same ``out`` share the work.
    ``weights`` is a folder of ``NAME.safetensors``, by default torchvision's download; networks that are not in the
    folder train from scratch. ``epochs`` are those of each network alone, ``more_epochs`` those of the ensembles
    after that. Images are resized to ``size`` pixels. ``seeds`` is the number of seeds; ``parts`` selects jobs by the
    beginnings of their names, such as ``trunk-resnet18,networks-vote``. ``compiled`` networks train faster, after a
    minute or more at the start.
    """
    where = pick_device(device)
    chosen = _check_networks(table, networks, smoke=smoke)
    source = check_weights(weights, chosen, smoke=smoke)
    images = load_images(table, data, smoke=smoke)  # which may be a download
    small: dict[str, Any] = {"batch_size": 32, "width": 4} if smoke else {}
    settings = Settings(
        epochs=_default(epochs, 1 if smoke else table.epochs),
        more_epochs=_default(more_epochs, 2 if smoke else table.more_epochs),
        size=_default(size, 16 if smoke else table.size),
        compiled=compiled,
        cutout=table.cutout,
        ema=min(table.ema, SMOKE_EMA) if smoke else table.ema,
        trunk_lr_share=table.trunk_lr_share,
        **small,
    )
    trainer = Trainer(images, settings, weights=source, folder=out / "trunks", device=where)
    for network in chosen:  # weights or sizes that do not fit are found before any training
        trainer.check(network)
    jobs = list_jobs(table, trainer, chosen, _default(seeds, N_SEEDS_SMOKE if smoke else N_SEEDS))
    return run_study(_study(table), jobs, out, smoke=smoke, parts=parts, device=where)


table_4 = partial(reproduce_table, TABLES["table-4"])
table_5 = partial(reproduce_table, TABLES["table-5"])
table_5_short = partial(reproduce_table, TABLES["table-5-short"])
table_6 = partial(reproduce_table, TABLES["table-6"])
table_6_short = partial(reproduce_table, TABLES["table-6-short"])
table_6_cifar100 = partial(reproduce_table, TABLES["table-6-cifar100"])


def list_jobs(table: Table, trainer: Trainer, networks: Sequence[str], n_seeds: int) -> list[Job]:
    """Return the jobs of a table: its trunks, then its ensembles, of networks trained apart before copies."""
    learners = {
        (group, seed): table.learners(group, networks, seed)
        for group in reversed(table.groups)
        for seed in range(n_seeds)
    }
    trunks = dict.fromkeys(trunk for each in learners.values() for trunk in each)
    return [
        *(
            Job(
                f"trunk-{network}-{seed}",
                trainer.trunk_config(network, seed),
                partial(_trunk_record, trainer, network, seed),
            )
            for network, seed in trunks
        ),
        *(
            Job(
                f"{group}-{arm.replace(' ', '-')}-{seed}",
                {
                    "group": group,
                    **trainer.run_config(each, arm, seed),
                    **({"n_robust": N_ROBUST} if arm in table.robust else {}),
                },
                partial(trainer.run, each, arm, seed, robust=arm in table.robust),
            )
            for arm in table.arms
            for (group, seed), each in learners.items()
        ),
    ]


def _trunk_record(trainer: Trainer, network: str, seed: int) -> Mapping[str, Any]:
    """Train a trunk, unless another table has, and return what its record holds."""
    trunk = trainer.trunk(network, seed)
    return {key: trunk[key] for key in ("history", "seconds", "device", "versions")}


def _study(table: Table) -> Study:
    """Return how the record of a table is shown; until an ensemble is done, there is nothing to show."""
    return Study(
        table.name,
        table.title,
        lambda record: [brief(grid(record, table, mean))] if find_runs(record) else [],
        lambda record: {table.name: draw(record, table)} if find_runs(record) else {},
        lambda record: markdown(record, table) if find_runs(record) else "",
    )


def _check_networks(table: Table, networks: Sequence[str] | None, *, smoke: bool) -> tuple[str, ...]:
    """Return the networks to use: different ones, or a single one in a table of copies."""
    if networks is None:
        return SMOKE_NETWORKS[: len(table.networks)] if smoke else table.networks
    for network in networks:
        if network not in NETWORKS:
            known = ", ".join(map(repr, NETWORKS))
            raise ValueError(f"`networks` must be one of {known}; got {network!r}.")
    single = "networks" not in table.groups
    if len(set(networks)) < len(networks) or (len(networks) != 1 if single else len(networks) < 2):
        rule = "one network" if single else "two or more different networks"
        raise ValueError(f"`networks` must be {rule} for {table.name}; got {', '.join(networks)}.")
    return tuple(networks)


def check_weights(weights: Path | None, networks: Sequence[str], *, smoke: bool) -> Weights:
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


def _default(value: int | None, default: int) -> int:
    return default if value is None else value
