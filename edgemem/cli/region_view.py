"""What `plan` and `show` print of the regions of a plan: a row for each, and what the bytes moved cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.cli.console import print_table
from edgemem.cli.printable_text import printable
from edgemem.report.regions import region_uses
from edgemem.report.sizes import ratio_text

if TYPE_CHECKING:
    from rich.console import Console

    from edgemem.plans import PlanSet
    from edgemem.report.regions import RegionUse

__all__ = ["cost_text", "show_regions"]


def cost_text(planset: PlanSet) -> str:
    """The cost of a plan in several regions beside its lower bound; "" for a plan in one."""
    uses, best = _uses(planset), planset.best_offsets
    if not uses or best is None:
        return ""
    cost = sum(use.cost for use in uses)
    if best.cost_bound is None:
        return f"cost {cost:,}"
    gap = "= lower bound (optimal)" if cost == best.cost_bound else ""
    return f"cost {cost:,} {gap or f'({ratio_text(cost, best.cost_bound)} of the lower bound)'}"


def _uses(planset: PlanSet) -> tuple[RegionUse, ...]:
    """The regions, but for TensorFlow Lite Micro, of whose two arenas the view of a model tells."""
    is_micro = planset.target is not None and planset.target.scratch == "tflm"
    return () if is_micro else region_uses(planset)


def show_regions(console: Console, planset: PlanSet) -> None:
    """A row for each region: its arena, of how much, what a byte costs there, the bytes moved, and their cost."""
    uses = _uses(planset)
    if not uses:
        return
    rows = [
        (
            printable(use.region.name),
            f"{use.arena:,}",
            "any" if use.region.capacity is None else f"{use.region.capacity:,}",
            f"{use.region.cost:,}",
            f"{use.moved:,}",
            f"{use.cost:,}",
        )
        for use in uses
    ]
    console.print()
    print_table(console, ("<region", "arena", "of bytes", "a byte", "bytes moved", "cost"), rows)
