# The names of `import counterpoint.estimators`: type checkers read this file, and so does __init__.py.
from .candidates import Choice as Choice
from .candidates import choose_diversity as choose_diversity
from .decorate import DecorateClassifier as DecorateClassifier
from .diverse import DiverseEnsembleClassifier as DiverseEnsembleClassifier
from .diverse_cv import DiverseEnsembleClassifierCV as DiverseEnsembleClassifierCV
from .diverse_regressor import DiverseEnsembleRegressor as DiverseEnsembleRegressor
from .diverse_regressor_cv import DiverseEnsembleRegressorCV as DiverseEnsembleRegressorCV
from .diversity_path import DiversityPathDisplay as DiversityPathDisplay
from .paired import PairedTest as PairedTest
from .paired import corrected_paired_test as corrected_paired_test
from .table_encoder import TableEncoder as TableEncoder
