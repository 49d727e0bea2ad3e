"""The place of each tensor of LiteRT in an arena of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.runtime.memory import Origin

if TYPE_CHECKING:
    from collections.abc import Collection

    from edgemem.plans import PlanSet
    from edgemem.runtime.litert.probed import Probe

__all__ = ["Layout", "native_layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Places in the arena.

    Attributes:
        places: (tensor index, offset, bytes) of the main subgraph's tensors, workspace included.
        size: of the arena in bytes.
        planset: the plans it comes from; None for LiteRT's own layout, and for a plan that another process has proved.
        origin: the plan that it is.
        reason: why it is not the plan in the file, where there is one; else "".
        lower_bound: what no plan of the same tensors can go below; None if it is not known.
    """

    places: tuple[tuple[int, int, int], ...]
    size: int
    planset: PlanSet | None
    origin: Origin
    reason: str = ""
    lower_bound: int | None = None


def native_layout(probed: Probe, bound: Collection[int] | None = None) -> Layout:
    """LiteRT's own layout of what is in its arena, moved into ours; of some tensors or of all."""
    tensors = probed.main.tensors
    mine = [i for i, t in enumerate(tensors) if t.allocation == "arena" and t.address and t.size]
    if bound is not None:
        mine = [i for i in mine if i in bound]
    base = min((tensors[i].address for i in mine), default=0)
    places = tuple((i, tensors[i].address - base, tensors[i].size) for i in mine)
    origin = Origin("runtime's own", "tensors outside delegates", "litert_arena")
    return Layout(places, max((o + s for _, o, s in places), default=0), None, origin)
