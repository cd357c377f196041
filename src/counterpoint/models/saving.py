"""A model on disk: a folder of JSON and safetensors with checksums, written atomically. No pickle, no code."""

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from counterpoint import __version__
from counterpoint._extras import import_extra
from counterpoint._files import is_sealed, read_bounded, replacing, replacing_folder, restore_folder, seal
from counterpoint._plain import plain
from counterpoint._validation import check_path, find_fault, short
from counterpoint.io import Column
from counterpoint.models.model import TableModel

__all__ = ["check_destination", "load_model", "save_model"]

FORMAT = "counterpoint table model"
VERSION = 4

_MODEL, _ENSEMBLE, REPORT = "model.json", "ensemble.safetensors", "report.html"
_LARGEST = 2**24  # bytes of model.json: a million columns of short names
_PACKAGES = ("numpy", "pandas", "scikit-learn", "torch")
_SCHEMA = {
    "version": int,
    "target": str,
    "columns": [{"name": str, "kind": str}],
    "unused": [str],
    "training": dict,
    "files": {_ENSEMBLE: str},
}
# Exceptions that readers raise for a damaged file.
_DAMAGE = (AttributeError, EOFError, LookupError, RuntimeError, TypeError, ValueError)


class ModelError(ValueError):
    """Raised for a folder that is no model, with the reason."""


def check_destination(folder: str | Path) -> Path:
    """Return the folder to save a model to, or raise if it cannot be used, before time is spent on training.

    Parameters
    ----------
    folder : path
        A folder that does not exist, is empty, or holds only a model, which is then replaced.

    Returns
    -------
    Path
        The resolved path.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_destination(f"{folder}/model").name
    'model'
    """
    target = check_path(folder, "folder", kind="folder").resolve()
    import_extra("safetensors", "train")
    if not target.exists():
        return target
    rule = f"{folder} must be new, empty, or hold only a model of counterpoint, which is replaced"
    if not target.is_dir():
        raise ValueError(f"{rule}; it is a file.")
    found = sorted(path.name for path in target.iterdir())
    if others := [name for name in found if name not in (_MODEL, _ENSEMBLE, REPORT)]:
        raise ValueError(f"{rule}; it holds {others[0]!r}.")
    if found:
        _read_facts(target)
    return target


def save_model(model: TableModel, folder: str | Path, *, report: str | None = None) -> Path:
    """Write a model to a folder.

    Parameters
    ----------
    model : TableModel
        The model.
    folder : path
        As for :func:`check_destination`. It is written under a temporary name and then renamed.
    report : str, optional
        HTML page to store with it, as ``report.html``.

    Returns
    -------
    Path
        The folder.

    Notes
    -----
    ``model.json`` holds the columns, the classes, the training settings and the versions; ``ensemble.safetensors`` the
    networks and the encoder of their table. ``model.json`` has the SHA-256 of both.

    Examples
    --------
    >>> import tempfile
    >>> from counterpoint.datasets import load
    >>> from counterpoint.io import read_training_table
    >>> from counterpoint.models import fit_table
    >>> with tempfile.TemporaryDirectory() as home:
    ...     path = Path(home, "data.csv")
    ...     iris = load("iris")
    ...     iris.X.assign(species=iris.y).to_csv(path, index=False)
    ...     fit = fit_table(read_training_table(path, "species"), diversity=0.5, n_learners=3, epochs=5)
    ...     folder = save_model(fit.model, f"{home}/model")
    ...     sorted(file.name for file in folder.iterdir())
    ['ensemble.safetensors', 'model.json']
    """
    target = check_destination(folder)
    with replacing_folder(target) as part:
        _write(model, part, report)
    return target


