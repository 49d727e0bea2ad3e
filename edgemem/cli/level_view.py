"""What `plan --order` prints of ONNX Runtime's optimisation levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.cli.printable_text import printable
from edgemem.report.sizes import size_text
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from edgemem.commands.pass_result import LevelChoice

__all__ = ["level_text"]


def level_text(levels: LevelChoice | None) -> str:
    """Which level a model was ordered at although none was asked for, and what the others need; "" without one."""
    if levels is None:
        return ""
    if levels.refusal:
        reason = printable(levels.refusal.splitlines()[0])
        return f"{reason}. The operators of the file are ordered as they are, for runtimes that keep to a file's order."
    text = (
        "ONNX Runtime keeps to an order in its optimised graph alone: this is its graph of the level "
        f"{levels.level} (--optimize gives another)."
    )
    if len(levels.peaks) + len(levels.bounds) < 2:
        return text
    others = [f"{name} {size_text(peak)}" for name, peak in levels.peaks.items() if name != levels.level]
    others += [f"{name} {size_text(bound)} or more" for name, bound in levels.bounds.items()]
    return f"{text} Its peak is {size_text(levels.peaks[levels.level])}; in their best order {join_names(others)}."
