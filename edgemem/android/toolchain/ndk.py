"""libedgemem.so with the Android NDK: CMake, the NDK's own toolchain file and android/native/CMakeLists.txt."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

from edgemem.android import sources
from edgemem.android.toolchain.store import run_tool
from edgemem.errors import ToolError
from edgemem.system.files import temporary_folder

__all__ = ["Ndk", "ndk"]

_PLATFORM: Final = "android-24"
_TOOLCHAIN: Final = Path("build", "cmake", "android.toolchain.cmake")


class Ndk:
    """The Android NDK in a folder. Raises ToolError if there is none in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        try:
            said = (home / "source.properties").read_text(encoding="utf-8")
        except (OSError, ValueError):
            said = ""
        found = re.search(r"^Pkg\.Revision\s*=\s*(\S+)", said, re.MULTILINE)
        if found is None or not (home / _TOOLCHAIN).is_file():
            raise ToolError(f"ANDROID_NDK_HOME is {home}, which holds no NDK; set it to one, or unset it to use zig")
        self.version = found[1]

    def identity(self) -> str:
        """What a library depends on besides the sources, for the key of the cache."""
        return f"ndk {self.version} {_PLATFORM}"

    def build(self, abi: str) -> bytes:
        """libedgemem.so for an ABI. Raises ToolError without CMake, or if a source does not compile."""
        cmake = _cmake()
        with temporary_folder() as work:
            settings = {
                "CMAKE_TOOLCHAIN_FILE": str(self.home / _TOOLCHAIN),
                "ANDROID_ABI": abi,
                "ANDROID_PLATFORM": _PLATFORM,
                "ANDROID_STL": "c++_static",
                "CMAKE_BUILD_TYPE": "Release",
            }
            defines = [f"-D{name}={value}" for name, value in settings.items()]
            source = sources.folder("android") / "native"
            run_tool([cmake, "-S", source, "-B", work, *defines], what="cmake with the Android NDK", cwd=work)
            jobs = str(max(1, os.cpu_count() or 1))
            run_tool([cmake, "--build", work, "--parallel", jobs], what="the Android NDK", cwd=work)
            return (work / "libedgemem.so").read_bytes()


def ndk() -> Ndk | None:
    """The NDK that ANDROID_NDK_HOME names; None if it names none."""
    given = os.environ.get("ANDROID_NDK_HOME", "").strip()
    return Ndk(Path(given).absolute()) if given else None


def _version(cmake: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", cmake.parents[1].name)]


def _cmake() -> str:
    found = shutil.which("cmake")
    if found is None:
        home = os.environ.get("ANDROID_HOME", "").strip()
        inside = sorted(Path(home).absolute().glob("cmake/*/bin/cmake"), key=_version) if home else []
        if not inside:
            raise ToolError("the Android NDK builds with cmake, which is not on PATH; install CMake 3.18 or later")
        found = str(inside[-1])
    return found
