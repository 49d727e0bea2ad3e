"""Android's own tools, a JDK's, CMake and the NDK: found in ANDROID_HOME or on PATH, and run."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["find_platform", "find_tool", "find_toolchain", "run_tool"]

# The tool -> what to install for it.
_INSTALL: Final = {
    "aapt2": "the Android SDK's build tools, or Debian's package aapt",
    "apksigner": "the Android SDK's build tools, or Debian's package apksigner",
    "cmake": "CMake 3.18 or later, or Debian's package cmake",
    "d8": "the Android SDK's build tools; Debian has no D8, and its dalvik-exchange does not read the class files of "
    "ONNX Runtime, which are Java 17's",
    "javac": "a JDK 17 or later, or Debian's package openjdk-17-jdk-headless",
    "keytool": "a JDK 17 or later, or Debian's package openjdk-17-jdk-headless",
    "zipalign": "the Android SDK's build tools, or Debian's package zipalign",
}
_DEBIAN: Final = Path("/usr/lib/android-sdk")
_TOOLCHAIN: Final = Path("build", "cmake", "android.toolchain.cmake")
_TOOL_LIMIT_S: Final = 1200
_MOST_SAID: Final = 400  # characters of a tool's message

_log: Final = logging.getLogger("edgemem.android")


def find_tool(*names: str) -> Path:
    """The first of these programs that there is: in a JDK, in the newest build tools of ANDROID_HOME, or on PATH.

    Raises ToolError, which names what to install, if there is none of them.
    """
    folders = [home / "bin"] if (home := _folder("JAVA_HOME")) else []
    if sdk := _sdk():
        folders += [tool.parent for tool in _newest(sdk, "build-tools/*/zipalign", "build-tools/*/d8")]
        folders += _newest(sdk, "cmake/*/bin")
    for name in names:
        for folder in folders:
            if os.access(folder / name, os.X_OK):
                return folder / name
        if found := shutil.which(name):
            return Path(found)
    raise ToolError(f"there is no {' or '.join(names)} in ANDROID_HOME or on PATH; install {_INSTALL[names[0]]}")


def find_platform() -> Path:
    """android.jar of the newest platform in ANDROID_HOME. Raises ToolError if there is none."""
    sdk = _sdk()
    found = _newest(sdk, "platforms/*/android.jar") if sdk else []
    if not found:
        raise ToolError(
            "there is no platforms/android-*/android.jar in ANDROID_HOME; install a platform of the Android SDK, for "
            "example: sdkmanager 'platforms;android-35'"
        )
    return found[0]


def find_toolchain() -> Path:
    """The toolchain file for CMake of the NDK in ANDROID_NDK_HOME, else of the newest one in ANDROID_HOME.

    Raises ToolError without an NDK.
    """
    sdk = _sdk()
    given = _folder("ANDROID_NDK_HOME")
    found = [given] if given else _newest(sdk, "ndk/*") if sdk else []
    for home in found:
        if (home / _TOOLCHAIN).is_file():
            return home / _TOOLCHAIN
    where = f"in ANDROID_NDK_HOME ({given}) " if given else ""
    raise ToolError(
        f"there is no Android NDK {where}to compile libedgemem.so with; install one (sdkmanager 'ndk;28.2.13676358'; "
        "Debian's main section has none) and set ANDROID_NDK_HOME, or give another compiler's CMake file (--toolchain)"
    )


def run_tool(command: Sequence[str | Path], *, cwd: Path, what: str = "", env: Mapping[str, str] | None = None) -> str:
    """Run a tool; returns what it printed, its errors last.

    Raises ToolError with the first lines of its errors if it fails or takes longer than 20 minutes.
    """
    what = what or Path(command[0]).name
    _log.info("running %s", what)
    try:
        done = subprocess.run(  # noqa: S603 - the arguments are edgemem's own
            [str(part) for part in command],
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TOOL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"{what} did not end within {_TOOL_LIMIT_S} s; try again") from None
    except OSError as e:
        raise ToolError(f"{what} cannot be started: {e}") from e
    if done.returncode:
        said = " ".join((done.stderr.strip() or done.stdout.strip()).split())[:_MOST_SAID]
        raise ToolError(f"{what} failed: {said or f'exit status {done.returncode}'}")
    return done.stdout + done.stderr


def _sdk() -> Path | None:
    return _folder("ANDROID_HOME") or _folder("ANDROID_SDK_ROOT") or (_DEBIAN if _DEBIAN.is_dir() else None)


def _folder(variable: str) -> Path | None:
    given = os.environ.get(variable, "").strip()
    return Path(given).absolute() if given else None


def _newest(sdk: Path, *patterns: str) -> list[Path]:
    """What matches in the SDK, the newest version first: 34.0.0 before 34.0.0-rc1, which comes before 9.0.0."""
    found = {path for pattern in patterns for path in sdk.glob(pattern)}

    def version(path: Path) -> tuple[int, ...]:
        release, *candidate = re.split(r"-(?=rc|beta|alpha)", path.relative_to(sdk).as_posix())
        numbers = [int(number) for number in re.findall(r"\d+", release)]
        return (*numbers, *(0,) * (8 - len(numbers)), int(not candidate))

    return sorted(found, key=version, reverse=True)
