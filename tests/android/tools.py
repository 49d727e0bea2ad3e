"""What these tests need of the machine; a test is skipped, with the way to get it, where it is missing."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["JVM", "PACKAGES", "need"]

# Of `java`: programs that end after seconds are not compiled twice, nor collected by several threads.
JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

# Programs, and the Debian packages that have them.
PACKAGES: Final = {
    "aapt": "aapt",
    "apksigner": "apksigner",
    "cmake": "cmake",
    "g++": "g++",
    "gcc": "gcc",
    "java": "openjdk-17-jdk-headless",
    "javac": "openjdk-17-jdk-headless",
    "keytool": "openjdk-17-jdk-headless",
    "zipalign": "zipalign",
}


def need(programs: Iterable[str]) -> None:
    """Skips the test unless all these programs are there."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (apt-get install {PACKAGES[program]})")
