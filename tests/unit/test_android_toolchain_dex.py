"""Dex files: the app's classes apart from ONNX Runtime's, whole by their own checksums, the same bytes each time."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import zipfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from edgemem.android import sources
from edgemem.android.toolchain import Runtime, ToolError, dex, dexing, runtime
from edgemem.android.toolchain.class_file import without_parameters
from edgemem.android.toolchain.jdk import jdk
from tests.android.tools import need

ROOT = Path(__file__).parents[2]
MAIN = """
package one;

import android.Screen;
import ai.onnxruntime.Env;
import java.util.function.Supplier;

public final class Main extends Screen {
  public Supplier<String> text(String name) {
    return () -> name + Env.version();
  }
}
"""
STUB = "package android; public class Screen { public void show() { throw new RuntimeException(); } }"


@cache
def pinned() -> Runtime:
    need(["javac"])
    try:
        return runtime()
    except ToolError as e:
        if "was not downloaded" in str(e) or "not on PATH" in str(e):
            pytest.skip(str(e))
        raise


@cache
def made() -> tuple[bytes, ...]:
    try:
        return dex(pinned())
    except ToolError as e:
        if "was not downloaded" in str(e):
            pytest.skip(str(e))
        raise


def classes(content: bytes) -> set[str]:
    """The classes that a dex file defines, as `Lai/edgemem/Run;`, after its header's checksums were compared."""
    assert content[:8] == b"dex\n037\0"
    assert struct.unpack_from("<I", content, 8)[0] == zlib.adler32(content[12:])
    assert content[12:32] == hashlib.sha1(content[32:], usedforsecurity=False).digest()
    (size,) = struct.unpack_from("<I", content, 32)
    assert size == len(content)
    _, strings, types_count, types = struct.unpack_from("<4I", content, 56)
    count, at = struct.unpack_from("<2I", content, 96)
    found = set()
    for k in range(count):
        (number,) = struct.unpack_from("<I", content, at + 32 * k)
        assert number < types_count
        (name,) = struct.unpack_from("<I", content, types + 4 * number)
        (place,) = struct.unpack_from("<I", content, strings + 4 * name)
        start = place + 1  # its length, in one byte below 128
        found.add(content[start : content.index(b"\0", start)].decode())
    assert len(found) == count
    return found


@pytest.mark.full
def test_the_app_and_the_runtime_have_dex_files_of_their_own() -> None:
    first, second = made()
    own, theirs = classes(first), classes(second)
    assert {"Lai/edgemem/PlannedModel;", "Lai/edgemem/Native;", "Lai/edgemem/demo/MainActivity;"} <= own
    assert all(name.startswith("Lai/edgemem/") for name in own)
    assert {"Lai/onnxruntime/OrtEnvironment;", "Lai/onnxruntime/OrtSession;"} <= theirs
    with zipfile.ZipFile(pinned().classes) as jar:
        inside = {f"L{n.removesuffix('.class')};" for n in jar.namelist() if n.endswith(".class")}
    assert inside <= theirs
    assert not own & theirs


@pytest.mark.full
def test_a_class_loses_the_names_of_its_parameters_and_nothing_else(tmp_path: Path) -> None:
    need(["javac"])
    source = tmp_path / "Named.java"
    source.write_text(
        "class Named { static final long A = 5; static final double B = 1.5; enum Kind { ONE }"
        ' String text = "MethodParameters";'
        " int sum(int first, int second) { return first + second; } static void none() {} }"
    )
    subprocess.run(["javac", "-parameters", "-d", tmp_path, source], check=True)
    for compiled in sorted(tmp_path.glob("*.class")):
        before = compiled.read_bytes()
        said = described(compiled)
        assert ("MethodParameters:" in said) == ("sum" in said or "valueOf" in said)
        after = without_parameters(before)
        assert without_parameters(after) == after
        compiled.write_bytes(after)
        left = said.splitlines()
        for line in described(compiled).splitlines():
            assert line in left
            del left[: left.index(line) + 1]
        assert "MethodParameters:" not in described(compiled)
        for length in range(len(before)):
            with suppress(ToolError):
                without_parameters(before[:length])
    with pytest.raises(ToolError, match="no class file"):
        without_parameters(b"PK\3\4")


