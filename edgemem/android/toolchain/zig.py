"""libedgemem.so without the Android NDK: the C++ compiler of the PyPI package ziglang, and a list of bionic's symbols.

    android/native/sources.txt --zig c++--> objects --+
    android/native/bionic/compat.c --zig cc---------->+--ld.lld--> libedgemem.so
    android/native/bionic/symbols.txt --> libc.so ... +
    zig's libc++, libc++abi, libunwind --zig c++----->+

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
from functools import partial
from typing import TYPE_CHECKING, Final

from edgemem.android import sources
from edgemem.android.toolchain.store import Package, entry_folder, hash_of, run_tool, unpack_wheel
from edgemem.errors import ToolError
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
    "-fno-builtin-bcmp",  # bionic has none
    # Thread-local variables by calls: Android's linker knows their segment since Android 10.
    "-femulated-tls",
    # The same bytes wherever the compiler and the sources lie.
    *("-fno-ident", "-ffile-compilation-dir=."),
    # musl's place for the guard of the stack is not bionic's on arm64.
    "-fno-stack-protector",
    "-fno-sanitize=all",
)
_WARNINGS: Final = ("-Wall", "-Wextra", "-Wconversion")
_CXX: Final = ("-std=c++20", "-fvisibility-inlines-hidden")
_C: Final = ("-std=c11", "-D_GNU_SOURCE")
_LINK: Final = (
    *("-shared", "--gc-sections", "--eh-frame-hdr", "--build-id=none", "--strip-all", "--hash-style=both"),
    *("--as-needed", "--pack-dyn-relocs=none", "-z", "defs", "-z", "now", "-z", "relro", "-z", "noexecstack"),
    *("-z", "nodelete", "-z", "max-page-size=16384"),
)
# Every x86_64 Android has SSE 4.2; on arm64 an erratum of the Cortex-A53 has to be kept away from.
_COMPILE_FOR: Final = {"arm64-v8a": ("-mno-outline-atomics",), "x86_64": ("-mcpu=x86_64_v2",)}
_LINK_FOR: Final = {"arm64-v8a": ("--fix-cortex-a53-843419",), "x86_64": ()}
# LLVM's C++ runtime, of the sources that zig brings: what a library without streams and locales can need.
_CXX_SOURCES: Final = {
    "libcxx/src": (
        *("algorithm", "any", "atomic", "bind", "call_once", "chrono", "condition_variable", "error_category"),
        *("condition_variable_destructor", "exception", "functional", "hash", "memory", "mutex", "mutex_destructor"),
        *("new", "new_handler", "new_helpers", "optional", "random_shuffle", "shared_mutex", "stdexcept", "string"),
        *("system_error", "thread", "typeinfo", "variant", "vector", "verbose_abort"),
    ),
    "libcxxabi/src": (
        *("abort_message", "cxa_aux_runtime", "cxa_default_handlers", "cxa_exception", "cxa_exception_storage"),
        *("cxa_guard", "cxa_handlers", "cxa_personality", "cxa_thread_atexit", "cxa_vector", "cxa_virtual"),
        *("fallback_malloc", "private_typeinfo", "stdlib_exception", "stdlib_new_delete", "stdlib_stdexcept"),
        "stdlib_typeinfo",
    ),
    "libunwind/src": (
        *("libunwind.cpp", "UnwindLevel1.c", "UnwindLevel1-gcc-ext.c"),
        *("UnwindRegistersRestore.S", "UnwindRegistersSave.S"),
    ),
}
_CXX_FLAGS: Final = {
    "libcxx/src": ("-std=c++23", "-D_LIBCPP_BUILDING_LIBRARY", "-DLIBCXX_BUILDING_LIBCXXABI"),
    "libcxxabi/src": (
        *("-std=c++23", "-Ilib/libcxx/src", "-D_LIBCXXABI_BUILDING_LIBRARY", "-DLIBCXXABI_NON_DEMANGLING_TERMINATE"),
        "-DHAVE___CXA_THREAD_ATEXIT_IMPL",
    ),
    "libunwind/src": (
        "-Ilib/libunwind/include",
        "-D_LIBUNWIND_IS_NATIVE_ONLY",
        "-D_LIBUNWIND_HIDE_SYMBOLS",
        "-funwind-tables",
    ),
}
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
    flags = (_COMPILE, _COMPILE_FOR, _CXX, _C, _WARNINGS, _LINK, _LINK_FOR, _TARGETS, _CXX_FLAGS, _CXX_SOURCES)
    return f"{PINNED} {flags}"


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
    runtime = entry_folder(f"zig/{PINNED.version}/{hash_of([identity()])[:16]}-{abi}", partial(_runtime, zig, abi))
    root = sources.folder("kernels").parent
    native = root / "android" / "native"
    include = ("-Ikernels", "-Ikernels/android", "-Ikernels/replay", *(f"-isystem{p}" for p in includes), *_WARNINGS)
    named = [(file, include) for file in (*files, "android/native/bionic/compat.c")]
    with temporary_folder() as work:
        objects = _compile(zig, abi, named, root, work)
        stubs = _stubs(zig, abi, work)
        result = work / "libedgemem.so"
        flags = ("-m", _EMULATIONS[abi], *_LINK, *_LINK_FOR[abi], f"--version-script={native / 'exports.map'}")
        # Of these, only what is needed.
        chosen: list[str | Path] = ["--start-lib", *sorted(runtime.iterdir()), "--end-lib"]
        run_tool(
            [zig, "ld.lld", *flags, "-soname", "libedgemem.so", "-o", result, *objects, *stubs, *chosen],
            what="linking libedgemem.so",
            cwd=work,
            env=_caches(work),
        )
        return result.read_bytes()


def _runtime(zig: Path, abi: str, into: Path) -> None:
    """LLVM's C++ runtime for an ABI, as object files in a folder."""
    named = []
    for folder, names in _CXX_SOURCES.items():
        # `-w`: warnings of sources that are not edgemem's.
        flags = (f"-Ilib/{folder}", *_CXX_FLAGS[folder], "-w")
        named += [(f"lib/{folder}/{n if '.' in n else n + '.cpp'}", flags) for n in names]
    _compile(zig, abi, named, zig.parent, into)


