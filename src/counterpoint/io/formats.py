"""File formats: which suffix is read by which module.

To add a table format, write a module beside this one with a function ``open_table(source, *, progress)``, which yields
an :class:`~counterpoint.io.OpenTable`, and add a line to :data:`TABLE_FORMATS`. To add an array format, write a
function ``read_arrays(path, truth, learners, drop)``, which returns the fields of
:class:`~counterpoint.io.Predictions`, and add a line to :data:`ARRAY_FORMATS`. Help texts and error messages follow.
This module imports no heavy package, so that the command line starts fast.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from counterpoint.io.cells import OpenTable

__all__ = [
    "ARRAY_FORMATS",
    "TABLE_FORMATS",
    "WRITABLE_FORMATS",
    "WRITABLE_TABLE_FORMATS",
    "Format",
    "check_suffix",
    "file_stem",
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
    ".jsonl": Format("JSONL", "records"),
    ".ndjson": Format("JSONL", "records"),
    ".json": Format("JSON", "records"),
    ".xlsx": Format("Excel", "excel"),
    ".arff": Format("ARFF", "arff"),
    ".parquet": Format("Parquet", "parquet"),
}
ARRAY_FORMATS = {".npz": Format("NPZ", "arrays"), ".npy": Format("NPY", "arrays")}
WRITABLE_TABLE_FORMATS = {suffix: format_ for suffix, format_ in TABLE_FORMATS.items() if format_.delimiter}
COMPRESSIONS = (".gz", ".bz2", ".xz")
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
    'CSV, TSV, JSONL, JSON, Excel, ARFF or Parquet'
    """
    *names, last = dict.fromkeys(format_.name for format_ in formats.values())
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
    >>> check_suffix("votes.xls", TABLE_FORMATS)
    Traceback (most recent call last):
    ...
    ValueError: votes.xls must end in one of .csv, .tsv, .jsonl, .ndjson, .json, .xlsx, .arff, .parquet.
    """
    suffix = Path(path).suffix.lower()
    expected = list(formats)
    if suffix not in expected:
        rule = f"must end in one of {', '.join(expected)}"
        raise ValueError(f"{path} {rule}." if name is None else f"`{name}` {rule}; got {str(path)!r}.")
    return suffix


def file_stem(path: str | Path) -> str:
    """Return the name of a file without its suffixes of a format and of a compression.

    Parameters
    ----------
    path : path
        The file; it need not exist.

    Returns
    -------
    str

    Examples
    --------
    >>> file_stem("data/votes.csv.gz"), file_stem("votes.v2.csv"), file_stem("...csv")
    ('votes', 'votes.v2', 'csv')
    """
    inner = inner_path(Path(path))
    if inner.stem.strip("."):
        return inner.stem
    return inner.name.strip(".") or "table"  # ".." would be another folder


def inner_path(path: Path) -> Path:
    """Return a path without the suffix of a compression."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def open_table(
    path: str | Path | BinaryIO, *, file_format: str | None = None, progress: bool = False
) -> "AbstractContextManager[OpenTable]":
    r"""Open a table in any of the table formats.

    Parameters
    ----------
    path : path or binary file
        The file. It may be compressed with gzip, bzip2 or xz.
    file_format : str, optional
        The format, such as "csv" or "jsonl". By default it is that of the suffix, as in :data:`TABLE_FORMATS`; if a
        binary file has no name, it is guessed from the first bytes.
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

    Warns
    -----
    UserWarning
        If a text is not in Unicode; it is read as Windows-1252.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     _ = path.write_text("size;kind\n1,5;a\n2;b\n")
    ...     with open_table(path) as table:
    ...         columns, cells = table.columns, table.read(["kind"], ["size"])
    >>> columns
    ['size', 'kind']
    >>> cells.labels["kind"].labels, cells.numbers["size"].values
    (['a', 'b'], array([1.5, 2. ]))
    """
    from counterpoint.io.sources import as_source, open_source

    return open_source(as_source(path, file_format), progress=progress)
