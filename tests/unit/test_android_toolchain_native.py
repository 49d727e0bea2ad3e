"""libedgemem.so of both ABIs: a device would load it, it needs what bionic has, and the same sources make its bytes."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgemem.android import sources
from edgemem.android.elf import read_elf
from edgemem.android.toolchain import ABIS, ToolError, native_library, runtime, zig
from edgemem.android.toolchain.jdk import jdk
from tests.android.imports import exports, read_needs, refusals
from tests.android.tools import need

if TYPE_CHECKING:
    from edgemem.android.toolchain import Runtime

ROOT = Path(__file__).parents[2]
EXPORTS = "{ global: em_*; _ZN7edgemem*; local: *; };\n"
TOOLCHAIN_FILE = """
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ANDROID_ABI ANDROID_PLATFORM ANDROID_STL)
if(NOT "x86_64 android-24 c++_static" STREQUAL "${ANDROID_ABI} ${ANDROID_PLATFORM} ${ANDROID_STL}")
  message(FATAL_ERROR "asked for ${ANDROID_ABI} ${ANDROID_PLATFORM} ${ANDROID_STL}")
endif()
"""


@cache
def pinned() -> Runtime:
    try:
        return runtime()
    except ToolError as e:
        if "was not downloaded" in str(e) or "not on PATH" in str(e):
            pytest.skip(str(e))
        raise


@cache
def built(abi: str) -> bytes:
    need(["javac", "readelf"])
    try:
        return native_library(abi)
    except ToolError as e:
        if "was not downloaded" in str(e):
            pytest.skip(str(e))
        raise


@pytest.fixture(params=ABIS)
def library(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)
    path = tmp_path / "libedgemem.so"
    path.write_bytes(built(request.param))
    return path


def test_a_device_would_load_it(library: Path) -> None:
    assert refusals(library, {}) == []
    found = read_elf(library.read_bytes())
    assert found.soname == "libedgemem.so"
    assert set(found.needed) <= {"libc.so", "libm.so", "libdl.so", "liblog.so"}
    assert set(found.alignments) == {16384}


def test_it_needs_only_symbols_of_the_list(library: Path) -> None:
    known = {(s.name, s.library, s.version) for s in zig.symbols()}
    assert {(i.name, i.library, i.version) for i in read_needs(library).imports} <= known


def test_it_exports_its_interfaces_and_nothing_else(library: Path) -> None:
    found = exports(library)
    assert all(n.startswith(("em_", "Java_ai_edgemem_Native_")) or n == "RegisterCustomOps" for n in found)
    declared = (ROOT / "kernels" / "android" / "edgemem_android.h").read_text()
    assert {"RegisterCustomOps", "em_session_create", "em_planfile_read"} <= found
    assert all(n in declared for n in found if n.startswith(("em_session", "em_planfile")))


def test_it_holds_no_path_of_this_machine(library: Path) -> None:
    content = library.read_bytes()
    for path in (str(ROOT), str(Path.home()), "/tmp/", "/zig/", "edgemem-"):
        assert path.encode() not in content


@pytest.mark.full
@pytest.mark.parametrize("abi", ABIS)
def test_the_list_agrees_with_onnx_runtime(abi: str, tmp_path: Path) -> None:
    need(["readelf"])
    path = tmp_path / "libonnxruntime.so"
    path.write_bytes(pinned().libraries(abi)[path.name])
    theirs = {i.name: (i.library, i.version) for i in read_needs(path).imports}
    text = (sources.folder("android") / "native" / "bionic" / "symbols.txt").read_text()
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    said = {name: known for _, _, _, name, known in rows}
    assert set(said.values()) == {"aar", "map"}
    for one in zig.symbols():
        if said[one.name] == "aar":
            library, version = theirs[one.name]
            # ONNX Runtime's imports of liblog have no version, so nothing says which library they are of.
            assert library in {"", one.library}
            assert version in {one.version, "" if one.version == "-" else one.version}


@pytest.mark.full
def test_equal_sources_make_equal_bytes_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built("x86_64")  # the compiler is there
    made = []
    files = ("kernels/arena/totals.cpp", "kernels/replay/live_ranges.cpp", "kernels/arena/pool.cpp")
    for folder in (tmp_path / "a", tmp_path / "another folder"):
        for name in sources.native_sources():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        (folder / "android" / "native" / "exports.map").write_text(EXPORTS)
        monkeypatch.setattr(sources, "folder", folder.__truediv__)
        made.append(zig.build("x86_64", files, jdk().headers()))
    assert made[0] == made[1]
    assert len(made[0]) > 1000


def test_a_symbol_that_android_lacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built("x86_64")
    shutil.copytree(ROOT / "android" / "native", tmp_path / "android" / "native")
    (tmp_path / "android" / "native" / "exports.map").write_text(EXPORTS)
    (tmp_path / "kernels").mkdir()
    source = tmp_path / "kernels" / "wrong.cpp"
    source.write_text(
        '#include <cstdio>\nextern "C" void em_x(char* name) { std::puts(std::tmpnam(name)); }\n'.replace(
            "void em_x", '__attribute__((visibility("default"))) void em_x'
        )
    )
    monkeypatch.setattr(sources, "folder", tmp_path.__truediv__)
    with pytest.raises(ToolError, match=r"linking libedgemem\.so failed: .*undefined symbol: (puts|tmpnam)"):
        zig.build("x86_64", ("kernels/wrong.cpp",), ())
    source.write_text("this is no C++\n")
    with pytest.raises(ToolError, match=r"the compilation of kernels/wrong\.cpp failed"):
        zig.build("x86_64", ("kernels/wrong.cpp",), ())


@pytest.mark.full
def test_the_ndk_builds_by_the_same_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(["readelf", "javac"])
    if shutil.which("g++") is None or shutil.which("cmake") is None:
        pytest.skip("needs g++ and cmake on PATH")
    home = tmp_path / "ndk"
    (home / "build" / "cmake").mkdir(parents=True)
    (home / "source.properties").write_text("Pkg.Desc = Android NDK\nPkg.Revision = 27.0.12077973\n")
    # In place of the NDK's: it compiles for this machine, and says what it was asked for.
    (home / "build" / "cmake" / "android.toolchain.cmake").write_text(TOOLCHAIN_FILE)
    monkeypatch.setenv("ANDROID_NDK_HOME", str(home))
    monkeypatch.setenv("JAVA_HOME", str(jdk().home))  # where CMake looks for jni.h
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "libedgemem.so"
    path.write_bytes(native_library("x86_64"))
    monkeypatch.delenv("ANDROID_NDK_HOME")
    monkeypatch.undo()
    other = tmp_path / "zig.so"
    other.write_bytes(built("x86_64"))
    assert exports(path) == exports(other)
    assert read_needs(path).soname == "libedgemem.so"
    assert ROOT.as_posix().encode() not in path.read_bytes()


def test_what_is_copied_to_another_project_is_enough() -> None:
    """Every header that a listed file includes is listed, too."""
    listed = set(sources.native_sources())
    for name in sorted(n for n in listed if n.endswith((".cpp", ".h", ".c"))):
        for line in (ROOT / name).read_text().splitlines():
            if line.startswith('#include "'):
                header = line.split('"')[1]
                places = (f"kernels/{header}", f"kernels/replay/{header}", f"kernels/android/{header}")
                assert listed.intersection(places), f"{name} includes {header}"
    assert {"android/native/CMakeLists.txt", "android/native/sources.txt", "android/native/exports.map"} <= listed
