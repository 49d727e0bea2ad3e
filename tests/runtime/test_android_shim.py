"""Android's system libraries over glibc: what they act out, and what they refuse."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.android.device import Device
from tests.android.imports import exports, read_needs, refusals
from tests.android.shim import ABIS, SOURCES, Abi, build_shim, compile_with
from tests.android.symbols import LIBRARIES, home_of
from tests.android.tools import abi

if TYPE_CHECKING:
    from pathlib import Path

HERE = SOURCES.parent
_GUARD = {
    "x86_64": ["-fstack-protector-all"],
    "arm64-v8a": [
        "-fstack-protector-all",
        "-mstack-protector-guard=sysreg",
        "-mstack-protector-guard-reg=tpidr_el0",
        "-mstack-protector-guard-offset=40",
    ],
}
_LINK = ["-shared", "-nostdlib", "-fPIC", "-fno-builtin", "-Wl,-z,max-page-size=16384", "-Wl,-z,noexecstack"]


@pytest.fixture(params=ABIS)
def one(request: pytest.FixtureRequest) -> Abi:
    return abi(request.param)


def library(one: Abi, path: Path, text: str, *needed: Path, flags: tuple[str, ...] = ()) -> Path:
    """A library for Android from a text in C, linked with others."""
    source = path.with_suffix(".c")
    source.write_text(text)
    compile_with(
        one,
        [*_LINK, "-fno-stack-protector", *flags, "-o", path, source, *needed, "-lgcc", f"-Wl,-soname,{path.name}"],
    )
    return path


def stand_in(one: Abi, folder: Path, name: str, symbol: str, version: str) -> Path:
    """A library to link with that has one symbol, as a wrong NDK would."""
    folder.mkdir(exist_ok=True)
    script = folder / f"{name}.map"
    script.write_text(f"{version} {{ global: {symbol}; local: *; }};\n".lstrip())
    return library(one, folder / name, f"void {symbol}(void) {{}}\n", flags=(f"-Wl,--version-script={script}",))


def call(one: Abi, folder: Path, path: Path, function: str) -> subprocess.CompletedProcess[str]:
    """Loads a library as a device would, and calls a function of it."""
    program = folder / "call"
    guard = [SOURCES / "guard_room.c"] if one.runner else []
    compile_with(one, ["-O1", HERE / "call.c", *guard, "-o", program, "-ldl"])
    command, environment = Device(one, build_shim(one), folder, program).command(program, path, function)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_bionics_interfaces_are_kept(one: Abi, tmp_path: Path) -> None:
    system = [build_shim(one) / name for name in ("libc.so", "libm.so", "libdl.so", "liblog.so")]
    path = tmp_path / "libprobe.so"
    flags = [*_LINK, "-O1", *_GUARD[one.name], "-Wl,--no-as-needed"]
    compile_with(one, [*flags, "-o", path, HERE / "probe.c", *system, "-lgcc", "-Wl,-soname,libprobe.so"])
    assert refusals(path, {}) == []
    done = call(one, tmp_path, path, "probe")
    assert (done.returncode, done.stdout) == (0, "through __sF\nthrough stdout\n"), done.stderr
    assert "[4/probe] 7 and eight" in done.stderr


def test_each_system_library_has_its_own_symbols_and_no_others(one: Abi) -> None:
    for system in LIBRARIES:
        path = build_shim(one) / system.name
        assert exports(path) - {system.version} == system.symbols
        assert read_needs(path).soname == system.name
    names = [name for system in LIBRARIES for name in system.symbols]
    assert len(names) == len(set(names))


# (library that it was linked with, symbol, version, what is said of it, whether the dynamic linker refuses it, too)
WRONG = [
    ("libc.so", "aligned_alloc", "LIBC", "no library of API level 24 that it needs is known to have it", True),
    ("libc.so", "malloc_trim", "LIBC", "no library of API level 24 that it needs is known to have it", True),
    ("libc.so", "pthread_cond_clockwait", "LIBC", "no library of API level 24 that it needs is known to have it", True),
    ("libc.so", "__errno_location", "LIBC", "no library of API level 24 that it needs is known to have it", True),
    ("libc.so", "__android_log_write", "LIBC", "it is in liblog.so, which is not needed", True),
    ("libc.so", "sinf", "LIBC", "it is in libm.so, which is not needed", True),
    ("libc.so", "malloc", "GLIBC_2.2.5", "libc.so has it with version LIBC", True),
    ("liblog.so", "__android_log_write", "LIBC", "liblog.so has it with version none", True),
    ("libc.so.6", "malloc", "GLIBC_2.2.5", "it needs libc.so.6, which no device has", False),
]


@pytest.mark.full
@pytest.mark.parametrize(("linked", "symbol", "version", "said", "is_refused"), WRONG)
def test_symbols_that_a_device_lacks(
    one: Abi, tmp_path: Path, linked: str, symbol: str, version: str, said: str, is_refused: bool
) -> None:
    other = stand_in(one, tmp_path / "wrong", linked, symbol, version)
    text = f"void {symbol}(void);\nint use(void) {{ {symbol}(); return 0; }}\n"
    path = library(one, tmp_path / "libwrong.so", text, other)
    assert any(line.endswith(said) for line in refusals(path, {})), refusals(path, {})
    if is_refused:
        done = call(one, tmp_path, path, "use")
        assert done.returncode in {127, 255}  # 127: glibc's linker asserts that a library that had versions still has
        assert symbol in done.stderr or "version" in done.stderr


def test_a_symbol_of_another_library_of_the_app_is_taken(one: Abi, tmp_path: Path) -> None:
    other = library(one, tmp_path / "libother.so", "int other(void) { return 42; }\n")
    path = library(one, tmp_path / "libuser.so", "int other(void);\nint use(void) { return other(); }\n", other)
    assert refusals(path, {"libother.so": exports(other)}) == []
    assert refusals(path, {"libother.so": frozenset()})
    assert refusals(path, {})[0] == "it needs libother.so, which no device has"
    assert call(one, tmp_path, path, "use").returncode == 42


def test_forms_that_a_device_does_not_load(one: Abi, tmp_path: Path) -> None:
    tls = "static __thread int mine;\nint use(void) { return ++mine; }\n"
    assert any("TLS" in line for line in refusals(library(one, tmp_path / "libtls.so", tls, flags=("-w",)), {}))
    plain = "int use(void) { return 7; }\n"
    small = library(one, tmp_path / "libsmall.so", plain, flags=("-Wl,-z,max-page-size=4096",))
    assert refusals(small, {}) == ["its segments have an alignment of 0x1000, below 16 KiB"]
    stack = library(one, tmp_path / "libstack.so", plain, flags=("-Wl,-z,execstack",))
    assert refusals(stack, {}) == ["its stack is executable, or it does not say"]
    good = library(one, tmp_path / "libgood.so", plain)
    assert refusals(good, {}) == []
    renamed = good.rename(tmp_path / "librenamed.so")
    assert refusals(renamed, {}) == ["its SONAME is libgood.so, not librenamed.so"]


def test_names_that_came_later_are_not_in_the_tables() -> None:
    for name in ("aligned_alloc", "getrandom", "pthread_cond_clockwait", "mallopt", "malloc_trim", "getentropy"):
        assert home_of(name) is None
    homes = [home_of(name) for name in ("dlsym", "sinf", "malloc")]
    assert [home.name for home in homes if home] == ["libdl.so", "libm.so", "libc.so"]
