"""What Linux tells of this process: pages of one file, mapped and touched."""

from __future__ import annotations

import mmap
import sys
from typing import TYPE_CHECKING

import pytest

from edgemem.system.process_memory import mapped_bytes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc")


def test_the_mapped_bytes_of_a_file_are_counted_and_no_others(tmp_path: Path) -> None:
    path, other = tmp_path / "weights of a - b.bin", tmp_path / "other.bin"
    size = 64 * mmap.PAGESIZE
    for file in (path, other):
        file.write_bytes(bytes(size))
    assert mapped_bytes({str(path)}) == (0, 0)
    with (
        path.open("rb") as one,
        other.open("rb") as two,
        mmap.mmap(one.fileno(), size, prot=mmap.PROT_READ) as mine,
        mmap.mmap(two.fileno(), size, prot=mmap.PROT_READ) as _,
    ):
        mapped, _ = mapped_bytes({str(path)})
        assert mapped == size
        assert sum(mine[:]) == 0  # reads every page
        assert mapped_bytes({str(path)}) == (size, size)
    assert mapped_bytes({str(path)}) == (0, 0)
