"""A network without its head, and its features of images, which are computed once and kept on the device."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from counterpoint.training import autocast, evaluating
from counterpoint.vision import ImageBatches
from paper.pretrained.images import Images
from paper.pretrained.networks import Weights, build

__all__ = ["FeatureBatches", "compute_features", "make_trunk", "standardised"]

BATCH = 1_000  # images in a forward pass without gradients

Part = tuple[Tensor, Tensor]  # features (n, n_features) and labels (n,)


def make_trunk(
    network: str, *, weights: Weights, width: int | None, device: torch.device
) -> tuple[nn.Module, int]:
    """Return a network whose last linear layer is left out, and the number of its features.

    Examples
    --------
    >>> trunk, n_features = make_trunk("convnet", weights=None, width=4, device=torch.device("cpu"))
    >>> n_features, trunk(torch.zeros(2, 3, 32, 32)).shape
    (16, torch.Size([2, 16]))
    """
    net = build(network, 1, weights=weights, width=width, device=device)
    *_, (name, head) = ((name, part) for name, part in net.named_modules() if isinstance(part, nn.Linear))
    net.set_submodule(name, nn.Identity())
    return net, head.in_features


def compute_features(trunk: nn.Module, images: Images, *, size: int, device: torch.device) -> dict[str, Part]:
    """Return the standardised features of each part of the images, and the labels, on the device.

    The training part has the features of all images and then those of their mirror images; the other parts have no
    mirror images.
    """
    return standardised(
        {
            part: _features(
                trunk,
                ImageBatches(x, y, batch_size=BATCH, size=size, augment=False, device=device),
                mirror=part == "train",
            )
            for part, (x, y) in images.parts.items()
        }
    )


def standardised(parts: dict[str, Part]) -> dict[str, Part]:
    """Return features with the mean 0 and the standard deviation 1 of the training part; constant ones become 0.

    Examples
    --------
    >>> y = torch.zeros(2)
    >>> parts = {"train": (torch.tensor([[1.0, 7.0], [3.0, 7.0]]), y), "test": (torch.tensor([[2.0, 7.0]]), y[:1])}
    >>> standardised(parts)["test"][0]
    tensor([[0., 0.]])
    """
    std, mean = torch.std_mean(parts["train"][0], 0)
    scale = torch.where(std > 0, std, 1.0)
    return {part: ((x - mean) / scale, y) for part, (x, y) in parts.items()}


def _features(trunk: nn.Module, batches: ImageBatches, *, mirror: bool) -> Part:
    """Return the features in float32, and the labels; mirror images come after all images."""
    plain, mirrored, labels = [], [], []
    with evaluating(trunk), autocast("auto", batches.device):
        for x, y in batches:
            assert isinstance(x, Tensor)
            plain.append(trunk(x).float())
            labels.append(y)
            if mirror:
                mirrored.append(trunk(x.flip(-1)).float())
    return torch.cat(plain + mirrored), torch.cat(labels * (1 + mirror))


class FeatureBatches:
    """Shuffled batches of features; the rest of an epoch is dropped.

    Parameters
    ----------
    x, y : Tensor
        Features and labels on one device.
    batch_size : int
        Samples in a batch.
    seed : int
        Seed of the order of the samples.

    Examples
    --------
    >>> batches = FeatureBatches(torch.zeros(10, 4), torch.arange(10), batch_size=4, seed=0)
    >>> len(batches), [x.shape for x, y in batches]
    (2, [torch.Size([4, 4]), torch.Size([4, 4])])
    """

    def __init__(self, x: Tensor, y: Tensor, *, batch_size: int, seed: int) -> None:
        self.x, self.y, self.batch_size = x, y, batch_size
        self.generator = torch.Generator(x.device).manual_seed(seed)

    def __len__(self) -> int:
        return len(self.y) // self.batch_size

    def __iter__(self) -> Iterator[Part]:
        order = torch.randperm(len(self.y), generator=self.generator, device=self.y.device)
        for chosen in torch.split(order, self.batch_size)[: len(self)]:
            yield self.x[chosen], self.y[chosen]
