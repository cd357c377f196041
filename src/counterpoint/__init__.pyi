# The names of `import counterpoint`: type checkers read this file, and so does __init__.py.
from . import arena as arena
from . import assessment as assessment
from . import datasets as datasets
from . import estimators as estimators
from . import exceptions as exceptions
from . import io as io
from . import measures as measures
from . import models as models
from . import outputs as outputs
from . import plots as plots
from . import records as records
from . import report as report
from . import selection as selection
from . import theory as theory
from . import training as training
from . import vision as vision
from .assessment import Assessment as Assessment
from .assessment import assess as assess
from .assessment import assess_estimator as assess_estimator
from .estimators import DecorateClassifier as DecorateClassifier
from .estimators import DiverseEnsembleClassifier as DiverseEnsembleClassifier
from .estimators import DiverseEnsembleClassifierCV as DiverseEnsembleClassifierCV
from .io import Predictions as Predictions
from .io import read_predictions as read_predictions
from .report import EnsembleReport as EnsembleReport
from .selection import Selection as Selection
from .selection import select as select
from .training import CorrelationLoss as CorrelationLoss
from .training import DiversityLoss as DiversityLoss
from .training import Ensemble as Ensemble
from .training import IndependentLoss as IndependentLoss
from .training import JointLoss as JointLoss
from .training import NegativeCorrelationLoss as NegativeCorrelationLoss
from .training import SharedTrunk as SharedTrunk
from .training import fit as fit

__version__: str
