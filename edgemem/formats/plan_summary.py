"""One line beside the plan in a model's metadata, for people who look at the file with a viewer such as Netron.

Nothing in edgemem reads it: the plan says what is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["SUMMARY_KEY", "plan_summary"]

SUMMARY_KEY: Final = "edgemem.summary"  # the name of the entry
_MOST: Final = 255  # Netron shows entries of .tflite files that are shorter than 256 bytes, and printable ASCII
_MOST_NAME: Final = 60


def plan_summary(planset: PlanSet) -> bytes:
    """`arena 96,000 bytes, lower bound 96,000; target tflm; greedy_by_size; edgemem 0.1.0`: at most 255 ASCII."""
    parts: list[str] = []
    for what, plan, bound in (
        ("arena", planset.best_offsets, planset.proved.offsets),
        ("shared objects", planset.best_shared_objects, planset.proved.shared_objects),
    ):
        if plan is not None and not parts:
            unit = "bytes" if planset.problem.extents is None else "texels"
            parts = [f"{what} {plan.size:,} {unit}, lower bound {bound:,}", plan.strategy]
    if planset.target is not None:
        name = planset.target.name
        parts.insert(1, f"target {name if len(name) <= _MOST_NAME else f'{name[:_MOST_NAME]}...'}")
    parts.append(f"edgemem {planset.versions['edgemem']}" if "edgemem" in planset.versions else "edgemem")
    text = "".join(c if c.isascii() and c.isprintable() else "?" for c in "; ".join(parts))
    return text[:_MOST].encode()
