"""Outputs that replace whole files, that go through what is no regular file, and that leave nothing of a failure."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgemem.system import files
from edgemem.system.files import atomic_write, new_folder, temporary_folder

if TYPE_CHECKING:
    from types import FrameType


@pytest.fixture(params=["nameless", "named", "no link in /proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ways in which file systems have unfinished files."""
    name: str = request.param
    if name == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    elif name != "nameless":

        def refuse(*_: object, **__: object) -> None:
            raise OSError("no links here")

        monkeypatch.setattr(os, "link", refuse)
    return name


def write(path: Path, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)


@pytest.mark.usefixtures("way")
def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"old")

    def fail() -> None:
        with atomic_write(file) as out:
            out.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.usefixtures("way")
def test_success_replaces_and_keeps_permissions_and_links(tmp_path: Path) -> None:
    file, link = tmp_path / "out", tmp_path / "link"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    write(link, b"new")
    assert file.read_bytes() == b"new"
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [link, file]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1755, 0o6755])
def test_no_special_permissions_are_kept(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"old")
    file.chmod(mode)
    write(file, b"new")
    assert file.stat().st_mode & 0o7777 == 0o755


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o027, 0])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "out", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o7777 == 0o666 & ~umask


def test_the_umask_of_other_threads_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise AssertionError("the umask belongs to the whole process")

    monkeypatch.setattr(os, "umask", refuse)
    write(tmp_path / "out", b"")


def test_an_error_names_the_file_that_the_user_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("no folder/plan.json", "file/plan.json", "loop", "n" * 300, "."):
        with pytest.raises(OSError) as caught:
            write(tmp_path / name, b"")
        assert caught.value.filename == str(tmp_path / name)


def test_a_name_may_be_as_long_as_the_system_lets_it(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 255)
    write(file, b"first")
    write(file, b"second")
    assert file.read_bytes() == b"second"


def test_a_fifo_is_written_through(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    reader.start()
    write(fifo, b"content")
    reader.join(30)
    assert read == [b"content"]
    assert fifo.is_fifo()


def test_a_device_is_written_through_and_errors_are_told(tmp_path: Path) -> None:
    for device, link in (("/dev/null", tmp_path / "null"), ("/dev/full", tmp_path / "full")):
        link.symlink_to(device)
    write(tmp_path / "null", b"content")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path / "full", b"content")
    assert caught.value.filename == str(tmp_path / "full")
    assert str(caught.value).endswith("full'")


def test_a_full_disk_names_the_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path / "plan", b"content")
    assert str(caught.value) == f"[Errno 28] No space left on device: '{tmp_path / 'plan'}'"
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_through_if_the_block_fails(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def fail() -> None:
        with atomic_write(fifo) as file:  # would wait for a reader if it were opened
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
@pytest.mark.parametrize("mode", ["ab", "wb"])
def test_stdout_is_appended_to_and_not_replaced(tmp_path: Path, name: str, mode: str) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    script = f"""
import sys
import tempfile
from pathlib import Path
from edgemem.system.files import atomic_write
print("printed before")
with atomic_write(Path({name!r})) as file:
    file.write(b"written\\n")
print("printed behind")
"""
    log = tmp_path / "log"
    log.write_bytes(b"old\n")
    with log.open(mode) as out:
        subprocess.run([sys.executable, "-c", script], stdout=out, cwd=tmp_path, check=True, timeout=60)
    old = b"old\n" if mode == "ab" else b""
    assert log.read_bytes() == old + b"printed before\nwritten\nprinted behind\n"


def test_a_temporary_folder_is_private_and_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_bytes(b"")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["new", "empty", "link to an empty one"])
def test_a_new_folder_has_its_name_when_it_is_whole(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    if kind == "empty":
        folder.mkdir()
    elif kind != "new":
        (tmp_path / "there").mkdir()
        folder.symlink_to(tmp_path / "there")
    with new_folder(folder) as unfinished:
        (unfinished / "a").write_bytes(b"a")
        assert not (folder / "a").exists()
    assert [f.name for f in folder.iterdir()] == ["a"]
    assert folder.is_symlink() == (kind == "link to an empty one")
    assert {p.name for p in tmp_path.iterdir()} <= {"out", "there"}


def test_a_new_folder_that_fails_leaves_nothing_and_what_is_there_stays(tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def fail() -> None:
        with new_folder(folder) as unfinished:
            (unfinished / "a").write_bytes(b"a")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
    folder.mkdir()
    (folder / "mine").write_bytes(b"mine")
    (tmp_path / "file").write_bytes(b"mine")
    for taken in (folder, tmp_path / "file"):
        with pytest.raises(FileExistsError, match=str(taken)), new_folder(taken):
            pass
    with pytest.raises(OSError, match="Directory not empty") as e, new_folder(tmp_path / "late"):  # noqa: PT012
        (tmp_path / "late").mkdir()
        (tmp_path / "late" / "theirs").write_bytes(b"theirs")
    assert e.value.filename == str(tmp_path / "late")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "late", "out"]
    assert [f.name for f in (tmp_path / "late").iterdir()] == ["theirs"]


def test_a_killed_process_leaves_no_half_written_file(tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from edgemem.system.files import atomic_write
with atomic_write(Path({str(tmp_path / "out")!r})) as file:
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())


def test_the_end_of_the_process_removes_what_is_left(tmp_path: Path) -> None:
    script = """
from pathlib import Path
from edgemem.system.files import temporary_folder
left = temporary_folder()
(left.__enter__() / "file").write_bytes(b"")
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)
    assert not list(tmp_path.iterdir())


_MAKES_FOLDERS = """
import os, threading, time
from edgemem.system.files import remove_unfinished, temporary_folder, without_new_files

def make():
    while True:
        try:
            with temporary_folder() as folder:
                for n in range(3):
                    (folder / str(n)).write_bytes(b"")
        except OSError:
            pass  # it was removed meanwhile

threads = [threading.Thread(target=make, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
time.sleep(0.05)
with without_new_files():
    remove_unfinished()
    os._exit(0)
"""


@pytest.mark.full
def test_what_other_threads_are_making_does_not_outlive_the_process(tmp_path: Path) -> None:
    for _ in range(10):
        subprocess.run(
            [sys.executable, "-c", _MAKES_FOLDERS], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True, timeout=60
        )
    assert not list(tmp_path.iterdir())


def test_an_interruption_at_any_moment_leaves_others_free_to_make_files() -> None:
    kept = []  # with them everything that they passed, as an interactive session keeps its last error

    def is_interrupted(after: int) -> bool:
        returned = 0

        def interrupt(frame: FrameType, event: str, _: object) -> None:
            nonlocal returned
            if event in ("return", "c_return") and frame.f_code.co_filename in (files.__file__, contextlib.__file__):
                returned += 1  # where Python looks for signals
                if returned == after:
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            with temporary_folder():
                pass
        except KeyboardInterrupt as e:
            kept.append(e)
            return True
        finally:
            sys.setprofile(None)
        return False

    def make() -> None:
        with temporary_folder():
            pass

    after = 1
    while is_interrupted(after):
        thread = threading.Thread(target=make, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive(), traceback.format_exception(kept[-1])
        after += 1
    assert after > 10
    kept.clear()
    files.remove_unfinished()
