"""Public data: the tables of the DECORATE study and the CIFAR images."""

from counterpoint.datasets.cifar import Images, load_cifar10, load_cifar100
from counterpoint.datasets.sources import DATASETS, Source
from counterpoint.datasets.tables import Dataset, load

__all__ = ["DATASETS", "Dataset", "Images", "Source", "load", "load_cifar10", "load_cifar100"]
