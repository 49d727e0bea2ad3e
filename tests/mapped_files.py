"""Which packed weights this process has mapped. Imports nothing that counts as memory of what is measured."""

from __future__ import annotations

from pathlib import Path

__all__ = ["mapped_files"]


def mapped_files() -> set[str]:
    """Names of the packed files that this process has mapped."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {Path(line.split()[-1]).name for line in lines if line.endswith(".weights")}
