"""libedgemem.so without the Android NDK: the C++ compiler of the PyPI package ziglang, and a list of bionic's symbols.

    android/native/sources.txt --zig c++--> objects --+
    android/native/bionic/compat.c --zig cc---------->+--ld.lld--> libedgemem.so
    android/native/bionic/symbols.txt --> libc.so ... +
    zig's libc++, libc++abi, libunwind -------------->+

The compiler targets Linux with musl, whose headers it brings. The linker sees libraries without code that have bionic's
names, the symbols of the list and their versions; it refuses any other symbol. So the library needs what Android 7 has.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.android import sources
from edgemem.android.toolchain.store import Package, entry_folder, run_tool, unpack_wheel
from edgemem.errors import ToolError
from edgemem.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PINNED", "build", "identity", "symbols"]

PINNED: Final = Package("pypi", "ziglang", "0.15.2", "MIT")
# sha256 of the wheel, and the platforms that pip is asked for, by (system, machine).
_WHEELS: Final = {
    ("linux", "x86_64"): ("806316453d1ede7174ed3fefb8e5348154629089c3bb5fe812dfd0e172fac130", "manylinux_2_12_x86_64"),
}
_TARGETS: Final = {"arm64-v8a": "aarch64-linux-musl", "x86_64": "x86_64-linux-musl"}
_EMULATIONS: Final = {"arm64-v8a": "aarch64linux", "x86_64": "elf_x86_64"}
_COMPILE: Final = (
    *("-O2", "-DNDEBUG", "-g0", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"),
    # Thread-local variables by calls: Android's linker knows their segment since Android 10.
    "-femulated-tls",
    # musl's place for the guard of the stack is not bionic's on arm64.
    "-fno-stack-protector",
    "-fno-sanitize=all",
    *("-Wall", "-Wextra", "-Wconversion", "-Werror=return-type"),
)
_CXX: Final = ("-std=c++20", "-fvisibility-inlines-hidden")
_C: Final = ("-std=c11", "-D_GNU_SOURCE")
_LINK: Final = (
    *("-shared", "--gc-sections", "--eh-frame-hdr", "--build-id=none", "--strip-all", "--hash-style=both"),
    *("--as-needed", "--pack-dyn-relocs=none", "-z", "defs", "-z", "now", "-z", "relro", "-z", "noexecstack"),
    *("-z", "nodelete", "-z", "max-page-size=16384"),
)
_FOR_ARM64: Final = {"compile": ("-mno-outline-atomics",), "link": ("--fix-cortex-a53-843419",)}
_ARCHIVES: Final = ("libc++.a", "libc++abi.a", "libunwind.a", "libcompiler_rt.a")
# What makes the compiler build and link its C++ library.
_PROBE: Final = "#include <new>\nint probe(int n) { if (n) throw std::bad_alloc(); return *new int(n); }\n"
_UNUSED: Final = re.compile(
    r"ziglang/lib/libc/(mingw|glibc|wasi|darwin|freebsd|netbsd|include/(?!generic-musl|x86_64-linux-musl|"
    r"aarch64-linux-musl|x86-linux-any|aarch64-linux-any|any-linux-any))"
)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of bionic: which library exports it since Android 7, under which version (`-` for none)."""

    name: str
    library: str
    version: str
    is_object: bool


def identity() -> str:
    """What a library depends on besides the sources, for the key of the cache."""
    return repr((str(PINNED), _COMPILE, _CXX, _C, _LINK, _FOR_ARM64, _TARGETS))


