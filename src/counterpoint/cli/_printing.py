"""Printing what a file may have named: control characters, which a terminal would obey, are shown as escapes."""

import csv
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["as_text", "echo", "echo_data", "write_csv"]


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line for a reader."""
    typer.echo(_printable(text), err=err)


def echo_data(text: str) -> None:
    """Print what a program may read, such as JSON, as it is; on a terminal without control characters."""
    typer.echo(_printable(text) if sys.stdout.isatty() else text)


def write_csv(rows: Iterable[Iterable[Any]]) -> None:
    """Write rows of CSV to stdout, on a terminal without control characters."""
    if sys.stdout.isatty():
        rows = ([_printable(str(cell)) for cell in row] for row in rows)
    csv.writer(sys.stdout, lineterminator="\n").writerows(rows)


def as_text(text: str, style: str = "") -> "Text":
    """Return a text for the tables of the terminal."""
    from rich.text import Text

    return Text(_printable(text), style=style)


def _printable(text: str) -> str:
    from counterpoint._validation import printable  # imports NumPy

    return printable(text)
