"""The best offset plan as C++ for TensorFlow Lite Micro's NonPersistentMemoryPlannerShim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.records.micro_buffers import buffers_of
from edgemem.records.sizes import padded
from edgemem.report.c_header import comment, kernel_warning
from edgemem.report.offsets import best_offsets
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet

__all__ = ["as_tflm_bufferplan"]


def as_tflm_bufferplan(planset: PlanSet, name: str, graph: Graph | None) -> str:
    """One entry a buffer, in the order in which TensorFlow Lite Micro asks for them.

    Buffers that the plan leaves out lie one after the other behind the arena, so that they meet nothing. Kernels'
    workspace is asked for last, and is not known here: the shim refuses models that have any.

    Raises PlanError without an offset plan, for one in several regions, and for a graph that is no .tflite file's.
    """
    plan = best_offsets(planset)
    if planset.has_regions:
        raise PlanError(
            'the plan lies in several regions, and TensorFlow Lite Micro has one head: give the target scratch = "tflm"'
        )
    offset_of = {tensor: int(plan.offsets[i]) for i, r in enumerate(planset.problem.records) for tensor in r.tensors}
    if graph is None:
        raise PlanError("tflm-bufferplan lists a graph's tensors in order: export it from a planned .tflite file")
    buffers = buffers_of(graph)
    entries, end = [], padded(plan.size, BUILT_IN["tflm"].alignment)
    for buffer in buffers:
        offset = offset_of.get(buffer.name, end)
        end += buffer.size if buffer.name not in offset_of else 0
        entries.append(f"        {{{offset}}},  // {comment(buffer.name)}")
    size = end if any(buffer.name not in offset_of for buffer in buffers) else plan.size
    listed = "\n".join(entries)
    warning = kernel_warning(planset)
    warned = f"// {comment(warning)}\n" if warning else ""
    return (
        f"// Memory plan: {comment(plan.strategy)}, {size} bytes of arena. Laid out as tflite::BufferPlan;\n"
        f"// pass reinterpret_cast<const tflite::BufferPlan*>(&{name}_buffer_plan) to NonPersistentMemoryPlannerShim.\n"
        "// Workspace of kernels is not in it.\n"
        f"{warned}"
        "#include <cstdint>\n\n"
        "static const struct {\n  int32_t buffer_count;\n"
        f"  struct {{\n    int32_t offset;\n  }} entries[{len(entries)}];\n"
        f"}} {name}_buffer_plan = {{\n    {len(entries)},\n    {{\n{listed}\n    }},\n}};\n"
    )
