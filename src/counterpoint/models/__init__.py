"""Models of tables with numbers, categories and missing values: fit from a file, save to a folder, predict.

Networks need torch and saving needs safetensors; both are imported on first use.
"""

from counterpoint.models.fitting import TableFit, fit_table
from counterpoint.models.model import TableModel, TablePredictions
from counterpoint.models.saving import check_destination, load_model, save_model

__all__ = [
    "TableFit",
    "TableModel",
    "TablePredictions",
    "check_destination",
    "fit_table",
    "load_model",
    "save_model",
]
