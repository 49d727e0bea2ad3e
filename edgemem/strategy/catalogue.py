"""The strategies there are. The files imported here register themselves, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import UnknownStrategyError
from edgemem.strategy import offsets, shared_objects  # noqa: F401
from edgemem.strategy.registry import REGISTRY

if TYPE_CHECKING:
    from edgemem.strategy.registry import Family, Strategy

__all__ = ["find", "registered"]


def registered(family: Family | None = None) -> tuple[Strategy, ...]:
    """All strategies, offsets first, in order of registration."""
    return tuple(s for (f, _), s in REGISTRY.items() if family in (None, f))


def find(family: Family, name: str) -> Strategy:
    """The strategy of that name. Raises UnknownStrategyError, which lists the names there are."""
    if (family, name) not in REGISTRY:
        known = ", ".join(n for f, n in REGISTRY if f == family)
        raise UnknownStrategyError(f"no {family} strategy {name!r}; there are: auto, {known}")
    return REGISTRY[family, name]
