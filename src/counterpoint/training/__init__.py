"""Training ensembles of networks in PyTorch: losses, the ensemble, one visible loop."""

from counterpoint._extras import import_extra

import_extra("torch", "train")

from counterpoint.training.accumulation import accumulate_gradients  # noqa: E402 - a missing torch is one sentence
from counterpoint.training.calibration import calibrate  # noqa: E402
from counterpoint.training.callbacks import (  # noqa: E402
    Callback,
    ClipGradients,
    DiversityWarmup,
    MLflow,
    ProgressBar,
    State,
    TensorBoard,
)
from counterpoint.training.checkpoint import load_checkpoint, save_checkpoint  # noqa: E402
from counterpoint.training.columns import one_hot  # noqa: E402
from counterpoint.training.correlation import Correlations, correlations  # noqa: E402
from counterpoint.training.correlation_losses import CorrelationLoss, correlation_loss  # noqa: E402
from counterpoint.training.device import pick_device, seeded  # noqa: E402
from counterpoint.training.ensemble import Ensemble, MemberAxis, Voters  # noqa: E402
from counterpoint.training.ensemble_loss import EnsembleLoss  # noqa: E402
from counterpoint.training.groups import (  # noqa: E402
    BatchFold,
    Fold,
    Group,
    GroupedEnsembles,
    Schedule,
    can_train_together,
    fit_groups,
)
from counterpoint.training.history import History  # noqa: E402
from counterpoint.training.loop import fit  # noqa: E402
from counterpoint.training.losses import (  # noqa: E402
    DiversityLoss,
    IndependentLoss,
    JointLoss,
    NegativeCorrelationLoss,
    SquaredErrorLoss,
)
from counterpoint.training.modules import evaluating  # noqa: E402
from counterpoint.training.networks import mlp  # noqa: E402
from counterpoint.training.parallel import ParallelEnsemble, parallelize  # noqa: E402
from counterpoint.training.precision import autocast  # noqa: E402
from counterpoint.training.readout import Readout  # noqa: E402
from counterpoint.training.stacked import Stacked, can_stack  # noqa: E402
from counterpoint.training.voting import Vote  # noqa: E402

__all__ = [
    "BatchFold",
    "Callback",
    "ClipGradients",
    "CorrelationLoss",
    "Correlations",
    "DiversityLoss",
    "DiversityWarmup",
    "Ensemble",
    "EnsembleLoss",
    "Fold",
    "Group",
    "GroupedEnsembles",
    "History",
    "IndependentLoss",
    "JointLoss",
    "MLflow",
    "MemberAxis",
    "NegativeCorrelationLoss",
    "ParallelEnsemble",
    "ProgressBar",
    "Readout",
    "Schedule",
    "SquaredErrorLoss",
    "Stacked",
    "State",
    "TensorBoard",
    "Vote",
    "Voters",
    "accumulate_gradients",
    "autocast",
    "calibrate",
    "can_stack",
    "can_train_together",
    "correlation_loss",
    "correlations",
    "evaluating",
    "fit",
    "fit_groups",
    "load_checkpoint",
    "mlp",
    "one_hot",
    "parallelize",
    "pick_device",
    "save_checkpoint",
    "seeded",
]
