"""Where a table comes from: a file, compressed or not, or bytes such as those of standard input."""

import bz2
import codecs
import gzip
import logging
import lzma
import os
import re
import stat
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from counterpoint._files import open_regular
from counterpoint._validation import check_choice, check_path, printable
from counterpoint.io.formats import TABLE_FORMATS, Format, check_suffix, inner_path
from counterpoint.io.limits import MOST_BYTES, Bounded, check_stream

if TYPE_CHECKING:
    from counterpoint.io.cells import OpenTable

__all__ = ["Source", "as_source", "open_source", "rereadable", "text_encoding"]

_log = logging.getLogger(__name__)

_CHUNK = 2**20
# What the libraries raise for a damaged file; bz2 raises a plain OSError, without a number.
_DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error)
# The mark of UTF-16 begins that of UTF-32.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_RELATION = re.compile(r"\A(\s*%.*\n)*\s*@relation\s", re.IGNORECASE)  # comments may stand before it
_OWN = ("/dev/fd", "/proc/self/fd")  # folders of the files that this process has open already
_WHOLE, _MOST_WHOLE = (
    (".json", ".jsonl", ".ndjson"),
    2**28,
)  # formats read at once, and their bytes if compressed
_BY_LINE = (".csv", ".tsv", ".arff")
_LONGEST_LINE = 2**24  # bytes, in these formats
_NOT_IN_CP1252 = (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")


@dataclass(frozen=True)
class Source:
    """A table that can be opened as often as needed.

    Attributes
    ----------
    path : Path
        The file, or a name for messages.
    suffix : str
        The suffix of its format in :data:`~counterpoint.io.TABLE_FORMATS`.
    content : bytes or None
        The bytes, if there is no file that can be read twice.
    """

    path: Path
    suffix: str = ""
    content: bytes | None = None

    @property
    def size(self) -> int:
        """The number of bytes of the file, compressed or not."""
        return self.path.stat().st_size if self.content is None else len(self.content)

    @contextmanager
    def open(self, *, progress: bool = False) -> Iterator[BinaryIO]:
        """Open the decompressed bytes, with a progress bar on stderr if asked for."""
        with ExitStack() as stack:
            raw = open_regular(self.path) if self.content is None else BytesIO(self.content)
            stack.enter_context(raw)
            size = os.fstat(raw.fileno()).st_size if self.content is None else len(self.content)
            if progress:
                raw = stack.enter_context(self._with_bar(raw, size))
            unpacked = stack.enter_context(_decompress(raw))
            most = {"most": _MOST_WHOLE} if self.suffix in _WHOLE else {}
            yield (
                raw if unpacked is raw else BufferedReader(Bounded(self.path, unpacked, size, **most), _CHUNK)
            )

    def _with_bar(self, raw: BinaryIO, size: int) -> Any:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import wrap_file

        name = escape(printable(self.path.name))
        console = Console(stderr=True, force_jupyter=False)  # a bar in a notebook would need ipywidgets
        return wrap_file(raw, size, description=f"reading {name}", console=console, transient=True)


def as_source(
    path: str | Path | BinaryIO,
    file_format: str | None = None,
    formats: Mapping[str, Format] = TABLE_FORMATS,
) -> Source:
    """Return the source of a table, with the suffix of its format, which may be one of ``formats``."""
    if file_format is not None:
        check_choice(file_format, "file_format", [suffix[1:] for suffix in TABLE_FORMATS])
    if isinstance(path, str | Path) or not hasattr(path, "read"):
        source = _file_source(check_path(path, "path"))
    else:
        source = _stream_source(path)
    suffix = _suffix(source, formats) if file_format is None else f".{file_format}"
    _log.info("reading %s as %s", source.path, suffix[1:])
    return replace(source, suffix=suffix)


def open_source(source: Source, *, progress: bool) -> "AbstractContextManager[OpenTable]":
    """Open the table of a source."""
    opened: AbstractContextManager[OpenTable] = (
        TABLE_FORMATS[source.suffix].load().open_table(source, progress=progress)
    )
    return opened


def _suffix(source: Source, formats: Mapping[str, Format]) -> str:
    """Return the suffix of a source; without one, guess it if the bytes were compressed or are no file."""
    inner = inner_path(source.path)
    suffix = inner.suffix.lower()
    if suffix in (formats if inner == source.path else TABLE_FORMATS):
        return suffix
    unnamed = source.content is not None or (inner != source.path and not suffix)
    return _guess(source) if unnamed else check_suffix(source.path, formats)


def rereadable(path: Path | BinaryIO) -> Path | BinaryIO:
    """Return what can be read twice: a path, or all that is in an open file or in a pipe that the shell has opened."""
    if not isinstance(path, Path):
        name = str(getattr(path, "name", ""))
        return _named(_read_all(path, name), name)
    if not _is_own_pipe(path):
        return path
    with path.open("rb") as file:
        return _named(_read_all(file, str(path)), str(path))


def _named(content: bytes, name: str) -> BinaryIO:
    file = BytesIO(content)
    file.name = name
    return file


def _is_own_pipe(path: Path) -> bool:
    """Return True for a pipe that this process has open already, as the shell's ``<(command)`` does."""
    return str(path.parent) in _OWN and path.exists() and stat.S_ISFIFO(path.stat().st_mode)


def _file_source(path: Path) -> Source:
    if _is_own_pipe(path):
        with path.open("rb") as file:
            return Source(path, content=_read_all(file, str(path)))  # a pipe is read once
    open_regular(path).close()  # before anything is said about its name
    return Source(path)


def _stream_source(file: BinaryIO) -> Source:
    name = getattr(file, "name", None)
    name = "standard input" if name == "<stdin>" else name if isinstance(name, str) else "the file"
    content = _read_all(file, name)
    if not isinstance(content, bytes):
        raise TypeError(f"`path` must be a file opened in binary mode; it gave {type(content).__name__}.")
    return Source(Path(name), content=content)


def _read_all(file: BinaryIO, name: str) -> bytes:
    content = file.read(MOST_BYTES + 1)
    check_stream(name, len(content))
    return content


def _decompress(raw: BinaryIO) -> Any:
    """Return the file, decompressed if its first bytes say so."""
    head = raw.read(10)
    raw.seek(0)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    if head.startswith(b"BZh") and head[4:] == b"1AY&SY":
        return bz2.BZ2File(raw)
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(raw)
    return raw


def _guess(source: Source) -> str:
    """Return the suffix of the format that the first bytes look like."""
    with source.open() as file:
        head = next(_chunks(source, file), b"")
    if head.startswith(b"PK\x03\x04"):
        return ".xlsx"
    if head.startswith(b"PAR1"):
        return ".parquet"
    text = head.decode(_marked_encoding(head) or "latin-1", errors="ignore")
    if text.lstrip().startswith(("{", "[")):
        return ".json"
    return ".arff" if _RELATION.search(text) else ".csv"


def text_encoding(source: Source) -> str:
    """Return the encoding of a text: Unicode if it is valid, else Windows-1252 with a warning."""
    with source.open() as file:
        chunks = _short_lines(source, _chunks(source, file))
        first = next(chunks, b"")
        encoding = _marked_encoding(first) or "utf-8"
        fault = _first_fault(chain([first], chunks), encoding)
    if fault is None:
        return encoding
    byte, line = fault
    if encoding != "utf-8" or byte == 0:
        kind = f"{encoding.removesuffix('-sig').upper()} text, as its first bytes say" if byte else "text"
        raise ValueError(f"{source.path} must be {kind}; got byte 0x{byte:02x} in line {line}.")
    with source.open() as file:
        in_cp1252 = not any(mark in chunk for chunk in _chunks(source, file) for mark in _NOT_IN_CP1252)
    chosen = "cp1252" if in_cp1252 else "latin-1"
    warnings.warn(
        f"{source.path} is not UTF-8 (byte 0x{byte:02x} in line {line}); it was read as {chosen}.",
        stacklevel=2,
    )
    return chosen


def _marked_encoding(head: bytes) -> str | None:
    return next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)


def _short_lines(source: Source, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks; raise ValueError if a line is too long to be one of a table."""
    length, line = 0, 1
    for chunk in chunks:
        n_lines = chunk.count(b"\n")
        length = len(chunk) - 1 - chunk.rfind(b"\n") if n_lines else length + len(chunk)
        line += n_lines
        if length > _LONGEST_LINE and source.suffix in _BY_LINE:
            raise ValueError(
                f"{source.path} must have lines of at most {_LONGEST_LINE // 2**20} MiB; line {line} is longer."
            )
        yield chunk


def _first_fault(chunks: Iterable[bytes], encoding: str) -> tuple[int, int] | None:
    """Return the first byte that is not text in this encoding, and its line; None if there is none."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    for chunk in chain(chunks, [b""]):
        if encoding == "utf-8" and (at := chunk.find(b"\0")) >= 0:
            return 0, line + chunk.count(b"\n", 0, at)
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            return error.object[error.start], line + error.object.count(b"\n", 0, error.start)
        line += chunk.count(b"\n")
    return None


def _chunks(source: Source, file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes; raise ValueError if a compressed file is damaged."""
    try:
        while chunk := file.read(_CHUNK):
            yield chunk
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{source.path} must be a whole compressed file; it is damaged.") from None
