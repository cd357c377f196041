"""Networks trained alone, then a few epochs more as an ensemble: the study behind Tables 4 to 6.

A *trunk* is one network after training by itself. An ensemble of trunks goes on from there in one of several *ways*:
not at all (``"vote"``), each learner by its own cross-entropy (``"independent"``), all by the cross-entropy of their
mean (``"joint"``), or by the paper's loss (``"lambda 0.1"``). A tenth of the training images is held out from all
training, so that a lambda can be chosen without the test images.
"""

import json
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from counterpoint.experiments._device import device_name, kernel_search
from counterpoint.experiments._record import versions
from counterpoint.experiments.pretrained.learning import (
    DIGITS,
    Compiled,
    Growing,
    Standing,
    bare,
    make_loss,
    standing,
)
from counterpoint.training import (
    Callback,
    Ensemble,
    State,
    calibrate,
    fit,
    load_checkpoint,
    save_checkpoint,
)
from counterpoint.training.preparation import autocast
from counterpoint.vision import ImageBatches, backbone, predict_logits

HELD_OUT = 10  # one training image in so many
LR, CUTOUT = (
    1e-3,
    0,
)  # benchmarks/choose_image_recipe.py holds them against others, on held-out training images
KERNELS = 4  # that cuDNN tries for a shape: its usual 10 can take longer than an epoch
CHECKPOINT_FROM = 8  # epochs; a shorter run is faster begun again than saved
SCRATCH = 3  # a network without weights trains so many times as long
EVALUATED = 1_000  # images in a batch

Run = dict[str, Any]


