"""Folders of format 2: a transformer of the columns, saved by skops, before an ensemble that takes only numbers."""

from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint._extras import import_extra
from counterpoint.io import Column

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

__all__ = ["COLUMNS", "TRUSTED", "ModelError", "load_transformer"]

COLUMNS = "columns.skops"
# The only type of a model's transformer that skops does not trust by default.
TRUSTED = ("numpy.dtype",)


class ModelError(ValueError):
    """Raised for a folder that is no model, with the reason."""


def load_transformer(path: Path, columns: tuple[Column, ...]) -> "ColumnTransformer":
    """Return the transformer of a file, if it fits these columns."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    skops = import_extra("skops.io", "train")
    if strange := sorted(set(skops.get_untrusted_types(file=path)) - set(TRUSTED)):
        raise ModelError(
            f"{path} must hold only types that a model needs; got {', '.join(strange)}. It was not loaded."
        )
    found = skops.load(path, trusted=list(TRUSTED))
    wanted = [
        (kind, part, names)
        for kind, part in (("number", SimpleImputer), ("category", OneHotEncoder))
        if (names := [column.name for column in columns if column.kind == kind])
    ]
    if type(found) is not ColumnTransformer or wanted != [
        (name, type(part), list(names)) for name, part, names in found.transformers_ if name != "remainder"
    ]:
        raise ModelError(f"{path} must hold the transformer of the model's columns; it holds another.")
    return found
