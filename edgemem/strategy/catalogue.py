"""All strategies. The files imported here register themselves, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.strategy import offsets, shared_objects  # noqa: F401
from edgemem.strategy.registry import REGISTRY

if TYPE_CHECKING:
    from edgemem.strategy.registry import Family, Strategy

__all__ = ["registered"]


def registered(family: Family | None = None) -> tuple[Strategy, ...]:
    """All strategies, offsets first, in order of registration."""
    return tuple(s for (f, _), s in REGISTRY.items() if family in (None, f))