@dataclass(frozen=True)
class Images:
    """The images of a table: ``parts`` are train, held_out and test, with their labels."""

    name: str
    n_classes: int
    parts: Mapping[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]

    @classmethod
    def split(cls, name: str, train: Any, test: Any, n_classes: int) -> "Images":
        """Hold out a part of the training images, the same in every run."""
        x, y = train
        order = np.random.default_rng(0).permutation(len(y))
        held, kept = np.split(order, [len(y) // HELD_OUT])
        return cls(
            name, n_classes, {"train": (x[kept], y[kept]), "held_out": (x[held], y[held]), "test": test}
        )


@dataclass(frozen=True)
class Settings:
    """How networks are trained, in all rows alike; ``cutout`` is the side of a square, before images are resized."""

    epochs: int
    more_epochs: int
    size: int
    batch_size: int = 256
    width: int | None = None
    compiled: bool = False
    lr: float = LR
    cutout: int = CUTOUT

    @property
    def more_lr(self) -> float:
        """Return the learning rate of networks that go on as an ensemble."""
        return self.lr / 5


def start_of(network: str, weights: str | Path | None) -> str:
    """Say where a network starts: ``"pretrained"``, ``"pretrained in part"`` or ``"from scratch"``."""
    if weights is None or network in ("convnet", "cifar_resnet18"):
        return "from scratch"
    if weights == "imagenet" or (Path(weights) / f"{network}.safetensors").is_file():
        return "pretrained"
    partial = (Path(weights) / f"{network}_backbone.safetensors").is_file()
    return "pretrained in part" if partial else "from scratch"


class Watch(Callback):
    """Measures the vote on the test images after every epoch but the last; nothing is chosen by it."""

    def __init__(self, laboratory: "Laboratory") -> None:
        self.laboratory = laboratory

    def on_epoch_end(self, state: State) -> None:
        """Add to the record of the epoch."""
        if state.epoch < state.epochs:
            ensemble = state.ensemble
            assert isinstance(ensemble, Ensemble)
            self.laboratory.read_out(ensemble)
            found, _ = self.laboratory.measure(ensemble, "test")
            state.history[-1].update(of_test(found))
            ensemble.readout = None  # it belongs to these weights alone


class Laboratory:
    """Where trunks are trained and ensembles go on from them.

    Parameters
    ----------
    images : Images
        What to learn.
    settings : Settings
        How.
    weights : path or "imagenet", optional
        Where networks start, as for :func:`~counterpoint.vision.backbone`; a folder need not hold all of them.
    folder : Path
        Where trunks are kept: none is trained twice.
    device : torch.device
        Where to train.
    """

    def __init__(
        self,
        images: Images,
        settings: Settings,
        *,
        weights: str | Path | None,
        folder: Path,
        device: torch.device,
    ) -> None:
        self.images, self.settings, self.device = images, settings, device
        self.weights, self.folder = weights, folder
        self.some = self.batches("train", seed=0)  # to calibrate by
        self.parts = {part: self.batches(part, seed=0, augment=False) for part in ("held_out", "test")}

    def epochs_of(self, network: str) -> int:
        """Return how long a network trains alone."""
        scratch = start_of(network, self.weights) == "from scratch"
        return self.settings.epochs * (SCRATCH if scratch else 1)

    def trunk(self, network: str, seed: int) -> dict[str, Any]:
        """Return one network trained alone, from its file or else after training it."""
        path = self.trunk_file(network, seed)
        if path.exists():
            try:
                return load_checkpoint(path)
            except (KeyError, ValueError) as error:  # one file need not stop a study
                message = f"{path.name} is damaged and is trained again: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
        trunk = self.train_trunk(network, seed, path)
        save_checkpoint(path, trunk)
        return trunk

    def train_trunk(self, network: str, seed: int, path: Path) -> dict[str, Any]:
        """Train one network alone; return it with what is known of it."""
        began, epochs, lr = time.perf_counter(), self.epochs_of(network), self.settings.lr
        with self.seeded(seed):
            batches = Growing(self.batches("train", seed=seed), self.settings.size, epochs)
            learners = [self.beginning(network)]
            ensemble, records = self.train(learners, "independent", batches, epochs=epochs, lr=lr, path=path)
        return {
            "network": network,
            "seed": seed,
            "settings": self.trunk_settings(network),
            "epochs": records,
            "seconds": round(time.perf_counter() - began, 1),
            **provenance(self.device),
            "net": bare(ensemble.learners[0]).state_dict(),
        }

    def trunk_settings(self, network: str) -> dict[str, Any]:
        """Return what tells the trunks of a network apart, but for the seed."""
        return {
            "start": start_of(network, self.weights),
            "origin": self.origin(network),
            "epochs": self.epochs_of(network),
            **{key: getattr(self.settings, key) for key in ("lr", "cutout", "size", "batch_size", "width")},
        }

    def trunk_file(self, network: str, seed: int) -> Path:
        """Return the path of a trunk, trained or not."""
        return self.file(f"{network}-{seed}", self.trunk_settings(network))

    def origin(self, network: str) -> int:
        """Return a checksum of the images that a trunk learns from, and of the file that it starts from."""
        x, y = self.images.parts["train"]
        found = zlib.crc32(x[:: max(len(x) // 1000, 1)].tobytes(), zlib.crc32(y.tobytes()))
        for name in (f"{network}.safetensors", f"{network}_backbone.safetensors"):
            if isinstance(self.weights, Path) and (self.weights / name).is_file():
                found = zlib.crc32((self.weights / name).read_bytes(), found)
        return found

    def run(self, members: Sequence[tuple[str, int]], way: str, seed: int) -> Run:
        """Put trunks together, go on in one way and return what came out, with errors in percent."""
        began = time.perf_counter()
        records: list[dict[str, float]] = []
        with self.seeded(1000 + seed):
            ensemble = Ensemble([self.from_trunk(*member) for member in members]).to(self.device)
            if way != "vote":
                batches = self.batches("train", seed=1000 + seed)  # the same for every way
                epochs, lr = self.settings.more_epochs, self.settings.more_lr
                path = self.file(f"{way}-{seed}", {"members": members, **asdict(self.settings)})
                ensemble, records = self.train(
                    ensemble.learners, way, batches, epochs=epochs, lr=lr, path=path, watched=True
                )
            if ensemble.readout is None:
                self.read_out(ensemble)
            test, raw = self.measure(ensemble, "test")
            found = {
                "test": test,
                "test_uncalibrated": raw,
                "test_unmirrored": self.measure(ensemble, "test", flip=False)[0],
                "held_out": self.measure(ensemble, "held_out")[0],
            }
        if records:
            records[-1] |= of_test(test)
        networks = [network for network, _ in members]
        seconds = round(time.perf_counter() - began, 1)
        return {"networks": networks, **found, "epochs": records, "seconds": seconds}

    def train(
        self,
        learners: Sequence[nn.Module],
        way: str,
        batches: ImageBatches | Growing,
        *,
        epochs: int,
        lr: float,
        path: Path,
        watched: bool = False,
    ) -> tuple[Ensemble, list[dict[str, float]]]:
        """Train learners together; return them as an ensemble, and the records of the epochs."""
        ensemble = Ensemble([Compiled(one) for one in learners] if self.settings.compiled else learners)
        n_steps = epochs * len(batches(1) if isinstance(batches, Growing) else batches)
        checkpoint = path.with_suffix(".checkpoint") if epochs >= CHECKPOINT_FROM else None
        with kernel_search(KERNELS):
            history = fit(
                ensemble.to(self.device),
                batches,
                loss=make_loss(way),
                optimizer=lambda p: torch.optim.AdamW(p, lr, fused=self.device.type == "cuda"),
                scheduler=lambda optimizer: OneCycleLR(optimizer, lr, total_steps=n_steps),
                epochs=epochs,
                callbacks=[Watch(self)] if watched else [],
                checkpoint=checkpoint,
            )
        if checkpoint is not None:
            checkpoint.unlink()
        return ensemble, [
            {name: round(value, DIGITS) for name, value in record.items() if value is not None}
            for record in history.to_dict()["epochs"]  # one learner has no r_ll
        ]

    def read_out(self, ensemble: Ensemble) -> None:
        """Calibrate an ensemble by training images: all alike, since the correlation loss cannot do without."""
        self.some.generator.manual_seed(0)  # the same images whatever was done before
        with autocast("auto", self.device):
            calibrate(ensemble, self.some, max_samples=5_000)

    def measure(self, ensemble: Ensemble, part: str, *, flip: bool = True) -> tuple[Standing, Standing]:
        """Return where a calibrated ensemble stands on a part of the images, and where it would uncalibrated.

        By default the outputs for each image and for its mirror image are averaged.
        """
        readout, ensemble.readout = ensemble.readout, None
        logits = predict_logits(ensemble, self.parts[part], flip=flip)
        ensemble.readout = readout
        assert readout is not None
        target = torch.as_tensor(self.images.parts[part][1], device=self.device)
        return standing(readout(logits).softmax(-1), target), standing(logits.softmax(-1), target)

    def network(self, name: str, weights: str | Path | None) -> nn.Module:
        """Return a network, new but for the weights."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the table says which are pretrained in part
            net = backbone(name, self.images.n_classes, weights=weights, width=self.settings.width)
        if self.device.type == "cuda":
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return net.to(self.device)

    def beginning(self, name: str) -> nn.Module:
        """Return a network as its training begins."""
        scratch = start_of(name, self.weights) == "from scratch"
        return self.network(name, None if scratch else self.weights)

    def from_trunk(self, network: str, seed: int) -> nn.Module:
        """Return a network as its own training left it."""
        net = self.network(network, None)
        net.load_state_dict(self.trunk(network, seed)["net"])
        return net

    def batches(self, part: str, *, seed: int, augment: bool = True) -> ImageBatches:
        """Return batches of a part of the images."""
        x, y = self.images.parts[part]
        return ImageBatches(
            x,
            y,
            batch_size=self.settings.batch_size if augment else EVALUATED,
            size=self.settings.size,
            augment=augment,
            cutout=self.settings.cutout,
            device=self.device,
            seed=seed,
        )

    def file(self, name: str, settings: Mapping[str, Any]) -> Path:
        """Return the path for what was trained with these settings."""
        digest = zlib.crc32(json.dumps(settings, sort_keys=True).encode())
        return self.folder / f"{self.images.name} {name} {digest:08x}.safetensors".replace(" ", "-")

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Seed torch for a block and leave its generators as they were."""
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield


def provenance(device: torch.device) -> dict[str, Any]:
    """Return what a number was made on and with."""
    found = versions() | {"torch": str(torch.__version__)}
    with suppress(PackageNotFoundError):  # small networks need none
        found["torchvision"] = version("torchvision")
    return {"device": device_name(device), "versions": found}


def of_test(found: Mapping[str, Any]) -> dict[str, float]:
    """Return what the record of an epoch says of the test images."""
    return {f"test_{name}": found[name] for name in ("soft", "hard", "r_tl", "r_ll")}
