"""Files of results: records as JSON, figures, text."""

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import counterpoint
from counterpoint._files import replacing
from counterpoint._plain import plain
from counterpoint.plots import house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LIBRARIES = ("matplotlib", "numpy", "scikit-learn", "scipy")


def write_figure(figure: "Figure", out: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, byte for byte the same each time.

    Parameters
    ----------
    figure : Figure
        A matplotlib figure.
    out : Path
        The folder.
    name : str
        Name of the files, without suffix.

    Returns
    -------
    list of Path
        The two files.

    Examples
    --------
    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_figure(Figure(figsize=(1, 1)), Path(folder), "empty")]
    ['empty.png', 'empty.svg']
    """
    png, svg = write_png(figure, out / f"{name}.png"), out / f"{name}.svg"
    with house_style(), replacing(svg) as file:
        figure.savefig(file, format="svg", metadata={"Creator": None, "Date": None})
    return [png, svg]


def write_png(figure: "Figure", path: Path) -> Path:
    """Write a figure as PNG, byte for byte the same each time.

    Parameters
    ----------
    figure : Figure
        A matplotlib figure.
    path : Path
        The file.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_png(Figure(figsize=(1, 1)), Path(folder, "empty.png")).stat().st_size > 0
    True
    """
    with house_style(), replacing(path) as file:
        figure.savefig(file, format="png", metadata={"Software": None})
    return path


def write_record(
    out: Path, name: str, *, title: str, config: Mapping[str, Any], data: Any, **more: Any
) -> list[Path]:
    """Write results as JSON, with their settings and the versions of the libraries.

    Parameters
    ----------
    out : Path
        The folder.
    name : str
        Name of the record and of its file; slashes make folders.
    title : str
        Title of the study.
    config : mapping
        Everything that the results depend on.
    data : object
        The results, as values that JSON can hold or NumPy arrays.
    **more : object
        What else the record says, such as ``device`` and ``seconds``; ``versions`` replaces those of the libraries.

    Returns
    -------
    list of Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = write_record(Path(folder), "iris", title="Errors", config={"seed": 0}, data={"error": 0.04})
    ...     record = read_record(paths[0])
    >>> record["config"], record["data"]
    ({'seed': 0}, {'error': 0.04})
    """
    path = out / f"{name}.json"
    record = {"name": name, "title": title, "config": config, "versions": versions(), **more, "data": data}
    write_json(path, record)
    return [path]


def write_json(path: Path, value: Any) -> None:
    """Write values as JSON; NaN and infinity become null.

    Parameters
    ----------
    path : Path
        The file.
    value : object
        Values that JSON can hold, NumPy arrays or dataclasses.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "numbers.json")
    ...     write_json(path, {"error": float("nan")})
    ...     json.loads(path.read_text())
    {'error': None}
    """
    write_text(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all.

    Parameters
    ----------
    path : Path
        The file; missing folders are made.
    text : str
        Its contents, written as UTF-8.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(Path(folder, "new", "page.md"), "done")
    ...     Path(folder, "new", "page.md").read_text()
    'done'
    """
    with replacing(path) as file:
        file.write(text.encode())


def read_record(path: Path, *needed: str) -> dict[str, Any]:
    """Return a record that was written as JSON.

    Parameters
    ----------
    path : Path
        The file.
    *needed : str
        Keys that the record must have.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If the file holds no JSON, or no record with these keys; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "record.json")
    ...     _ = path.write_text('{"config": {}, "data": {"error": 0.04}}')
    ...     read_record(path, "config", "data")["data"]
    {'error': 0.04}
    """
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no JSON, or no text at all
        raise ValueError(f"'{path}' must hold JSON; reading it failed: {str(error)[:200]}.") from error
    if not isinstance(record, dict) or not record.keys() >= set(needed):
        raise ValueError(f"'{path}' must hold a record with {' and '.join(needed)}; it holds other JSON.")
    return record


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of the libraries that results depend on.

    Returns
    -------
    dict of str to str

    Examples
    --------
    >>> list(versions())
    ['counterpoint', 'python', 'matplotlib', 'numpy', 'scikit-learn', 'scipy']
    """
    found = {name: version(name) for name in _LIBRARIES}
    return {"counterpoint": counterpoint.__version__, "python": platform.python_version(), **found}
