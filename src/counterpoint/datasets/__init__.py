"""Public data: the tables of the DECORATE study, tables that a rule defines, and the CIFAR images."""

from counterpoint.datasets.cifar import Images, load_cifar10, load_cifar100
from counterpoint.datasets.computed import COMPUTED, Computed, compute
from counterpoint.datasets.sources import DATASETS, Source
from counterpoint.datasets.tables import Dataset, load

__all__ = [
    "COMPUTED",
    "DATASETS",
    "Computed",
    "Dataset",
    "Images",
    "Source",
    "compute",
    "load",
    "load_cifar10",
    "load_cifar100",
]
