"""What a native library of an APK needs of the device, read with readelf, and whether bionic has it there.

A device's linker looks for a symbol, with its version, in the libraries that the importing one names; glibc's linker
would find it in any library of the process. So what the shim's run cannot show is checked here.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.android.symbols import API_LEVEL, LIBRARIES, home_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Import", "Needs", "exports", "read_needs", "refusals"]

_SYSTEM: Final = frozenset(library.name for library in LIBRARIES)
_PAGE: Final = 16384  # bytes, of devices with large pages
_READELF_S: Final = 60


@dataclass(frozen=True, slots=True)
class Import:
    """A symbol that a library imports: its version and the library it was linked with, "" where it has none."""

    name: str
    version: str
    library: str
    is_weak: bool


@dataclass(frozen=True, slots=True)
class Needs:
    """What the dynamic linker is asked for; `alignments` are those of the LOAD segments, `flags` of the stack's."""

    soname: str
    needed: tuple[str, ...]
    imports: tuple[Import, ...]
    has_tls: bool
    stack: str
    alignments: tuple[int, ...]
    tags: frozenset[str]


def read_needs(path: Path) -> Needs:
    """Reads an ELF library of any processor."""
    dynamic, headers = _readelf(path, "-d"), _readelf(path, "-l")
    versions = {
        number: (file, version)
        for file, named in re.findall(r"File: (\S+) .*\n((?:\s+\S+:\s+Name: .*\n?)*)", _readelf(path, "-V"))
        for version, number in re.findall(r"Name: (\S+) .*Version: (\d+)", named)
    }
    imports = []
    for bind, name, version, number in re.findall(
        r" (GLOBAL|WEAK) +\w+ +UND (\S+?)(?:@(\S+) \((\d+)\))?\n", _readelf(path, "--dyn-syms")
    ):
        imports.append(Import(name, version, versions[number][0] if number else "", bind == "WEAK"))
    sonames = re.findall(r"\(SONAME\).*\[(.+)\]", dynamic)
    stacks = re.findall(r"GNU_STACK(?: +0x\w+){5} (\S+)", headers)
    return Needs(
        sonames[0] if sonames else "",
        tuple(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)),
        tuple(imports),
        re.search(r"^ +TLS +0x", headers, re.MULTILINE) is not None,
        stacks[0] if stacks else "",
        tuple(int(a, 16) for a in re.findall(r"^ +LOAD .*(0x\w+)$", headers, re.MULTILINE)),
        frozenset(re.findall(r"^ +0x\w+ \((\w+)\)", dynamic, re.MULTILINE)),
    )


def exports(path: Path) -> frozenset[str]:
    """The symbols that other libraries can import from this one."""
    found = re.findall(r" (?:GLOBAL|WEAK) +DEFAULT +(?!UND)\w+ (\S+)\n", _readelf(path, "--dyn-syms"))
    return frozenset(name.partition("@")[0] for name in found)


def refusals(path: Path, others: Mapping[str, frozenset[str]]) -> list[str]:
    """Why a device of the lowest API level would not take a library; `others` are the APK's own, with their exports."""
    needs = read_needs(path)
    said = [f"it needs {name}, which no device has" for name in needs.needed if name not in _SYSTEM | set(others)]
    if needs.soname not in {"", path.name}:
        said.append(f"its SONAME is {needs.soname}, not {path.name}")
    if needs.has_tls:
        said.append("it has a TLS segment; bionic has no ELF TLS below API level 29")
    if "E" in needs.stack or not needs.stack:
        said.append("its stack is executable, or it does not say")
    said += [
        f"its segments have an alignment of {a:#x}, below 16 KiB" for a in sorted(set(needs.alignments)) if a < _PAGE
    ]
    said += [f"it has {tag}" for tag in ("TEXTREL", "RELR") if tag in needs.tags]
    if "GNU_HASH" not in needs.tags and "HASH" not in needs.tags:
        said.append("it has no hash table")
    for one in needs.imports:
        problem = _problem(one, needs, others)
        if problem:
            said.append(f"{one.name}{'@' if one.version else ''}{one.version}: {problem}")
    return said


def _problem(one: Import, needs: Needs, others: Mapping[str, frozenset[str]]) -> str:
    """What is wrong with an import, or ""."""
    home = home_of(one.name)
    if home is None:
        own = [name for name in needs.needed if one.name in others.get(name, ())]
        return "" if own or one.is_weak else f"no library of API level {API_LEVEL} that it needs is known to have it"
    if home.name not in needs.needed:
        return f"it is in {home.name}, which is not needed"
    if one.version != home.version:
        return f"{home.name} has it with version {home.version or 'none'}"
    if one.library not in {"", home.name}:
        return f"it was linked with {one.library}, but is in {home.name}"
    return ""


def _readelf(path: Path, option: str) -> str:
    return subprocess.run(
        ["readelf", "-W", option, str(path)], capture_output=True, text=True, timeout=_READELF_S, check=True
    ).stdout
