"""Choose learning rate and cutout of Tables 5 and 6 by measurement on held-out training images.

``python -m benchmarks.choose_image_recipe --data DIR --weights DIR --out DIR`` fine-tunes single networks on CIFAR-10
with every variant, as the tables do before any ensemble, and measures them on the tenth of the training images that
is held out; test images are not used. Each network is a job with a file of its own: a killed run goes on, and several
processes may share the folder. ``--choose DIR`` prints the learning rate and the cutout of the best variant in a
folder, ``--join`` joins the files of ``--out`` and prints them as a table.
"""

import argparse
import json
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from counterpoint.records import Job, RunStore, run_jobs, write_json
from counterpoint.training import Ensemble, pick_device
from paper.pretrained.images import load_images
from paper.pretrained.networks import start_of
from paper.pretrained.paper import TABLE_5
from paper.pretrained.recipe import Settings
from paper.pretrained.study import SMOKE_NETWORKS, check_weights
from paper.pretrained.trainer import Trainer, provenance

NAME = "choose_image_recipe"
RESULTS = Path(__file__).parents[1] / "results" / f"{NAME}.json"
VARIANTS = tuple(product((3e-4, 1e-3), (0, 12)))  # learning rate, cutout
NETWORKS = ("resnet18",)
SEED = 100  # of no trunk in the tables
OWN = ("variant", "lr", "cutout", "network", "start")  # settings in which the jobs of a folder may differ

Part = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    given = parse(arguments)
    if given.choose:
        lr, cutout = VARIANTS[best(read_parts(given.choose))]
        print(f"{lr:g} {cutout}")
    elif given.join:
        record = join(read_parts(given.out))
        write_json(given.join, record)
        print(markdown(record))
    else:
        measure_all(given)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the jobs and of the trunks")
    parser.add_argument("--data", type=Path, help="folder of cifar10.npz; by default a download")
    parser.add_argument("--weights", type=Path, help="folder of NAME.safetensors; by default a download")
    parser.add_argument("--networks", help="such as resnet18,efficientnet_b0")
    parser.add_argument("--variants", help="numbers such as 0,1; by default all")
    parser.add_argument("--size", type=int, help="pixels that images are resized to")
    parser.add_argument("--epochs", type=int, help="of each network")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--smoke", action="store_true", help="run in seconds, on digits")
    parser.add_argument("--join", type=Path, nargs="?", const=RESULTS, help="where to; by default results/")
    parser.add_argument("--choose", type=Path, metavar="DIR")
    return parser.parse_args(arguments)


def measure_all(given: argparse.Namespace) -> None:
    """Measure every network with every variant, unless that is done."""
    smoke, device = given.smoke, pick_device(given.device)
    networks = tuple(given.networks.split(",")) if given.networks else SMOKE_NETWORKS if smoke else NETWORKS
    weights = check_weights(given.weights, networks, smoke=smoke)
    images = load_images(TABLE_5, given.data, smoke=smoke)
    small: dict[str, Any] = {"batch_size": 32, "width": 4} if smoke else {}
    epochs, size = given.epochs or (1 if smoke else 12), given.size or (16 if smoke else 128)
    jobs = []
    for number in check_variants(given.variants):
        lr, cutout = VARIANTS[number]
        settings = Settings(epochs=epochs, more_epochs=0, size=size, lr=lr, cutout=cutout, **small)
        trainer = Trainer(images, settings, weights=weights, folder=given.out / "trunks", device=device)
        jobs += [job_of(trainer, number, network) for network in networks]
    store = RunStore(given.out / NAME)
    run_jobs(
        jobs, store, title="Learning rate and cutout of Tables 5 and 6", about=provenance(device)
    ).check()


def check_variants(given: str | None) -> Sequence[int]:
    numbers = [int(n) for n in given.split(",")] if given else range(len(VARIANTS))
    for number in numbers:
        if number not in range(len(VARIANTS)):
            known = ", ".join(map(str, range(len(VARIANTS))))
            raise ValueError(f"`--variants` must be one of {known}; got {number}.")
    return numbers


