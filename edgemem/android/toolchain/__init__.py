"""What builds an app for Android: ONNX Runtime's archive, the Java compiler and dexer, the native compiler.

    runtime(aar)            ONNX Runtime for Android: the pinned npm package, or the archive (AAR) of the user
    dex(runtime)            classes.dex, classes2.dex ...: the app's classes, then the runtime's
    native_library(abi)     libedgemem.so of an ABI

What is downloaded or built is kept in edgemem's folder of caches, by its hash. Processes that need the same thing wait
for each other. Every failure is a ToolError of one line that says what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.android.toolchain.runtime import ABIS, Runtime
from edgemem.android.toolchain.runtime import runtime as _runtime
from edgemem.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ABIS", "Runtime", "ToolError", "dex", "native_library", "runtime"]


def runtime(aar: Path | None = None) -> Runtime:
    """ONNX Runtime for Android: of the user's archive, else of the pinned package, which is downloaded once (150 MB).

    Raises ToolError if the archive is damaged or no ONNX Runtime, and if the package cannot be had.
    """
    return _runtime(aar)


def dex(runtime: Runtime) -> tuple[bytes, ...]:
    """The dex files of the app, in the order classes.dex, classes2.dex, ...; the same sources make the same bytes.

    Raises ToolError without a JDK 17 or later, without a dexer, or where a class does not compile.
    """
    from edgemem.android.toolchain.dexing import dex_files

    return dex_files(runtime)


def native_library(abi: str) -> bytes:
    """libedgemem.so for an ABI of `ABIS`; the same sources and compiler make the same bytes.

    Raises ToolError for another ABI, without a compiler, or where the result would not load on Android 7.
    """
    from edgemem.android.toolchain.native import library

    return library(abi)
