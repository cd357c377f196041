"""Files that are whole or not there: written beside their target and renamed, sealed by a checksum.

A writer holds a lock on its temporary file or folder. The system drops the lock when the process ends, however it ends,
so the next writer of the same target can tell what a dead one has left behind, and removes it.
"""

import errno
import logging
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger(__name__)

# Errors of writing, which the system reports without the name of the file.
_OF_WRITING = {getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO")} - {None}
_LONGEST = 200  # bytes of a target's name in that of its temporary file; systems allow 255 in all
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_BLANK = b"0" * 64
_SEAL = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when the block ends without an error.

    It is written beside the target under a name of its own, flushed to disk and renamed, so a process killed at any
    moment leaves the old file or the new one, and of two writers the last one to finish wins. Missing folders are
    created. The file keeps the permissions of the one it replaces. If ``path`` is a link, its target is replaced; a
    device or pipe is written to directly.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if target.exists() and not target.is_file():
        with _naming(path), target.open("wb") as file:
            yield file
        return
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)
    part, descriptor = _create_beside(target)
    try:
        with _naming(path), os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
            if fcntl is not None:  # while it is locked, so that no other writer takes it for a leftover
                part.replace(target)
        if fcntl is None:  # Windows renames only closed files
            part.replace(target)
        _flush_folder(target.parent)
        _log.debug("wrote %s", target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Name the file in errors of writing it, such as a full disk, which the system reports without a name."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _OF_WRITING:
            error.filename = os.fspath(path)
        raise


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """Make a folder that replaces ``path`` when the block ends without an error; the old one is restored otherwise."""
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    restore_folder(target)
    part = _beside(target, "part")
    part.mkdir()
    old = _beside(target, "old")
    with _holding(part), _holding(target):
        try:
            yield part
            if target.exists():
                target.rename(old)
            part.rename(target)
            _flush_folder(target.parent)
            _log.debug("wrote %s", target)
        except BaseException as error:
            if isinstance(error, OSError) and isinstance(error.filename, str | os.PathLike):
                inside = Path(error.filename)  # of the temporary folder, which nobody knows
                if inside.is_relative_to(part):
                    error.filename = str(Path(path) / inside.relative_to(part))
            if old.exists() and not target.exists():
                old.rename(target)
            raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


def restore_folder(path: str | Path) -> None:
    """Undo what a killed :func:`replacing_folder` has left: the old folder returns, temporary ones go."""
    target = Path(path).resolve()
    if not target.exists():
        for old in _left_behind(target, "old", wait=True):
            if not target.exists():
                with suppress(FileNotFoundError):
                    old.rename(target)
    _remove_leftovers(target)


def keep_previous(path: str | Path, previous: str | Path) -> None:
    """Give a file a second name, ``previous``; ``path`` is there all the time, and not copied where links exist."""
    target = Path(path).resolve()
    if not target.exists():
        Path(previous).unlink(missing_ok=True)  # of another run
        return
    part = _beside(target, "part")
    try:
        try:
            os.link(target, part)
        except OSError:  # the file system has no hard links
            shutil.copy2(target, part)
        part.replace(previous)
    finally:
        part.unlink(missing_ok=True)


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading; refuse what is none, such as a device, which may be endless, or a pipe, which may block.

    A link is followed.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise ValueError(f"{path} must be a file; it is {_KINDS.get(stat.S_IFMT(mode), 'something else')}.")
    return os.fdopen(descriptor, "rb")


def read_bounded(path: str | Path, most: int) -> bytes:
    """Return the bytes of a file; raise ValueError if it has more of them than it may, before it is read."""
    with open_regular(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise ValueError(f"{path} must have at most {most} bytes; it has {size}.")
        return file.read()


def seal(content: bytes) -> bytes:
    """Return content with its SHA-256 in place of the 64 zeros of its entry ``"sha256"``, which it must have."""
    at = _SEAL.search(content)
    if at is None or at[1] != _BLANK:
        raise ValueError("the content must have an entry for its checksum")
    digest = sha256(content).hexdigest().encode()
    return content[: at.start(1)] + digest + content[at.end(1) :]


def is_sealed(content: bytes) -> bool:
    """Return True if content has the checksum that :func:`seal` gave it."""
    at = _SEAL.search(content)
    if at is None:
        return False
    digest = sha256(content[: at.start(1)])
    digest.update(_BLANK)
    digest.update(memoryview(content)[at.end(1) :])
    return digest.hexdigest().encode() == at[1]


def _beside(target: Path, ending: str) -> Path:
    """Return a new name for a temporary file or folder beside a target."""
    return target.with_name(f".{_stem(target)}.{os.getpid()}-{secrets.token_hex(8)}.{ending}")


def _stem(target: Path) -> str:
    return os.fsdecode(os.fsencode(target.name)[:_LONGEST])


def _create_beside(target: Path) -> tuple[Path, int]:
    """Create a locked file beside a target, with the permissions of the target if it exists."""
    mode = stat.S_IMODE(target.stat().st_mode) & 0o777 if target.exists() else None
    while True:
        part = _beside(target, "part")
        # A new file: a link that somebody has put there is not followed.
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        descriptor = os.open(part, flags, 0o666 if mode is None else 0o600)
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(descriptor, mode)
        _lock(descriptor)
        if _is_at(descriptor, part):
            return part, descriptor
        os.close(descriptor)  # another writer took it for a leftover, before it was locked


@contextmanager
def _holding(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, if it exists and the system can lock folders."""
    descriptor = None
    while descriptor is None and fcntl is not None and folder.exists():
        descriptor = os.open(folder, os.O_RDONLY)
        _lock(descriptor)
        if not _is_at(descriptor, folder):  # replaced while waiting
            os.close(descriptor)
            descriptor = None
    try:
        yield
    finally:
        if descriptor is not None:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child of this process may have the descriptor too
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    if fcntl is not None:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _remove_leftovers(target: Path) -> None:
    for path in chain(_left_behind(target, "part"), _left_behind(target, "old")):  # one by one, each locked
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def _left_behind(target: Path, ending: str, *, wait: bool = False) -> Iterator[Path]:
    """Yield the temporary files and folders of a target whose writers have ended, or end while it waits.

    Each is locked until the next one.
    """
    if fcntl is None:
        return  # nothing tells a dead writer from a living one
    own = re.compile(rf"\.{re.escape(_stem(target))}\.[0-9]+-[0-9a-f]{{16}}\.{ending}")
    try:
        found = [entry.path for entry in os.scandir(target.parent) if own.fullmatch(entry.name)]
    except OSError:
        return
    for path in sorted(found):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its writer is alive
            os.close(descriptor)
            continue
        try:
            yield Path(path)
        finally:
            os.close(descriptor)


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
