"""File formats: which suffix is read by which module.

To add a table format, write a module beside this one with a function ``open_table(path, *, progress)``, which yields an
:class:`~counterpoint.io.OpenTable`, and add a line to :data:`TABLE_FORMATS`. To add an array format, write a function
``read_arrays(path, truth, learners, drop)``, which returns the fields of :class:`~counterpoint.io.Predictions`, and add
a line to :data:`ARRAY_FORMATS`. Help texts and error messages follow. This module imports no heavy package, so that the
command line starts fast.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from counterpoint.io.cells import OpenTable

__all__ = [
    "ARRAY_FORMATS",
    "TABLE_FORMATS",
    "WRITABLE_FORMATS",
    "WRITABLE_TABLE_FORMATS",
    "Format",
    "check_opens",
    "check_suffix",
    "format_names",
    "open_table",
]


class Format(NamedTuple):
    """A file format.

    Attributes
    ----------
    name : str
        Its name in help texts.
    module : str
        The module of ``counterpoint.io`` that reads it.
    delimiter : str, default=""
        What separates the cells of a row, if the library can write this table format.

    Examples
    --------
    >>> TABLE_FORMATS[".csv"]
    Format(name='CSV', module='delimited', delimiter=',')
    """

    name: str
    module: str
    delimiter: str = ""

    def load(self) -> Any:
        """Import the module that reads this format."""
        return import_module(f"counterpoint.io.{self.module}")


TABLE_FORMATS = {
    ".csv": Format("CSV", "delimited", ","),
    ".tsv": Format("TSV", "delimited", "\t"),
    ".arff": Format("ARFF", "arff"),
    ".parquet": Format("Parquet", "parquet"),
}
ARRAY_FORMATS = {".npz": Format("NPZ", "arrays"), ".npy": Format("NPY", "arrays")}
WRITABLE_TABLE_FORMATS = {suffix: format_ for suffix, format_ in TABLE_FORMATS.items() if format_.delimiter}
WRITABLE_FORMATS = WRITABLE_TABLE_FORMATS | {".npz": ARRAY_FORMATS[".npz"]}


def format_names(formats: Mapping[str, Format]) -> str:
    """Return the names of some formats as a phrase for help texts.

    Parameters
    ----------
    formats : mapping of str to Format
        Formats by suffix, such as :data:`TABLE_FORMATS`.

    Returns
    -------
    str

    Examples
    --------
    >>> format_names(TABLE_FORMATS)
    'CSV, TSV, ARFF or Parquet'
    """
    *names, last = (format_.name for format_ in formats.values())
    return f"{', '.join(names)} or {last}" if names else last


def check_suffix(path: str | Path, formats: Iterable[str], name: str | None = None) -> str:
    """Return the suffix of a path in lower case, if it is one of the expected ones.

    Parameters
    ----------
    path : path
        The file; it need not exist.
    formats : iterable of str
        The expected suffixes, such as :data:`TABLE_FORMATS`.
    name : str, optional
        The argument that holds the path, for the error message.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the suffix is another one.

    Examples
    --------
    >>> check_suffix("votes.CSV", TABLE_FORMATS)
    '.csv'
    >>> check_suffix("votes.xlsx", TABLE_FORMATS)
    Traceback (most recent call last):
    ...
    ValueError: votes.xlsx must end in one of .csv, .tsv, .arff, .parquet.
    """
    suffix = Path(path).suffix.lower()
    expected = list(formats)
    if suffix not in expected:
        rule = f"must end in one of {', '.join(expected)}"
        raise ValueError(f"{path} {rule}." if name is None else f"`{name}` {rule}; got {str(path)!r}.")
    return suffix


def open_table(path: str | Path, *, progress: bool = False) -> "AbstractContextManager[OpenTable]":
    r"""Open a table in any of the table formats.

    Parameters
    ----------
    path : path
        The file; its suffix names the format.
    progress : bool, default=False
        Show a progress bar on stderr.

    Returns
    -------
    context manager
        Yields an :class:`~counterpoint.io.OpenTable`: its column names first, then the cells you ask for.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If its suffix is not in :data:`TABLE_FORMATS`, or its content does not fit the format.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     _ = path.write_text("size,kind\n1.5,a\n2,b\n")
    ...     with open_table(path) as table:
    ...         columns, cells = table.columns, table.read(["kind"], ["size"])
    >>> columns
    ['size', 'kind']
    >>> cells.labels["kind"].labels, cells.numbers["size"].values
    (['a', 'b'], array([1.5, 2. ]))
    """
    path = Path(path)
    check_opens(path)
    format_ = TABLE_FORMATS[check_suffix(path, TABLE_FORMATS)]
    opened: AbstractContextManager[OpenTable] = format_.load().open_table(path, progress=progress)
    return opened


def check_opens(path: Path) -> None:
    """Raise OSError if a file cannot be opened, before anything is said about its name."""
    with path.open("rb"):
        pass
