"""An Android SDK of what this machine has: Debian's tools on PATH, D8 of a pinned package, a platform of stand-ins.

build-tools/1.0/d8               runs D8
platforms/android-29/android.jar the classes in tests/data_android/stubs, Debian's org.json, Android's resources
host.cmake                       compiles libedgemem.so with this machine's compiler, which is no Android's
"""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path
from typing import Final

import pytest

from edgemem.android.library import compile_java, write_zip
from tests.android.parts import part
from tests.android.tools import JVM, need

__all__ = ["make_sdk", "write_toolchain"]

STUBS: Final = Path(__file__).parents[1] / "data_android" / "stubs" / "android"
_JSON: Final = Path("/usr/share/java/com.android.json.jar")
_RESOURCES: Final = Path("/usr/share/android-framework-res/framework-res.apk")
_PACKAGES: Final = {_JSON: "libandroid-json-java", _RESOURCES: "android-framework-res"}


def make_sdk(home: Path) -> Path:
    """Makes an SDK in a new folder; skips the test where something for it is missing."""
    need(["java", "javac", "keytool", "aapt", "apksigner", "zipalign", "cmake", "g++"])
    for file, package in _PACKAGES.items():
        if not file.is_file():
            pytest.skip(f"{file} is not there (apt-get install {package})")
    tools, platform = home / "build-tools" / "1.0", home / "platforms" / "android-29"
    tools.mkdir(parents=True)
    platform.mkdir(parents=True)
    d8 = tools / "d8"
    d8.write_text(
        f'#!/bin/sh\nexec java {" ".join(JVM)} -cp "{part("bundletool")}" com.android.tools.r8.D8 "$@"\n',
        encoding="utf-8",
    )
    d8.chmod(0o755)
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(_RESOURCES) as resources, zipfile.ZipFile(_JSON) as json:
        members |= {name: resources.read(name) for name in ("AndroidManifest.xml", "resources.arsc")}
        members |= {name: json.read(name) for name in json.namelist() if name.endswith(".class")}
    stubs = io.BytesIO(compile_java(STUBS.rglob("*.java"), (), home / "stubs"))
    with zipfile.ZipFile(stubs) as classes:
        members |= {name: classes.read(name) for name in classes.namelist()}
    (platform / "android.jar").write_bytes(write_zip(members))
    write_toolchain(home / "host.cmake")
    return home


def write_toolchain(file: Path) -> None:
    """A toolchain file for android/native: this machine's compiler with the JDK's jni.h, which the NDK has.

    -O1 compiles in a third of the time of the NDK's -O3.
    """
    headers = Path(shutil.which("javac") or "").resolve().parents[1] / "include"
    flags = f"-isystem {headers} -isystem {headers}/linux"
    settings = {"COMPILER": shutil.which("g++"), "FLAGS_INIT": flags, "FLAGS_RELEASE": "-O1"}
    file.write_text("".join(f'set(CMAKE_CXX_{name} "{value}")\n' for name, value in settings.items()), "utf-8")
