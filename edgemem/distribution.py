"""The name under which edgemem is installed. The name `edgemem` on PyPI belongs to another project."""

from __future__ import annotations

from importlib.metadata import version

__all__ = ["DISTRIBUTION", "installed_version", "requirement"]

DISTRIBUTION = "edgemem-planner"


def installed_version() -> str:
    """The version of this edgemem."""
    return version(DISTRIBUTION)


def requirement(extra: str | None = None) -> str:
    """What `pip install` takes for edgemem, with the optional dependencies of an extra."""
    return DISTRIBUTION if extra is None else f"'{DISTRIBUTION}[{extra}]'"