def symbols() -> tuple[Symbol, ...]:
    """The symbols in android/native/bionic/symbols.txt."""
    text = (sources.folder("android") / "native" / "bionic" / "symbols.txt").read_text(encoding="utf-8")
    rows = [line.split("#")[0].split() for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(Symbol(name, library, version, kind == "object") for library, version, kind, name, _ in rows)


def build(abi: str, files: Sequence[str], includes: Sequence[Path]) -> bytes:
    """libedgemem.so for an ABI.

    Args:
        abi: one of `ABIS`.
        files: C++ sources, relative to the parent of the folder `kernels`.
        includes: folders of jni.h and jni_md.h.

    Raises ToolError if a source does not compile or needs what Android 7 has not.
    """
    zig = _zig()
    archives = entry_folder(f"zig/{PINNED.version}/{abi}", lambda folder: _build_archives(zig, abi, folder))
    root = sources.folder("kernels").parent
    native = root / "android" / "native"
    with temporary_folder() as work:
        env = _caches(work)
        target = ("-target", _TARGETS[abi], *_COMPILE, *(_FOR_ARM64["compile"] if abi == "arm64-v8a" else ()))
        include = ("-Ikernels", "-Ikernels/android", "-Ikernels/replay", *(f"-isystem{p}" for p in includes))

        def compile_one(number: int, file: str) -> Path:
            out = work / f"{number}.o"
            command = [zig, "c++", *target, *_CXX, *include] if file.endswith(".cpp") else [zig, "cc", *target, *_C]
            run_tool([*command, "-c", file, "-o", out], what=f"the compilation of {file}", cwd=root, env=env)
            return out

        with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
            named = [*files, "android/native/bionic/compat.c"]
            objects = list(pool.map(compile_one, range(len(named)), named))
        stubs = _stubs(zig, abi, work, env)
        result = work / "libedgemem.so"
        run_tool(
            [
                *(zig, "ld.lld", "-m", _EMULATIONS[abi], *_LINK, *(_FOR_ARM64["link"] if abi == "arm64-v8a" else ())),
                *("-soname", "libedgemem.so", f"--version-script={native / 'exports.map'}", "-o", result),
                *(*objects, *stubs, *(archives / name for name in _ARCHIVES)),
            ],
            what="linking libedgemem.so",
            cwd=work,
            env=env,
        )
        return result.read_bytes()


def _zig() -> Path:
    machine = (sys.platform, platform.machine().lower())
    if machine not in _WHEELS:
        raise ToolError(
            f"no compiler for Android is pinned for {' '.join(machine)}; install the Android NDK and set ANDROID_NDK_HOME"
        )
    sha256, tag = _WHEELS[machine]
    folder = entry_folder(
        f"zig/{PINNED.version}/compiler",
        lambda into: unpack_wheel(PINNED, sha256, into, unused=_UNUSED, options=["--platform", tag]),
    )
    return folder / "ziglang" / "zig"


def _caches(work: Path) -> dict[str, str]:
    """zig's own caches, in a folder that is thrown away: they hold paths, and grow without end."""
    return {"ZIG_GLOBAL_CACHE_DIR": str(work / "global"), "ZIG_LOCAL_CACHE_DIR": str(work / "local")}


def _build_archives(zig: Path, abi: str, folder: Path) -> None:
    """zig's C++ library and runtime for an ABI, built from the sources in its package. It takes a minute."""
    with temporary_folder() as work:
        (work / "probe.cpp").write_text(_PROBE)
        said = run_tool(
            [zig, "c++", "-target", _TARGETS[abi], "-O2", "-fPIC", "-shared", "-v", "probe.cpp", "-o", "probe.so"],
            what="the build of zig's C++ library",
            cwd=work,
            env=_caches(work),
        )
        lines = [line for line in said.splitlines() if line.startswith("ld.lld ")]
        linked = {Path(word).name: work / word for line in lines[-1:] for word in line.split() if word.endswith(".a")}
        for name in _ARCHIVES:
            if name not in linked or not linked[name].is_file():
                raise ToolError(f"{PINNED} did not say where its {name} is; install the Android NDK instead")
            (folder / name).write_bytes(linked[name].read_bytes())


def _stubs(zig: Path, abi: str, work: Path, env: dict[str, str]) -> list[Path]:
    """Libraries without code that have the names, symbols and versions of bionic's."""
    made = []
    known = symbols()
    for library in sorted({s.library for s in known}):
        stem = work / library.removesuffix(".so")
        own = [s for s in known if s.library == library]
        stem.with_suffix(".c").write_text(
            "".join(f"{'int' if s.is_object else 'void'} {s.name}{'' if s.is_object else '(void) {}'};\n" for s in own)
        )
        versions = sorted({s.version for s in own} - {"-"})
        script = "".join(
            f"{v} {{ global: {' '.join(f'{s.name};' for s in own if s.version == v)} }};\n" for v in versions
        )
        stem.with_suffix(".map").write_text(script)
        out, object_file = work / library, stem.with_suffix(".o")
        compiled = ["-target", _TARGETS[abi], "-w", "-fno-builtin", "-fPIC", "-c", f"{stem}.c", "-o", object_file]
        run_tool([zig, "cc", *compiled], what=f"the stand-in of {library}", cwd=work, env=env)
        mapped = [f"--version-script={stem}.map"] if versions else []
        linked = ["-m", _EMULATIONS[abi], "-shared", "-soname", library, *mapped, object_file, "-o", out]
        run_tool([zig, "ld.lld", *linked], what=f"the stand-in of {library}", cwd=work, env=env)
        made.append(out)
    return made
