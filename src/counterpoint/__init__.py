"""Ensembles that are accurate and diverse.

The public names stand here and are imported on first use, so that ``import counterpoint`` is
instant and needs none of the optional extras.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterpoint import datasets, exceptions, theory

__version__ = "0.1.0"

_MODULES = ("datasets", "exceptions", "theory")

__all__ = ["__version__", "datasets", "exceptions", "theory"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
