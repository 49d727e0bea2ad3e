"""Builds Android's system libraries for x86_64 Linux: bionic's names over glibc's functions, so that the native
libraries of an APK run here.

Each of libc.so, libm.so, libdl.so, liblog.so and libandroid.so has the symbols of `symbols.py`, with bionic's version
of them, and no others. A function of them is one jump through a table; `shim/table.c` fills the table with glibc's
function, or with that of `shim/` where bionic's binary interface differs. So a library that needs a symbol from
elsewhere does not load, as on a device. Not acted out: timing, processors' features, properties, NNAPI, GPUs, and
`long double` in formats.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.android.sdk import run_tool
from tests.android.symbols import LIBRARIES, Library
from tests.android.tools import need

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["build_shim"]

SOURCES: Final = Path(__file__).with_name("shim")
_FLAGS: Final = ("-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=default", "-fno-builtin")


def build_shim(folder: Path) -> Path:
    """Makes a new folder with Android's system libraries; skips the test without a compiler."""
    need(["gcc"])
    folder.mkdir()
    functions = [SOURCES / name for name in ("table.c", "streams.c", "system.c", "threads.c")]
    soname = "-Wl,-soname,"
    _compile([*_FLAGS, "-shared", "-o", folder / "libbionicshim.so", *functions, f"{soname}libbionicshim.so"])
    for library in LIBRARIES:
        text, versions = folder / f"{library.name}.s", folder / f"{library.name}.map"
        text.write_text(_assembly(library))
        versions.write_text(_versions(library))
        script = [f"-Wl,--version-script={versions}"] if library.symbols else []
        link = ["-shared", "-nostdlib", f"-L{folder}", "-Wl,--no-as-needed", "-lbionicshim", f"{soname}{library.name}"]
        _compile(["-o", folder / library.name, text, *link, *script])
    return folder


def _compile(arguments: Sequence[str | Path]) -> None:
    run_tool(["gcc", *arguments], cwd=SOURCES)


def _versions(library: Library) -> str:
    names = "".join(f"    {name};\n" for name in sorted(library.symbols))
    return f"{library.version} {{\n  global:\n{names}  local: *;\n}};\n".lstrip()


def _assembly(library: Library) -> str:
    names = library.functions
    lines = ["  .text"]
    for i, name in enumerate(names):
        lines += [f"  .globl {name}", f"  .type {name}, %function", f"{name}:", f"  jmp *table+{8 * i}(%rip)"]
    if names:
        lines += ["fill_all:", *_fill(library)]
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


def _fill(library: Library) -> list[str]:
    """A function that fills the table, and the streams where the library has them."""
    calls: list[tuple[str, list[str | int]]] = [("bionic_shim_fill_table", ["table", "names", len(library.functions)])]
    if library.objects:
        calls.append(("bionic_shim_fill_streams", [f"own_{name}" for name, _ in library.objects]))
    lines = ["  sub $8, %rsp"]
    for function, given in calls:
        for value, register in zip(given, ("%rdi", "%rsi", "%rdx", "%rcx"), strict=False):
            lines.append(
                f"  mov ${value}, {register}" if isinstance(value, int) else f"  lea {value}(%rip), {register}"
            )
        lines.append(f"  call {function}@PLT")
    return [*lines, "  add $8, %rsp", "  ret"]
