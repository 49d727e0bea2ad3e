"""A plan in the forms that other tools and firmware read."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.report.document import document

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.plans import OffsetPlan, PlanSet

__all__ = ["FORMATS", "export"]

FORMATS = ("json", "csv", "c-header", "tflm-bufferplan")


def export(planset: PlanSet, form: str, *, name: str = "model", graph: Graph | None = None) -> str:
    """The plan as text in one of FORMATS.

    Args:
        planset: the plans; the smallest of each family is exported.
        form: one of FORMATS.
        name: becomes the prefix of C identifiers.
        graph: the graph planned for; `tflm-bufferplan` lists its tensors in order.

    Raises:
        PlanError: an unknown form, or one that needs an offset plan or a graph when there is none.
    """
    identifier = re.sub(r"\W", "_", name, flags=re.ASCII)
    if form == "json":
        return json.dumps(document(planset), indent=1) + "\n"
    if form == "csv":
        return _csv(planset)
    if form == "c-header":
        return _c_header(planset, f"_{identifier}" if identifier[:1].isdigit() else identifier)
    if form == "tflm-bufferplan":
        return _tflm_bufferplan(planset, identifier, graph)
    raise PlanError(f"no export format {form!r}; there are {', '.join(FORMATS)}")


def _csv(planset: PlanSet) -> str:
    """One line a tensor: the record's interval and size, its offset, its shared object."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["tensor", "first_op", "last_op", "size", "offset", "object"])
    offsets, objects = planset.best_offsets, planset.best_shared_objects
    for i, record in enumerate(planset.problem.records):
        size = record.size if isinstance(record.size, int) else "x".join(map(str, record.size))
        place = [int(offsets.offsets[i]) if offsets else "", int(objects.assignment[i]) if objects else ""]
        for tensor in record.tensors or (record.name,):
            rows.writerow([tensor, record.first_op, record.last_op, size, *place])
    return text.getvalue()


def _c_header(planset: PlanSet, name: str) -> str:
    plan = _offsets(planset)
    upper = name.upper()
    lines = [
        f"/* Memory plan: {plan.strategy}, {len(planset.problem)} records. Offsets and sizes in bytes. */",
        f"#ifndef {upper}_PLAN_H_",
        f"#define {upper}_PLAN_H_",
        "",
        f"#define {upper}_ARENA_SIZE {plan.size}",
        f"#define {upper}_ARENA_ALIGNMENT {planset.problem.alignment}",
        "",
    ]
    used: set[str] = set()
    for i, record in enumerate(planset.problem.records):
        for tensor in record.tensors or (record.name,):
            identifier = _identifier(tensor, used)
            lines.append(f"#define {upper}_OFFSET_{identifier} {int(plan.offsets[i])}")
            lines.append(f"#define {upper}_SIZE_{identifier} {int(planset.problem.size[i])}")
    return "\n".join([*lines, "", f"#endif  /* {upper}_PLAN_H_ */", ""])


def _tflm_bufferplan(planset: PlanSet, name: str, graph: Graph | None) -> str:
    """C++ for TFLite Micro's NonPersistentMemoryPlannerShim: one entry a buffer, in the order TFLM asks for them."""
    plan = _offsets(planset)
    offset_of = {tensor: int(plan.offsets[i]) for i, r in enumerate(planset.problem.records) for tensor in r.tensors}
    if graph is None:
        raise PlanError("tflm-bufferplan lists a graph's tensors in order: export it from a planned .tflite file")
    ordered = [t for t in _tensor_names(graph) if t in offset_of]
    entries = "\n".join(f"        {{{offset_of[tensor]}}},  // {_comment(tensor)}" for tensor in ordered)
    return (
        f"// Memory plan: {plan.strategy}, {plan.size} bytes of arena. Laid out as tflite::BufferPlan; pass it to\n"
        f"// NonPersistentMemoryPlannerShim as reinterpret_cast<const tflite::BufferPlan*>(&{name}_buffer_plan).\n"
        "#include <cstdint>\n\n"
        "static const struct {\n  int32_t buffer_count;\n"
        f"  struct {{\n    int32_t offset;\n  }} entries[{len(ordered)}];\n"
        f"}} {name}_buffer_plan = {{\n    {len(ordered)},\n    {{\n{entries}\n    }},\n}};\n"
    )


def _tensor_names(graph: Graph) -> list[str]:
    bodies = [name for op in graph.ops for body in op.bodies for name in _tensor_names(body)]
    return [t.name for t in graph.tensors] + bodies


def _offsets(planset: PlanSet) -> OffsetPlan:
    plan = planset.best_offsets
    if plan is None:
        raise PlanError("there is no offset plan; plan with a strategy of the family offsets")
    return plan


def _identifier(tensor: str, used: set[str]) -> str:
    base = re.sub(r"\W", "_", tensor, flags=re.ASCII).upper() or "TENSOR"
    identifier, number = base, 1
    while identifier in used:
        number += 1
        identifier = f"{base}_{number}"
    used.add(identifier)
    return identifier


def _comment(text: str) -> str:
    return re.sub(r"[^ -~]", "?", text).rstrip("\\")
