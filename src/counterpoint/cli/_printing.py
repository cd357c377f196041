"""Printing: words for a reader, and data for a program.

Data goes to stdout. Words do too, or to stderr where stdout is for data, or nowhere with ``--quiet``. Control
characters in what a file may have named, which a terminal would obey, are shown as escapes.
"""

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = [
    "as_text",
    "console",
    "echo",
    "echo_data",
    "echo_json",
    "has_bars",
    "is_quiet",
    "replace_unprintable",
    "words_to",
    "write_csv",
]

_WORDS: ContextVar[Literal["stdout", "stderr", "nowhere"]] = ContextVar("words", default="stdout")


@contextmanager
def words_to(where: Literal["stdout", "stderr", "nowhere"]) -> Iterator[None]:
    """Print words there while the block runs."""
    token = _WORDS.set(where)
    try:
        yield
    finally:
        _WORDS.reset(token)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line for a reader; ``err`` for a note beside the results."""
    if not is_quiet():
        typer.echo(_printable(text), err=err or _WORDS.get() == "stderr")


def console(*, err: bool = False) -> "Console":
    """Return the console that prints words with styles; it has colours on a terminal only, and none with NO_COLOR."""
    from rich.console import Console

    return Console(stderr=err or _WORDS.get() == "stderr", quiet=is_quiet())


def is_quiet() -> bool:
    """Return whether only errors are printed."""
    return _WORDS.get() == "nowhere"


def has_bars() -> bool:
    """Return whether progress bars are shown: on a terminal, unless only errors are printed."""
    return not is_quiet() and sys.stderr.isatty()


def echo_data(text: str) -> None:
    """Print what a program may read, such as JSON, as it is; on a terminal without control characters."""
    _use_utf8()
    typer.echo(_printable(text) if sys.stdout.isatty() else text)


def echo_json(document: Any) -> None:
    """Print one JSON document; undefined numbers are null."""
    from counterpoint._plain import plain  # imports NumPy

    echo_data(json.dumps(plain(document), allow_nan=False))


def write_csv(rows: Iterable[Iterable[Any]]) -> None:
    """Write rows of CSV to stdout, on a terminal without control characters."""
    if sys.stdout.isatty():
        rows = ([_printable(str(cell)) for cell in row] for row in rows)
    _use_utf8()
    csv.writer(sys.stdout, lineterminator="\n").writerows(rows)


def as_text(text: str, style: str = "") -> "Text":
    """Return a text for the tables of the terminal."""
    from rich.text import Text

    return Text(_printable(text), style=style)


def replace_unprintable() -> None:
    """Print words with question marks where a stream's encoding, such as that of a pipe on Windows, lacks a letter."""
    stream: Any
    for stream in (sys.stdout, sys.stderr):
        if not _is_utf8(stream):
            stream.reconfigure(errors="replace")


def _use_utf8() -> None:
    """Write data as UTF-8, as files are, also to a pipe that has another encoding."""
    stream: Any = sys.stdout
    if not stream.isatty() and not _is_utf8(stream):
        stream.reconfigure(encoding="utf-8", errors="strict")


def _is_utf8(stream: Any) -> bool:
    """Return True also for what stands in for a stream and cannot be changed."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8") or not hasattr(stream, "reconfigure")


def _printable(text: str) -> str:
    from counterpoint._validation import printable  # imports NumPy

    return printable(text)
