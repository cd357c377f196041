"""Conversion of values to what JSON can hold."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return dataclasses and mappings as objects, arrays and tuples as lists, NaN and infinity as None.

    Parameters
    ----------
    value : object
        Values that JSON can hold, NumPy arrays, dataclasses or named tuples, in any nesting.

    Returns
    -------
    object

    Examples
    --------
    >>> plain({"errors": np.array([0.25, np.nan])})
    {'errors': [0.25, None]}
    """
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":  # at once: a matrix may have millions
        if value.dtype.kind == "f" and not (finite := np.isfinite(value)).all():
            value = value.astype(object)
            value[~finite] = None
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
