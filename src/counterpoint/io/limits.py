"""How much a file may ask for: bounds that are checked before anything is allocated."""

import io
from pathlib import Path
from typing import Any

__all__ = ["MOST_BYTES", "Bounded", "check_parsed", "check_stream", "check_unpacked", "unpacked_limit"]

# A file may unpack to so many bytes, or to this multiple of its own size if that is more. So may a table in memory.
MOST_BYTES = 2**30
RATIO = 100


def unpacked_limit(size: int, most: int = MOST_BYTES) -> int:
    """Return the number of bytes that a file of this size may unpack to."""
    return max(most, RATIO * size)


def check_unpacked(path: Path, n_bytes: int, size: int, *, most: int = MOST_BYTES) -> None:
    """Raise ValueError if a file of this size says that it unpacks to more bytes than it may."""
    if n_bytes > (limit := unpacked_limit(size, most)):
        raise ValueError(
            f"{path} must unpack to at most {_in_words(limit)}; it unpacks to {_in_words(n_bytes)}."
        )


def check_parsed(path: Path, n_bytes: int, size: int) -> None:
    """Raise ValueError if the table of a file of this size takes more bytes of memory than it may."""
    if n_bytes > (limit := unpacked_limit(size)):
        raise ValueError(
            f"{path} must take at most {_in_words(limit)} of memory as a table; it takes more. If it is compressed and "
            "you trust it, unpack it first."
        )


def check_stream(name: str, n_bytes: int) -> None:
    """Raise ValueError if what has no size of its own, such as a pipe, is too long to be kept in memory."""
    if n_bytes > MOST_BYTES:
        raise ValueError(f"{name} must have at most {_in_words(MOST_BYTES)}; write it to a file first.")


class Bounded(io.RawIOBase):
    """Decompressed bytes, with an error where they exceed what a file of this size may unpack to."""

    def __init__(self, path: Path, file: Any, size: int, most: int = MOST_BYTES) -> None:
        self._path, self._file, self._size, self._most, self._seen = path, file, size, most, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer and count."""
        chunk = self._file.read(len(buffer))
        self._seen += len(chunk)
        check_unpacked(self._path, self._seen, self._size, most=self._most)
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _in_words(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.3g} GiB" if n_bytes >= 2**29 else f"{n_bytes / 2**20:.3g} MiB"
