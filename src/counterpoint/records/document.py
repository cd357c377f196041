"""Documents whose tables and figures come from records and can be written again."""

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from counterpoint.records.record import write_png, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def given_paths(module: str, *names: str, optional: str | None = None) -> list[Path]:
    """Return the paths that a module was started with, or end with a line on how to start it.

    Parameters
    ----------
    module : str
        Its dotted name.
    *names : str
        What the paths are.
    optional : str, optional
        One more, which need not be given.
    """
    parser = ArgumentParser(prog=f"python -m {module}")
    for name in names:
        parser.add_argument(name, type=Path)
    if optional is not None:
        parser.add_argument(optional, type=Path, nargs="?")
    return [path for path in vars(parser.parse_args()).values() if path is not None]


def fill(document: str, name: str, table: str) -> str:
    r"""Return the document with the table between the two marks of that name.

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
    """Write tables into their places in a document, and figures as PNG into the folder ``images`` beside it."""
    text = document.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = fill(text, name, table)
    write_text(document, text)
    for name, figure in figures.items():
        write_png(figure, document.parent / "images" / f"{name}.png")
