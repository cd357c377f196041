"""Networks for images of 32 pixels, in torch alone."""

from collections import OrderedDict

from torch import Tensor, nn

__all__ = ["CifarResNet18", "convnet"]


def convnet(n_classes: int, width: int) -> nn.Sequential:
    """Return six convolutions in a plain sequence, which an ensemble can stack."""
    layers: list[nn.Module] = []
    inside = 3
    for stage in (width, 2 * width, 4 * width):
        layers += [nn.MaxPool2d(2)] if layers else []
        for _ in range(2):
            layers += [nn.Conv2d(inside, stage, 3, padding=1, bias=False), nn.BatchNorm2d(stage), nn.ReLU()]
            inside = stage
    parts = {
        "features": nn.Sequential(*layers),
        "pool": nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten(),
        "head": nn.Linear(inside, n_classes),
    }
    return nn.Sequential(OrderedDict(parts))


class CifarResNet18(nn.Module):
    """ResNet-18 with a stem of 3 x 3 and no max-pooling; the parts have torchvision's names.

    Parameters
    ----------
    n_classes : int
        Number of outputs.
    width : int
        Channels of the first stage; 64 in the original.

    References
    ----------
    .. [1] K. He, X. Zhang, S. Ren and J. Sun, "Deep Residual Learning for Image Recognition", CVPR 2016.
    """

    def __init__(self, n_classes: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(_Block(width, width, 1), _Block(width, width, 1))
        self.layer2 = nn.Sequential(_Block(width, 2 * width, 2), _Block(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(_Block(2 * width, 4 * width, 2), _Block(4 * width, 4 * width, 1))
        self.layer4 = nn.Sequential(_Block(4 * width, 8 * width, 2), _Block(8 * width, 8 * width, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8 * width, n_classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (batch, n_classes)."""
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(self.avgpool(x).flatten(1))
        return logits


class _Block(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample: nn.Module = (
            nn.Identity()
            if stride == 1
            else nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out: Tensor = self.relu(h + self.downsample(x))
        return out
