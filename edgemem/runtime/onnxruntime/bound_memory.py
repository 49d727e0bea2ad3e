"""The memory report of the node-by-node executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.runtime.memory import MemoryReport, origin_of

if TYPE_CHECKING:
    from edgemem.plans import PlanSet
    from edgemem.runtime.memory import Source

__all__ = ["BoundMemory", "bound_report"]


@dataclass(frozen=True, slots=True)
class BoundMemory:
    """The memory of a session's tensors; all sizes in bytes.

    Attributes:
        planned: the arena.
        bound: lower bound of the arena for these tensors.
        outputs: graph outputs that lie outside the arena.
        constants: results that depend on constants alone; they are computed once and kept outside the arena.
        steps: sessions that run one after the other; 0 for a plain session.
        elided: views at the place of their input, which need not run.
        strategy: the plan's.
        reason: why the session is plain, or why the last run was; "" if the last run was inside the plan.
    """

    planned: int
    bound: int
    outputs: int
    constants: int
    steps: int
    elided: int
    strategy: str
    reason: str = ""


def bound_report(memory: BoundMemory, planset: PlanSet | None, source: Source, others: int) -> MemoryReport:
    """The memory in the form that all executors have.

    Args:
        memory: the executor's own report.
        planset: the plan that it runs in; None for a plain session.
        source: where the plan came from.
        others: tensors in bodies, which have a place in the plan that the executor does not use.
    """
    best = planset.best_offsets if planset else None
    if planset is None or best is None:
        return MemoryReport("io-binding", "plain", reason=memory.reason)
    apart = f"{others} tensors of branches and loops have a place that ONNX Runtime does not use"
    counters = ("constants", "steps", "elided")
    return MemoryReport(
        executor="io-binding",
        mode="plain" if memory.reason else "planned",
        origin=origin_of(planset, best, source),
        planned=memory.planned,
        lower_bound=memory.bound,
        reserved=memory.planned,
        outside=memory.outputs,
        reason=memory.reason or (apart if others else ""),
        details={**{name: getattr(memory, name) for name in counters}, "tensors_in_bodies": others},
    )
