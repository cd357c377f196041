"""Ensembles that are accurate and diverse.

The public names stand here and are imported on first use, so that ``import counterpoint`` is instant and needs none of
the optional extras.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterpoint import datasets, estimators, exceptions, measures, plots, theory, training, vision
    from counterpoint.assessment import Assessment, assess, assess_estimator
    from counterpoint.estimators import (
        DecorateClassifier,
        DiverseEnsembleClassifier,
        DiverseEnsembleClassifierCV,
    )
    from counterpoint.io import Predictions, read_predictions
    from counterpoint.report import EnsembleReport
    from counterpoint.selection import Selection, select
    from counterpoint.training import (
        Callback,
        ClipGradients,
        CorrelationLoss,
        Correlations,
        DiversityLoss,
        DiversityWarmup,
        Ensemble,
        EnsembleLoss,
        History,
        IndependentLoss,
        JointLoss,
        NegativeCorrelationLoss,
        ProgressBar,
        Readout,
        SharedTrunk,
        Stacked,
        State,
        TensorBoard,
        calibrate,
        can_stack,
        correlation_loss,
        correlations,
        fit,
        load_checkpoint,
        save_checkpoint,
    )

__version__ = "0.1.0"

__all__ = [
    "Assessment",
    "Callback",
    "ClipGradients",
    "CorrelationLoss",
    "Correlations",
    "DecorateClassifier",
    "DiverseEnsembleClassifier",
    "DiverseEnsembleClassifierCV",
    "DiversityLoss",
    "DiversityWarmup",
    "Ensemble",
    "EnsembleLoss",
    "EnsembleReport",
    "History",
    "IndependentLoss",
    "JointLoss",
    "NegativeCorrelationLoss",
    "Predictions",
    "ProgressBar",
    "Readout",
    "Selection",
    "SharedTrunk",
    "Stacked",
    "State",
    "TensorBoard",
    "__version__",
    "assess",
    "assess_estimator",
    "calibrate",
    "can_stack",
    "correlation_loss",
    "correlations",
    "datasets",
    "estimators",
    "exceptions",
    "fit",
    "load_checkpoint",
    "measures",
    "plots",
    "read_predictions",
    "save_checkpoint",
    "select",
    "theory",
    "training",
    "vision",
]

# module -> the public names it defines
_HOMES = {
    "assessment": ("Assessment", "assess", "assess_estimator"),
    "estimators": ("DecorateClassifier", "DiverseEnsembleClassifier", "DiverseEnsembleClassifierCV"),
    "io": ("Predictions", "read_predictions"),
    "report": ("EnsembleReport",),
    "selection": ("Selection", "select"),
    "training": (
        "Callback",
        "ClipGradients",
        "CorrelationLoss",
        "Correlations",
        "DiversityLoss",
        "DiversityWarmup",
        "Ensemble",
        "EnsembleLoss",
        "History",
        "IndependentLoss",
        "JointLoss",
        "NegativeCorrelationLoss",
        "ProgressBar",
        "Readout",
        "SharedTrunk",
        "Stacked",
        "State",
        "TensorBoard",
        "calibrate",
        "can_stack",
        "correlation_loss",
        "correlations",
        "fit",
        "load_checkpoint",
        "save_checkpoint",
    ),
}
_MODULES = ("datasets", "estimators", "exceptions", "measures", "plots", "theory", "training", "vision")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value  # the next use finds it at once
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
