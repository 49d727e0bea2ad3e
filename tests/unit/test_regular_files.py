"""Files that strangers may have made: regular ones of a size that can be, and values in one short line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgemem import planfile
from edgemem.errors import ModelError, PlanFileError
from edgemem.formats import Bindings
from edgemem.system.regular_files import open_regular, read_bounded
from edgemem.system.text import short_repr
from edgemem.targets import find_target
from edgemem_converters.csv import CsvConverter

posix = pytest.mark.skipif(os.name != "posix", reason="folders have no locks there")


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_bounded(path, 4)
    with open_regular(path) as (file, size):
        assert (file.read(), size) == (b"12345", 5)
    with pytest.raises(OSError, match=r"null (byte|character)"):
        read_bounded(Path("a\0b"), 5)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "none", 5)


@posix
def test_what_is_no_regular_file_is_neither_read_nor_waited_for(tmp_path: Path) -> None:
    fifo, link, zeros = tmp_path / "fifo", tmp_path / "link", tmp_path / "zeros"
    os.mkfifo(fifo)
    link.symlink_to(fifo)
    zeros.symlink_to("/dev/zero")
    for path in (fifo, link, zeros, tmp_path):
        with pytest.raises(OSError, match=r"no regular file|directory"):
            read_bounded(path, 100)
    mine = tmp_path / "mine"
    mine.write_bytes(b"1")
    zeros.unlink()
    zeros.symlink_to(mine)
    assert read_bounded(zeros, 100) == b"1"
    with pytest.raises(OSError, match=r"symbolic|levels"):
        read_bounded(zeros, 100, follow=False)


@posix
@pytest.mark.parametrize("source", ["fifo", "/dev/zero"])
def test_readers_refuse_what_has_no_end(tmp_path: Path, source: str) -> None:
    def made(name: str) -> Path:
        path = tmp_path / name
        if source == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(source)
        return path

    with pytest.raises(PlanFileError, match="no regular file"):
        planfile.load(made("plan.edgemem"))
    with pytest.raises(ModelError, match="no regular file"):
        find_target(str(made("board.toml")))
    with pytest.raises(ModelError, match="no regular file"):
        CsvConverter.open(made("records.csv"), Bindings())


def test_a_target_file_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text("# " + "x" * (1 << 20))
    with pytest.raises(ModelError, match=r"more than 1,048,576 bytes"):
        find_target(str(path))


def test_long_values_are_cut_off() -> None:
    assert short_repr("x") == "'x'"
    assert short_repr("x" * 100) == f"'{'x' * 56}..."
    assert short_repr(3**20000) == "a value too long to show"
    assert short_repr("a\nb") == "'a\\nb'"
