"""Training ensembles of networks in PyTorch: losses, the ensemble, one visible loop."""

from counterpoint._extras import import_extra

import_extra("torch", "train")

from counterpoint.training.ensemble import Ensemble  # noqa: E402 - a missing torch is one sentence
from counterpoint.training.losses import (  # noqa: E402
    CorrelationLoss,
    Correlations,
    IndependentLoss,
    JointLoss,
    NegativeCorrelationLoss,
    correlation_loss,
    correlations,
)
from counterpoint.training.stacked import Stacked, can_stack  # noqa: E402

__all__ = [
    "CorrelationLoss",
    "Correlations",
    "Ensemble",
    "IndependentLoss",
    "JointLoss",
    "NegativeCorrelationLoss",
    "Stacked",
    "can_stack",
    "correlation_loss",
    "correlations",
]
