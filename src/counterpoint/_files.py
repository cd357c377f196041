"""Atomic writing of files: an interrupted command leaves the old file untouched."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when the block ends without an error.

    It is written beside the target, flushed to disk and renamed, so a process killed at any moment leaves the old file
    or the new one. Missing folders are created. If ``path`` is a link, its target is replaced; a device or pipe is
    written to directly.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may write the same file: each writes a part of its own, and the last one to finish wins.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
        _flush_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)


def _flush_folder(path: Path) -> None:
    """Flush the renaming itself to disk, if the system supports it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # on some systems opening a directory raises PermissionError
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
