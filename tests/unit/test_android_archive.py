"""The zip archive of an APK: Python's zipfile reads what is written, and what is ambiguous or damaged is not read."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edgemem.android import archive as archives
from edgemem.android.archive import Entry, read_archive, write_archive
from edgemem.errors import ApkError
from tests.android_packages import ENTRIES, end_of

if TYPE_CHECKING:
    import random

_PARTS = st.text(st.characters(codec="utf-8", exclude_characters="/\\:\x7f", min_codepoint=32), min_size=1, max_size=9)
_NAMES = st.lists(_PARTS.filter(lambda p: p not in (".", "..")), min_size=1, max_size=3).map("/".join)
_ENTRIES = st.lists(
    st.builds(
        Entry,
        name=_NAMES,
        data=st.binary(max_size=300) | st.binary(min_size=1, max_size=3).map(lambda b: b * 700),
        stored=st.booleans(),
        alignment=st.sampled_from([1 << n for n in range(15)]),
    ),
    unique_by=lambda e: e.name,
    max_size=6,
)


def _seems_signed(entries: list[Entry]) -> bool:
    """Whether the last file ends as a signing block does; see the test of that."""
    return bool(entries) and write_archive(entries).body.endswith(b"APK Sig Block 42")


@pytest.mark.full
@given(_ENTRIES)
def test_what_is_written_is_read_again_and_by_zipfile(entries: list[Entry]) -> None:
    assume(not _seems_signed(entries))
    data = write_archive(entries).to_bytes()
    found = read_archive(data)
    assert [(e.name, e.data, e.stored) for e in found] == [(e.name, e.data, e.stored) for e in entries]
    for old, new in zip(entries, found, strict=True):
        assert new.offset is not None
        assert new.offset % new.alignment == 0
        assert new.alignment == 16384 or new.offset % (2 * new.alignment)
        if old.stored:
            assert new.offset % old.alignment == 0
            assert data[new.offset : new.offset + len(old.data)] == old.data
    with zipfile.ZipFile(io.BytesIO(data)) as other:
        assert other.testzip() is None
        assert [(i.filename, other.read(i), i.compress_type == 0) for i in other.infolist()] == [
            (e.name, e.data, e.stored) for e in entries
        ]
        assert {i.date_time for i in other.infolist()} <= {(1980, 1, 1, 0, 0, 0)}


def test_the_same_entries_give_the_same_bytes_and_another_order_others() -> None:
    assert write_archive(ENTRIES) == write_archive([replace(e) for e in ENTRIES])
    assert write_archive(ENTRIES) != write_archive(ENTRIES[::-1])


@pytest.mark.full
@given(_ENTRIES, st.booleans())
def test_archives_of_zipfile_are_read(entries: list[Entry], is_stored: bool) -> None:
    assume(not _seems_signed([replace(e, stored=is_stored) for e in entries]))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED) as other:
        for entry in entries:
            other.writestr(entry.name, entry.data)
    assert [(e.name, e.data, e.stored) for e in read_archive(out.getvalue())] == [
        (e.name, e.data, is_stored) for e in entries
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../up", "leads out"),
        ("a/../../b", "leads out"),
        ("/root", "leads out"),
        ("", "empty"),
        ("folder/", "a folder"),
        ("a//b", "empty"),
        ("./a", "leads out"),
        ("a\\b", "character"),
        ("c:a", "character"),
        ("a\0b", "character"),
        ("a\nb", "character"),
        ("n" * 1025, "1024 bytes"),
        ("\ud800", "no Unicode"),
    ],
)
def test_names_that_lead_elsewhere_are_neither_written_nor_read(name: str, why: str) -> None:
    with pytest.raises(ApkError, match=why):
        write_archive([Entry(name, b"")])
    if len(name) > 1024:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as other:
            other.writestr(name, b"1")
        data = out.getvalue()
    else:
        there = name.encode("utf-8", "surrogatepass") or b"\0"
        data = write_archive([Entry("x" * len(there), b"1")]).to_bytes().replace(b"x" * len(there), there)
    with pytest.raises(ApkError):
        read_archive(data)


def test_names_given_twice_and_alignments_that_are_none_are_not_written() -> None:
    with pytest.raises(ApkError, match="another file has it"):
        write_archive([Entry("a", b"1"), Entry("a", b"2")])
    for alignment in (0, 3, -4, 1 << 15):
        with pytest.raises(ApkError, match="no power of two"):
            write_archive([Entry("a", b"", alignment=alignment)])


def test_names_given_twice_are_not_read() -> None:
    data = write_archive([Entry("one", b"1"), Entry("two", b"2")]).to_bytes()
    with pytest.raises(ApkError, match="two files 'one'"):
        read_archive(data.replace(b"two", b"one"))


def test_headers_that_do_not_agree_are_refused() -> None:
    data = write_archive([Entry("good", b"content")]).to_bytes()
    directory, _ = end_of(data)
    # Tools that read the local header would see another name, size, checksum or way of packing.
    for at in (*range(6, 10), *range(14, 26), *range(30, 34)):
        local = bytearray(data)
        local[at] ^= 1
        with pytest.raises(ApkError):
            read_archive(bytes(local))
    assert data[directory : directory + 4] == b"PK\1\2"


def test_every_shorter_file_is_refused_and_every_longer_one() -> None:
    data = write_archive(ENTRIES).to_bytes()
    for end in (*range(0, len(data), 97), *range(len(data) - 600, len(data))):
        with pytest.raises(ApkError):
            read_archive(data[:end])
    for more in (b"\0", b"more", data):
        with pytest.raises(ApkError):
            read_archive(data + more)


@given(st.randoms(use_true_random=False))
def test_a_changed_bit_is_refused_or_changes_no_file(chance: random.Random) -> None:
    data = bytearray(write_archive(ENTRIES).to_bytes())
    expected = [(e.name, e.data, e.stored) for e in ENTRIES]
    directory, _ = end_of(bytes(data))
    at = chance.choice((chance.randrange(len(data)), chance.randrange(directory, len(data)), chance.randrange(60)))
    data[at] ^= 1 << chance.randrange(8)
    try:
        found = read_archive(bytes(data))
    except ApkError:
        return
    assert [(e.name, e.data, e.stored) for e in found] == expected


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=4)), max_size=4))
def test_hostile_bytes_raise_nothing_else(content: bytes, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(write_archive([Entry("a/b", content, stored=False), Entry("c", content)]).to_bytes())
    for at, value in changes:
        data[at : at + len(value)] = value
    for each in (bytes(data), content, content + b"PK\5\6" + bytes(18)):
        with suppress(ApkError):
            read_archive(each)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zlib.compress(bytes(1 << 24), 9, -15)
    data = bytearray(write_archive([Entry("bomb", b"", stored=False)]).to_bytes())
    body, directory = bytearray(data[:34]), bytearray(data[end_of(bytes(data))[0] : -22])
    for header, at in ((body, 14), (directory, 16)):
        header[at : at + 12] = struct.pack("<III", zlib.crc32(bytes(1 << 24)), len(bomb), 1 << 24)
    body += bomb
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(directory), len(body), 0)
    (entry,) = read_archive(bytes(body + directory) + end)
    assert len(entry.data) == 1 << 24
    monkeypatch.setattr(archives, "MOST_BYTES", 1 << 23)
    monkeypatch.setattr(archives, "_inflated", None)
    with pytest.raises(ApkError, match="the most that is read"):
        read_archive(bytes(body + directory) + end)
    # It says that it is small, and is not.
    monkeypatch.undo()
    for header, at in ((body, 22), (directory, 24)):
        header[at : at + 4] = struct.pack("<I", 100)
    with pytest.raises(ApkError, match="does not have the 100 bytes"):
        read_archive(bytes(body + directory) + end)
    # More than Deflate can unpack.
    for header, at in ((body, 22), (directory, 24)):
        header[at : at + 4] = struct.pack("<I", 1 << 29)
    with pytest.raises(ApkError, match="cannot be"):
        read_archive(bytes(body + directory) + end)


def _two(first_at: int, second_at: int, gap: bytes = b"") -> bytes:
    """Two stored files; the directory says where their headers are."""
    one, two = (write_archive([Entry(name, b"12345", alignment=1)]) for name in ("one", "two"))
    directory = bytearray(one.directory + two.directory)
    directory[42:46] = struct.pack("<I", first_at)
    directory[len(one.directory) + 42 : len(one.directory) + 46] = struct.pack("<I", second_at)
    body = one.body + gap + two.body
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 2, 2, len(directory), len(body), 0)
    return bytes(body + directory + end)


def test_files_that_overlap_or_leave_gaps_are_refused() -> None:
    size = len(write_archive([Entry("one", b"12345", alignment=1)]).body)
    assert [e.name for e in read_archive(_two(0, size))] == ["one", "two"]
    with pytest.raises(ApkError, match="leave a gap"):
        read_archive(_two(0, size + 4, b"hide"))
    with pytest.raises(ApkError, match="two headers"):
        read_archive(_two(size, size))
    inner = write_archive([Entry("two", b"12345", alignment=1)]).body
    outer = write_archive([Entry("one", inner, alignment=1)])
    directory = bytearray(outer.directory + write_archive([Entry("two", b"12345", alignment=1)]).directory)
    directory[-7:-3] = struct.pack("<I", len(outer.body) - len(inner))
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 2, 2, len(directory), len(outer.body), 0)
    with pytest.raises(ApkError, match="overlap"):
        read_archive(outer.body + directory + end)


def test_what_the_reader_does_not_read_is_said() -> None:
    plain = write_archive([Entry("a", b"1")]).to_bytes()
    directory, end = end_of(plain)

    def changed(at: int, value: bytes) -> bytes:
        return plain[:at] + value + plain[at + len(value) :]

    for data, why in (
        (b"", "no package"),
        (b"not a zip archive at all, but some text", "no package"),
        (plain[:-2] + b"\x07\0comment", "no package"),
        (changed(end + 4, b"\1"), "several parts"),
        (changed(end + 8, b"\2\0\2\0"), "cut short"),
        (changed(end + 8, b"\0\0\0\0"), "more bytes"),
        (changed(end + 8, b"\xff\xff\xff\xff"), "most that are read"),
        (changed(end + 16, b"\xff\xff\xff\xff"), "does not end where"),
        (changed(directory + 8, b"\1"), "encrypted"),
        (changed(directory + 8, b"\x08"), "encrypted"),
        (changed(directory + 10, b"\x0c"), "encrypted"),
        (changed(directory + 42, b"\xff\xff\xff\x7f"), "outside"),
        (changed(directory + 46, b"\xff"), "no UTF-8"),
    ):
        with pytest.raises(ApkError, match=why):
            read_archive(data)


def test_a_file_that_seems_to_be_a_signing_block_is_refused() -> None:
    """Android would take its end for a block; in a signed package the block comes after it."""
    with pytest.raises(ApkError, match="signing block do not agree"):
        read_archive(write_archive([Entry("a", bytes(99) + b"APK Sig Block 42")]).to_bytes())


def test_a_promised_alignment_must_be_kept() -> None:
    data = bytearray(write_archive([Entry("lib.so", b"1234", alignment=64)]).to_bytes())
    at = data.index(b"\x35\xd9")
    data[at + 4 : at + 6] = struct.pack("<H", 128)
    with pytest.raises(ApkError, match="not aligned to 128 bytes"):
        read_archive(bytes(data))


def test_too_many_bytes_or_files_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_archive([Entry("a", b"1" * 90)])
    monkeypatch.setattr(archives, "MOST_BYTES", len(written.to_bytes()))
    assert read_archive(written.to_bytes())
    monkeypatch.setattr(archives, "MOST_BYTES", len(written.to_bytes()) - 1)
    for act in (written.to_bytes, lambda: write_archive([Entry("a", b"1" * 200)])):
        with pytest.raises(ApkError, match="would have more than"):
            act()
    monkeypatch.setattr(archives, "MOST_ENTRIES", 1)
    with pytest.raises(ApkError, match="1 files"):
        write_archive([Entry("a", b""), Entry("b", b"")])
