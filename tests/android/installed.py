"""What an APK carries, laid out for the stand-in for a device: ONNX Runtime's libraries and edgemem's."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from edgemem.android.toolchain import Runtime, ToolError, native_library, runtime
from tests.android.device import Device
from tests.android.tools import abi

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["device", "downloaded"]


def downloaded() -> Runtime:
    """ONNX Runtime for Android; skips the test where it cannot be had."""
    try:
        return runtime()
    except ToolError as e:
        pytest.skip(f"no ONNX Runtime for Android: {e}")


def device(name: str, folder: Path) -> Device:
    """A device with the libraries of an APK, in a folder; skips the test where something for it is missing."""
    processor = abi(name)
    found = downloaded()
    try:
        edgemem = native_library(name)
    except ToolError as e:
        pytest.skip(f"no compiler for Android: {e}")
    libraries = folder / "lib" / name
    libraries.mkdir(parents=True)
    for file, content in {**found.libraries(name), "libedgemem.so": edgemem}.items():
        (libraries / file).write_bytes(content)
    with zipfile.ZipFile(found.archive) as archive:
        headers = [n for n in archive.namelist() if n.startswith("headers/") and n.endswith(".h")]
        archive.extractall(folder, headers)
    return Device.build(processor, libraries, folder / "headers", folder)
