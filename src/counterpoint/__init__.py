"""Ensembles that are accurate and diverse.

The public names stand here and are imported on first use, so that ``import counterpoint`` is
instant and needs none of the optional extras.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterpoint import datasets, exceptions, measures, plots, theory
    from counterpoint.assessment import Assessment, assess, assess_estimator

__version__ = "0.1.0"

__all__ = [
    "Assessment",
    "__version__",
    "assess",
    "assess_estimator",
    "datasets",
    "exceptions",
    "measures",
    "plots",
    "theory",
]

# public name -> the module that defines it
_HOMES = {
    "Assessment": "assessment",
    "assess": "assessment",
    "assess_estimator": "assessment",
}
_MODULES = ("datasets", "exceptions", "measures", "plots", "theory")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value  # the next use finds it at once
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
