"""The library between PyTorch and edgemem's allocator is compiled once, and only this user's is loaded."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")

from edgemem.errors import RuntimeBindError
from edgemem.torch.bridge import Bridge, bridge

if TYPE_CHECKING:
    from pathlib import Path


def built() -> Bridge:
    """As in a process that has none yet."""
    return bridge.__wrapped__()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; the folder in which the library is kept."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "torch"


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that grows by a line with each call of the compiler that makes a library."""
    compiler, log = tmp_path / "compiler", tmp_path / "log"
    real = shutil.which("g++") or shutil.which("c++")
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) echo made >> "{log}";; esac\nexec "{real}" "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    log.touch()
    return log


def test_the_second_process_finds_it_in_the_cache(cache: Path, compiled: Path) -> None:
    built()
    built()
    assert compiled.read_text() == "made\n"
    assert len(list(cache.iterdir())) == 1
    assert cache.stat().st_mode & 0o777 == 0o700


def test_another_compiler_makes_another_library(
    cache: Path, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built()
    other = tmp_path / "other"
    other.write_text((tmp_path / "compiler").read_text())
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    built()
    assert compiled.read_text() == "made\nmade\n"
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("what", ["folder others can write", "link", "no folder"])
def test_a_library_that_others_could_have_written_is_not_loaded(
    cache: Path, compiled: Path, tmp_path: Path, what: str
) -> None:
    built()
    kept = next(cache.iterdir())
    kept.unlink()  # not written to: it is loaded
    kept.write_bytes(b"somebody else's")
    if what == "link":
        elsewhere = tmp_path / "elsewhere"
        kept.rename(elsewhere)
        kept.symlink_to(elsewhere)
    elif what == "no folder":
        kept.unlink()
        cache.rmdir()
        cache.write_text("")
    else:
        cache.chmod(0o777)
    built()
    assert compiled.read_text() == "made\nmade\n"
    if what != "link":
        built()
        assert compiled.read_text() == "made\nmade\nmade\n"


def test_without_a_compiler_the_error_says_what_to_install(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeBindError, match=r"install g\+\+"):
        built()
    monkeypatch.setenv("CXX", str(tmp_path / "nothing"))
    with pytest.raises(RuntimeBindError, match="name another one in CXX"):
        built()
    assert not cache.exists()


def test_what_the_compiler_refuses_is_told_and_not_kept(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ncase "$*" in *-shared*) echo "no such header" >&2; exit 1;; esac\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(RuntimeBindError, match="no such header"):
        built()
    assert list(cache.iterdir()) == []


def test_processes_that_build_at_once_do_not_disturb_each_other(cache: Path) -> None:
    program = (
        "import torch, edgemem.torch\n"
        "with edgemem.torch.Session() as session, session.iteration():\n"
        "    torch.ones(10)\n"
        "print(session.stats.total.requests)\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in started] == 3 * ["1\n"]
    assert [file.suffix for file in cache.iterdir()] == [".so"]
