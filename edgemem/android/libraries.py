"""Whether the native libraries of an APK can be loaded: the right machine, pages of 16 KiB, everything they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.android.contents import LIBRARIES, LIBRARY_ALIGNMENT, OWN_LIBRARY
from edgemem.android.elf import read_elf
from edgemem.errors import ApkError
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from edgemem.android.elf import Elf

__all__ = ["library_faults"]

# Libraries that apps may load on every Android from version 7.0 (API level 24).
_OF_ANDROID: Final = (
    *("libEGL.so", "libGLESv1_CM.so", "libGLESv2.so", "libGLESv3.so", "libOpenMAXAL.so", "libOpenSLES.so"),
    *("libandroid.so", "libc.so", "libcamera2ndk.so", "libdl.so", "libjnigraphics.so", "liblog.so", "libm.so"),
    *("libmediandk.so", "libstdc++.so", "libvulkan.so", "libz.so"),
)
# What ONNX Runtime asks our library for by name, and how the names begin that Java asks it for.
_ENTRY_POINT: Final = "RegisterCustomOps"
_JAVA: Final = "Java_ai_edgemem_Native_"
_OF_THE_PACKAGE: Final = ("Ort", "em_")  # how the names of functions begin that no library of Android has


def library_faults(abi: str, libraries: Mapping[str, bytes]) -> tuple[str, ...]:
    """What keeps the libraries of one ABI, by file name, from being loaded; () if nothing does."""
    missing = [name for name in LIBRARIES if name not in libraries]
    faults = [f"lib/{abi} has no {join_names(missing)}"] if missing else []
    read: dict[str, Elf] = {}
    for name, content in sorted(libraries.items()):
        try:
            read[name] = read_elf(content)
        except ApkError as e:
            faults.append(f"lib/{abi}/{name}: {e}")
    for name, elf in read.items():
        faults += [f"lib/{abi}/{name} {why}" for why in _faults_of(name, elf, abi, read)]
    return tuple(faults)


def _faults_of(name: str, elf: Elf, abi: str, others: Mapping[str, Elf]) -> Iterator[str]:
    if elf.abi != abi:
        yield f"is for {elf.abi}, not for {abi}"
    short = [alignment for alignment in elf.alignments if alignment % LIBRARY_ALIGNMENT]
    if short:
        yield f"has a segment aligned to {min(short):,} bytes; Android's pages have up to {LIBRARY_ALIGNMENT:,}"
    if elf.soname and elf.soname != name:
        yield f"calls itself {elf.soname}"
    absent = [needed for needed in elf.needed if needed not in _OF_ANDROID and needed not in others]
    if absent:
        yield f"needs {join_names(absent)}, which neither the package nor Android has"
    defined = {symbol.name for other in others.values() for symbol in other.defined}
    unserved = [s.name for s in elf.undefined if s.name.startswith(_OF_THE_PACKAGE) and s.name not in defined]
    if unserved:
        yield f"needs {join_names(unserved)}, which no library of the package has"
    own = {symbol.name for symbol in elf.defined}
    if name == OWN_LIBRARY and not (_ENTRY_POINT in own and any(symbol.startswith(_JAVA) for symbol in own)):
        yield f"lacks {_ENTRY_POINT} or {_JAVA}*: it is another library"
