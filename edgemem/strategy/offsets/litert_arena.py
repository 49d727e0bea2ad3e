"""The plan that LiteRT's own planner makes (ArenaPlanner and SimpleMemoryArena), byte for byte.

Tensors that are never released come first, in their own order; the others by size, the larger first, then by first
operator. Each goes into the smallest gap that holds it among those already placed that are alive with it, or behind
them all.
"""

from __future__ import annotations

from bisect import insort
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from edgemem.records.sizes import padded
from edgemem.strategy.registry import offsets_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem


@offsets_strategy("litert_arena", paper="LiteRT ArenaPlanner / SimpleMemoryArena", complexity="O(n^2)", limit=2000)
def litert_arena(problem: Problem) -> NDArray[np.int64]:
    """Offsets as LiteRT computes them. LiteRT does not define the order of ties; here it is the records' order."""
    last = int(problem.last_op.max(initial=0))
    rows = list(zip(problem.first_op.tolist(), problem.last_op.tolist(), problem.size.tolist(), strict=True))
    # Tensors alive at all operators are released by the last one, unless they are inputs, outputs or variables.
    whole = [r.first_op == 0 and r.last_op == last and r.kind not in ("tensor", "scratch") for r in problem.records]
    order = sorted(range(len(rows)), key=lambda i: (0, i) if whole[i] else (1, -rows[i][2], rows[i][0], i))
    offsets = np.zeros(len(rows), dtype=np.int64)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; by offset
    for index in order:
        first, final, size = rows[index]
        if size:
            offset = _best_fit(placed, first, final, size, problem.alignment)
            offsets[index] = offset
            insort(placed, (offset, offset + size, first, final), key=itemgetter(0))
    return offsets


def _best_fit(placed: list[tuple[int, int, int, int]], first: int, last: int, size: int, alignment: int) -> int:
    best, best_gap, current = -1, None, 0
    for offset, end, other_first, other_last in placed:
        if other_last < first or other_first > last:
            continue
        if current + size <= offset:
            aligned = padded(current, alignment)
            # The gap is measured from the aligned offset but remembered from the unaligned one, as LiteRT does.
            if aligned + size <= offset and (best_gap is None or offset - aligned < best_gap):
                best, best_gap = aligned, offset - current
        current = max(current, end)
        if best_gap == 0:
            break
    return best if best_gap is not None else padded(current, alignment)
