"""Table 6: three EfficientNets on CIFAR-10, and on CIFAR-100: copies of one, as in the paper, and trained apart.

``python -m counterpoint.experiments.table_6 RECORD DOCUMENT [PICTURES]`` writes the table of a record into a document
again, and its figure into a folder.
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from counterpoint.experiments._image_study import reproduce_table
from counterpoint.experiments._image_tables import Table, refill

CIFAR_10 = Table(
    name="table-6",
    title="Table 6: EfficientNet on CIFAR-10",
    dataset="cifar10",
    networks=("efficientnet_b0",),
    groups=("copies", "apart"),
    ways=("vote", "independent", "lambda 0.1"),
    paper={"efficientnet_b0": 5.44, "copies lambda 0.1": 4.65},
    epochs=8,
    more_epochs=2,
)
CIFAR_100 = replace(
    CIFAR_10,
    name="table-6-cifar100",
    title="Table 6: EfficientNet on CIFAR-100",
    dataset="cifar100",
    paper={"efficientnet_b0": 17.28, "copies lambda 0.1": 14.13},
)

reproduce = partial(reproduce_table, CIFAR_10)
reproduce_cifar100 = partial(reproduce_table, CIFAR_100)

if __name__ == "__main__":
    paths = [Path(argument) for argument in sys.argv[1:]]
    refill(CIFAR_100 if paths[0].stem == CIFAR_100.name else CIFAR_10, *paths)
