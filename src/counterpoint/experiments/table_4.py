"""Table 4: five networks on the airplanes and automobiles of CIFAR-10.

``python -m counterpoint.experiments.table_4 RECORD DOCUMENT [PICTURES]`` writes the table of a record into a document
again, and its figure into a folder.
"""

import sys
from functools import partial
from pathlib import Path

from counterpoint.experiments._image_study import reproduce_table
from counterpoint.experiments._image_tables import Table, refill

TABLE = Table(
    name="table-4",
    title="Table 4: airplanes and automobiles of CIFAR-10",
    dataset="cifar10",
    classes=("airplane", "automobile"),
    networks=("shufflenet_v2_x1_0", "googlenet", "mobilenet_v2", "resnet18", "densenet121"),
    groups=("networks",),
    ways=("vote", "independent", "joint", *(f"lambda {lam}" for lam in (0.1, 0.3, 0.5, 0.7, 0.9))),
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
    epochs=12,
    more_epochs=4,
)

reproduce = partial(reproduce_table, TABLE)

if __name__ == "__main__":
    refill(TABLE, *map(Path, sys.argv[1:]))
