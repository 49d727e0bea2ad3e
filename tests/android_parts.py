"""Small parts of Android packages: ELF libraries, an archive of ONNX Runtime, dex files. Valid, and of no use."""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["ABIS", "NATIVE", "RUNTIME", "RUNTIME_JNI", "archive_of_runtime", "dex_file", "elf", "libraries"]

ABIS = ("arm64-v8a", "x86_64")
_MACHINES = {"arm64-v8a": 183, "x86_64": 62, "riscv64": 243}

RUNTIME = "libonnxruntime.so"
RUNTIME_JNI = "libonnxruntime4j_jni.so"
NATIVE = "libedgemem.so"


def elf(
    abi: str,
    soname: str,
    *,
    needed: Sequence[str] = ("libc.so",),
    undefined: Sequence[str] = (),
    defined: Sequence[str] = (),
    alignment: int = 16384,
    more: bytes = b"",
) -> bytes:
    """A shared library of one segment that holds everything, with `more` bytes at its end."""
    names = b"\0"
    at = {}
    for name in dict.fromkeys((soname, *needed, *undefined, *defined)):
        at[name] = len(names)
        names += name.encode() + b"\0"
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    symbols += b"".join(struct.pack("<IBBHQQ", at[name], 0x12, 0, 0, 0, 0) for name in undefined)
    symbols += b"".join(struct.pack("<IBBHQQ", at[name], 0x12, 0, 1, 64, 0) for name in defined)
    count = len(symbols) // 24
    hashes = struct.pack("<II", 1, count) + struct.pack(f"<{1 + count}I", *range(1 + count))
    begin = 64 + 2 * 56
    tags = [(1, at[name]) for name in needed]
    dynamic = begin + len(symbols)
    hash_at = dynamic + 16 * (len(tags) + 7)
    text = hash_at + len(hashes)
    tags += [(14, at[soname]), (4, hash_at), (5, text), (6, begin), (10, len(names)), (11, 24), (0, 0)]
    body = symbols + b"".join(struct.pack("<QQ", *tag) for tag in tags) + hashes + names + more
    whole = begin + len(body)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, _MACHINES[abi], 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, whole, whole, alignment)
    where = struct.pack("<IIQQQQQQ", 2, 4, dynamic, dynamic, dynamic, 16 * len(tags), 16 * len(tags), 8)
    return header + load + where + body


def libraries(abi: str) -> dict[str, bytes]:
    """The libraries of one ABI by file name, as small as they can be."""
    return {
        RUNTIME: elf(abi, RUNTIME, defined=("OrtGetApiBase",), more=b"\0VERS_1.29.0\0"),
        RUNTIME_JNI: elf(abi, RUNTIME_JNI, needed=(RUNTIME, "liblog.so", "libc.so"), undefined=("OrtGetApiBase",)),
        NATIVE: elf(
            abi,
            NATIVE,
            needed=("liblog.so", "libc.so", "libdl.so"),
            undefined=("malloc",),
            defined=("RegisterCustomOps", "Java_ai_edgemem_Native_abi"),
        ),
    }


def archive_of_runtime(path: Path, abis: Iterable[str] = ABIS, changed: Mapping[str, bytes] | None = None) -> Path:
    """An archive (AAR) as ONNX Runtime's; `changed` are files of it by name that differ."""
    files = {"AndroidManifest.xml": b"<manifest/>", "classes.jar": b"PK", "LICENSE": b"A licence.\n"}
    for abi in abis:
        files |= {f"jni/{abi}/{name}": libraries(abi)[name] for name in (RUNTIME, RUNTIME_JNI)}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (files | dict(changed or {})).items():
            archive.writestr(name, content)
    return path


def dex_file(seed: int = 0) -> bytes:
    """A file with the header of a dex file, whose size and checksums are right."""
    rest = struct.pack("<II", 112, 0x70) + bytes(72) + seed.to_bytes(4, "little")
    rest = struct.pack("<I", 32 + len(rest)) + rest[4:]
    digest = hashlib.sha1(rest, usedforsecurity=False).digest()
    return b"dex\n037\0" + struct.pack("<I", zlib.adler32(digest + rest)) + digest + rest
