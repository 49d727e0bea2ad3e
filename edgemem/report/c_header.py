"""The best offset plan as a C header: a macro for every tensor's offset and size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgemem.report.offsets import best_offsets

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["as_c_header", "comment", "identifier"]


def as_c_header(planset: PlanSet, name: str) -> str:
    """The header's text. `name` is a C identifier that every macro begins with, in capitals.

    Each macro is followed by the tensor's name as the model has it, in a comment. Raises PlanError without an offset
    plan.
    """
    plan = best_offsets(planset)
    upper = name.upper()
    lines = [
        f"/* Memory plan: {comment(plan.strategy)}, {len(planset.problem)} records. Offsets and sizes in bytes. */",
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
            macro = _unique(identifier(tensor).upper() or "TENSOR", used)
            lines.append(f"/* {comment(tensor)} */")
            lines.append(f"#define {upper}_OFFSET_{macro} {int(plan.offsets[i])}")
            lines.append(f"#define {upper}_SIZE_{macro} {int(planset.problem.size[i])}")
    return "\n".join([*lines, "", f"#endif  /* {upper}_PLAN_H_ */", ""])


def identifier(text: str) -> str:
    """The text with every character that no C identifier has as `_`."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def comment(text: str) -> str:
    """The text as it may stand in a C comment: printable ASCII that neither ends the comment nor continues its line."""
    printable = re.sub(r"[^ -~]", "?", text)
    return printable.replace("*/", "*?").replace("/*", "?*").replace("??", "? ?").rstrip("\\")


def _unique(base: str, used: set[str]) -> str:
    macro, number = base, 1
    while macro in used:
        number += 1
        macro = f"{base}_{number}"
    used.add(macro)
    return macro
