"""A file is whole or not there, whoever writes it, and however a writer ends."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from counterpoint._files import is_sealed, keep_previous, replacing, replacing_folder, restore_folder, seal

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs the locks and signals of POSIX")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, content):
    with replacing(path) as file:
        file.write(content)


def test_two_writers_never_share_a_temporary_file(tmp_path):
    with replacing(tmp_path / "a") as first, replacing(tmp_path / "a") as second:
        first.write(b"first" * 1000)
        second.write(b"second")
        first.flush()
        second.flush()
        assert len(names(tmp_path)) == 2
    assert (tmp_path / "a").read_bytes() == b"first" * 1000  # the last to finish
    assert names(tmp_path) == ["a"]


def test_a_file_with_several_writers_is_whole_at_every_moment(tmp_path):
    contents = {bytes([letter]) * 200_000 for letter in b"abc"}
    write(tmp_path / "a", next(iter(contents)))
    stop = threading.Event()

    def rewrite(content):
        while not stop.is_set():
            write(tmp_path / "a", content)

    writers = [threading.Thread(target=rewrite, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    try:
        seen = {(tmp_path / "a").read_bytes() for _ in range(200)}
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert seen <= contents
    assert names(tmp_path) == ["a"]


@POSIX
def test_a_leftover_is_removed_while_it_is_locked(tmp_path, monkeypatch):
    import fcntl

    (tmp_path / f".a.1-{'0' * 16}.part").touch()
    found, unlink = [], Path.unlink

    def remove(path, missing_ok=False):
        if path.exists():
            with path.open() as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a writer that has just created it waits
            found.append(path.name)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", remove)
    write(tmp_path / "a", b"a")
    assert found == [f".a.1-{'0' * 16}.part"]
    assert names(tmp_path) == ["a"]


@POSIX
def test_a_writer_that_begins_while_another_renames_leaves_its_file_alone(tmp_path, monkeypatch):
    rename = Path.replace

    def interrupted(part, target):
        monkeypatch.setattr(Path, "replace", rename)
        write(tmp_path / "a", b"second")  # removes what it takes for leftovers
        return rename(part, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    write(tmp_path / "a", b"first")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400])
@POSIX
def test_a_file_keeps_its_permissions(tmp_path, mode):
    write(tmp_path / "a", b"1")
    (tmp_path / "a").chmod(mode)
    write(tmp_path / "a", b"2")
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode
    assert (tmp_path / "a").read_bytes() == b"2"


@POSIX
def test_a_new_file_has_the_permissions_that_the_user_wants_for_new_files(tmp_path):
    (tmp_path / "usual").touch()
    write(tmp_path / "a", b"1")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


@POSIX
def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(tmp_path, monkeypatch):
    import counterpoint._files as files

    (tmp_path / "victim").write_bytes(b"mine")
    for planted in (".a.part", f".a.{os.getpid()}.part", f".a.{os.getpid()}-0123456789abcdef.part"):
        (tmp_path / planted).symlink_to("victim")
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "0123456789abcdef")
    with pytest.raises(FileExistsError):
        write(tmp_path / "a", b"1")
    monkeypatch.undo()
    write(tmp_path / "a", b"1")
    assert (tmp_path / "victim").read_bytes() == b"mine"


@POSIX
def test_a_link_is_kept_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "real").write_bytes(b"1")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", b"2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"2"


def test_a_name_as_long_as_the_system_allows_can_be_written(tmp_path):
    for name in ("n" * 255, "é" * 127):
        write(tmp_path / name, b"1")
        assert (tmp_path / name).read_bytes() == b"1"
    assert len(names(tmp_path)) == 2


KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from counterpoint import _files
    kind, path = sys.argv[1:]
    if kind == "file":
        with _files.replacing(path) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    rename = Path.rename
    def die_after(self, target):
        rename(self, target)
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "between":
        Path.rename = die_after
    with _files.replacing_folder(path) as folder:
        (folder / "new").write_text("half")
        if kind == "folder":
            os.kill(os.getpid(), signal.SIGKILL)
    """
)


