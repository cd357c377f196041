"""The training of fast networks: batches, optimizer, schedule and callbacks for :func:`counterpoint.training.fit`.

The recipe is that of airbench94 (arXiv:2404.00498) with its published settings; none was chosen here. The loss of the
ensemble is summed over images and learners, so that independent learners get the gradients that they would have alone,
and gradients of other losses are of the same size. Each image is mirrored in every second epoch and shifted by a few
pixels. Every few steps the learners are set to a slow average of themselves.

Four things differ from the published script: weights, momentum and loss are float32, and only the layers run in
float16; the learners become their slow averages when training ends, and not at the end of each epoch before; there are
whole epochs, 10 instead of 9.9; and the evaluation is in float32.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint.training import Callback, EnsembleLoss, State, fit
from paper.convnets.fast import FastEnsemble, whitening

__all__ = ["MEAN", "STD", "AlternatingFlips", "SlowAverage", "SummedLoss", "TrainFirstBias", "train"]

MEAN = (0.4914, 0.4822, 0.4465)  # of the channels of CIFAR-10
STD = (0.2470, 0.2435, 0.2616)
MOMENTUM = 0.85
SMOOTHING = 0.2
BIAS_FACTOR = 64  # how much faster the biases of the batch normalisations learn
EARLY = 3  # epochs in which the bias of the whitening learns, and after which the slow average starts
EVERY = 5  # steps between updates of the slow average
SHIFT = 2  # pixels
PATCHED = 5000  # images from which the whitening is computed


def train(
    ensemble: FastEnsemble,
    x: Tensor,
    y: Tensor,
    *,
    loss: EnsembleLoss,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    seed: int,
) -> None:
    """Train an ensemble of fast networks in place.

    Parameters
    ----------
    ensemble : FastEnsemble
        Networks of :func:`~paper.convnets.fast.fast_net`, on the device of the images.
    x : Tensor, shape (n, 3, height, width)
        All training images, normalised.
    y : Tensor, shape (n, n_classes)
        Their targets.
    loss : EnsembleLoss
        The mean loss of a batch; :class:`SummedLoss` scales it.
    epochs, batch_size, learning_rate, weight_decay, seed
        Rate and decay are for 1024 images.
    """
    first = first_layers(ensemble)
    filters = whitening(x[:PATCHED])
    with torch.no_grad():
        for layer in first:
            layer.weight.copy_(filters.repeat(len(layer.weight) // len(filters), 1, 1, 1))
    n_steps = epochs * (len(x) // batch_size)
    optimizer = make_optimizer(ensemble, batch_size, learning_rate, weight_decay)
    fit(
        ensemble,
        AlternatingFlips(x.half() if x.is_cuda else x, y, batch_size, seed),
        loss=SummedLoss(loss),
        optimizer=optimizer,
        scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_share(step, n_steps)),
        scheduler_steps="batch",
        epochs=epochs,
        callbacks=[TrainFirstBias(first), SlowAverage()],
        precision="float32",  # the ensemble chooses float16 itself
        progress=False,
    )


class AlternatingFlips:
    """Batches of augmented images for each epoch, in a new order; every image is mirrored in every second epoch.

    Parameters
    ----------
    x : Tensor, shape (n, 3, height, width)
        The images.
    y : Tensor, shape (n, ...)
        Their targets.
    batch_size : int
        Images in a batch; the rest of an epoch is dropped.
    seed : int
        Seed of all draws.
    """

    def __init__(self, x: Tensor, y: Tensor, batch_size: int, seed: int) -> None:
        self.y, self.batch_size = y, batch_size
        self._epochs = self._augmented(x, torch.Generator(x.device).manual_seed(seed))

    def __call__(self, epoch: int) -> list[tuple[Tensor, Tensor]]:
        """Return the batches of the next epoch."""
        x, order = next(self._epochs)
        size = self.batch_size
        return [
            (x[start : start + size], self.y[order[start : start + size]])
            for start in range(0, len(x) - size + 1, size)
        ]

    @staticmethod
    def _augmented(x: Tensor, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the images of each epoch and their order."""
        n, _, height, width = x.shape
        padded = F.pad(x, (SHIFT,) * 4, "reflect").permute(0, 2, 3, 1).contiguous()
        row, column = (torch.arange(size, device=x.device) for size in (height, width))
        mirrored = torch.rand(n, generator=generator, device=x.device) < 0.5
        while True:
            order = torch.randperm(n, generator=generator, device=x.device)
            moves = torch.randint(2 * SHIFT + 1, (2, n, 1), generator=generator, device=x.device)
            rows, columns = row + moves[0], column + moves[1]  # (n, H), (n, W)
            columns = torch.where(mirrored[order, None], columns.flip(1), columns)
            moved = padded[order[:, None, None], rows[:, :, None], columns[:, None, :]]
            yield moved.permute(0, 3, 1, 2), order
            mirrored = ~mirrored


