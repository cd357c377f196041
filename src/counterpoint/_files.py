"""Files that are whole or not there: an interrupted command leaves the old one."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` when the block ends without an error.

    It is written beside the target, flushed to the disk and renamed, so that a process killed at any moment leaves the
    old file or the new one. Missing folders are made. A link keeps its name and gets its target replaced; a device or
    pipe is written to as it is.
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
    part = target.with_name(f".{target.name}.part")  # one name: what a killed run leaves, the next takes over
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
    """Write the renaming itself to the disk, where the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # not on every system is a folder a file
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
