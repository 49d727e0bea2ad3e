"""Plans: where every record lives. Immutable, and without any opinion on how they were found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.records import Problem, Size
    from edgemem.targets import Target

__all__ = ["LowerBounds", "OffsetPlan", "OptionValue", "Plan", "PlanSet", "SharedObjectsPlan"]

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


Plan: TypeAlias = OffsetPlan | SharedObjectsPlan


@dataclass(frozen=True, slots=True, eq=False)
class PlanSet:
    """Every plan made for one problem, with all that is needed to prove and to use them.

    Attributes:
        problem: the usage records.
        naive: bytes (or texels) without any sharing.
        bounds: what no plan can go below.
        offsets, shared_objects: the plans, in the order they were made; empty if the family was not asked for.
        target: the rules they were made for; None for plain usage records.
        digest: of the graph they belong to; "" for plain usage records.
        steps: the operator at each op index; () for plain usage records.
        unplanned: (tensor, reason) for what has no place in the plan.
        order: the graph's operators in the order planned for, or None for the file's own order.
        dims, input_shapes: what the user bound the model's symbols and inputs to.
        versions: of edgemem and of whatever else the plan depends on.
    """

    problem: Problem
    naive: int
    bounds: LowerBounds
    offsets: tuple[OffsetPlan, ...]
    shared_objects: tuple[SharedObjectsPlan, ...]
    target: Target | None = None
    digest: str = ""
    steps: tuple[str, ...] = ()
    unplanned: tuple[tuple[str, str], ...] = ()
    order: tuple[int, ...] | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of both families, offsets first."""
        return (*self.offsets, *self.shared_objects)

    @property
    def best_offsets(self) -> OffsetPlan | None:
        """The smallest arena; the one made first on ties."""
        return min(self.offsets, key=lambda p: p.size, default=None)

    @property
    def best_shared_objects(self) -> SharedObjectsPlan | None:
        """The smallest total of objects; the one made first on ties."""
        return min(self.shared_objects, key=lambda p: p.size, default=None)
