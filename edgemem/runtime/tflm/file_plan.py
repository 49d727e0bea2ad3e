"""The plan in a .tflite file that TensorFlow Lite Micro obeys, proved before anything runs in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem import planfile
from edgemem.formats import Model
from edgemem.formats.claims import Refusal, kernels_refusal
from edgemem.formats.offline_allocation import micro_refusal
from edgemem.planning.micro_offsets import plan_of_offsets, verify_offsets
from edgemem.planning.verification import graph_for
from edgemem.proof import Cause, examine, prove, refuse
from edgemem.runtime.executors import MICRO_KERNELS
from edgemem.runtime.memory import MemoryReport, origin_of

if TYPE_CHECKING:
    from edgemem.formats import MicroPlanned
    from edgemem.plans import PlanSet
    from edgemem.proof import Proved
    from edgemem.runtime.tflm.execution import TflmRun

__all__ = ["FilePlan", "file_plan", "memory_of"]

_REMEDY = "plan again with `edgemem plan --target tflm`"


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What a file tells TensorFlow Lite Micro.

    Attributes:
        proved: the plan of its offsets; None if it has no offsets, so that the runtime places everything itself.
        refusal: why it does not run the plan in the file; None if it does, or there is none.
    """

    proved: Proved | None
    refusal: Refusal | None = None

    @property
    def planset(self) -> PlanSet | None:
        """The plan, without the proof."""
        return self.proved.planset if self.proved else None


def file_plan(model: MicroPlanned, kernels: str | None = MICRO_KERNELS) -> FilePlan:
    """The plan that TensorFlow Lite Micro obeys when it runs a file, proved for its graph.

    A plan whose results overlap inputs as far as the kernels of another profile allow is refused, unless they are far
    enough apart for these kernels, too.

    Args:
        model: the file.
        kernels: the profile of the kernels of the runtime that is to run it; None: those that the plan is for, and any
            where the file has offsets alone.

    Raises InvalidPlanError if the file's offsets are not those of its plan, or wrong; StalePlanError if they are of
    another graph; PlanFileError if the plan is damaged.
    """
    data = model.plan()
    plansets = () if data is None else planfile.decode_all(data)
    if not plansets:
        if model.offline_metadata() is None:
            return FilePlan(None)
        graph = model.graph()
        bare = plan_of_offsets(graph, model.offline(), kernels or "none")
        return FilePlan(prove(bare, graph, remedy=_REMEDY))
    offsets = model.offline()
    planset = next((p for p in plansets if micro_refusal(p) is None), None)
    if planset is None and not offsets:
        return FilePlan(None, micro_refusal(plansets[0]))
    refuse(verify_offsets(offsets, plansets), remedy=_REMEDY)
    assert planset is not None
    assert isinstance(model, Model)
    graph = graph_for(planset, model)
    proved = prove(planset, graph, remedy=_REMEDY)
    refusal = kernels_refusal(planset, kernels) if kernels is not None else None
    if refusal is not None and any(v.cause is not Cause.OVER_CAPACITY for v in examine(planset, graph, kernels)):
        return FilePlan(None, refusal)
    return FilePlan(proved)


def memory_of(plan: FilePlan, run: TflmRun, tensors: int) -> MemoryReport:
    """The report of a run.

    Args:
        plan: what the file told the runtime.
        run: the run.
        tensors: bytes of the head without workspace, as predicted from the file.
    """
    details = {"head": run.head, "tail": run.tail, "workspace": max(run.head - tensors, 0)}
    reserved = run.head + run.tail
    best = plan.planset.best_offsets if plan.planset else None
    if plan.planset is None or best is None:
        reason = f"{plan.refusal.why}; {plan.refusal.advice}" if plan.refusal else "no offsets in the file"
        own = f"TensorFlow Lite Micro placed {tensors:,} bytes of tensors by itself: {reason}"
        return MemoryReport("tflm", "plain", reserved=reserved, reason=own, details=details)
    return MemoryReport(
        "tflm",
        "planned",
        origin=origin_of(plan.planset, best, "file"),
        planned=best.size,
        lower_bound=plan.planset.bounds.offsets,
        reserved=reserved,
        details=details,
    )