def job_of(trainer: Trainer, number: int, network: str) -> Job:
    parts = trainer.images.parts
    config = {
        "variant": number,
        "network": network,
        "start": start_of(network, trainer.weights),
        "seed": SEED,
        "images": trainer.images.name,
        **{f"n_{part}": len(parts[part][1]) for part in ("train", "held_out")},
        **{key: value for key, value in trainer.settings.config().items() if key != "more_epochs"},
    }
    return Job(f"{number}-{network}", config, partial(measure, trainer, network))


def measure(trainer: Trainer, network: str) -> dict[str, Any]:
    """Train a network and return its error on held-out images, in percent."""
    trunk = trainer.trunk(network, SEED)
    ensemble = Ensemble([trainer.from_trunk(network, SEED)]).to(trainer.device)
    trainer.evaluator.calibrate(ensemble)
    found = trainer.evaluator.measure(ensemble, "held_out")
    return {
        **{key: trunk[key] for key in ("device", "versions", "seconds")},
        "held_out": found["mirrored"]["soft"],  # calibrated and mirrored, as in the tables
        "held_out_plain": found["plain"]["soft"],
        "epochs": trunk["history"],
    }


def read_parts(folder: Path) -> list[Part]:
    """Return the finished jobs by variant and network, all of the same settings but for the variant's."""
    store = RunStore(folder / NAME)
    records = [record for name in store if (record := store.read(name)) is not None]
    if not records:
        raise SystemExit(f"There is no VARIANT-NETWORK.json in '{store.folder}'.")
    parts = [{"config": record["config"], **record["data"]} for record in records]
    if len({json.dumps(common(part), sort_keys=True) for part in parts}) > 1:
        raise SystemExit(f"The files in '{store.folder}' have different settings.")
    return parts


def common(part: Part) -> dict[str, Any]:
    return {key: value for key, value in part["config"].items() if key not in OWN}


def errors(parts: list[Part], key: str = "held_out") -> dict[int, dict[str, float]]:
    """Return the errors of the networks by variant, for the variants that have them all."""
    found: dict[int, dict[str, float]] = {}
    for part in parts:
        found.setdefault(part["config"]["variant"], {})[part["config"]["network"]] = part[key]
    networks = {part["config"]["network"] for part in parts}
    return {number: found[number] for number in sorted(found) if set(found[number]) == networks}


def best(parts: list[Part]) -> int:
    """Return the variant with the lowest mean error on held-out images; of equals the first."""
    if not (found := errors(parts)):
        raise SystemExit("No variant has been measured with every network.")
    return min(found, key=lambda number: float(np.mean(list(found[number].values()))))


def join(parts: list[Part]) -> dict[str, Any]:
    """Return the parts as one record; a part has a device or versions of its own if they differ from the first."""
    made = {key: parts[0][key] for key in ("device", "versions")}
    return {
        "name": NAME,
        "config": {
            **common(parts[0]),
            "networks": {part["config"]["network"]: part["config"]["start"] for part in parts},
            "variants": [dict(zip(("lr", "cutout"), variant, strict=True)) for variant in VARIANTS],
        },
        **made,
        "seconds": round(sum(part["seconds"] for part in parts), 1),
        "chosen": best(parts),
        "data": [
            {"config": {key: part["config"][key] for key in OWN}}
            | {key: part[key] for key in part if key != "config" and part[key] != made.get(key)}
            for part in parts
        ],
    }


def markdown(record: dict[str, Any]) -> str:
    """Return a table of the errors on held-out images; in brackets those without mirroring and calibration."""
    networks = list(record["config"]["networks"])
    lines = [
        f"| learning rate | cutout | {' | '.join(networks)} | mean |",
        "|---" * (3 + len(networks)) + "|",
    ]
    plainly = errors(record["data"], "held_out_plain")
    for number, found in errors(record["data"]).items():
        lr, cutout = VARIANTS[number]
        cells = [f"{found[network]:.2f} ({plainly[number][network]:.2f})" for network in networks]
        mean, bold = np.mean(list(found.values())), "**" if number == record["chosen"] else ""
        lines.append(f"| {lr:g} | {cutout} | {' | '.join(cells)} | {bold}{mean:.2f}{bold} |")
    lr, cutout = VARIANTS[record["chosen"]]
    return "\n".join(
        [*lines, "", f"Lowest mean error on held-out images: learning rate {lr:g}, cutout {cutout}."]
    )


if __name__ == "__main__":
    main()
