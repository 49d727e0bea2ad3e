"""What installed packages offer, by entry point."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

__all__ = ["entries"]


@cache
def entries(group: str, name: str | None = None) -> Iterable[EntryPoint]:
    """The entry points of a group, or those of one name in it; looking them up takes some milliseconds."""
    from importlib.metadata import entry_points  # slow to load; a session that has its plan needs none of them

    return entry_points(group=group) if name is None else entry_points(group=group, name=name)
