"""Models of tables with numbers, categories and missing values: fit from a file, save to a folder, predict.

Networks need torch and saving needs skops; both are imported on first use.
"""

from counterpoint.io import Column, TrainingTable, read_training_table
from counterpoint.models.fitting import TableFit, fit_table
from counterpoint.models.model import TableModel, TablePredictions
from counterpoint.models.saving import check_destination, load_model, save_model

__all__ = [
    "Column",
    "TableFit",
    "TableModel",
    "TablePredictions",
    "TrainingTable",
    "check_destination",
    "fit_table",
    "load_model",
    "read_training_table",
    "save_model",
]
