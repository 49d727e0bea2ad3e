"""Plans: where every record lives. Immutable, and without any opinion on how they were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records import Problem, Size

__all__ = ["LowerBounds", "OffsetPlan", "OptionValue", "PlanSet", "SharedObjectsPlan"]

OptionValue: TypeAlias = str | int | bool


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """What no plan can go below: the arena in bytes, and the shared objects' total in bytes (or texels)."""

    offsets: int
    shared_objects: int


@dataclass(frozen=True, slots=True, eq=False)
class OffsetPlan:
    """One arena (Pisarchyk & Lee 2020, §5): `offsets[i]` bytes for record i; `size` is the arena in bytes."""

    strategy: str
    options: Mapping[str, OptionValue]
    offsets: NDArray[np.int64]
    size: int
    optimal: bool


@dataclass(frozen=True, slots=True, eq=False)
class SharedObjectsPlan:
    """Shared objects (Pisarchyk & Lee 2020, §4): record i lives alone in object `assignment[i]` while it is used.

    `objects` holds each object's size in bytes, or its extent in texels; `size` is their total in bytes or texels.
    """

    strategy: str
    options: Mapping[str, OptionValue]
    assignment: NDArray[np.int64]
    objects: tuple[Size, ...]
    size: int
    optimal: bool
