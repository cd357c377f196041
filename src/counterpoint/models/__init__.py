"""Models of tables with numbers, categories and gaps: from a file to a folder, and from the folder to predictions.

The networks need torch and the folder skops; both are imported on first use.
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
