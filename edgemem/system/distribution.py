"""The name and version under which edgemem is installed. The name `edgemem` on PyPI belongs to another project."""

from __future__ import annotations

from typing import Final

__all__ = ["DISTRIBUTION", "VERSION", "requirement"]

DISTRIBUTION: Final = "edgemem-planner"
VERSION: Final = "0.1.0"  # as in pyproject.toml; asking importlib.metadata takes a session 20 ms


def requirement(extra: str | None = None) -> str:
    """What `pip install` takes for edgemem, with the optional dependencies of an extra."""
    return DISTRIBUTION if extra is None else f"'{DISTRIBUTION}[{extra}]'"
