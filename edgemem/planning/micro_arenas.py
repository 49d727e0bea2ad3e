"""The arena of TensorFlow Lite Micro with a plan and without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError
from edgemem.formats.offline_allocation import micro_offsets, micro_refusal
from edgemem.model.resource_variables import all_operators
from edgemem.planning.micro_regions import memories_of
from edgemem.records.micro_arena import predicted_arena
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_custom import is_counted
from edgemem.records.micro_tail import has_tail
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from edgemem.formats import Model
    from edgemem.plans import PlanSet
    from edgemem.records.micro_arena import MicroArena
    from edgemem.records.micro_memories import MicroMemories

__all__ = ["MicroArenas", "micro_arenas"]


@dataclass(frozen=True, slots=True)
class MicroArenas:
    """The arenas of a model on the device of a plan's target, as predicted.

    Head and tail are those of the target's kernel profile.

    Attributes:
        own: without offsets, as TensorFlow Lite Micro plans it.
        planned: with the offsets of the plan.
        memories: where head and tail are, on a device with several regions.
        regions: the names of these.
        uncounted: operators whose kernels keep memory in the tail that is not known.
    """

    own: MicroArena
    planned: MicroArena
    memories: MicroMemories | None = None
    regions: tuple[str, ...] = ()
    uncounted: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Arena, head and tail, before -> after, in two lines for people; in which regions, and what goes wrong."""
        own, head = self.own.head, self.planned.head
        return (
            f"on the device {self.own.total:,} -> {self.planned.total:,} bytes: head {own.total:,} -> {head.total:,}, "
            f"tail {self.planned.tail:,}\n"
            f"in the head: activations {own.tensors:,} -> {head.tensors:,}, workspace {own.workspace:,} -> "
            f"{head.workspace:,}{self._places}{self._warning}"
        )

    @property
    def _warning(self) -> str:
        if self.uncounted:
            names = join_names(self.uncounted)
            return f"\nthe tail is larger: what the kernels of {names} keep is not known; measure it with edgemem size"
        if not self.own.head.is_overwritten:
            return ""
        return "\nwithout a plan results are wrong: a kernel writes behind its workspace, onto a tensor in use"

    @property
    def _places(self) -> str:
        memories = self.memories
        if memories is None:
            return ""
        head, sizes = self.regions[memories.head], memories.sizes
        if memories.is_one:
            return f"\none arena in {head}: {sizes.one:,} bytes; cost {memories.cost:,}"
        return (
            f"\nnon-persistent arena (head) in {head}: {sizes.head:,} bytes"
            f"\npersistent arena (tail) in {self.regions[memories.tail]}: {sizes.tail:,} bytes; cost {memories.cost:,}"
        )

    @property
    def is_larger(self) -> bool:
        """Whether the plan makes the head larger than TensorFlow Lite Micro's own, so that it is not worth writing.

        A head of its own in which kernels overwrite tensors is worth nothing.
        """
        own = self.own.head
        return self.planned.head.total > own.total and not own.is_overwritten


def micro_arenas(model: Model | None, planset: PlanSet) -> MicroArenas | None:
    """The arenas of a model; None if TensorFlow Lite Micro does not run the plan, or has no other place for it."""
    target = planset.target
    if model is None or target is None or not has_tail(model.default_target, target) or micro_refusal(planset):
        return None
    try:
        offsets = micro_offsets(planset)
    except EdgememError:  # it cannot be written either
        return None
    graph, build = model.graph(), build_of(target)
    own, planned = (predicted_arena(graph, places, build) for places in ({}, offsets))
    regions = tuple(region.name for region in target.regions)
    uncounted = tuple(sorted({op.type for _, op in all_operators(graph) if not is_counted(op.type)}))
    return MicroArenas(own, planned, memories_of(planset, graph), regions, uncounted)
