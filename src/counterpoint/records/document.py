"""Documents whose tables and figures are generated from records."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from counterpoint.records.record import write_png, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def fill(document: str, name: str, table: str) -> str:
    r"""Return a document with a table between the two marks of its name.

    Parameters
    ----------
    document : str
        The text, with the lines ``<!-- NAME -->`` and ``<!-- end of NAME -->``.
    name : str
        The name in the marks.
    table : str
        What to put between them.

    Returns
    -------
    str

    Examples
    --------
    >>> fill("<!-- table-1 -->\nold\n<!-- end of table-1 -->", "table-1", "new")
    '<!-- table-1 -->\n\nnew\n<!-- end of table-1 -->'
    """
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = document.partition(start)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"`document` must hold the lines {start.strip()!r} and {end!r}; got neither or one.")
    return f"{before}{start}\n{table}\n{end}{after}"


def refill(
    document: Path, tables: Mapping[str, str], figures: "Mapping[str, Figure]" = MappingProxyType({})
) -> None:
    r"""Write tables into a document, and figures as PNG into the folder ``images`` beside it.

    Parameters
    ----------
    document : Path
        A file with two marks for each table; see :func:`fill`.
    tables : mapping of str to str
        The tables, by the name in their marks.
    figures : mapping of str to Figure, default={}
        The figures, by the name of their file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     document = Path(folder, "page.md")
    ...     _ = document.write_text("<!-- errors -->\n<!-- end of errors -->\n")
    ...     refill(document, {"errors": "| iris | 4.2 |"})
    ...     "| iris | 4.2 |" in document.read_text()
    True
    """
    text = document.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = fill(text, name, table)
    write_text(document, text)
    for name, figure in figures.items():
        write_png(figure, document.parent / "images" / f"{name}.png")
