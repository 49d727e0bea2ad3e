"""What these tests need of the machine; a test is skipped, with the way to get it, where it is missing."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from tests.android.shim import ABIS, Abi

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PACKAGES", "abi", "need"]

# Programs, and the Debian packages that have them.
PACKAGES: Final = {
    "gcc": "gcc",
    "readelf": "binutils",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "qemu-aarch64-static": "qemu-user-static",
    "enjarify": "enjarify",
    "java": "openjdk-17-jdk-headless",
    "javac": "openjdk-17-jdk-headless",
    "aapt": "aapt",
    "apksigner": "apksigner",
    "zipalign": "zipalign",
}


def need(programs: Iterable[str]) -> None:
    """Skips the test unless all these programs are there."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (apt-get install {PACKAGES[program]})")


def abi(name: str) -> Abi:
    """A processor of devices that this machine can act as; skips the test where it cannot."""
    found = ABIS[name]
    need(["readelf", found.compiler, *found.runner[:1]])
    return found
