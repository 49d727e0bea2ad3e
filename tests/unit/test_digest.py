"""SHA-256 of the kernels against that of Python."""

from __future__ import annotations

import hashlib
import mmap
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem import native
from edgemem.native.digest import sha256

if TYPE_CHECKING:
    from pathlib import Path


@given(st.lists(st.binary(max_size=200), max_size=6))
def test_the_digest_of_parts_is_that_of_all_bytes(parts: list[bytes]) -> None:
    assert sha256(parts) == hashlib.sha256(b"".join(parts)).hexdigest()


def test_a_mapped_file_is_read_where_it_lies_and_can_be_closed(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(256)) * 1000)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        with memoryview(data) as view, view[5:100_000] as part:
            found = sha256([part, b"", b"end"])
        assert found == hashlib.sha256(data[5:100_000] + b"end").hexdigest()


def test_without_kernels_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    known = sha256([b"ab", b"c"])
    monkeypatch.setattr(native, "COMPILED", False)
    assert sha256([b"ab", b"c"]) == known == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_other_values_than_bytes_are_refused() -> None:
    for wrong in ("text", 5, None):
        with pytest.raises(TypeError):
            native.kernels.sha256([wrong])  # type: ignore[list-item]
