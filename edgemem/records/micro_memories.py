"""TensorFlow Lite Micro on a device with several memories: which holds the head, and which the tail.

The planner that obeys the offsets in a file puts all tensors and workspace into one head. (A `MicroMemoryPlanner` of
the firmware's own may put them into several memories; nothing here makes one.) The tail may be in another memory:
`MicroAllocator::Create` takes a persistent arena for it and a non-persistent one for the head. The allocator of such
a pair takes 12 bytes more of the tail with 32-bit pointers, 16 with 64 (read in tflite-micro 90b983c2b3f1: an
allocator for each arena instead of one for both).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edgemem.records.micro_arena import predicted_arena, prepared_bytes
from edgemem.records.micro_tail import predicted_tail, tail_stages
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Graph
    from edgemem.records.micro_builds import MicroBuild
    from edgemem.targets import Region

__all__ = ["MicroMemories", "MicroSizes", "choose_memories", "micro_sizes"]

_ALIGNMENT: Final = 16
_SECOND_ALLOCATOR: Final[Mapping[int, int]] = {4: 12, 8: 16}  # bytes by those of a pointer


@dataclass(frozen=True, slots=True)
class MicroSizes:
    """What arenas have to hold, in bytes.

    Attributes:
        one: an arena with head and tail.
        head: a non-persistent arena.
        tail: a persistent arena.
    """

    one: int
    head: int
    tail: int


@dataclass(frozen=True, slots=True)
class MicroMemories:
    """Where head and tail are.

    Attributes:
        head: index of the region of the head, or of all.
        tail: that of the tail; the same where one arena holds both.
        sizes: of the arenas.
        cost: of the bytes that operators move in the head, and of each byte of the tail once.
    """

    head: int
    tail: int
    sizes: MicroSizes
    cost: int

    @property
    def is_one(self) -> bool:
        """Whether one arena holds head and tail."""
        return self.head == self.tail


def micro_sizes(graph: Graph, offline: Mapping[str, int], build: MicroBuild) -> MicroSizes:
    """The arenas that a model needs; arguments as of `predicted_arena`. Predicted: no runtime here has two arenas."""
    arena = predicted_arena(graph, offline, build)
    # What is in the head while the model is prepared, below a tail that is almost complete.
    lists = prepared_bytes(graph, build) - padded(tail_stages(graph, build).planned, _ALIGNMENT)
    pair = replace(build, interpreter=build.interpreter + _SECOND_ALLOCATOR[build.pointer])
    head = padded(max(arena.head.total, lists), _ALIGNMENT)
    return MicroSizes(arena.total, head, padded(predicted_tail(graph, pair), _ALIGNMENT))


def choose_memories(
    sizes: MicroSizes, traffic: int, regions: Sequence[Region], *, alignment: int, head: int | None = None
) -> MicroMemories | None:
    """The regions that hold head and tail at the least cost; one for both where that costs the same.

    Args:
        sizes: of the arenas.
        traffic: bytes that operators move in the head in a run.
        regions: of the device.
        alignment: of the offsets in the head; a region that needs more cannot hold it.
        head: the region of the head where that is decided; None chooses it.

    Returns None if no regions hold them.
    """
    found = []
    for h, first in enumerate(regions):
        if first.alignment > alignment or head not in (None, h):
            continue
        for t, second in enumerate(regions):
            needs = ((first, sizes.one),) if h == t else ((first, sizes.head), (second, sizes.tail))
            if all(region.capacity is None or size <= region.capacity for region, size in needs):
                found.append((traffic * first.cost + sizes.tail * second.cost, h != t, h, t))
    if not found:
        return None
    cost, _, h, t = min(found)
    return MicroMemories(h, t, sizes, cost)
