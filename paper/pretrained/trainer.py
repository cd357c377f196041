"""Networks trained alone, then a few epochs more as an ensemble: the training behind Tables 4 to 6.

A *trunk* is one network after training by itself. An ensemble of trunks is trained further in one of several *arms*:
not at all (``"vote"``), each learner by its own cross-entropy (``"independent"``), all by the cross-entropy of their
mean probabilities (``"joint"``) or mean logits (``"logits"``), by both their own and that of the mean logits
(``"dial 0.9"``), or by the paper's loss (``"lambda 0.1"``). A tenth of the training images is held out from all
training, so that a lambda can be chosen without the test images.
"""

import json
import time
import warnings
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from counterpoint.records import RunStore, versions
from counterpoint.training import Callback, Ensemble, fit, load_checkpoint, save_checkpoint, seeded
from counterpoint.vision import ImageBatches
from paper.convnets.robust import robustness
from paper.device import device_name, kernel_search
from paper.pretrained.evaluation import DIGITS, Evaluator, TestErrors, for_epoch
from paper.pretrained.images import GrowingBatches, Images, smaller_size
from paper.pretrained.networks import (
    Averaged,
    AverageWeights,
    Compiled,
    Weights,
    build,
    check_size,
    start_of,
    trained_network,
    weights_checksum,
)
from paper.pretrained.recipe import (
    LABEL_SMOOTHING,
    REDUCTION,
    Settings,
    make_loss,
    parameter_groups,
    voting_of,
)

__all__ = ["KERNELS", "N_ROBUST", "SCRATCH", "Trainer", "provenance"]

KERNELS = 4  # that cuDNN tries for a shape: its usual 10 can take longer than an epoch
CHECKPOINT_FROM = 8  # epochs; a shorter training is repeated faster than saved
N_ROBUST = 2_000  # test images and unknown images that measure robustness, which takes thirty passes
SCRATCH = 3  # a network without weights trains this many times as long
EVALUATION_BATCH = 1_000

History = list[dict[str, float]]


