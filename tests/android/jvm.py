"""Runs an APK on this machine's JVM: its own dex as Java classes, its own x86_64 libraries over the shim, and stand-ins
for Android's classes (android/host).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.android.installed import downloaded
from tests.android.shim import build_shim
from tests.android.tools import abi, need

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["App", "AppError", "install"]

_ANDROID: Final = Path(__file__).resolve().parents[2] / "android"
_TRANSLATE: Final = Path(__file__).with_name("translate.py")
_ABI: Final = "x86_64"
_ACTIVITY: Final = "ai.edgemem.demo.MainActivity"
_MAGIC: Final = b"\xca\xfe\xba\xbe"
_INTERFACE_METHODS: Final = 52  # the version of class files, Java 8's, that may have methods in interfaces
_TOOL_S: Final = 120
_RUN_S: Final = 180


class AppError(Exception):
    """A tool or the app did not end well; the message is what it said."""


@dataclass(frozen=True, slots=True)
class App:
    """An installed package: the APK, its classes and libraries, and the stand-ins' classes."""

    apk: Path
    classes: Path
    libraries: Path
    host: Path
    shim: Path

    def run(self, *actions: str) -> dict[str, Mapping[str, Any]]:
        """Starts the activity, does what Host's actions say, and gives the views of the screen by their tags.

        Raises AppError if the app ends otherwise than by its own.
        """
        options = [
            "-Xverify:none",  # enjarify leaves the frames out that the verifier wants
            "-XX:-PrintWarnings",
            f"-Dapk={self.apk}",
            f"-Djava.library.path={self.libraries}",
            f"-Donnxruntime.native.path={self.libraries}",
        ]
        path = f"{self.host}{os.pathsep}{self.classes}"
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": f"{self.shim}:{self.libraries}",
            "ORT_DISABLE_TELEMETRY": "1",
        }
        said = _run(["java", *options, "-cp", path, "Host", _ACTIVITY, *actions, "dump"], environment, _RUN_S)
        views = [line for line in said.splitlines() if line.startswith("[{")]
        if len(views) != 1:
            raise AppError(f"the app printed no screen: {said[-2000:]}")
        return {view["tag"]: view for view in json.loads(views[0])}

    def picture(self, shape: Sequence[int]) -> NDArray[np.float32]:
        """What the app feeds an input of this shape that takes pictures, at its scale MINUS_ONE_TO_ONE."""
        values = self.host / "picture"
        path = f"{self.host}{os.pathsep}{self.classes}"
        sizes = ",".join(map(str, shape))
        given = ["ai.edgemem.demo.Inputs", "FLOAT", sizes, "MINUS_ONE_TO_ONE", str(values)]
        _run(["java", "-Xverify:none", "-cp", path, *given], dict(os.environ), _RUN_S)
        return np.fromfile(values, ">f4").astype(np.float32).reshape(shape)


def install(apk: Path, folder: Path) -> App:
    """Unpacks an APK into a folder, and makes Java classes of its dex. Skips the test where a tool is missing.

    Raises AppError if a tool does not take it.
    """
    need(["enjarify", "java", "javac"])
    processor = abi(_ABI)
    libraries = folder / "lib"
    libraries.mkdir(parents=True)
    with zipfile.ZipFile(apk) as archive:
        for entry in archive.infolist():
            if entry.filename.startswith(f"lib/{_ABI}/"):
                (libraries / Path(entry.filename).name).write_bytes(archive.read(entry))
    translated, classes, host = folder / "translated.jar", folder / "classes.jar", folder / "host"
    # Debian's enjarify is a module of Debian's Python.
    plain = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    told = _run(["/usr/bin/python3", str(_TRANSLATE), "-f", "-o", str(translated), str(apk)], plain, _TOOL_S)
    if "0 classes had errors" not in told:
        raise AppError(f"enjarify: {told[-2000:]}")
    _with_interface_methods(translated, classes)
    # enjarify does not say which classes are nested: what names nested classes of the app needs the app's sources.
    inputs = _ANDROID / "host" / "ai" / "edgemem" / "demo" / "Inputs.java"
    sources = [str(path) for path in sorted((_ANDROID / "host").rglob("*.java")) if path != inputs]
    _run(["javac", "-nowarn", "-Xlint:none", "-cp", str(classes), "-d", str(host), *sources], dict(os.environ), _TOOL_S)
    found = f"{_ANDROID / 'java'}{os.pathsep}{_ANDROID / 'stubs'}"
    options = ["-nowarn", "-Xlint:none", "-implicit:none", "-sourcepath", found, "-cp", str(downloaded().classes)]
    _run(["javac", *options, "-d", str(host), str(inputs)], dict(os.environ), _TOOL_S)
    return App(apk, classes, libraries, host, build_shim(processor))


def _with_interface_methods(source: Path, target: Path) -> None:
    """The same classes with a version that may have methods in interfaces; enjarify writes an older one."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name, content in _members(old):
            made = content
            if content[:4] == _MAGIC and int.from_bytes(content[6:8], "big") < _INTERFACE_METHODS:
                made = content[:4] + bytes(2) + _INTERFACE_METHODS.to_bytes(2, "big") + content[8:]
            new.writestr(name, made)


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    for entry in archive.infolist():
        if not entry.is_dir():
            yield entry.filename, archive.read(entry)


def _run(command: list[str], environment: Mapping[str, str], seconds: int) -> str:
    """What a tool printed. Raises AppError if it fails."""
    name = shutil.which(command[0]) or command[0]
    try:
        done = subprocess.run(
            [name, *command[1:]], env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise AppError(str(e)) from None
    if done.returncode:
        raise AppError(f"{command[0]} ended with {done.returncode}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr
