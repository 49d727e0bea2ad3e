"""A plan as a section of Markdown: the answer, the peak, and the layers with the most alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.report.markdown import escaped, table
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from edgemem.report.planned_memory import PlannedMemory

__all__ = ["as_markdown"]

_ROWS: Final = 10


def as_markdown(memory: PlannedMemory) -> str:
    """The section. Names out of the model stay text."""
    texels = memory.unit == "texels"
    bound = "= lower bound" if memory.is_optimal else f"lower bound {size_text(memory.lower_bound, texels=texels)}"
    head = f"{memory.name}: {size_text(memory.arena, texels=texels)} ({bound})"
    recorded = memory.recorded
    if recorded is not None:
        bound = "= lower bound" if recorded.arena == recorded.lower_bound else f"lower bound {recorded.lower_bound:,}"
        beside = ", ".join(("", text) if (text := recorded.results_text) else ())
        head = f"{memory.name}: recorded arena {size_text(recorded.arena)} ({bound}){beside}"
    figures = [
        *([("session: recorded arena and results", f"{recorded.session:,}")] if recorded is not None else []),
        ("arena", f"{memory.arena:,}"),
        ("lower bound", f"{memory.lower_bound:,}"),
        ("without sharing", f"{memory.naive:,}"),
        *([("tail, predicted", f"{memory.tail:,}")] if memory.tail else []),
        *([("workspace", f"{memory.workspace:,}")] if memory.workspace else []),
    ]
    alive = memory.alive_at(memory.peak_op)
    peak = [(r.name, f"{r.size:,}", memory.label(r.first), memory.label(r.last)) for r in alive[:_ROWS]]
    lines = [
        f"### {escaped(head)}",
        "",
        f"{escaped(memory.subject)}, {escaped(memory.strategy)}",
        "",
        *table(("", memory.unit), figures),
        "",
        f"{len(alive):,} records are alive at the peak, {escaped(memory.label(memory.peak_op))}:",
        "",
        *table(("record", memory.unit, "from", "to"), peak),
    ]
    if len(alive) > _ROWS:
        lines += ["", f"and {len(alive) - _ROWS:,} more"]
    return "\n".join(lines) + "\n"
