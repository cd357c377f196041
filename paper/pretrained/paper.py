"""Tables 4 to 6 of the paper: what they train, and what they print.

A *group* says which trunks make up an ensemble: ``"networks"``, one of each kind; ``"copies"``, one trunk several
times; ``"apart"``, trunks of one kind with different seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

N_COPIES = 3
POOLED_LOGITS = ("logits", "dial 0.5", "dial 0.9")


@dataclass(frozen=True)
class Table:
    """A table of the paper: what it trains, and the errors in percent that it prints.

    ``paper`` has the name of a network for a single one, and ``"group arm"`` for an ensemble. ``robust`` are
    the arms whose ensembles also see corrupted images and images of unknown classes. ``epochs``, ``more_epochs``,
    ``size`` and ``cutout`` are those of the record in ``results``. ``ema`` and ``trunk_lr_share`` are
    explained in :class:`~paper.pretrained.recipe.Settings`.
    """

    name: str
    title: str
    dataset: str
    networks: tuple[str, ...]
    groups: tuple[str, ...]
    arms: tuple[str, ...]
    paper: Mapping[str, float]
    robust: tuple[str, ...] = ()
    epochs: int = 16
    more_epochs: int = 2
    size: int = 192
    cutout: int = 12  # the best of those that benchmarks/choose_image_recipe.py tries
    classes: tuple[str, ...] | None = None
    ema: float = 0.0
    trunk_lr_share: float = 1.0

    def learners(self, group: str, networks: Sequence[str], seed: int) -> list[tuple[str, int]]:
        """Return the trunks of an ensemble by network and seed; two ensembles of a group share none."""
        if group == "networks":
            return [(network, seed) for network in networks]
        if group == "copies":
            return [(networks[0], seed)] * N_COPIES
        return [(networks[0], N_COPIES * seed + i) for i in range(N_COPIES)]


TABLE_4 = Table(
    name="table-4",
    title="Table 4: airplanes and automobiles of CIFAR-10",
    dataset="cifar10",
    classes=("airplane", "automobile"),
    networks=("shufflenet_v2_x1_0", "googlenet", "mobilenet_v2", "resnet18", "densenet121"),
    groups=("networks",),
    arms=(
        "vote",
        "independent",
        "joint",
        *POOLED_LOGITS,
        *(f"lambda {lam}" for lam in (0.1, 0.3, 0.5, 0.7, 0.9)),
    ),
    paper={
        "shufflenet_v2_x1_0": 2.80,
        "googlenet": 3.30,
        "mobilenet_v2": 2.70,
        "resnet18": 5.25,
        "densenet121": 9.05,
        "networks joint": 7.55,
        "networks lambda 0.1": 1.35,
        "networks lambda 0.3": 1.25,
        "networks lambda 0.5": 1.70,
        "networks lambda 0.7": 1.90,
        "networks lambda 0.9": 1.80,
    },
    epochs=6,
    more_epochs=1,
    size=128,
    cutout=0,
)
TABLE_5 = Table(
    name="table-5",
    title="Table 5: CIFAR-10",
    dataset="cifar10",
    networks=("shufflenet_v2_x1_0", "googlenet", "mobilenet_v2"),
    groups=("networks",),
    arms=("vote", "independent", "joint", *POOLED_LOGITS, *(f"lambda {lam}" for lam in (0.1, 0.2, 0.3))),
    paper={
        "shufflenet_v2_x1_0": 8.50,
        "googlenet": 6.43,
        "mobilenet_v2": 7.11,
        "networks joint": 7.78,
        "networks lambda 0.1": 5.76,
        "networks lambda 0.2": 5.91,
        "networks lambda 0.3": 6.50,
    },
)
TABLE_6 = Table(
    name="table-6",
    title="Table 6: EfficientNet on CIFAR-10",
    dataset="cifar10",
    networks=("efficientnet_b0",),
    groups=("copies", "apart"),
    arms=("vote", "independent", "lambda 0.1", *POOLED_LOGITS),
    paper={"efficientnet_b0": 5.44, "copies lambda 0.1": 4.65},
)
# Tables 5 and 6 with fewer epochs and averaged weights.
SHORT: Mapping[str, Any] = MappingProxyType({"epochs": 10, "more_epochs": 1, "ema": 0.998})
TABLE_5_SHORT = replace(
    TABLE_5,
    name="table-5-short",
    robust=("vote", "independent", "dial 0.5", "dial 0.9"),
    **SHORT,
)
TABLE_6_SHORT = replace(TABLE_6, name="table-6-short", **SHORT)
TABLE_6_CIFAR_100 = replace(
    TABLE_6,
    name="table-6-cifar100",
    title="Table 6: EfficientNet on CIFAR-100",
    dataset="cifar100",
    paper={"efficientnet_b0": 17.28, "copies lambda 0.1": 14.13},
    more_epochs=1,
)
TABLES: Mapping[str, Table] = MappingProxyType(
    {
        table.name: table
        for table in (TABLE_4, TABLE_5, TABLE_5_SHORT, TABLE_6, TABLE_6_SHORT, TABLE_6_CIFAR_100)
    }
)