def kill(kind, path):
    done = subprocess.run([sys.executable, "-c", KILLED, kind, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL


@POSIX
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    write(tmp_path / "a", b"old")
    kill("file", tmp_path / "a")
    assert len(names(tmp_path)) == 2
    assert (tmp_path / "a").read_bytes() == b"old"
    write(tmp_path / "b", b"of another file")
    assert len(names(tmp_path)) == 3
    write(tmp_path / "a", b"new")
    assert names(tmp_path) == ["a", "b"]


@POSIX
def test_a_living_writer_keeps_its_temporary_file(tmp_path):
    with replacing(tmp_path / "a") as slow:
        slow.write(b"slow")
        write(tmp_path / "a", b"quick")
    assert (tmp_path / "a").read_bytes() == b"slow"


@POSIX
def test_the_next_writer_removes_the_folder_that_a_killed_one_left(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "old").touch()
    kill("folder", tmp_path / "m")
    assert len(names(tmp_path)) == 2
    assert names(tmp_path / "m") == ["old"]
    with replacing_folder(tmp_path / "m") as folder:
        (folder / "new").touch()
    assert names(tmp_path) == ["m"]
    assert names(tmp_path / "m") == ["new"]


@POSIX
def test_a_folder_set_aside_by_a_killed_writer_comes_back(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "old").touch()
    kill("between", tmp_path / "m")
    assert not (tmp_path / "m").exists()
    restore_folder(tmp_path / "m")
    assert names(tmp_path) == ["m"]
    assert names(tmp_path / "m") == ["old"]


def test_a_folder_that_fails_to_be_written_leaves_the_old_one(tmp_path):
    (tmp_path / "m").mkdir()
    with pytest.raises(KeyboardInterrupt), replacing_folder(tmp_path / "m"):
        raise KeyboardInterrupt
    assert names(tmp_path) == ["m"]


@pytest.mark.parametrize("links", [True, False])
def test_the_previous_file_is_kept_under_a_second_name(tmp_path, monkeypatch, links):
    path, previous = tmp_path / "a", tmp_path / "a.previous"
    previous.write_bytes(b"of another run")
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(1, "no links")))
    keep_previous(path, previous)
    assert names(tmp_path) == []
    write(path, b"1")
    keep_previous(path, previous)
    write(path, b"2")
    assert (path.read_bytes(), previous.read_bytes()) == (b"2", b"1")
    assert names(tmp_path) == ["a", "a.previous"]


def test_one_flipped_bit_breaks_the_seal():
    content = b'{"sha256":"' + b"0" * 64 + b'","text":"all of it"}'
    sealed = seal(content)
    assert is_sealed(sealed)
    assert len(sealed) == len(content)
    for bit in range(8 * len(sealed)):
        broken = bytearray(sealed)
        broken[bit // 8] ^= 1 << bit % 8
        assert not is_sealed(bytes(broken))
    assert not is_sealed(content)
    assert not is_sealed(b"no seal")
    with pytest.raises(ValueError, match="must have an entry for its checksum"):
        seal(b"{}")


@POSIX
def test_a_full_device_is_an_error_that_leaves_nothing(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write("/dev/full", b"1" * 10)


def test_an_error_of_writing_names_the_file_that_was_asked_for(tmp_path):
    def full():
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught, replacing(tmp_path / "new" / "a.csv"):
        full()
    assert caught.value.filename == str(tmp_path / "new" / "a.csv")
    with (
        pytest.raises(OSError, match="No space left") as caught,
        replacing_folder(tmp_path / "model") as part,
        replacing(part / "model.json"),
    ):
        full()
    assert caught.value.filename == str(tmp_path / "model" / "model.json")
    with pytest.raises(FileNotFoundError) as other, replacing(tmp_path / "a.csv"):
        (tmp_path / "none").read_bytes()
    assert other.value.filename == str(tmp_path / "none")


def test_files_and_folders_are_replaced_where_there_are_no_locks_and_open_files_cannot_be_renamed(
    tmp_path, monkeypatch
):
    """As on Windows: there is no fcntl, and a file can be renamed only once it is closed."""
    monkeypatch.setattr("counterpoint._files.fcntl", None)
    opened = []
    reopen, rename = os.fdopen, Path.replace

    def fdopen(*arguments):
        opened.append(reopen(*arguments))
        return opened[-1]

    def replace(path, target):
        assert all(file.closed for file in opened)
        return rename(path, target)

    monkeypatch.setattr(os, "fdopen", fdopen)
    monkeypatch.setattr(Path, "replace", replace)
    for content in (b"old", b"new"):
        write(tmp_path / "a", content)
        with replacing_folder(tmp_path / "model") as folder:
            write(folder / "b", content)
    keep_previous(tmp_path / "a", tmp_path / "a.previous")
    restore_folder(tmp_path / "model")
    assert names(tmp_path) == ["a", "a.previous", "model"]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "model" / "b").read_bytes() == b"new"


def test_no_file_of_the_repository_has_a_name_that_some_system_refuses():
    root = Path(__file__).parents[1]
    reserved = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
    for top in ("src", "tests", "docs/images", "examples", "results", "paper", "benchmarks"):
        paths = [path.relative_to(root).as_posix() for path in (root / top).rglob("*")]
        assert len({path.lower() for path in paths}) == len(paths)
        for path in paths:
            name = path.rpartition("/")[2]
            assert not set(name) & set('<>:"\\|?*'), path
            assert name.partition(".")[0].lower() not in reserved, path
            assert not name.endswith((".", " ")), path
            assert len(path) < 200, path
