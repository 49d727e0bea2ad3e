"""The best offset plan as a C header: a macro for every tensor's offset and size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgemem.report.offsets import best_offsets
from edgemem.report.regions import region_uses
from edgemem.report.taken_names import is_taken

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["as_c_header", "comment", "identifier", "kernel_warning", "prefix_of", "quoted", "region_macros"]


def as_c_header(planset: PlanSet, name: str) -> str:
    """The header's text. `name` is a C identifier that every macro begins with, in capitals.

    Each macro is followed by the tensor's name as the model has it, in a comment. Where the target has several regions,
    each has an arena, and each tensor the region that its offset is in. Raises PlanError without an offset plan.
    """
    plan, uses = best_offsets(planset), region_uses(planset)
    upper, warning = name.upper(), kernel_warning(planset)
    regions = region_macros(planset)
    sizes = [f"#define {upper}_ARENA_SIZE {plan.size}", f"#define {upper}_ARENA_ALIGNMENT {planset.problem.alignment}"]
    if uses:
        sizes = [f"/* The arena of each region, and the number of the region. Their sizes add up to {plan.size}. */"]
    for number, (use, macro) in enumerate(zip(uses, regions, strict=True)):
        sizes += [
            f"/* {comment(use.region.name)} */",
            f"#define {upper}_ARENA_SIZE_{macro} {use.arena}",
            f"#define {upper}_ARENA_ALIGNMENT_{macro} {use.alignment}",
            f"#define {upper}_ARENA_NUMBER_{macro} {number}",
        ]
    lines = [
        f"/* Memory plan: {comment(plan.strategy)}, {len(planset.problem)} records. Offsets and sizes in bytes. */",
        *([f"/* {comment(warning)} */"] if warning else []),
        f"#ifndef {upper}_PLAN_H_",
        f"#define {upper}_PLAN_H_",
        "",
        *sizes,
        *([f"#define {upper}_KERNELS {quoted(planset.kernels)}"] if warning else []),
        "",
    ]
    used: dict[str, int] = {}  # macro -> the last number that was tried with it
    for i, record in enumerate(planset.problem.records):
        for tensor in record.tensors or (record.name,):
            macro = _unique(identifier(tensor).upper() or "TENSOR", used)
            lines.append(f"/* {comment(tensor)} */")
            lines.append(f"#define {upper}_OFFSET_{macro} {int(plan.offsets[i])}")
            lines.append(f"#define {upper}_SIZE_{macro} {int(planset.problem.size[i])}")
            if uses:
                region = regions[0 if plan.regions is None else int(plan.regions[i])]
                lines.append(f"#define {upper}_REGION_{macro} {upper}_ARENA_NUMBER_{region}")
    return "\n".join([*lines, "", f"#endif  /* {upper}_PLAN_H_ */", ""])


def region_macros(planset: PlanSet) -> tuple[str, ...]:
    """The regions of a plan set's target as parts of macros, each another; () where there is one region."""
    used: dict[str, int] = {}
    names = [use.region.name for use in region_uses(planset)]
    return tuple(_unique(identifier(name).upper() or "REGION", used) for name in names)


def kernel_warning(planset: PlanSet) -> str:
    """A line on which kernels the plan is right for, where its results overlap inputs; "" where none may."""
    if planset.problem.overlap is None or not planset.kernels:
        return ""
    return (
        f"WARNING: results overlap inputs. The plan is only right for kernels of the profile {planset.kernels}; "
        "with any other kernels the model gives wrong results without an error."
    )


def identifier(text: str) -> str:
    """The text with every character that no C identifier has as `_`."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def prefix_of(name: str) -> str:
    """An identifier for C and C++ that is made of a name and that other identifiers may begin with.

    It is none that is taken (`edgemem.report.taken_names`). Without a name it is `model`.
    """
    made = identifier(name)
    if not made.strip("_"):
        return "model"
    return f"model_{made.lstrip('_')}" if is_taken(made) else f"_{made}" if made[0].isdigit() else made


def comment(text: str) -> str:
    """The text as it may stand in a C comment, `//` or `/* */`, wherever it is cut into lines and whatever follows.

    Only printable ASCII is left, without what begins or ends a comment, without backslashes, which continue a line, and
    without two question marks in a row, which begin a trigraph.
    """
    ascii_only = re.sub(r"[^ -~]|\\", "?", text)
    apart = re.sub(r"(?<=\*)/|/(?=\*)", "?", ascii_only)
    return re.sub(r"\?(?=\?)", "? ", apart)


def quoted(text: str) -> str:
    """The text as a string literal of C, with what a comment may hold and single quotes alone."""
    return f'"{comment(text).replace(chr(34), chr(39))}"'


def _unique(base: str, used: dict[str, int]) -> str:
    """`base`, or with the first number from 2 on that gives a macro which is not used."""
    macro = base
    while macro in used:
        used[base] += 1
        macro = f"{base}_{used[base]}"
    used[macro] = 1
    return macro
