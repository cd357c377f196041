"""Ensembles as scikit-learn estimators; those of networks need torch, which is imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoint._extras import import_extra

if TYPE_CHECKING:
    from counterpoint.estimators.decorate import DecorateClassifier
    from counterpoint.estimators.diverse import DiverseEnsembleClassifier
    from counterpoint.estimators.diverse_cv import DiverseEnsembleClassifierCV
    from counterpoint.estimators.diversity_path import DiversityPathDisplay

__all__ = [
    "DecorateClassifier",
    "DiverseEnsembleClassifier",
    "DiverseEnsembleClassifierCV",
    "DiversityPathDisplay",
]

# public name -> the module that defines it
_HOMES = {
    "DecorateClassifier": "decorate",
    "DiverseEnsembleClassifier": "diverse",
    "DiverseEnsembleClassifierCV": "diverse_cv",
    "DiversityPathDisplay": "diversity_path",
}
_NEED_TORCH = ("diverse", "diverse_cv")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    if home in _NEED_TORCH:
        import_extra("torch", "train")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value  # the next use finds it at once
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
