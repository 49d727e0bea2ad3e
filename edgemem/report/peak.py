"""Where the memory goes: the operator at which most is alive, and what is alive there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgemem.native import kernels

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["Peak", "find_peak"]


@dataclass(frozen=True, slots=True)
class Peak:
    """The first operator of greatest breadth.

    Attributes:
        op: its index. label: its name, or "op N" for plain usage records.
        size: the sum of the sizes alive there, in bytes or texels.
        alive: (name, size) of the records alive there, largest first.
    """

    op: int
    label: str
    size: int
    alive: tuple[tuple[str, int], ...]


def find_peak(planset: PlanSet) -> Peak:
    """The peak of a problem; op 0 with nothing alive when there are no records."""
    problem = planset.problem
    starts, breadths = kernels.section_breadths(problem.first_op, problem.last_op, problem.size)
    if not len(breadths):
        return Peak(0, planset.steps[0] if planset.steps else "op 0", 0, ())
    at = int(np.argmax(breadths))
    op = int(starts[at])
    alive = np.flatnonzero((problem.first_op <= op) & (op <= problem.last_op))
    largest = sorted(alive.tolist(), key=lambda i: (-int(problem.size[i]), i))
    label = planset.steps[op] if op < len(planset.steps) else f"op {op}"
    return Peak(op, label, int(breadths[at]), tuple((problem.names[i], int(problem.size[i])) for i in largest))
