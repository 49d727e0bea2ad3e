"""What `plan` and `show` print of plans for textures: their objects with extents, in bytes, beside TFLite's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.cli.console import print_folded, print_table
from edgemem.model.texture_layout import SLICE
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from rich.console import Console

    from edgemem.plans import PlanSet, SharedObjectsPlan

__all__ = ["TFLITE_RULES", "are_textures", "show_textures", "texture_bytes", "textures_text"]

# Which strategy is whose rule, in the table of plans.
TFLITE_RULES: Final = {
    "greedy_in_order": "TFLite's rule for OpenGL",
    "equality": "TFLite's rule for OpenCL",
}


def are_textures(planset: PlanSet) -> bool:
    """Whether the objects of a plan set are textures that a GPU runs (`edgemem run --runtime webgpu`)."""
    return planset.target is not None and planset.target.texels and planset.target.storage == "phwc4"


def texture_bytes(planset: PlanSet, texels: int) -> int:
    """Bytes that so many texels take in the precision of the plan."""
    assert planset.target is not None
    return texels * SLICE * planset.target.element_bytes


def textures_text(planset: PlanSet, plan: SharedObjectsPlan) -> str:
    """`1.50 MiB in 5 textures` of a plan."""
    count = len(plan.objects)
    return f"{size_text(texture_bytes(planset, plan.size))} in {count} texture{'s' * (count != 1)}"


def show_textures(console: Console, planset: PlanSet) -> None:
    """The textures of the best plan: extents in texels, bytes, and how many tensors each holds."""
    best = planset.best_shared_objects
    assert best is not None
    assert planset.target is not None
    rows = []
    held = best.assignment.tolist()
    for number, extent in enumerate(best.objects):
        texels = extent if isinstance(extent, int) else extent[0] * extent[1]
        sides = str(extent) if isinstance(extent, int) else f"{extent[0]} x {extent[1]}"
        size = size_text(texture_bytes(planset, texels))
        rows.append((str(number), sides, f"{texels:,}", size, str(held.count(number))))
    console.print()
    print_table(console, ("texture", "width x height", "texels", "size", "tensors"), rows)
    row = (
        f"rows of {planset.target.texel_row} texels" if planset.target.texel_row else "width * batch by height * slices"
    )
    print_folded(
        console, f"A texel is four channels in {planset.target.precision}; a tensor takes {row}. Drivers may pad more."
    )