def described(compiled: Path) -> str:
    """What javap says of a class, but for the checksum and size of its file."""
    done = subprocess.run(["javap", "-v", "-p", compiled], check=True, capture_output=True, text=True)
    return done.stdout.partition("Compiled from")[2]


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small app, a small runtime's jar and an empty cache with the dexer alone."""
    made()
    jar = dexing.d8().jar
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "android" / "d8" / jar.name
    kept.parent.mkdir(parents=True)
    os.link(jar, kept) if jar.stat().st_dev == kept.parent.stat().st_dev else shutil.copy(jar, kept)
    app = tmp_path / "app"
    for name, text in (("java/one/Main.java", MAIN), ("stubs/android/Screen.java", STUB)):
        (app / "android" / name).parent.mkdir(parents=True)
        (app / "android" / name).write_text(text)
    monkeypatch.setattr(sources, "folder", app.__truediv__)
    return app


@pytest.fixture
def small_runtime(tmp_path: Path) -> Runtime:
    source = tmp_path / "Env.java"
    source.write_text("package ai.onnxruntime; public class Env { public static String version() { return null; } }")
    compiled = dexing.compile_java(jdk(), [source], (), tmp_path / "env")
    jar = tmp_path / "env.jar"
    dexing.write_jar(compiled, jar)
    return Runtime("1.0.0", "", "", tmp_path / "absent.aar", jar, ("x86_64",))


@pytest.mark.full
def test_stubs_are_not_part_of_the_app_and_a_change_of_it_leaves_the_runtime(
    tiny: Path, small_runtime: Runtime, tmp_path: Path
) -> None:
    first = dex(small_runtime)
    assert [classes(d) & {"Lone/Main;", "Landroid/Screen;", "Lai/onnxruntime/Env;"} for d in first] == [
        {"Lone/Main;"},
        {"Lai/onnxruntime/Env;"},
    ]
    assert dex(small_runtime) == first
    folders = {p.name for p in (tmp_path / "cache" / "android" / "dex").iterdir()}
    assert len(folders) == 2
    shutil.rmtree(tmp_path / "cache" / "android" / "dex")
    copy = shutil.copytree(tiny, tmp_path / "another place")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "folder", copy.__truediv__)
        assert dex(small_runtime) == first
    main = tiny / "android" / "java" / "one" / "Main.java"
    main.write_text(MAIN.replace("text(", "words("))
    changed = dex(small_runtime)
    assert changed[0] != first[0]
    assert changed[1] == first[1]
    assert {p.name for p in (tmp_path / "cache" / "android" / "dex").iterdir()} > folders
    main.write_text("no Java")
    with pytest.raises(ToolError, match=r"javac of the classes failed: .*Main\.java:1: error") as caught:
        dex(small_runtime)
    assert "\n" not in str(caught.value)


def test_the_android_sdk_comes_first_and_its_newest_build_tools(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned_jar = dexing.d8().jar
    for version in ("9.0.0", "34.0.0", "34.0.0-rc1", "33.0.2"):
        jar = tiny / "sdk" / "build-tools" / version / "lib" / "d8.jar"
        jar.parent.mkdir(parents=True)
        jar.write_bytes(version.encode())
    monkeypatch.setenv("ANDROID_HOME", str(tiny / "sdk"))
    found = dexing.d8()
    assert found.jar.parents[1].name == "34.0.0"
    assert found.sha256 == hashlib.sha256(b"34.0.0").hexdigest()
    monkeypatch.setenv("ANDROID_HOME", str(tiny))
    assert dexing.d8().jar == pinned_jar


@pytest.mark.full
def test_a_dexer_that_fails_is_said(tiny: Path, small_runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tiny / "sdk" / "build-tools" / "34.0.0" / "lib" / "d8.jar"
    jar.parent.mkdir(parents=True)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("nothing", b"")
    monkeypatch.setenv("ANDROID_HOME", str(tiny / "sdk"))
    with pytest.raises(ToolError, match=r"D8 failed: .*com\.android\.tools\.r8\.D8"):
        dex(small_runtime)
