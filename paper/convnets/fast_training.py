"""How fast nets are trained, several at once.

The recipe is that of airbench94 (arXiv:2404.00498) with its published settings; none was chosen here. The loss is
summed over the images, so the learning rate is that of an image. Every image is mirrored in every second epoch and
shifted by a few pixels; a whole epoch is augmented at once. Every few steps the nets are drawn back to a slow average
of themselves. What changes from step to step lies on the device, so that steps can be recorded.

Four things differ from the published script: weights, momentum and loss are float32, and only the layers run in
float16; the nets become their slow averages when training ends, and not at the end of each epoch before as well; there
are whole epochs, 10 for the 9.9 there; and the evaluation is in float32.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._validation import FloatArray
from counterpoint.datasets.cifar import Images
from counterpoint.vision import ImageBatches
from paper.convnets.fast import whitening
from paper.convnets.recording import put_back, recorded
from paper.convnets.side_by_side import Apart
from paper.device import clock

__all__ = ["MEAN", "STD", "Recipe", "train"]

MEAN = (0.4914, 0.4822, 0.4465)  # of the channels of CIFAR-10
STD = (0.2470, 0.2435, 0.2616)
MOMENTUM = 0.85
SMOOTHING = 0.2
BIAS_FACTOR = 64  # by how much the biases of the batch normalisations learn faster
EARLY = 3  # epochs in which the bias of the whitening learns, and after which the slow average begins
EVERY = 5  # steps from one update of the slow average to the next
SHIFT = 2  # pixels
PATCHED = 5000  # images from which the whitening is computed


class Recipe(NamedTuple):
    """What may differ from one training to another; rate and decay are given for 1024 images."""

    epochs: int
    batch_size: int = 1024
    learning_rate: float = 11.5
    weight_decay: float = 0.0153
    seed: int = 0


def train(together: Apart, images: Images, recipe: Recipe, device: torch.device) -> tuple[float, bool]:
    """Train fast nets that are on the device, and return the seconds it took and whether CUDA graphs did it.

    The seconds are those of the normalisation, the whitening, the augmentation and all steps. Moving the images to the
    device, and recording the steps, come before.
    """
    together.train()
    n = len(images.y_train)
    source = ImageBatches(
        images.x_train, images.y_train, batch_size=n, augment=False, mean=MEAN, std=STD, device=device
    )
    course = _Course(together, _begin(together, source, recipe.seed), recipe, device)
    began = clock(device)
    course.run(_begin(together, source, recipe.seed), n // recipe.batch_size)
    return clock(device) - began, course.recorded


Epoch = tuple[Tensor, Tensor]


def _begin(together: Apart, source: ImageBatches, seed: int) -> Iterator[Epoch]:
    """Give the nets their first layer, and return the epochs to come."""
    ((x, y),) = source
    pixels = cast(Tensor, x)
    filters = whitening(pixels[:PATCHED])
    with torch.no_grad():
        for net in together.nets:
            _first(net).weight.copy_(filters)
    return _epochs(pixels.half() if pixels.is_cuda else pixels, y, seed)


def _epochs(x: Tensor, y: Tensor, seed: int) -> Iterator[Epoch]:
    """Give all images (n, 3, H, W) and their labels, epoch after epoch, in a new order each time."""
    n, _, height, width = x.shape
    generator = torch.Generator(x.device).manual_seed(seed)
    padded = F.pad(x, (SHIFT,) * 4, "reflect").permute(0, 2, 3, 1).contiguous()
    row, column = (torch.arange(size, device=x.device) for size in (height, width))
    mirrored = torch.rand(n, generator=generator, device=x.device) < 0.5
    while True:
        order = torch.randperm(n, generator=generator, device=x.device)
        moves = torch.randint(2 * SHIFT + 1, (2, n, 1), generator=generator, device=x.device)
        rows, columns = row + moves[0], column + moves[1]  # (n, H), (n, W)
        columns = torch.where(mirrored[order, None], columns.flip(1), columns)
        moved = padded[order[:, None, None], rows[:, :, None], columns[:, None, :]]
        yield moved.permute(0, 3, 1, 2), y[order]
        mirrored = ~mirrored


class _Course:
    """A training with its buffers, ready to run: its steps have been warmed up, and undone."""

    def __init__(
        self, together: Apart, epochs: Iterator[Epoch], recipe: Recipe, device: torch.device
    ) -> None:
        self.together, self.recipe, self.device = together, recipe, device
        self.optimizer = _optimizer(together, recipe, device)
        self.peaks = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.values = [value for value in together.state_dict().values() if value.is_floating_point()]
        self.slow = [value.clone() for value in self.values]
        self.pull = torch.ones((), device=device)
        # Real images, since nets with batch normalisation cannot learn from equal ones.
        x, y = next(epochs)
        self.x, self.y = x[: recipe.batch_size].clone()[None], y[: recipe.batch_size].clone()
        start = [value.clone() for value in together.state_dict().values()]
        # A recorded step has no backward pass through what did not learn as it was recorded.
        self.steps: dict[bool, Callable[[], None]] = {}
        done = []
        for early in (True, False):
            self._let_first_layer_learn(early)
            self.steps[early], was = recorded(self._step, device)
            done.append(was)
        self.draw_back, was = recorded(self._draw_back, device)
        self.recorded = all([*done, was])
        put_back(together, start, self.optimizer)

    def run(self, epochs: Iterator[Epoch], steps_per_epoch: int) -> None:
        """Train the nets."""
        size, n_epochs = self.recipe.batch_size, self.recipe.epochs
        shares = _shares(n_epochs * steps_per_epoch)
        done = 0
        followed = False
        for epoch, (x, y) in enumerate(islice(epochs, n_epochs)):
            self._let_first_layer_learn(epoch < EARLY)
            step = self.steps[epoch < EARLY]
            for place in range(0, steps_per_epoch * size, size):
                self.x[0].copy_(x[place : place + size])
                self.y.copy_(y[place : place + size])
                for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
                    group["lr"].fill_(peak * shares[done])
                step()
                done += 1
                if epoch >= EARLY and done % EVERY == 0:
                    self.pull.fill_(_pull(done / len(shares)) if followed else 1.0)
                    self.draw_back()
                    followed = True
        if followed:  # the nets become their slow averages
            self.pull.zero_()
            self.draw_back()

    def _step(self) -> None:
        # The whitening takes differences of near pixels, for which bfloat16 would be coarse; the summed loss keeps
        # gradients in the range of float16.
        with torch.autocast(self.device.type, torch.float16, enabled=self.device.type == "cuda"):
            logits = self.together(self.x)
        # The sum over nets as well as images: each net gets the gradient that it would have alone.
        target = self.y.repeat(len(logits))
        loss = F.cross_entropy(
            logits.float().flatten(0, 1), target, label_smoothing=SMOOTHING, reduction="sum"
        )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    @torch.no_grad()
    def _draw_back(self) -> None:
        for mean, value in zip(self.slow, self.values, strict=True):
            mean.lerp_(value, self.pull)
            value.copy_(mean)

    def _let_first_layer_learn(self, whether: bool) -> None:
        for net in self.together.nets:
            cast(Tensor, _first(net).bias).requires_grad_(whether)


def _first(net: nn.Module) -> nn.Conv2d:
    return cast(nn.Conv2d, cast(nn.Sequential, net)[0])


def _optimizer(together: Apart, recipe: Recipe, device: torch.device) -> torch.optim.SGD:
    """Return Nesterov momentum at the peak of its rates, which are tensors.

    They are divided by what momentum multiplies a constant gradient with, about, so that a recipe's rate and decay mean
    the same whatever the momentum; and the decay does not depend on the rate.
    """
    scale = 1024 * (1 + 1 / (1 - MOMENTUM))
    rate = recipe.learning_rate / scale
    decay = recipe.weight_decay * recipe.batch_size / scale
    norms = [layer.bias for layer in together.modules() if isinstance(layer, nn.BatchNorm2d)]
    apart = {id(bias) for bias in norms}
    others = [p for p in together.parameters() if p.requires_grad and id(p) not in apart]
    groups = [
        {"params": params, "lr": torch.tensor(peak, device=device), "weight_decay": decay / peak}
        for params, peak in ((norms, BIAS_FACTOR * rate), (others, rate))
    ]
    fused = True if device.type == "cuda" else None
    return torch.optim.SGD(groups, momentum=MOMENTUM, nesterov=True, fused=fused)


def _shares(n_steps: int) -> FloatArray:
    """Return the share of the peak that the learning rate has in each step: straight up, and straight down."""
    return np.interp(np.arange(n_steps), [0, int(0.23 * n_steps), n_steps], [0.2, 1.0, 0.07])


def _pull(place: float) -> float:
    """Return how far the slow average moves to the nets, at a place of the training between 0 and 1."""
    return float(1 - 0.95**EVERY * place**3)
