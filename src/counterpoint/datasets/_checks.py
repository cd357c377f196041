"""Argument checks of the data sets: known names and existing folders."""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from counterpoint._validation import check_path

DATA_VARIABLE = "COUNTERPOINT_DATA"


def check_known(value: object, name: str, options: Iterable[str]) -> str:
    """Return ``value`` if it is one of the options; otherwise raise with the options and the closest match."""
    options = tuple(options)
    if not isinstance(value, str):
        raise TypeError(f"`{name}` must be a string; got {value!r}.")
    if value not in options:
        listed = ", ".join(map(repr, options))
        near = get_close_matches(value.lower(), options, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"`{name}` must be one of {listed}; got {value!r}.{hint}")
    return value


def check_folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the data folder: ``data_dir``, else the one in the environment variable, else None."""
    chosen = data_dir if data_dir is not None else os.environ.get(DATA_VARIABLE) or None
    if chosen is None:
        return None
    name = "data_dir" if data_dir is not None else DATA_VARIABLE
    folder = check_path(chosen, name, kind="folder").expanduser().absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"`{name}` must be a folder that exists; got '{folder}'.")
    return folder
