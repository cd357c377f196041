"""Table 5: three networks on CIFAR-10.

``python -m counterpoint.experiments.table_5 RECORD DOCUMENT [PICTURES]`` writes the table of a record into a document
again, and its figure into a folder.
"""

import sys
from functools import partial
from pathlib import Path

from counterpoint.experiments._image_study import reproduce_table
from counterpoint.experiments._image_tables import Table, refill

TABLE = Table(
    name="table-5",
    title="Table 5: CIFAR-10",
    dataset="cifar10",
    networks=("shufflenet_v2_x1_0", "googlenet", "mobilenet_v2"),
    groups=("networks",),
    ways=("vote", "independent", "joint", *(f"lambda {lam}" for lam in (0.1, 0.2, 0.3))),
    paper={
        "shufflenet_v2_x1_0": 8.50,
        "googlenet": 6.43,
        "mobilenet_v2": 7.11,
        "networks joint": 7.78,
        "networks lambda 0.1": 5.76,
        "networks lambda 0.2": 5.91,
        "networks lambda 0.3": 6.50,
    },
    epochs=8,
    more_epochs=2,
)

reproduce = partial(reproduce_table, TABLE)

if __name__ == "__main__":
    refill(TABLE, *map(Path, sys.argv[1:]))
