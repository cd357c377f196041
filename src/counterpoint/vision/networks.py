"""Networks for images, new or pretrained, for a given number of classes."""

import os
from typing import Any

from torch import nn

from counterpoint._extras import import_extra
from counterpoint._validation import check_choice, check_whole
from counterpoint.vision._cifar import CifarResNet18, convnet
from counterpoint.vision._weights import check_weights, load_weights

__all__ = ["NETWORKS", "backbone"]

# network -> the part that ends in the classes
_HEADS = {
    "convnet": "head",
    "cifar_resnet18": "fc",
    "densenet121": "classifier",
    "efficientnet_b0": "classifier.1",
    "googlenet": "fc",
    "mobilenet_v2": "classifier.1",
    "resnet18": "fc",
    "shufflenet_v2_x1_0": "fc",
}
NETWORKS: tuple[str, ...] = tuple(_HEADS)

# network -> its width where none is given; the others' widths are fixed
_WIDTHS = {"convnet": 32, "cifar_resnet18": 64}


def backbone(
    name: str,
    n_classes: int,
    *,
    weights: str | os.PathLike[str] | None = None,
    width: int | None = None,
) -> nn.Module:
    """Return a network for images, with a new head.

    Parameters
    ----------
    name : str
        One of ``counterpoint.vision.NETWORKS``. In torch alone, for images of 32 pixels: ``"convnet"``, six
        convolutions in a plain sequence, which an :class:`~counterpoint.training.Ensemble` stacks; and
        ``"cifar_resnet18"``, with a stem of 3 x 3 and no max-pooling. From torchvision: ``"densenet121"``,
        ``"efficientnet_b0"``, ``"googlenet"`` (without auxiliary heads), ``"mobilenet_v2"``, ``"resnet18"``,
        ``"shufflenet_v2_x1_0"``.
    n_classes : int
        Number of outputs.
    weights : path, or "imagenet", optional
        A safetensors file of the network's ``state_dict`` in any floating type, or a folder that holds
        ``NAME.safetensors`` or ``NAME_backbone.safetensors``; ``"imagenet"`` downloads torchvision's weights. The head
        is not loaded and starts from random values. By default all values are random.
    width : int, optional
        Channels of the first layer, by default 32 for ``"convnet"`` and 64 for ``"cifar_resnet18"``; it doubles where
        the image is halved. Other networks have a fixed width.

    Returns
    -------
    Module
        On the CPU, in float32, in training mode; it maps ``(batch, 3, height, width)`` to ``(batch, n_classes)``.

    Raises
    ------
    ValueError
        If a tensor of the file is not one of the network, has another shape, is not finite, or is missing.

    Warns
    -----
    UserWarning
        If the file lacks whole parts of the network. They are named, and start from random values.

    Notes
    -----
    Random values are drawn from torch's global generator, which ``torch.manual_seed`` seeds.

    Examples
    --------
    >>> import torch
    >>> net = backbone("convnet", 10, width=8)
    >>> net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    >>> sum(parameter.numel() for parameter in net.parameters())
    18626
    """
    check_choice(name, "name", NETWORKS)
    n_classes = check_whole(n_classes, "n_classes", minimum=1)
    check_weights(weights)
    net: nn.Module
    if name in _WIDTHS:
        width = check_whole(_WIDTHS[name] if width is None else width, "width", minimum=1)
        if weights == "imagenet":
            raise ValueError(
                f"`weights` must be a path for {name!r}, which torchvision lacks; got 'imagenet'."
            )
        net = convnet(n_classes, width) if name == "convnet" else CifarResNet18(n_classes, width)
    elif width is not None:
        raise ValueError(f"`width` must be None for {name!r}, whose widths are fixed; got {width!r}.")
    else:
        net = _torchvision_net(name, n_classes)
    if weights is not None:
        load_weights(net, name, _HEADS[name], weights)
    return net


def _torchvision_net(name: str, n_classes: int) -> nn.Module:
    models = import_extra("torchvision.models", "vision")
    options: dict[str, Any] = {}
    if name == "googlenet":
        # Its weights expect other inputs than the rest; it transforms the usual ones.
        options = {"aux_logits": False, "transform_input": True, "init_weights": True}
    net: nn.Module = models.get_model(name, weights=None, num_classes=n_classes, **options)
    return net