def _compile(
    zig: Path, abi: str, files: Sequence[tuple[str, Sequence[str | Path]]], root: Path, into: Path
) -> list[Path]:
    """Compile files, each with its own flags besides those of all, as many at a time as there are processors."""

    def compile_one(number: int, named: tuple[str, Sequence[str | Path]]) -> Path:
        file, flags = named
        out = into / f"{number:03d}.o"
        is_cxx = file.endswith(".cpp")
        command = [zig, "c++" if is_cxx else "cc", "-target", _TARGETS[abi], *_COMPILE, *_COMPILE_FOR[abi]]
        if not file.endswith(".S"):
            command += _CXX if is_cxx else _C
        with temporary_folder() as caches:
            run_tool(
                [*command, *flags, "-c", file, "-o", out],
                what=f"the compilation of {file}",
                cwd=root,
                env=_caches(caches),
            )
        return out

    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        return list(pool.map(compile_one, range(len(files)), files))


def _zig() -> Path:
    machine = (sys.platform, platform.machine().lower())
    if machine not in _WHEELS:
        raise ToolError(
            f"no compiler for Android is pinned for {' '.join(machine)}; "
            "install the Android NDK and set ANDROID_NDK_HOME"
        )
    sha256, tag = _WHEELS[machine]
    folder = entry_folder(
        f"zig/{PINNED.version}/compiler",
        lambda into: unpack_wheel(PINNED, sha256, into, unused=_UNUSED, options=["--platform", tag]),
    )
    return folder / "ziglang" / "zig"


def _caches(work: Path) -> dict[str, str]:
    """The compiler's own caches, in a folder that is thrown away: they hold paths, and grow without end."""
    return {"ZIG_GLOBAL_CACHE_DIR": str(work / "global"), "ZIG_LOCAL_CACHE_DIR": str(work / "local")}


def _stubs(zig: Path, abi: str, work: Path) -> list[Path]:
    """Libraries without code that have the names, symbols and versions of bionic's."""
    env = _caches(work)
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
        mapped = [f"--version-script={stem}.map"] if versions else []
        commands: tuple[list[str | Path], ...] = (
            [zig, "cc", "-target", _TARGETS[abi], "-w", "-fno-builtin", "-fPIC", "-c", f"{stem}.c", "-o", object_file],
            [zig, "ld.lld", "-m", _EMULATIONS[abi], "-shared", "-soname", library, *mapped, object_file, "-o", out],
        )
        for command in commands:
            run_tool(command, what=f"the stand-in of {library}", cwd=work, env=env)
        made.append(out)
    return made
