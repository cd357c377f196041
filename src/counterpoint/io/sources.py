"""Where a table comes from: a file, compressed or not, or bytes such as those of standard input."""

import bz2
import codecs
import gzip
import lzma
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from counterpoint._validation import check_choice, check_path
from counterpoint.io.formats import TABLE_FORMATS, Format, check_opens, check_suffix, inner_path

if TYPE_CHECKING:
    from counterpoint.io.cells import OpenTable

__all__ = ["Source", "as_source", "open_source", "text_encoding"]

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

    @contextmanager
    def open(self, *, progress: bool = False) -> Iterator[BinaryIO]:
        """Open the decompressed bytes, with a progress bar on stderr if asked for."""
        with ExitStack() as stack:
            raw: BinaryIO = self.path.open("rb") if self.content is None else BytesIO(self.content)
            stack.enter_context(raw)
            if progress:
                raw = stack.enter_context(self._with_bar(raw))
            yield stack.enter_context(_decompress(raw))

    def _with_bar(self, raw: BinaryIO) -> Any:
        from rich.console import Console
        from rich.progress import wrap_file

        size = self.path.stat().st_size if self.content is None else len(self.content)
        return wrap_file(
            raw, size, description=f"reading {self.path.name}", console=Console(stderr=True), transient=True
        )


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
    return replace(source, suffix=_suffix(source, formats) if file_format is None else f".{file_format}")


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


def _file_source(path: Path) -> Source:
    check_opens(path)
    return Source(path) if path.is_file() else Source(path, content=path.read_bytes())  # a pipe is read once


def _stream_source(file: BinaryIO) -> Source:
    content = file.read()
    if not isinstance(content, bytes):
        raise TypeError(f"`path` must be a file opened in binary mode; it gave {type(content).__name__}.")
    name = getattr(file, "name", None)
    name = "standard input" if name == "<stdin>" else name if isinstance(name, str) else "the file"
    return Source(Path(name), content=content)


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
        chunks = _chunks(source, file)
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
