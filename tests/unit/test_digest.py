"""SHA-256 of the kernels against that of Python."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import RuntimeBindError
from edgemem.replay import digest
from edgemem.replay.digest import sha256
from edgemem.system.file_bytes import FileBytes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@given(st.lists(st.binary(max_size=200), max_size=6))
def test_the_digest_of_parts_is_that_of_all_bytes(parts: list[bytes]) -> None:
    assert sha256(parts) == hashlib.sha256(b"".join(parts)).hexdigest()


def test_parts_of_files_and_of_memory_count_alike(tmp_path: Path) -> None:
    data = bytes(range(256)) * 3000
    path = tmp_path / "bytes"
    path.write_bytes(data)
    with path.open("rb") as file:
        blocks = list(FileBytes(file.fileno(), len(data)).blocks(5, 700_000))
    assert len(blocks) > 1
    known = hashlib.sha256(data[5:700_000] + b"end").hexdigest()
    assert sha256([*blocks, b"", b"end"]) == sha256((data[5:700_000], b"end")) == known


def test_a_file_is_read_where_there_is_no_pread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 300
    (tmp_path / "bytes").write_bytes(data)
    monkeypatch.delattr(os, "pread")
    with (tmp_path / "bytes").open("rb") as file:
        read = FileBytes(file.fileno(), len(data))
        assert [read[40:50], read[44:48], read[9:70_000]] == [data[40:50], data[44:48], data[9:70_000]]


def test_a_known_digest() -> None:
    assert sha256([b"ab", b"c"]) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_without_the_allocator_the_digest_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise RuntimeBindError("edgemem was installed without its compiled allocator")

    monkeypatch.setattr(digest, "library", missing)
    assert sha256([b"ab", b"c"]) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
