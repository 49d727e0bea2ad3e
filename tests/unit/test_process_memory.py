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


def test_the_mapped_bytes_of_a_folder_are_counted_and_no_others(tmp_path: Path) -> None:
    folder = tmp_path / "a - b"
    path, library, other = folder / "inner" / "weights.bin", folder / "code.so.1", tmp_path / "a - b.bin"
    size = 64 * mmap.PAGESIZE
    path.parent.mkdir(parents=True)
    for file in (path, library, other):
        file.write_bytes(bytes(size))
    assert mapped_bytes(str(folder)) == (0, 0)
    with (
        path.open("rb") as one,
        library.open("rb") as two,
        other.open("rb") as three,
        mmap.mmap(one.fileno(), size, prot=mmap.PROT_READ) as mine,
        mmap.mmap(two.fileno(), size, prot=mmap.PROT_READ),
        mmap.mmap(three.fileno(), size, prot=mmap.PROT_READ),
    ):
        mapped, _ = mapped_bytes(str(folder))
        assert mapped == size
        assert sum(mine[:]) == 0  # reads every page
        assert mapped_bytes(str(folder)) == (size, size)
    assert mapped_bytes(str(folder)) == (0, 0)
