"""Tools for Android: a cache whose entries are made once, packages of registries, archives read with limits."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import sys
import tarfile
import threading
import warnings
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgemem.android.toolchain import ABIS, Runtime, ToolError, jdk, native_library, runtime, store
from edgemem.android.toolchain.runtime import PINNED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LIBRARIES = ("libonnxruntime.so", "libonnxruntime4j_jni.so")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "android"


def members(version: str = "1.29.0", abis: Iterable[str] = ABIS) -> dict[str, bytes]:
    found = {"classes.jar": b"the classes", "AndroidManifest.xml": b"<manifest/>"}
    for abi in abis:
        found[f"jni/{abi}/{LIBRARIES[0]}"] = f"{abi}\0libonnxruntime.so\0VERS_{version}\0".encode() * 50
        found[f"jni/{abi}/{LIBRARIES[1]}"] = abi.encode()
    return found


def zipped(files: Iterable[tuple[str, bytes]]) -> bytes:
    target = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of names that stand twice
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def archive(folder: Path, content: bytes) -> Path:
    path = folder / "given.aar"
    path.write_bytes(content)
    return path


def test_the_archive_of_a_user_is_read(tmp_path: Path) -> None:
    files = members()
    path = archive(tmp_path, zipped(files.items()))
    found = runtime(path)
    assert (found.version, found.abis, found.archive) == ("1.29.0", ABIS, path)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.classes.read_bytes() == files["classes.jar"]
    for abi in ABIS:
        assert found.libraries(abi) == {n: files[f"jni/{abi}/{n}"] for n in LIBRARIES}
    assert "MIT" in found.licence
    assert found.sha256 in found.licence


def test_its_own_licence_is_taken(tmp_path: Path) -> None:
    files = {**members(), "LICENSE": b"as you like", "ThirdPartyNotices.txt": b"others"}
    assert runtime(archive(tmp_path, zipped(files.items()))).licence == "as you like\n\nothers"


def test_an_abi_that_the_archive_lacks_is_named(tmp_path: Path) -> None:
    found = runtime(archive(tmp_path, zipped(members(abis=["x86_64"]).items())))
    assert found.abis == ("x86_64",)
    with pytest.raises(ToolError, match=r"given.aar has no libraries for arm64-v8a, it has: x86_64"):
        found.libraries("arm64-v8a")


def test_an_archive_that_changes_under_the_build_is_refused(tmp_path: Path) -> None:
    found = runtime(archive(tmp_path, zipped(members().items())))
    archive(tmp_path, zipped(members("1.30.0").items()))
    with pytest.raises(ToolError, match="was replaced"):
        found.libraries("x86_64")


def two_versions() -> dict[str, bytes]:
    return members(abis=["x86_64"]) | members("1.28.0", ["arm64-v8a"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no Android archive"),
        (b"PK" + bytes(200), "is no Android archive"),
        (zipped([]), "has no classes.jar"),
        (zipped(members(abis=["x86", "armeabi-v7a"]).items()), "has ONNX Runtime for none of arm64-v8a, x86_64"),
        (zipped(two_versions().items()), "several versions of ONNX Runtime: 1.28.0, 1.29.0"),
        (zipped([*members().items(), ("classes.jar", b"others")]), "lists a file twice"),
        (zipped((n, c.replace(b"VERS_", b"VERZ_")) for n, c in members().items()), "that is no ONNX Runtime"),
        (zipped([(str(k), b"") for k in range(10_001)]), "lists 10001 files"),
        (zipped(members().items())[:-1], "is no Android archive"),
    ],
)
def test_what_is_no_archive_is_refused_in_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=said) as caught:
        runtime(archive(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"there is no file .*absent\.aar"):
        runtime(tmp_path / "absent.aar")
    with pytest.raises(ToolError, match="there is no file"):
        runtime(tmp_path)


def with_size(content: bytes, name: str, size: int) -> bytes:
    """The zip whose central directory says another size of a member."""
    at = content.rindex(name.encode()) - 46  # its name follows its record of 46 bytes
    assert content[at : at + 4] == b"PK\x01\x02"
    return content[: at + 24] + struct.pack("<I", size) + content[at + 28 :]


@pytest.mark.parametrize("size", [0, 1, 11 + 1, 600 << 20, 0xFFFFFFFE])
def test_a_member_of_another_size_than_it_says_is_refused(size: int, tmp_path: Path) -> None:
    content = with_size(zipped(members().items()), "classes.jar", size)
    with pytest.raises(ToolError, match=r"classes\.jar in given\.aar"):
        runtime(archive(tmp_path, content))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 10_000), value=st.integers(0, 255), length=st.integers(1, 10_000))
def test_any_damage_gives_one_line_or_the_same_runtime(at: int, value: int, length: int, tmp_path: Path) -> None:
    whole = zipped(members().items())
    damaged = bytearray(whole)
    damaged[at % len(whole)] = value
    content = bytes(damaged)[: max(1, length)] if length < len(whole) else bytes(damaged)
    try:
        found = runtime(archive(tmp_path, content))
        libraries = {abi: found.libraries(abi) for abi in found.abis}
    except ToolError as e:
        assert "\n" not in str(e)  # noqa: PT017
    else:
        good = members()
        assert found.version == "1.29.0"
        assert all(good[f"jni/{abi}/{n}"] == c for abi, by_name in libraries.items() for n, c in by_name.items())


def test_an_entry_is_made_once_and_again_when_it_was_damaged(cache: Path) -> None:
    made = []

    def make() -> bytes:
        made.append(1)
        return b"content"

    sha256 = hashlib.sha256(b"content").hexdigest()
    path = store.entry("a/b", make, sha256=sha256)
    assert path == cache / "a" / "b"
    assert store.entry("a/b", make, sha256=sha256).read_bytes() == b"content"
    assert len(made) == 1
    path.write_bytes(b"damage")
    assert store.entry("a/b", make, sha256=sha256).read_bytes() == b"content"
    assert len(made) == 2


def test_an_entry_with_another_checksum_is_not_stored(cache: Path) -> None:
    with pytest.raises(ToolError, match="not what was pinned"):
        store.entry("a", lambda: b"other", sha256="0" * 64)
    assert not (cache / "a").exists()


def test_threads_wait_for_the_one_that_makes(cache: Path) -> None:
    made = []
    start = threading.Barrier(8)

    def make(folder: Path) -> None:
        made.append(1)
        (folder / "file").write_bytes(b"content")

    def use() -> None:
        start.wait()
        assert (store.entry_folder("folder", make) / "file").read_bytes() == b"content"

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert sorted(p.name for p in cache.iterdir()) == ["folder"]


def test_a_folder_whose_making_fails_is_not_there(cache: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "half").write_bytes(b"")
        raise ToolError("no luck")

    with pytest.raises(ToolError, match="no luck"):
        store.entry_folder("folder", make)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "file"))
    with pytest.raises(ToolError, match="cannot write to edgemem's cache"):
        store.entry("a", lambda: b"")
    monkeypatch.delenv("EDGEMEM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    with pytest.raises(ToolError, match="set EDGEMEM_CACHE"):
        store.entry("a", lambda: b"")


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def npm(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
    """A client of npm that brings a package with these files."""
    tarball = folder / "package.tgz"
    with tarfile.open(tarball, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    copy = f"import shutil, sys\nshutil.copy({str(tarball)!r}, sys.argv[sys.argv.index('--pack-destination') + 1])\n"
    program(folder / "bin", "npm", copy)
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)


def test_a_package_that_is_not_the_pinned_one_is_refused(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("package/Plugins/Android/onnxruntime.aar", "package/LICENSE", "package/ThirdPartyNotices.txt")
    npm(tmp_path, monkeypatch, dict.fromkeys(names, b"something else"))
    with pytest.raises(ToolError, match="not what was pinned"):
        runtime()
    assert not any(f.is_file() for f in cache.rglob("*"))
    npm(tmp_path, monkeypatch, {"package/other": b""})
    with pytest.raises(ToolError, match=r"onnxruntime@0\.4\.9 has no package/"):
        runtime()


def test_a_registry_that_fails_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "npm", "import sys\nsys.exit('no\\nnetwork')\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ToolError, match=rf"{PINNED.name}@0\.4\.9 was not downloaded; .*no network$"):
        runtime()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"is not on PATH; install Node\.js"):
        runtime()


def test_a_jdk_that_does_not_serve_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ToolError, match=r"JAVA_HOME is .*, which has no bin/javac; set it to a JDK 17 or later"):
        jdk.jdk()
    program(tmp_path / "bin", "javac", "print('javac 11.0.2')\n")
    with pytest.raises(ToolError, match=r"is javac 11\.0\.2; install a JDK 17 or later"):
        jdk.jdk()
    program(tmp_path / "bin", "javac", "print('javac 21.0.1')\n")
    found = jdk.jdk()
    assert (found.home, found.version) == (tmp_path, "21.0.1")
    with pytest.raises(ToolError, match=r"has no include/jni\.h"):
        found.headers()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"there is no javac; install a JDK 17"):
        jdk.jdk()


def test_another_abi_is_an_error() -> None:
    with pytest.raises(ToolError, match="not built for x86; the ABIs are arm64-v8a and x86_64"):
        native_library("x86")


def test_a_folder_that_is_no_ndk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_NDK_HOME", str(tmp_path))
    with pytest.raises(ToolError, match=r"ANDROID_NDK_HOME is .*, which holds no NDK"):
        native_library("x86_64")


def test_runtimes_are_equal_by_what_they_are(tmp_path: Path) -> None:
    path = archive(tmp_path, zipped(members().items()))
    found = runtime(path)
    assert found == Runtime("1.29.0", found.licence, found.sha256, path, found.classes, ABIS)