def load_model(folder: str | Path) -> TableModel:
    """Read a model from a folder.

    Parameters
    ----------
    folder : path
        A folder that :func:`save_model` wrote.

    Returns
    -------
    TableModel

    Raises
    ------
    ValueError
        If it is no model, is damaged, or was written by another version.

    Notes
    -----
    Nothing is unpickled, and no code of a file is run.

    Examples
    --------
    >>> load_model("no/such/model")
    Traceback (most recent call last):
    ValueError: no/such/model must be a model that counterpoint saved; it does not exist.
    """
    folder = check_path(folder, "folder", kind="folder")
    facts = _read_facts(folder)
    import_extra("safetensors", "train")
    from counterpoint.estimators import DiverseEnsembleClassifier

    try:
        _check_whole(folder, _ENSEMBLE, facts["files"][_ENSEMBLE])
        columns = tuple(Column(entry["name"], entry["kind"]) for entry in facts["columns"])
        estimator = DiverseEnsembleClassifier.load(folder / _ENSEMBLE)
        _check_columns(folder, columns, estimator)
        return TableModel(
            target=facts["target"],
            columns=columns,
            unused=tuple(facts["unused"]),
            estimator=estimator,
            facts=facts["training"],
        )
    except ModelError:
        raise
    except _DAMAGE as error:
        raise ValueError(f"{folder} must be a whole model; it is damaged ({short(error, 200)}).") from error


def _write(model: TableModel, folder: Path, report: str | None) -> None:
    model.estimator.save(folder / _ENSEMBLE)
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "sha256": "0" * 64,
        "target": model.target,
        "classes": model.estimator.classes_,
        "columns": [{"name": column.name, "kind": column.kind} for column in model.columns],
        "unused": model.unused,
        "training": model.facts,
        "versions": {"counterpoint": __version__, "python": platform.python_version()}
        | {package: version(package) for package in _PACKAGES},
        "files": {_ENSEMBLE: _digest(folder / _ENSEMBLE)},
    }
    text = json.dumps(plain(facts), indent=2, allow_nan=False) + "\n"
    pages = {} if report is None else {REPORT: report.encode()}
    for name, content in {_MODEL: seal(text.encode()), **pages}.items():
        with replacing(folder / name) as file:
            file.write(content)


def _read_facts(folder: Path) -> Mapping[str, Any]:
    rule = f"{folder} must be a model that counterpoint saved"
    if not folder.exists():
        restore_folder(folder)  # in case a process was killed while it replaced the model
    if not folder.is_dir():
        raise ValueError(f"{rule}; it {'is not a folder' if folder.exists() else 'does not exist'}.")
    try:
        content = read_bounded(folder / _MODEL, _LARGEST)
        facts = json.loads(content)
    except FileNotFoundError:
        raise ValueError(f"{rule}; it has no {_MODEL}.") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{rule}; its {_MODEL} is damaged.") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"{rule}; its {_MODEL} is of another kind.")
    found = facts.get("version")
    if found != VERSION:
        newer = isinstance(found, int) and found > VERSION
        advice = (
            "A newer counterpoint wrote it: pip install -U counterpoint." if newer else "Fit the model again."
        )
        raise ValueError(f"{folder} must have format {VERSION}; got {short(found)}. {advice}")
    if fault := find_fault(facts, _SCHEMA) or ("" if is_sealed(content) else "it was changed"):
        raise ValueError(f"{folder} must be a whole model; its {_MODEL} is damaged ({fault}).")
    return facts


def _check_columns(folder: Path, columns: tuple[Column, ...], estimator: Any) -> None:
    """Raise if the columns are not those of the ensemble."""
    names = [column.name for column in columns]
    wanted = ["category" if nominal else "number" for nominal in estimator.encoder_.is_categorical_]
    if wanted != [column.kind for column in columns] or names != list(
        getattr(estimator, "feature_names_in_", names)
    ):
        raise ModelError(f"{folder} must be a whole model; its columns are not those of its ensemble.")


def _check_whole(folder: Path, name: str, digest: str) -> None:
    if not (folder / name).is_file():
        raise ModelError(f"{folder} must be a whole model; {name} is missing.")
    if _digest(folder / name) != digest:
        raise ModelError(f"{folder} must be a whole model; {name} is damaged, or of another model.")


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, which is read in parts."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
