"""What `plan --recompute` prints of the mixtures of changes that were considered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.cli.console import console_for, print_folded, print_table
from edgemem.cli.printable_text import printable
from edgemem.report.sizes import ratio_text, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.commands.mixture import Mixture, Mixtures

__all__ = ["show_mixture"]


def show_mixture(chosen: Mixture, found: Mixtures, budget: int | None) -> None:
    """How the model was changed, and what the other changes that were considered would take.

    Args:
        chosen: what was planned.
        found: all that was considered.
        budget: bytes; None for the lowest peak.
    """
    console = console_for()
    before = found.best[0]
    wanted = f"within {size_text(budget)}" if budget is not None else "lowest found"
    print_folded(
        console,
        f"{_mixed(chosen.means)}: peak {size_text(chosen.peak)} ({wanted}), "
        f"{_times(chosen.macs, before.macs)} the MACs",
    )
    widest = found.widest
    if widest is not None and chosen.peak >= widest.needs:
        bound, name = size_text(widest.needs), printable(repr(widest.name))
        print_folded(console, f"no order, no recomputation goes below {bound}: {name} needs that")
    rows = []
    for way in found.best:
        note = "chosen" if way.means == chosen.means else "" if budget is None or way.peak <= budget else "too large"
        shown = chosen if way.means == chosen.means else way
        ratio = ratio_text(shown.memory, before.memory)
        macs = _times(shown.macs, before.macs)
        rows.append((_mixed(shown.means), f"{shown.peak:,}", ratio, macs, f"{shown.operators:,}", note))
    print_table(console, ("<considered", "peak", "of it", "MACs", "operators", ""), rows)
    console.print()


def _mixed(means: Sequence[str]) -> str:
    return " + ".join(means) or "as it is"


def _times(macs: int, before: int) -> str:
    return f"{macs / before if before else 1:.3f}x"
