"""Two plans side by side: the figures, what was changed, and what that did to tensors."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from edgemem.difference.alignment import align
from edgemem.difference.edits import find_edits
from edgemem.difference.tensors import find_tensor_changes
from edgemem.errors import PlanError

if TYPE_CHECKING:
    from edgemem.difference.edits import Edit
    from edgemem.difference.tensors import TensorChange
    from edgemem.report.planned_memory import PlannedMemory

__all__ = ["Difference", "Figure", "compare_memory"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One size before and after, in bytes or texels."""

    name: str
    before: int
    after: int

    @property
    def growth(self) -> float:
        """After / before - 1; 0.0 where both are 0, infinite where only the first one is."""
        if self.before == self.after:
            return 0.0
        return self.after / self.before - 1 if self.before else float("inf")


@dataclass(frozen=True, slots=True)
class Difference:
    """How the memory of two models or plans differs.

    Attributes:
        before, after: the planned memory of both.
        figures: `arena` first; then `lower bound`, `naive`, `workspace`, `tail` and `operators`, where either has one;
            and `session`, recorded arena and results, where both have one.
        edits: what was changed in the model.
        tensors: what became of its tensors; first those that are alive at the peak.
    """

    before: PlannedMemory
    after: PlannedMemory
    figures: tuple[Figure, ...]
    edits: tuple[Edit, ...]
    tensors: tuple[TensorChange, ...]

    @property
    def arena(self) -> Figure:
        """The arenas."""
        return self.figures[0]

    def exceeds(self, growth: float | Fraction) -> bool:
        """Whether the arena grew by more than this share: 0.02 is two hundredths, not the float next to it."""
        share = Fraction(str(growth)) if isinstance(growth, float) else growth
        return self.arena.after > self.arena.before * (1 + share)


def compare_memory(before: PlannedMemory, after: PlannedMemory) -> Difference:
    """The difference. Raises PlanError if one is of bytes and the other one of texels."""
    if before.unit != after.unit:
        raise PlanError(f"one plan counts {before.unit}, the other one {after.unit}: name one target for both")
    alignment = align(before, after)
    figures = [Figure("arena", before.arena, after.arena), Figure("lower bound", before.lower_bound, after.lower_bound)]
    others = [
        Figure("peak", before.peak, after.peak),
        Figure("naive", before.naive, after.naive),
        Figure("workspace", before.workspace, after.workspace),
        Figure("tail", before.tail, after.tail),
        Figure("operators", before.steps, after.steps),
    ]
    if before.recorded is not None and after.recorded is not None:
        others.append(Figure("session", before.memory, after.memory))
    return Difference(
        before,
        after,
        (*figures, *(f for f in others if f.before or f.after)),
        find_edits(before, after, alignment),
        find_tensor_changes(before, after, alignment),
    )
