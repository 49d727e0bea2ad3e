"""What native libraries say is what readelf says of them, and damaged ones are refused."""

from __future__ import annotations

import functools
import re
import shutil
import struct
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem import _kernels
from edgemem.android.elf import ABIS, Elf, Symbol, check_abi, read_elf
from edgemem.errors import ApkError, UnknownAbiError
from edgemem.replay.library import find_library

_SOURCE = """
#include <stdio.h>
#include <math.h>
int given_variable = 1;
__attribute__((weak)) int given_weak(void) { return 2; }
__attribute__((visibility("hidden"))) int hidden(void) { return 3; }
__attribute__((visibility("protected"))) int given_protected(void) { return 4; }
static int own(void) { return 5; }
extern int needed_weak(void) __attribute__((weak));
extern int needed(double);
int given(double x) { printf("%f", x); return hidden() + own() + needed(cos(x)) + (needed_weak ? needed_weak() : 0); }
"""
_VERSIONS = (
    "VERS_1 { global: given; given_weak; local: own*; };\nVERS_2 { global: given_variable; given_protected; } VERS_1;\n"
)
_STYLES = {
    "gnu": ("-Wl,--hash-style=gnu", "-Wl,-soname,libgnu.so", "-Wl,-z,max-page-size=16384"),
    "sysv": ("-Wl,--hash-style=sysv", "-Wl,-z,max-page-size=65536"),
    "both": ("-Wl,--hash-style=both", "-Wl,-soname,libboth.so", "-Wl,-z,max-page-size=4096"),
    "versions": ("-Wl,--version-script=versions", "-Wl,-soname,libversions.so", "-Wl,-z,max-page-size=16384"),
    "alone": ("-nostdlib", "-DALONE", "-Wl,-z,max-page-size=16384"),
}


@functools.cache
def _library(style: str) -> bytes:
    """A small library."""
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("needs gcc and g++")
    with TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "a.c").write_text("int alone(void) { return 1; }\n" if style == "alone" else _SOURCE)
        (home / "versions").write_text(_VERSIONS)
        command = [
            "gcc",
            "-shared",
            "-fPIC",
            "-O1",
            "-s",
            "-fno-stack-protector",
            "-o",
            "a.so",
            "a.c",
            *_STYLES[style],
            "-lm",
        ]
        subprocess.run(command, cwd=home, check=True, capture_output=True)
        return (home / "a.so").read_bytes()


def _said(path: Path) -> Elf:
    """What readelf says of a library of this machine."""
    tool = shutil.which("readelf")
    if tool is None:
        pytest.skip("no readelf here")
    said = subprocess.run(
        [tool, "-W", "-d", "-l", "--dyn-syms", str(path)], capture_output=True, text=True, check=True
    ).stdout
    undefined, defined = list[Symbol](), list[Symbol]()
    row = re.compile(r"^ *\d+: \w+ +\w+ \w+ +(GLOBAL|WEAK) +(DEFAULT|PROTECTED) +(\w+) (\S+)", re.MULTILINE)
    for binding, _, section, text in row.findall(said):
        if section == "ABS" and text.startswith("VERS_"):
            continue  # marks of versions
        name, _, version = text.partition("@")
        symbol = Symbol(name, version.removeprefix("@") or None, binding == "WEAK")
        (undefined if section == "UND" else defined).append(symbol)
    soname = re.search(r"\(SONAME\) .*\[(.*)\]", said)
    return Elf(
        abi="x86_64",
        soname=soname[1] if soname else None,
        needed=tuple(re.findall(r"\(NEEDED\) .*\[(.*)\]", said)),
        undefined=tuple(undefined),
        defined=tuple(defined),
        alignments=tuple(int(a, 16) for a in re.findall(r"^  LOAD .* (0x\w+)$", said, re.MULTILINE)),
    )


@pytest.fixture(params=_STYLES)
def library(request: pytest.FixtureRequest) -> bytes:
    data = _library(request.param)
    if struct.unpack_from("<H", data, 18) != (62,):
        pytest.skip("needs gcc and g++")
    return data


