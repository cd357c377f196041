"""Choose learning rate and cutout of Tables 5 and 6 by measurement on held-out training images.

``python benchmarks/choose_image_recipe.py --data DIR --weights DIR --out DIR`` fine-tunes single networks on CIFAR-10
with every variant, as the tables do before any ensemble, and measures them on the tenth of the training images that
is held out; test images take no part. Each network is written as soon as it is measured, so that a killed run goes on,
and ``--variants`` may be divided among processes that share the folder. ``--choose DIR`` prints the learning rate and
the cutout of the best variant in a folder, ``--join`` puts the files of ``--out`` together and prints them as a table.
"""

import argparse
import json
import warnings
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from counterpoint._plain import plain
from counterpoint._validation import check_choice
from counterpoint.records import read_record, write_json
from counterpoint.training import Ensemble, pick_device
from paper.pretrained.laboratory import Laboratory, Settings, start_of
from paper.pretrained.paper import TABLE_5
from paper.pretrained.study import SMOKE_NETWORKS, check_weights, load_images

NAME = "choose_image_recipe"
RESULTS = Path(__file__).parents[1] / "results" / f"{NAME}.json"
VARIANTS = tuple(product((3e-4, 1e-3), (0, 12)))  # learning rate, cutout
NETWORKS = ("resnet18",)
SEED = 100  # of no trunk in the tables
OWN = ("variant", "lr", "cutout", "network", "start")  # what the files of a folder may differ in

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
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the files and of the trunks")
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
    """Measure every network with every variant, but for what is measured; what fails is left out, with a warning."""
    smoke = given.smoke
    networks = tuple(given.networks.split(",")) if given.networks else SMOKE_NETWORKS if smoke else NETWORKS
    numbers = [int(n) for n in given.variants.split(",")] if given.variants else range(len(VARIANTS))
    shared: dict[str, Any] = {
        "weights": check_weights(given.weights, networks, smoke=smoke),
        "folder": given.out / "trunks",
        "device": pick_device(given.device),
    }
    images = load_images(TABLE_5, given.data, smoke=smoke)
    small: dict[str, Any] = {"batch_size": 32, "width": 4} if smoke else {}
    epochs, size = given.epochs or (1 if smoke else 12), given.size or (16 if smoke else 128)
    for number in numbers:
        lr, cutout = VARIANTS[check_choice(number, "--variants", range(len(VARIANTS)))]
        settings = Settings(epochs=epochs, more_epochs=0, size=size, lr=lr, cutout=cutout, **small)
        laboratory = Laboratory(images, settings, **shared)
        for network in networks:
            try:
                measure(laboratory, number, network, given.out)
            except (FloatingPointError, RuntimeError) as error:  # the other networks are worth having
                warnings.warn(f"variant {number}, {network} was left out: {error}", stacklevel=2)


def measure(laboratory: Laboratory, number: int, network: str, out: Path) -> None:
    """Train a network and write its error on held-out images, in percent, unless it is written already."""
    parts = laboratory.images.parts
    config = {
        "variant": number,
        "network": network,
        "start": start_of(network, laboratory.weights),
        "seed": SEED,
        "images": laboratory.images.name,
        **{f"n_{part}": len(parts[part][1]) for part in ("train", "held_out")},
        **{key: value for key, value in asdict(laboratory.settings).items() if key != "more_epochs"},
    }
    path = out / f"{NAME}-{number}-{network}.json"
    if path.exists():
        if read_record(path)["config"] != plain(config):
            raise ValueError(f"`--out` must be a folder without {path.name} of other settings; got '{out}'.")
        return
    trunk = laboratory.trunk(network, SEED)
    ensemble = Ensemble([laboratory.from_trunk(network, SEED)]).to(laboratory.device)
    laboratory.read_out(ensemble)
    found = laboratory.measure(ensemble, "held_out")
    part = {
        "config": config,
        **{key: trunk[key] for key in ("device", "versions", "seconds")},
        "held_out": found["mirrored"]["soft"],  # read out and mirrored, as in the tables
        "held_out_plain": found["plain"]["soft"],
        "epochs": trunk["epochs"],
    }
    write_json(path, part)
    print(f"variant {number}, {network}: {part['held_out']:.2f} % in {part['seconds']:.0f} s", flush=True)


def read_parts(folder: Path) -> list[Part]:
    """Return what was measured, by variant and network; all with the same settings but for the variant's."""
    parts = [read_record(path) for path in sorted(folder.glob(f"{NAME}-*.json"))]
    if not parts:
        raise SystemExit(f"There is no {NAME}-VARIANT-NETWORK.json in '{folder}'.")
    if len({json.dumps(common(part), sort_keys=True) for part in parts}) > 1:
        raise SystemExit(f"The files {NAME}-*.json in '{folder}' have different settings.")
    return parts


def common(part: Part) -> dict[str, Any]:
    return {key: value for key, value in part["config"].items() if key not in OWN}


def errors(parts: list[Part], key: str = "held_out") -> dict[int, dict[str, float]]:
    """Return the errors of the networks by variant, of those variants alone that have them all."""
    found: dict[int, dict[str, float]] = {}
    for part in parts:
        found.setdefault(part["config"]["variant"], {})[part["config"]["network"]] = part[key]
    networks = {part["config"]["network"] for part in parts}
    return {number: found[number] for number in sorted(found) if set(found[number]) == networks}


def best(parts: list[Part]) -> int:
    """Return the variant with the least mean error on held-out images; the first of equals."""
    if not (found := errors(parts)):
        raise SystemExit("No variant has been measured with every network.")
    return min(found, key=lambda number: float(np.mean(list(found[number].values()))))


def join(parts: list[Part]) -> dict[str, Any]:
    """Return the parts as one record; a part that was made on or with something else says so itself."""
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
    """Return the errors on held-out images as a table, by variant; in brackets not mirrored and not read out."""
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
        [*lines, "", f"Least mean error on held-out images: learning rate {lr:g}, cutout {cutout}."]
    )


if __name__ == "__main__":
    main()
