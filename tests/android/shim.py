"""Builds Android's system libraries for this machine: bionic's names over glibc's functions, so that the native
libraries of an APK run here.

Each of libc.so, libm.so, libdl.so, liblog.so and libandroid.so has the symbols of `symbols.py`, with bionic's version
of them, and no others. A function of them is one jump through a table; `shim/table.c` fills the table with glibc's
function, or with that of `shim/` where bionic's binary interface differs. So a library that needs a symbol from
elsewhere does not load, as on a device. Not acted out: timing, processors' features, properties, NNAPI, GPUs, and
`long double` in formats.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.android.symbols import LIBRARIES, Library

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ABIS", "SOURCES", "Abi", "BuildError", "build_shim", "cache", "compile_with"]

SOURCES: Final = Path(__file__).with_name("shim")
_FLAGS: Final = ("-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=default", "-fno-builtin")
_COMPILER_S: Final = 120


class BuildError(Exception):
    """A compiler said no; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Abi:
    """How programs for one of Android's processors are made and run here."""

    name: str
    compiler: str
    runner: tuple[str, ...] = ()


ABIS: Final = {
    "x86_64": Abi("x86_64", "gcc"),
    "arm64-v8a": Abi("arm64-v8a", "aarch64-linux-gnu-gcc", ("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu")),
}


def cache() -> Path:
    """Where what is built or downloaded for these tests is kept."""
    home = os.environ.get("EDGEMEM_CACHE") or Path("~/.cache/edgemem").expanduser()
    return Path(home, "android", "tests")


def build_shim(abi: Abi) -> Path:
    """A folder with Android's system libraries for a processor; made once for each state of the sources.

    Raises BuildError.
    """
    parts = [path.read_bytes() for path in sorted(SOURCES.iterdir())]
    parts += [repr(LIBRARIES).encode(), Path(__file__).read_bytes(), _version(abi)]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    folder = cache() / f"shim-{abi.name}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="shim-", dir=folder.parent))
        try:
            _build(abi, made)
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder


def compile_with(abi: Abi, arguments: Sequence[str | Path]) -> None:
    """Run the compiler for a processor. Raises BuildError with the first lines it said."""
    try:
        done = subprocess.run(
            [abi.compiler, *map(str, arguments)], capture_output=True, text=True, timeout=_COMPILER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise BuildError(f"{abi.compiler}: {e}") from None
    if done.returncode:
        raise BuildError(f"{abi.compiler}: " + "\n".join(done.stderr.splitlines()[:20]))


def _version(abi: Abi) -> bytes:
    try:
        return subprocess.run([abi.compiler, "--version"], capture_output=True, timeout=_COMPILER_S, check=True).stdout
    except (OSError, subprocess.SubprocessError) as e:
        raise BuildError(f"{abi.compiler}: {e}") from None


def _build(abi: Abi, folder: Path) -> None:
    functions = [SOURCES / name for name in ("table.c", "streams.c", "system.c", "threads.c")]
    soname = "-Wl,-soname,"
    compile_with(abi, [*_FLAGS, "-shared", "-o", folder / "libbionicshim.so", *functions, f"{soname}libbionicshim.so"])
    for library in LIBRARIES:
        text, versions = folder / f"{library.name}.s", folder / f"{library.name}.map"
        text.write_text(_assembly(abi, library))
        versions.write_text(_versions(library))
        script = [f"-Wl,--version-script={versions}"] if library.symbols else []
        link = ["-shared", "-nostdlib", f"-L{folder}", "-Wl,--no-as-needed", "-lbionicshim", f"{soname}{library.name}"]
        compile_with(abi, ["-o", folder / library.name, text, *link, *script])


def _versions(library: Library) -> str:
    names = "".join(f"    {name};\n" for name in sorted(library.symbols))
    return f"{library.version} {{\n  global:\n{names}  local: *;\n}};\n".lstrip()


def _assembly(abi: Abi, library: Library) -> str:
    names = library.functions
    lines = ["  .text"]
    for i, name in enumerate(names):
        lines += [f"  .globl {name}", f"  .type {name}, %function", f"{name}:", *_jump(abi, 8 * i)]
    if names:
        lines += ["fill_all:", *_fill(abi, library)]
        lines += ['  .section .init_array, "aw"', "  .balign 8", "  .quad fill_all", "  .section .rodata"]
        lines += [f'text{i}: .asciz "{name}"' for i, name in enumerate(names)]
        lines += ['  .section .data.rel.ro, "aw"', "  .balign 8", "names:"]
        lines += [f"  .quad text{i}" for i in range(len(names))]
        lines += ["  .bss", "  .balign 16", f"table: .space {8 * len(names)}"]
    for name, size in library.objects:
        lines += [f"  .globl {name}", f"  .type {name}, %object", f"  .size {name}, {size}"]
        lines += ["  .balign 16", f"{name}: .space {size}"]
        lines += [f"  .set own_{name}, {name}"]  # the program's copy of the symbol is another one
    return "\n".join([*lines, '  .section .note.GNU-stack, "", %progbits', ""])


def _jump(abi: Abi, at: int) -> list[str]:
    if abi.name == "x86_64":
        return [f"  jmp *table+{at}(%rip)"]
    return [f"  adrp x16, table+{at}", f"  ldr x16, [x16, #:lo12:table+{at}]", "  br x16"]


def _fill(abi: Abi, library: Library) -> list[str]:
    """A function that fills the table, and the streams where the library has them."""
    calls = [("bionic_shim_fill_table", ["table", "names", len(library.functions)])]
    if library.objects:
        calls.append(("bionic_shim_fill_streams", [f"own_{name}" for name, _ in library.objects]))
    if abi.name == "x86_64":
        registers, lines = ("%rdi", "%rsi", "%rdx", "%rcx"), ["  sub $8, %rsp"]
        for function, given in calls:
            for value, register in zip(given, registers, strict=False):
                move = f"  mov ${value}, {register}" if isinstance(value, int) else f"  lea {value}(%rip), {register}"
                lines.append(move)
            lines.append(f"  call {function}@PLT")
        return [*lines, "  add $8, %rsp", "  ret"]
    lines = ["  stp x29, x30, [sp, #-16]!"]
    for function, given in calls:
        for number, value in enumerate(given):
            if isinstance(value, int):
                lines.append(f"  mov x{number}, #{value}")
            else:
                lines += [f"  adrp x{number}, {value}", f"  add x{number}, x{number}, #:lo12:{value}"]
        lines.append(f"  bl {function}")
    return [*lines, "  ldp x29, x30, [sp], #16", "  ret"]
