"""The best offset plan as C++ for TensorFlow Lite Micro's NonPersistentMemoryPlannerShim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.report.c_header import comment
from edgemem.report.offsets import best_offsets

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet

__all__ = ["as_tflm_bufferplan"]


def as_tflm_bufferplan(planset: PlanSet, name: str, graph: Graph | None) -> str:
    """One entry a buffer, in the order in which TensorFlow Lite Micro asks for them.

    Raises PlanError without an offset plan, and for a graph that is no .tflite file's.
    """
    plan = best_offsets(planset)
    offset_of = {tensor: int(plan.offsets[i]) for i, r in enumerate(planset.problem.records) for tensor in r.tensors}
    if graph is None:
        raise PlanError("tflm-bufferplan lists a graph's tensors in order: export it from a planned .tflite file")
    ordered = [t for t in _tensor_names(graph) if t in offset_of]
    entries = "\n".join(f"        {{{offset_of[tensor]}}},  // {comment(tensor)}" for tensor in ordered)
    return (
        f"// Memory plan: {comment(plan.strategy)}, {plan.size} bytes of arena. Laid out as tflite::BufferPlan;\n"
        f"// pass reinterpret_cast<const tflite::BufferPlan*>(&{name}_buffer_plan) to NonPersistentMemoryPlannerShim.\n"
        "#include <cstdint>\n\n"
        "static const struct {\n  int32_t buffer_count;\n"
        f"  struct {{\n    int32_t offset;\n  }} entries[{len(ordered)}];\n"
        f"}} {name}_buffer_plan = {{\n    {len(ordered)},\n    {{\n{entries}\n    }},\n}};\n"
    )


def _tensor_names(graph: Graph) -> list[str]:
    bodies = [name for op in graph.ops for body in op.bodies for name in _tensor_names(body)]
    return [t.name for t in graph.tensors] + bodies