class Trainer:
    """Trains trunks, and ensembles of them.

    Parameters
    ----------
    images : Images
        Images to train and evaluate on.
    settings : Settings
        Settings of the training.
    weights : path or "imagenet", optional
        Where networks start, as for :func:`~counterpoint.vision.backbone`; a folder need not hold all of them.
    folder : Path
        Folder of the trunks: none is trained twice, nor by two processes at once.
    device : torch.device
        Where to train.
    """

    def __init__(
        self, images: Images, settings: Settings, *, weights: Weights, folder: Path, device: torch.device
    ) -> None:
        self.images, self.settings, self.device = images, settings, device
        self.weights, self.folder = weights, folder
        self.failed: set[tuple[str, int]] = set()
        self.checksums: dict[str, int] = {}
        parts = {part: self.batches(part, seed=0, augment=False) for part in ("held_out", "test")}
        self.evaluator = Evaluator(images, self.batches("train", seed=0), parts)

    def trunk(self, network: str, seed: int) -> dict[str, Any]:
        """Return one network trained alone: its weights and history, from its file or after training it.

        If another process trains it, wait for that. A trunk that failed once is not tried again.
        """
        if (network, seed) in self.failed:
            raise RuntimeError(f"There is no {network} of seed {seed}: its training failed.")
        path = self.trunk_file(network, seed)
        with RunStore(self.folder).lock(path.stem):
            trunk = _read_intact(path)
            if trunk is None:
                try:
                    trunk = self._train_trunk(network, seed, path)
                except Exception:
                    self.failed.add((network, seed))
                    raise
                save_checkpoint(path, trunk)
        return trunk

    def _train_trunk(self, network: str, seed: int, path: Path) -> dict[str, Any]:
        began, epochs, settings = time.perf_counter(), self.trunk_epochs(network), self.settings
        with seeded(self.device, seed):
            batches = GrowingBatches(self.batches("train", seed=seed), settings.size, epochs)
            learner = self.initial_network(network)
            ensemble, history = self._fit(
                [Averaged(learner) if settings.ema else learner],
                "independent",
                batches,
                epochs=epochs,
                lr=settings.lr,
                share=settings.trunk_lr_share if start_of(network, self.weights) != "from scratch" else 1.0,
                checkpoint=path.with_suffix(".checkpoint") if epochs >= CHECKPOINT_FROM else None,
                callbacks=[AverageWeights(settings.ema)] if settings.ema else [],
            )
        return {
            "config": self.trunk_config(network, seed),
            "history": history,
            "seconds": _seconds_since(began, history),
            **provenance(self.device),
            "weights": trained_network(ensemble.learners[0]).state_dict(),
        }

    def run(
        self,
        learners: Sequence[tuple[str, int]],
        arm: str,
        seed: int,
        *,
        robust: bool = False,
    ) -> dict[str, Any]:
        """Train trunks further as an ensemble and return what was measured, with errors in percent.

        ``robust`` adds what :func:`~paper.convnets.robust.robustness` measures on some of the test images.
        """
        history: History = []
        voting = voting_of(arm)
        needed, places = list(learners), list(range(len(learners)))
        if arm == "vote":  # copies of a trunk are still equal: one is measured for all
            needed = list(dict.fromkeys(learners))
            places = [needed.index(learner) for learner in learners]
        with seeded(self.device, 1000 + seed):
            ensemble = Ensemble([self.from_trunk(*learner) for learner in needed]).to(self.device)
            began = time.perf_counter()  # after the trunks, which other processes may have to finish
            if arm != "vote":
                batches = self.batches("train", seed=1000 + seed)  # the same in every arm
                epochs, lr = self.settings.more_epochs, self.settings.more_lr
                watch = [TestErrors(self.evaluator, voting)]
                ensemble, history = self._fit(
                    ensemble.learners, arm, batches, epochs=epochs, lr=lr, callbacks=watch
                )
            self.evaluator.calibrate(ensemble)  # also where fit has, by other images
            test, held_out = (
                self.evaluator.measure(ensemble, part, voting, places) for part in ("test", "held_out")
            )
            more = {"robust": self._robustness(ensemble)} if robust else {}
        if history:
            history[-1] |= for_epoch(test["mirrored"])
        return {
            "test": test["mirrored"],
            **{f"test_{kind}": test[kind] for kind in ("uncalibrated", "unmirrored")},
            "held_out": held_out["mirrored"],
            **more,
            "history": history,
            "seconds": _seconds_since(began, history),
        }

    def _robustness(self, ensemble: Ensemble) -> dict[str, Any]:
        (x, y), first = self.images.parts["test"], slice(N_ROBUST)
        unknown = None if self.images.unknown is None else self.images.unknown()[first]
        return robustness(ensemble, x[first], y[first], unknown, self.device, size=self.settings.size)

    def _fit(
        self,
        learners: Sequence[nn.Module],
        arm: str,
        batches: ImageBatches | GrowingBatches,
        *,
        epochs: int,
        lr: float,
        share: float = 1.0,
        checkpoint: Path | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> tuple[Ensemble, History]:
        """Train learners together; return them as an ensemble, and the history.

        Layers before the last have a ``share`` of the learning rate.
        """
        ensemble = Ensemble([Compiled(one) for one in learners] if self.settings.compiled else learners)
        groups = parameter_groups(ensemble.to(self.device), lr, share)
        rates = [group["lr"] for group in groups]
        n_steps = epochs * len(batches(1) if isinstance(batches, GrowingBatches) else batches)
        if checkpoint is not None and _read_intact(checkpoint) is None:
            _remove(checkpoint)
        with kernel_search(KERNELS):
            history = fit(
                ensemble,
                batches,
                loss=make_loss(arm),
                optimizer=lambda _: torch.optim.AdamW(groups, lr, fused=self.device.type == "cuda"),
                scheduler=lambda optimizer: OneCycleLR(optimizer, rates, total_steps=n_steps),
                epochs=epochs,
                callbacks=callbacks,
                checkpoint=checkpoint,
                resume=checkpoint is not None,
            )
        if checkpoint is not None:
            _remove(checkpoint)
        return ensemble, [
            {name: round(value, DIGITS) for name, value in record.items() if value is not None}
            for record in history.to_dict()["epochs"]  # one learner has no r_ll
        ]

    def trunk_epochs(self, network: str) -> int:
        """Return the number of epochs that a network trains alone."""
        scratch = start_of(network, self.weights) == "from scratch"
        return self.settings.epochs * (SCRATCH if scratch else 1)

    def trunk_config(self, network: str, seed: int) -> dict[str, Any]:
        """Return everything that a trunk depends on."""
        settings = self.settings.config()
        kept = ("lr", "cutout", "size", "batch_size", "width", "compiled", "ema", "trunk_lr_share")
        return {
            "images": self.images.name,
            "network": network,
            "seed": seed,
            "start": start_of(network, self.weights),
            "checksum": self.checksum(network),
            "epochs": self.trunk_epochs(network),
            **{key: settings[key] for key in kept if key in settings},
            "label_smoothing": LABEL_SMOOTHING,
        }

    def run_config(self, learners: Sequence[tuple[str, int]], arm: str, seed: int) -> dict[str, Any]:
        """Return everything that the result of an ensemble depends on."""
        networks = list(dict.fromkeys(network for network, _ in learners))
        return {
            "images": self.images.name,
            **{f"n_{part}": len(y) for part, (_, y) in self.images.parts.items()},
            "arm": arm,
            "seed": seed,
            "learners": [list(learner) for learner in learners],
            "networks": {network: start_of(network, self.weights) for network in networks},
            "checksums": {network: self.checksum(network) for network in networks},
            **self.settings.config(),
            "more_lr": self.settings.more_lr,
            "label_smoothing": LABEL_SMOOTHING,
            "reduction": REDUCTION,
        }

    def checksum(self, network: str) -> int:
        """Return a checksum of the training images and of the weights that a trunk starts from."""
        if network not in self.checksums:
            x, y = self.images.parts["train"]
            of_images = zlib.crc32(x[:: max(len(x) // 1000, 1)].tobytes(), zlib.crc32(y.tobytes()))
            self.checksums[network] = weights_checksum(network, self.weights, of_images)
        return self.checksums[network]

    def trunk_file(self, network: str, seed: int) -> Path:
        """Return the path of a trunk, trained or not."""
        digest = zlib.crc32(json.dumps(self.trunk_config(network, seed), sort_keys=True).encode())
        name = f"{self.images.name} {network}-{seed} {digest:08x}.safetensors"
        return self.folder / name.replace(" ", "-")

    def check(self, network: str) -> None:
        """Raise ValueError if weights do not fit a network, or images are too small for it."""
        size = self.settings.size
        check_size(self.initial_network(network), network, size, {smaller_size(size), size})

    def initial_network(self, network: str) -> nn.Module:
        """Return a network before any training."""
        return self._build(network, self.weights)

    def from_trunk(self, network: str, seed: int) -> nn.Module:
        """Return a network after its training alone."""
        module = self._build(network, None)
        module.load_state_dict(self.trunk(network, seed)["weights"])
        return module

    def _build(self, network: str, weights: Weights) -> nn.Module:
        n_classes, width = self.images.n_classes, self.settings.width
        return build(network, n_classes, weights=weights, width=width, device=self.device)

    def batches(self, part: str, *, seed: int, augment: bool = True) -> ImageBatches:
        """Return batches of a part of the images."""
        x, y = self.images.parts[part]
        return ImageBatches(
            x,
            y,
            batch_size=self.settings.batch_size if augment else EVALUATION_BATCH,
            size=self.settings.size,
            augment=augment,
            cutout=self.settings.cutout,
            device=self.device,
            random_state=seed,
        )


def provenance(device: torch.device) -> dict[str, Any]:
    """Return the device and the versions that a number was computed with."""
    found = versions() | {"torch": str(torch.__version__)}
    with suppress(PackageNotFoundError):  # small networks do not need it
        found["torchvision"] = version("torchvision")
    return {"device": device_name(device), "versions": found}


def _read_intact(path: Path) -> dict[str, Any] | None:
    """Return the content of a trunk's file or checkpoint; None, with a warning, if it is damaged."""
    if not path.exists():
        return None
    try:
        return load_checkpoint(path)
    except (KeyError, ValueError) as error:
        message = f"{path.name} is damaged, and the network is trained again: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return None


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint and the one before it, which ``fit`` keeps."""
    for path in (checkpoint, checkpoint.with_name(f"{checkpoint.name}.previous")):
        path.unlink(missing_ok=True)


def _seconds_since(began: float, history: Sequence[Mapping[str, float]]) -> float:
    """Return the seconds since a time, or those of all epochs if some were trained by a process before."""
    return round(max(time.perf_counter() - began, sum(epoch["seconds"] for epoch in history)), 1)
