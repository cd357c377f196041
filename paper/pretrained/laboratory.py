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
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR

from counterpoint.records import versions
from counterpoint.training import (
    Callback,
    Ensemble,
    State,
    autocast,
    calibrate,
    fit,
    load_checkpoint,
    save_checkpoint,
)
from counterpoint.vision import ImageBatches, backbone, predict_logits
from paper.device import device_name, kernel_search, to_device
from paper.pretrained.learning import (
    DIGITS,
    Compiled,
    Growing,
    Images,
    Standing,
    bare,
    make_loss,
    smaller,
    standing,
)
from paper.pretrained.notebook import alone

LR = 1e-3  # the best of those that benchmarks/choose_image_recipe.py tries
KERNELS = 4  # that cuDNN tries for a shape: its usual 10 can take longer than an epoch
CHECKPOINT_FROM = 8  # epochs; a shorter run is faster begun again than saved
SCRATCH = 3  # a network without weights trains so many times as long
EVALUATED = 1_000  # images in a batch

Run = dict[str, Any]


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
    cutout: int = 0

    @property
    def more_lr(self) -> float:
        """Return the learning rate of networks that go on as an ensemble."""
        return self.lr / 5


def start_of(network: str, weights: str | Path | None) -> str:
    """Say where a network starts: ``"pretrained"``, ``"pretrained in part"`` or ``"from scratch"``."""
    if weights is None or (weights == "imagenet" and network in ("convnet", "cifar_resnet18")):
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
            found = self.laboratory.measure(ensemble, "test")
            state.history[-1].update(of_test(found["mirrored"]))
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
        Where trunks are kept: none is trained twice, nor by two processes at once.
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

    def trunk(self, network: str, seed: int, *, wait: bool = True) -> dict[str, Any]:
        """Return one network trained alone, from its file or else after training it.

        Where another process trains it, wait for that, or else raise :class:`filelock.Timeout`.
        """
        path = self.trunk_file(network, seed)
        with alone(path, wait=wait):
            trunk = read_whole(path)
            if trunk is None:
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
            "seconds": seconds_since(began, records),
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

    def run_file(self, learners: Sequence[tuple[str, int]], way: str, seed: int) -> Path:
        """Return the path of an ensemble, which is never written itself."""
        origins = [self.origin(network) for network, _ in learners]
        return self.file(f"{way}-{seed}", {"learners": learners, "origins": origins, **asdict(self.settings)})

    def run(self, learners: Sequence[tuple[str, int]], way: str, seed: int) -> Run:
        """Put trunks together, go on in one way and return what came out, with errors in percent."""
        records: list[dict[str, float]] = []
        needed, places = list(learners), list(range(len(learners)))
        if way == "vote":  # copies are equal as yet, and one speaks for all
            needed = list(dict.fromkeys(learners))
            places = [needed.index(learner) for learner in learners]
        with self.seeded(1000 + seed):
            ensemble = Ensemble([self.from_trunk(*learner) for learner in needed]).to(self.device)
            began = time.perf_counter()  # once the trunks are there, for which other processes may work
            if way != "vote":
                batches = self.batches("train", seed=1000 + seed)  # the same for every way
                epochs, lr = self.settings.more_epochs, self.settings.more_lr
                path = self.run_file(learners, way, seed)
                ensemble, records = self.train(
                    ensemble.learners, way, batches, epochs=epochs, lr=lr, path=path, watched=True
                )
            self.read_out(ensemble)  # even where the loss has fitted one, to other images
            test, held_out = (self.measure(ensemble, part, places) for part in ("test", "held_out"))
        if records:
            records[-1] |= of_test(test["mirrored"])
        return {
            "networks": [network for network, _ in learners],
            "test": test["mirrored"],
            **{f"test_{kind}": test[kind] for kind in ("uncalibrated", "unmirrored")},
            "held_out": held_out["mirrored"],
            "epochs": records,
            "seconds": seconds_since(began, records),
        }

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
        if checkpoint is not None and read_whole(checkpoint) is None:
            checkpoint.unlink(missing_ok=True)
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
                resume=True,
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

    def measure(
        self, ensemble: Ensemble, part: str, places: list[int] | slice = slice(None)
    ) -> dict[str, Standing]:
        """Return where a calibrated ensemble stands on a part of the images.

        ``"mirrored"`` averages the outputs for each image and for its mirror image, ``"unmirrored"`` does not;
        ``"uncalibrated"`` is mirrored, ``"plain"`` is neither. ``places`` are those of the learners to look at.
        """
        readout, ensemble.readout = ensemble.readout, None
        assert readout is not None
        batches, target = self.parts[part], self.images.parts[part][1]
        seen = predict_logits(ensemble, batches)
        reflected = ((cast(Tensor, x).flip(-1), y) for x, y in batches)
        mirrored = (seen + predict_logits(ensemble, reflected)) / 2
        ensemble.readout = readout
        views = {
            "mirrored": readout(mirrored),
            "unmirrored": readout(seen),
            "uncalibrated": mirrored,
            "plain": seen,
        }
        truth = torch.as_tensor(target, device=self.device)
        return {kind: standing(view[places].softmax(-1), truth) for kind, view in views.items()}

    def network(self, name: str, weights: str | Path | None) -> nn.Module:
        """Return a network, new but for the weights."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the table says which are pretrained in part
            net = backbone(name, self.images.n_classes, weights=weights, width=self.settings.width)
        return to_device(net, self.device)

    def check(self, name: str) -> None:
        """Refuse weights that do not fit a network, and images that are too small for it."""
        net = self.beginning(name).eval()
        for size in {smaller(self.settings.size), self.settings.size}:
            try:
                with torch.no_grad():
                    net(torch.zeros(1, 3, size, size, device=self.device))
            except RuntimeError as error:  # torch's words for a map without pixels
                if "output size" not in str(error):
                    raise
                raise ValueError(
                    f"`size` must be large enough for {name}, which comes down to nothing from {size} pixels; "
                    f"got {self.settings.size}."
                ) from error

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
            random_state=seed,
        )

    def file(self, name: str, settings: Mapping[str, Any]) -> Path:
        """Return the path for what was trained with these settings."""
        digest = zlib.crc32(json.dumps(settings, sort_keys=True).encode())
        return self.folder / f"{self.images.name} {name} {digest:08x}.safetensors".replace(" ", "-")

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Seed torch for a block, and leave its generators as they were and the memory to others."""
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed)
            try:
                yield
            finally:
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()  # other processes may be on the same device


def provenance(device: torch.device) -> dict[str, Any]:
    """Return what a number was made on and with."""
    found = versions() | {"torch": str(torch.__version__)}
    with suppress(PackageNotFoundError):  # small networks need none
        found["torchvision"] = version("torchvision")
    return {"device": device_name(device), "versions": found}


def read_whole(path: Path) -> dict[str, Any] | None:
    """Return what is in a file of a network, if there is one; one that is damaged need not stop a study."""
    if not path.exists():
        return None
    try:
        return load_checkpoint(path)
    except (KeyError, ValueError) as error:
        message = f"{path.name} is damaged, and the network is trained again: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return None


def seconds_since(began: float, epochs: Sequence[Mapping[str, float]]) -> float:
    """Return how long something took; where it was taken up from a checkpoint, at least its epochs."""
    return round(max(time.perf_counter() - began, sum(epoch["seconds"] for epoch in epochs)), 1)


def of_test(found: Mapping[str, Any]) -> dict[str, float]:
    """Return what the record of an epoch says of the test images."""
    return {f"test_{name}": found[name] for name in ("soft", "hard", "r_tl", "r_ll")}