class FirstLayer(Protocol):
    """A convolution that whitens patches, of one learner or of all stacked learners."""

    weight: Tensor
    bias: Tensor


def first_layers(ensemble: nn.Module) -> list[FirstLayer]:
    """Return the whitening layers of an ensemble: its only convolutions whose weights are frozen."""
    layers: list[FirstLayer] = []
    for layer in ensemble.modules():
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() == 4 and not weight.requires_grad:
            layers.append(cast(FirstLayer, layer))
    return layers


class TrainFirstBias(Callback):
    """Train the bias of the first layers in the first epochs only.

    Parameters
    ----------
    layers : sequence of FirstLayer
        The first layers of the learners.
    """

    def __init__(self, layers: Sequence[FirstLayer]) -> None:
        self.biases = [layer.bias for layer in layers]

    def on_epoch_begin(self, state: State) -> None:
        """Freeze the biases after the first epochs."""
        for bias in self.biases:
            bias.requires_grad_(state.epoch <= EARLY)


class SlowAverage(Callback):
    """Set the learners to a slow average of themselves every few steps, and at the end (lookahead)."""

    def on_train_begin(self, state: State) -> None:
        """Start without an average."""
        self.slow: list[Tensor] = []

    def on_batch_end(self, state: State) -> None:
        """Update the average and set the learners to it; the first average is the learners themselves."""
        assert state.n_batches is not None
        done = (state.epoch - 1) * state.n_batches + state.batch
        if state.epoch <= EARLY or done % EVERY:
            return
        values = _state_of(state.ensemble)
        if not self.slow:
            self.slow = [value.clone() for value in values]
            return
        share = average_share(done / (state.epochs * state.n_batches))
        for mean, value in zip(self.slow, values, strict=True):
            mean.lerp_(value, share)
            value.copy_(mean)

    def on_epoch_end(self, state: State) -> None:
        """Drop the last steps since an update."""
        if state.epoch == state.epochs:
            for mean, value in zip(self.slow, _state_of(state.ensemble) if self.slow else (), strict=True):
                value.copy_(mean)


def make_optimizer(
    ensemble: nn.Module, batch_size: int, learning_rate: float, weight_decay: float
) -> torch.optim.SGD:
    """Return SGD with Nesterov momentum at its highest learning rates.

    Rates are divided by about the factor by which momentum multiplies a constant gradient, so that a rate and a decay
    mean the same for any momentum. The decay does not depend on the rate.
    """
    scale = 1024 * (1 + 1 / (1 - MOMENTUM))
    rate = learning_rate / scale
    decay = weight_decay * batch_size / scale
    norms = [layer.bias for layer in ensemble.modules() if isinstance(layer, nn.BatchNorm2d)]
    apart = {id(bias) for bias in norms}
    others = [p for p in ensemble.parameters() if p.requires_grad and id(p) not in apart]
    groups = [
        {"params": params, "lr": peak, "weight_decay": decay / peak}
        for params, peak in ((norms, BIAS_FACTOR * rate), (others, rate))
    ]
    return torch.optim.SGD(groups, momentum=MOMENTUM, nesterov=True)


def rate_share(step: int, n_steps: int) -> float:
    """Return the share of the highest learning rate that a step has: up and down in straight lines."""
    peak = int(0.23 * n_steps)
    if step < peak:
        return 0.2 + 0.8 * step / peak
    return 1 - 0.93 * (step - peak) / (n_steps - peak)


def average_share(place: float) -> float:
    """Return how far the slow average moves towards the learners, at a place of the training between 0 and 1."""
    return float(1 - 0.95**EVERY * place**3)


class SummedLoss(EnsembleLoss):
    """A mean loss, multiplied by the numbers of learners and images; in float32.

    The sum keeps gradients in the range of float16. The gradient of a learner's logits for an image is that of its own
    cross-entropy if learners are independent, and ``(1 - d) * own + d * pooled`` for the dial d of averaged logits.

    Parameters
    ----------
    loss : EnsembleLoss
        A mean over learners and images. The vote is the one that it trains.

    Examples
    --------
    >>> from counterpoint.training import IndependentLoss
    >>> SummedLoss(IndependentLoss())(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(16.6355)
    """

    def __init__(self, loss: EnsembleLoss) -> None:
        super().__init__(loss.diversity)
        self.mean, self.voting = loss, loss.voting

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the sum of a batch; shapes as for :class:`~counterpoint.training.EnsembleLoss`."""
        total: Tensor = logits.shape[0] * logits.shape[1] * self.mean(logits.float(), target, sample_weight)
        return total


def _state_of(ensemble: nn.Module) -> list[Tensor]:
    return [value for value in ensemble.state_dict().values() if value.is_floating_point()]
