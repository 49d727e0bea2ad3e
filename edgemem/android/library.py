"""edgemem's library for Android as an AAR: the Java classes, libedgemem.so for each ABI, and a manifest.

android/java --javac, with ONNX Runtime's classes--> classes.jar
kernels, android/native --CMake, the NDK's compiler--> jni/ABI/libedgemem.so
"""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.android.archive import check_listing, read_member
from edgemem.android.sdk import find_tool, find_toolchain, run_tool
from edgemem.android.sources import find_sources
from edgemem.errors import ToolError, UnknownAbiError
from edgemem.system.files import temporary_folder
from edgemem.system.text import join_names
from edgemem.system.zip_errors import ZIP_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = [
    "ABIS",
    "OWN_LIBRARY",
    "RUNTIME_LIBRARIES",
    "Archive",
    "build_library",
    "check_abis",
    "compile_java",
    "read_archive",
    "write_zip",
]

ABIS: Final = ("arm64-v8a", "x86_64")
OWN_LIBRARY: Final = "libedgemem.so"
RUNTIME_LIBRARIES: Final = ("libonnxruntime.so", "libonnxruntime4j_jni.so")

_MIN_API: Final = 24
_MANIFEST: Final = f"""\
<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="ai.edgemem">
    <uses-sdk android:minSdkVersion="{_MIN_API}" />
</manifest>
"""
_KEPT: Final = (
    "# JNI finds these by name.\n-keep class ai.edgemem.Native { *; }\n-keep class ai.onnxruntime.** { *; }\n"
)
_JAVAC: Final = ("--release", "11", "-g:source,lines", "-encoding", "UTF-8", "-proc:none", "-nowarn", "-Xlint:none")
_TIME: Final = (1980, 1, 1, 0, 0, 0)  # of all members: the same content makes the same bytes
_MOST_BYTES: Final = 512 << 20  # of one member of an archive; the largest library of ONNX Runtime 1.29 has 38 MB


@dataclass(frozen=True, slots=True)
class Archive:
    """An AAR: its Java classes, its native libraries by ABI and file name, and the licence texts in it."""

    classes: bytes
    libraries: Mapping[str, Mapping[str, bytes]]
    licence: str

    def library(self, abi: str, name: str) -> bytes:
        """The content of a native library. Raises ToolError if there is none for this ABI."""
        if name not in self.libraries.get(abi, {}):
            raise ToolError(f"the archive has no {name} for {abi}, it has libraries for: {join_names(self.libraries)}")
        return self.libraries[abi][name]


def check_abis(abis: Sequence[str]) -> tuple[str, ...]:
    """The ABIs, each once. Raises UnknownAbiError for none, and for one that nothing is built for."""
    for abi in abis or ("",):
        if abi not in ABIS:
            raise UnknownAbiError(f"there are no libraries for the ABI {abi!r}; take {' or '.join(ABIS)}")
    return tuple(dict.fromkeys(abis))


def build_library(runtime: Path, *, abis: Sequence[str] = ABIS, toolchain: Path | None = None) -> bytes:
    """The AAR of edgemem's library; equal arguments and tools give the same bytes.

    Args:
        runtime: ONNX Runtime's archive for Android (.aar) or its classes (.jar), which the Java code is compiled with.
        abis: of `ABIS`.
        toolchain: a toolchain file for CMake, which is told ANDROID_ABI; None takes the NDK's.

    Raises UnknownAbiError, and ToolError without a JDK, CMake or compiler, or where one of them fails.
    """
    abis = check_abis(abis)
    toolchain = find_toolchain() if toolchain is None else toolchain.absolute()
    root = find_sources()
    members = {"AndroidManifest.xml": _MANIFEST.encode(), "R.txt": b"", "proguard.txt": _KEPT.encode()}
    with temporary_folder() as work:
        theirs = work / "onnxruntime.jar"
        theirs.write_bytes(runtime.read_bytes() if runtime.suffix == ".jar" else read_archive(runtime).classes)
        members["classes.jar"] = compile_java((root / "android" / "java").rglob("*.java"), (theirs,), work / "classes")
        for abi in abis:
            members[f"jni/{abi}/{OWN_LIBRARY}"] = _compile_native(root, abi, toolchain, work / abi)
    return write_zip(members)


def compile_java(files: Iterable[Path], class_path: Sequence[Path], into: Path) -> bytes:
    """A jar of Java files' classes, which are compiled into a new folder. Raises ToolError with javac's words."""
    into.mkdir()
    arguments = into.with_suffix(".txt")  # a command line has no room for any number of files
    quoted = (str(file).replace("\\", "\\\\").replace('"', '\\"') for file in sorted(files))
    arguments.write_text("".join(f'"{file}"\n' for file in quoted), encoding="utf-8")
    path = os.pathsep.join(map(str, class_path))
    run_tool([find_tool("javac"), *_JAVAC, "-classpath", path, "-d", into, f"@{arguments}"], cwd=into.parent)
    return write_zip({f.relative_to(into).as_posix(): f.read_bytes() for f in sorted(into.rglob("*.class"))})


def _compile_native(root: Path, abi: str, toolchain: Path, work: Path) -> bytes:
    """libedgemem.so for an ABI. Raises ToolError without CMake, or if a source does not compile."""
    cmake = find_tool("cmake")
    settings = {
        "CMAKE_TOOLCHAIN_FILE": toolchain,
        "ANDROID_ABI": abi,
        "ANDROID_PLATFORM": f"android-{_MIN_API}",
        "ANDROID_STL": "c++_static",
        "CMAKE_BUILD_TYPE": "Release",
    }
    defines = [f"-D{name}={value}" for name, value in settings.items()]
    work.mkdir()
    run_tool([cmake, "-S", root / "android" / "native", "-B", work, *defines], cwd=work, what=f"CMake for {abi}")
    jobs = str(max(1, os.cpu_count() or 1))
    run_tool([cmake, "--build", work, "--parallel", jobs], cwd=work, what=f"the compiler for {abi}")
    return (work / OWN_LIBRARY).read_bytes()


def read_archive(path: Path) -> Archive:
    """An AAR's classes and native libraries for `ABIS`. Raises ToolError for a file that is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            listing = archive.infolist()
            check_listing(listing, 2 * _MOST_BYTES)
            members = {member.filename: member for member in listing}
            if "classes.jar" not in members:
                raise ToolError(f"{path.name} has no classes.jar; give an archive for Android (.aar)")
            if any(member.file_size > _MOST_BYTES for member in listing):
                raise ToolError(f"{path.name} has a file of more than {_MOST_BYTES:,} bytes, which is not read")
            libraries: dict[str, dict[str, bytes]] = {}
            for name in members:
                folder, _, rest = name.partition("/")
                abi, _, library = rest.partition("/")
                if folder == "jni" and abi in ABIS and library in (OWN_LIBRARY, *RUNTIME_LIBRARIES):
                    libraries.setdefault(abi, {})[library] = read_member(archive, name)
            texts = [
                read_member(archive, n).decode(errors="replace")
                for n in ("LICENSE", "ThirdPartyNotices.txt")
                if n in members
            ]
            return Archive(read_member(archive, "classes.jar"), libraries, "\n\n".join(texts))
    except OSError as e:
        raise ToolError(f"cannot read {path}: {e.strerror or e}") from e
    except ZIP_ERRORS as e:
        raise ToolError(f"{path.name} is no archive for Android: {e}; give an .aar file") from e


def write_zip(members: Mapping[str, bytes]) -> bytes:
    """A ZIP archive with these files by name, stored, in this order; the same files give the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), data)
    return content.getvalue()
