"""The versions that a report of a fault needs: of edgemem, Python, the runtimes, and what the processor can do."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from edgemem.planfile.container import FORMAT
from edgemem.system.distribution import DISTRIBUTION, PACKAGES, VERSION
from edgemem.system.processor import processor_features

__all__ = ["versions"]

_ALWAYS = ("numpy", "onnx", "flatbuffers")


def versions() -> dict[str, str]:
    """Name -> version, "" for a package that is not installed; and the system and the processor."""
    found = {DISTRIBUTION: VERSION, "plan-file": FORMAT, "python": platform.python_version()}
    for package in (*_ALWAYS, *sorted(PACKAGES)):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = ""
    libc = " ".join(filter(None, platform.libc_ver()))
    return {
        **found,
        "system": f"{platform.system()} {platform.release()} {libc}".strip(),
        "processor": processor_features(),
    }
