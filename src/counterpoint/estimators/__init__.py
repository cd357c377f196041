"""Ensembles as scikit-learn estimators, and the parts that a study of them needs.

Ensembles of networks need torch, which is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoint._extras import import_extra

if TYPE_CHECKING:
    from counterpoint.estimators.candidates import Choice, choose_diversity
    from counterpoint.estimators.decorate import DecorateClassifier
    from counterpoint.estimators.decorate_rounds import GrowingEnsemble, artificial_rows, contrary_labels
    from counterpoint.estimators.diverse import DiverseEnsembleClassifier
    from counterpoint.estimators.diverse_cv import DiverseEnsembleClassifierCV
    from counterpoint.estimators.diversity_path import DiversityPathDisplay
    from counterpoint.estimators.paired import PairedTest, corrected_paired_test
    from counterpoint.estimators.seeds import draw_seeds
    from counterpoint.estimators.table_batches import TableBatches

__all__ = [
    "Choice",
    "DecorateClassifier",
    "DiverseEnsembleClassifier",
    "DiverseEnsembleClassifierCV",
    "DiversityPathDisplay",
    "GrowingEnsemble",
    "PairedTest",
    "TableBatches",
    "artificial_rows",
    "choose_diversity",
    "contrary_labels",
    "corrected_paired_test",
    "draw_seeds",
]

# public name -> the module that defines it
_MODULES = {
    "Choice": "candidates",
    "DecorateClassifier": "decorate",
    "DiverseEnsembleClassifier": "diverse",
    "DiverseEnsembleClassifierCV": "diverse_cv",
    "DiversityPathDisplay": "diversity_path",
    "GrowingEnsemble": "decorate_rounds",
    "PairedTest": "paired",
    "TableBatches": "table_batches",
    "artificial_rows": "decorate_rounds",
    "choose_diversity": "candidates",
    "contrary_labels": "decorate_rounds",
    "corrected_paired_test": "paired",
    "draw_seeds": "seeds",
}
_NEED_TORCH = ("diverse", "diverse_cv", "table_batches")


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
