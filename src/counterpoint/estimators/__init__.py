"""Ensembles as scikit-learn estimators, and how two of them are compared.

Ensembles of networks need torch, which is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoint._extras import import_extra

if TYPE_CHECKING:
    from counterpoint.estimators.candidates import Choice, choose_diversity
    from counterpoint.estimators.decorate import DecorateClassifier
    from counterpoint.estimators.diverse import DiverseEnsembleClassifier
    from counterpoint.estimators.diverse_cv import DiverseEnsembleClassifierCV
    from counterpoint.estimators.diversity_path import DiversityPathDisplay
    from counterpoint.estimators.paired import PairedTest, corrected_paired_test

__all__ = [
    "Choice",
    "DecorateClassifier",
    "DiverseEnsembleClassifier",
    "DiverseEnsembleClassifierCV",
    "DiversityPathDisplay",
    "PairedTest",
    "choose_diversity",
    "corrected_paired_test",
]

# public name -> the module that defines it
_MODULES = {
    "Choice": "candidates",
    "DecorateClassifier": "decorate",
    "DiverseEnsembleClassifier": "diverse",
    "DiverseEnsembleClassifierCV": "diverse_cv",
    "DiversityPathDisplay": "diversity_path",
    "PairedTest": "paired",
    "choose_diversity": "candidates",
    "corrected_paired_test": "paired",
}
_NEED_TORCH = ("diverse", "diverse_cv")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES[name]
    if module in _NEED_TORCH:
        import_extra("torch", "train")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value  # __getattr__ is not called again
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
