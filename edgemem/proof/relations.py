"""What the proof is told besides records and offsets: how records are related, and in which region each one lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgemem.records.relations import relation_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.records.problem import Problem
    from edgemem.records.relations import RelationColumns

    Column = NDArray[np.int64]

__all__ = ["Regions", "Relations", "relations_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """How records of a problem are related; two that are alive together are disjoint unless it says otherwise.

    Attributes:
        overlap: int64 [k, 3], rows (i, j, distance): record i dies in the operator that makes j (last_op[i] is
            first_op[j]), and the two may share bytes if offset[i] - offset[j] >= distance.
        within: int64 [k, 3], rows (i, j, delta): record i lies inside j, offset[i] == offset[j] + delta. A record lies
            inside one other at most, which may lie inside another in turn. All that lie inside one record, by chains,
            are parts of one value, and may share bytes with each other.
        state: bool or int64 [n], true for a record that keeps its bytes from run to run, and so lives for all of it.

    Overlap and within concern offsets only: shared objects are proved without them.
    """

    overlap: Column | None = None
    within: Column | None = None
    state: NDArray[np.bool_] | Column | None = None

    @property
    def columns(self) -> RelationColumns:
        """`overlap` and `within`, where there are any."""
        return relation_columns(self.overlap, self.within)


def relations_of(problem: Problem) -> Relations:
    """What a problem says of its records."""
    state = None
    if "state" in problem.features:
        state = np.array([record.kind == "state" for record in problem.records])
    return Relations(problem.overlap, problem.within, state)


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """Where an offset plan uses several memories; offsets count from the start of each.

    Attributes:
        of: int64 [n], the region of each record.
        sizes: the arena of each region in bytes.
        reserved: ranges [begin, end) that no record may use, region by region; none by default.
        alignments: of every offset, region by region, besides the problem's; none by default.
    """

    of: Column
    sizes: tuple[int, ...]
    reserved: Sequence[Sequence[tuple[int, int]]] = ()
    alignments: tuple[int, ...] = ()