def test_a_library_is_what_readelf_says(library: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(library)
    found = read_elf(library)
    assert found == _said(tmp_path / "a.so")
    if found.needed:
        assert {"given", "given_weak", "given_variable", "given_protected"} <= {s.name for s in found.defined}
        assert {"needed", "needed_weak", "printf", "cos"} <= {s.name for s in found.undefined}
        assert not {"hidden", "own"} & {s.name for s in (*found.defined, *found.undefined)}
        assert next(s for s in found.undefined if s.name == "needed_weak").is_weak
        assert "libm.so.6" in found.needed


def test_section_headers_are_not_needed(library: bytes) -> None:
    without = bytearray(library)
    without[40:48], without[58:64] = bytes(8), bytes(6)
    assert read_elf(bytes(without)) == read_elf(library)


def test_the_kernels_are_what_readelf_says() -> None:
    library = find_library()
    assert library is not None
    assert _kernels.__file__ is not None
    for path in (Path(_kernels.__file__), library):
        expected = _said(path)
        ours = read_elf(path.read_bytes())
        assert set(ours.undefined) == set(expected.undefined)
        assert set(ours.defined) == set(expected.defined)
        assert (ours.soname, ours.needed, ours.alignments) == (expected.soname, expected.needed, expected.alignments)


def test_versions_of_what_is_needed_and_given_are_read() -> None:
    found = read_elf(_library("versions"))
    given = {s.name: s.version for s in found.defined if s.name.startswith("given")}
    assert given == {
        "given": "VERS_1",
        "given_weak": "VERS_1",
        "given_variable": "VERS_2",
        "given_protected": "VERS_2",
    }
    versions = {s.name: s.version for s in found.undefined}
    assert versions["needed"] is None
    assert (versions["printf"] or "").startswith("GLIBC_")


def test_pages_are_told_by_the_load_segments() -> None:
    assert read_elf(_library("gnu")).fits_pages
    assert set(read_elf(_library("gnu")).alignments) == {16384}
    assert read_elf(_library("sysv")).fits_pages
    assert not read_elf(_library("both")).fits_pages


def _with(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def test_the_machine_is_the_abi() -> None:
    data = _library("gnu")
    arm = read_elf(_with(data, 18, struct.pack("<H", 183)))
    assert arm.abi == "arm64-v8a"
    assert replace(arm, abi="x86_64") == replace(read_elf(_with(data, 18, struct.pack("<H", 62))), abi="x86_64")
    for machine in (3, 40, 243, 0):
        with pytest.raises(ApkError, match=f"machine {machine} of ELF; edgemem packages arm64-v8a and x86_64"):
            read_elf(_with(data, 18, struct.pack("<H", machine)))


def test_only_two_abis_have_libraries() -> None:
    assert ABIS == ("arm64-v8a", "x86_64")
    for name in ABIS:
        check_abi(name)
    for name in ("armeabi-v7a", "x86", "arm64", "", "ARM64-V8A"):
        with pytest.raises(UnknownAbiError, match="take arm64-v8a or x86_64"):
            check_abi(name)


def test_what_is_no_library_is_said() -> None:
    data = _library("gnu")
    program_headers, _ = struct.unpack_from("<QQ", data, 32)
    for changed, why in (
        (b"", "no ELF library"),
        (b"#!/bin/sh\n", "no ELF library"),
        (data[:60], "cut short"),
        (_with(data, 4, b"\1"), "not of 64 bits"),
        (_with(data, 5, b"\2"), "little-endian"),
        (_with(data, 16, b"\2"), "no shared library"),
        (_with(data, 54, b"\x20"), "no program headers"),
        (_with(data, 56, b"\0\0"), "no program headers"),
        (_with(data, 56, b"\xff\xff"), "too many"),
        (_with(data, 32, b"\xff" * 8), "after the file"),
        (_with(data, program_headers + 48, struct.pack("<Q", 3)), "is not aligned to 3 bytes"),
        (_with(data, program_headers + 48, struct.pack("<Q", 0)), "is not aligned to 0 bytes"),
        (_with(data, program_headers + 16, struct.pack("<Q", 8)), "is not aligned"),
        (_with(data, program_headers + 32, b"\xff" * 7), "longer than the file"),
    ):
        with pytest.raises(ApkError, match=why) as error:
            read_elf(changed)
        assert "\n" not in str(error.value)


def _dynamic(data: bytes) -> dict[int, int]:
    """Where the values of the dynamic section are, by their tags."""
    (at,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    segments = [struct.unpack_from("<IIQQQQQQ", data, at + 56 * n) for n in range(count)]
    (begin, size) = next((s[2], s[5]) for s in segments if s[0] == 2)
    found = {}
    for place in range(begin, begin + size, 16):
        (tag,) = struct.unpack_from("<Q", data, place)
        if tag == 0:
            break
        found[tag] = place + 8
    return found


def test_tables_that_are_outside_or_too_long_are_refused(library: bytes) -> None:
    # Names, symbols, their hash tables and versions, and the places of names.
    tables = {1, 4, 5, 6, 10, 11, 14, 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF}
    checked = 0
    for tag, at in _dynamic(library).items():
        if tag in tables and not (tag == 0x6FFFFEF5 and 4 in _dynamic(library)):
            for value in (len(library) + (1 << 20), 1 << 40, (1 << 64) - 1):
                with pytest.raises(ApkError):
                    read_elf(_with(library, at, struct.pack("<Q", value)))
                checked += 1
    assert checked >= 12


def test_files_cut_short_are_refused(library: bytes) -> None:
    """The last segment ends after all of what is read; behind it are section headers that are not."""
    (at,), (count,) = struct.unpack_from("<Q", library, 32), struct.unpack_from("<H", library, 56)
    segments = [struct.unpack_from("<IIQQQQQQ", library, at + 56 * n) for n in range(count)]
    last = max(s[2] + s[5] for s in segments if s[0] == 1)
    for end in (*range(1200), *range(1200, last, 37), last - 1):
        with pytest.raises(ApkError):
            read_elf(library[:end])
    assert read_elf(library[:last]) == read_elf(library)


@pytest.mark.full
@given(st.data())
def test_hostile_bytes_raise_nothing_else(data: st.DataObject) -> None:
    content = bytearray(_library(data.draw(st.sampled_from(sorted(_STYLES)))))
    dynamic = sorted(_dynamic(bytes(content)).values())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 2000) | st.integers(0, len(content) - 9) | st.sampled_from(dynamic))
        value = data.draw(
            st.binary(min_size=1, max_size=4) | st.sampled_from((b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f"))
        )
        content[at : at + len(value)] = value
    with suppress(ApkError):
        read_elf(bytes(content))


def test_names_are_not_read_for_ever() -> None:
    """Many symbols whose names are long and overlap: together they may not be longer than the limit."""
    names, count = b"\0" + b"x" * (1 << 20) + b"\0", 100
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", 1 + n, 16, 0, 1, 0, 0) for n in range(count))
    table = struct.pack("<II", 0, count + 1)
    begin = 64 + 2 * 56
    places = {5: begin, 10: len(names), 6: begin + len(names)}
    places |= {11: 24, 4: begin + len(names) + len(symbols)}
    dynamic = b"".join(struct.pack("<QQ", *pair) for pair in places.items()) + bytes(16)
    body = names + symbols + table + dynamic
    size = begin + len(body)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1" + bytes(9), 3, 183, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 16384)
    at = size - len(dynamic)
    segment = struct.pack("<IIQQQQQQ", 2, 6, at, at, at, len(dynamic), len(dynamic), 8)
    with pytest.raises(ApkError, match="names have more than 67,108,864 bytes"):
        read_elf(header + load + segment + body)
    short = body.replace(b"x" * (1 << 20), b"x" * 200 + b"\0" * ((1 << 20) - 200))
    found = read_elf(header + load + segment + short)
    assert [len(s.name) for s in found.defined] == list(range(200, 100, -1))
    assert (found.abi, found.soname, found.needed, found.fits_pages) == ("arm64-v8a", None, (), True)
