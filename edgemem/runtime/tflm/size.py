"""How large an arena a model takes in TensorFlow Lite Micro, and what it is made of.

The *head* of its arena holds tensors and workspace; offsets in the file (`OfflineMemoryAllocation`) decide where the
tensors are, and its own greedy planner where all others. The *tail* holds what lives as long as the interpreter. Both
are predicted, and measured on this computer where tflite-micro is installed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.formats import MicroPlanned
from edgemem.records.micro_arena import MicroArena, MicroModel, shared_arena
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_planner import predicted_head
from edgemem.runtime.executors import MICRO_KERNELS
from edgemem.runtime.memory import Origin, origin_of
from edgemem.runtime.tflm.execution import execute, input_values, is_installed
from edgemem.runtime.tflm.file_plan import FilePlan, file_plan
from edgemem.system.distribution import requirement
from edgemem.targets import BUILT_IN

__all__ = ["TflmSize", "planned_micro", "size_of"]


@dataclass(frozen=True, slots=True)
class TflmSize:
    """What TensorFlow Lite Micro's arena is made of, in bytes.

    Attributes:
        tensors: the head without workspace, as predicted from the file.
        planned: tensors whose place the file decides.
        device: the arena on a device with 32-bit pointers, as predicted, with the workspace of the plan's kernels.
        own: the head that TensorFlow Lite Micro would have without the file's offsets, as predicted.
        workspace: what kernels' workspace adds to the head; as predicted if that was not measured.
        tail: structures and state that live as long as the interpreter, on this computer; None if that was not
            measured.
        arena: the smallest arena in which the model runs; None if that was not measured.
        reason: why something was not measured, or "".
        origin: the plan that the file has for TensorFlow Lite Micro; None if it places everything by itself.
        refusal: why it does not run the plan in the file, and what to do; "" if it does, or there is none.
    """

    tensors: int
    planned: int
    device: MicroArena
    own: int
    workspace: int
    tail: int | None = None
    arena: int | None = None
    reason: str = ""
    origin: Origin | None = None
    refusal: str = ""

    @property
    def head(self) -> int:
        """The head."""
        return self.tensors + self.workspace


def planned_micro(model: MicroPlanned, kernels: str | None = MICRO_KERNELS) -> tuple[FilePlan, MicroModel]:
    """What a file tells TensorFlow Lite Micro, and the model with its offsets. Arguments and errors as of `size_of`."""
    graph, offline, plan = model.graph(), model.offline(), file_plan(model, kernels)
    if plan.refusal is not None and offline:
        raise RuntimeBindError(
            f"TensorFlow Lite Micro cannot run the plan in the file: {plan.refusal.why}; {plan.refusal.advice}"
        )
    target = plan.planset.target if plan.planset else None
    return plan, MicroModel(graph, offline, target.kernels if target else "none")


def size_of(
    model: object,
    *,
    measure: bool = True,
    timeout_s: float | None = None,
    kernels: str | None = MICRO_KERNELS,
) -> TflmSize:
    """The arena that a .tflite model takes in TensorFlow Lite Micro, planned or not.

    Args:
        model: as `edgemem.load` gives it.
        measure: also run it, where tflite-micro is installed.
        timeout_s: seconds until each process that runs it is ended; None for ten minutes.
        kernels: the profile of the kernels that are to run it; None: those that its plan is for. The sizes are measured
            with the kernels that are installed in any case.

    Raises:
        ModelError: the model is not a .tflite file, or has sizes that are not known.
        RuntimeBindError: the file has offsets that these kernels do not run.
        InvalidPlanError: the offsets in the file are wrong, or not those of the plan in it.
    """
    if not isinstance(model, MicroPlanned):
        raise ModelError("TensorFlow Lite Micro runs .tflite files")
    plan, micro = planned_micro(model, kernels)
    graph = micro.graph
    best = plan.planset.best_offsets if plan.planset else None
    device = shared_arena([micro], build_of(BUILT_IN["tflm"]))
    size = TflmSize(
        device.head.tensors,
        len(micro.offline),
        device,
        predicted_head(graph, {}, kernels=micro.kernels).total,
        device.head.workspace,
        origin=origin_of(plan.planset, best, "file") if plan.planset and best else None,
        refusal=f"{plan.refusal.why}; {plan.refusal.advice}" if plan.refusal else "",
    )
    if not measure:
        return replace(size, reason="not asked for")
    if not is_installed():
        return replace(size, reason=f"tflite-micro is not installed: pip install {requirement('tflite-micro')}")
    try:
        run = execute(
            model.content(),
            input_values(graph),
            outputs=len(graph.outputs),
            find_smallest=True,
            timeout_s=timeout_s,
        )
    except RuntimeBindError as e:
        return replace(size, reason=str(e))
    workspace = max(run.head - size.tensors, 0)
    return replace(size, workspace=workspace, tail=run.tail, arena=run.smallest, reason=run.reason)
