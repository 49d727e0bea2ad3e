"""Code that is left goes from the process, and is there when it runs again; what was written to stays."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from edgemem.system.code_pages import leave_code

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def code_bytes(file: str) -> int:
    """Resident bytes of the code of a library in this process."""
    is_code, found = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            is_code = " r-xp " in line and line.endswith(file)
        elif is_code and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


def test_code_goes_and_comes_again() -> None:
    multiarray = sys.modules["numpy._core._multiarray_umath"]
    assert multiarray.__file__ is not None
    values = np.random.default_rng(0).standard_normal(1000)
    ordered = np.sort(values)
    before = code_bytes(multiarray.__file__)
    assert before > 1 << 18
    leave_code(["numpy._core._multiarray_umath", "no_such_module", "sys"])
    assert code_bytes(multiarray.__file__) < before / 2  # Python itself runs some of it meanwhile
    assert np.array_equal(np.sort(values), ordered)


@pytest.mark.parametrize("is_written", [True, False])
def test_code_that_was_written_to_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool) -> None:
    file = tmp_path / "code.bin"
    file.write_bytes(b"a" * 2 * mmap.PAGESIZE)
    module = ModuleType("written_code")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "written_code", module)
    with file.open("r+b") as opened:
        memory = mmap.mmap(opened.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    if is_written:
        memory[mmap.PAGESIZE] = ord("b")
    else:
        assert memory[mmap.PAGESIZE] == ord("a")
    first = ctypes.c_char.from_buffer(memory)
    libc = ctypes.CDLL(None)
    readable, executable = 1, 4
    begin = ctypes.c_void_p(ctypes.addressof(first))
    assert libc.mprotect(begin, ctypes.c_size_t(len(memory)), readable | executable) == 0
    assert code_bytes(str(file)) > 0
    leave_code(["written_code"])
    assert (code_bytes(str(file)) > 0) == is_written
    assert memory[mmap.PAGESIZE] == ord("b" if is_written else "a")
