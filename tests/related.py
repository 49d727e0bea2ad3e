"""Related records for hypothesis, and as a Problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from edgemem.records.problem import Problem
from tests.oracle.relations import Related

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["overlapping_siblings", "problem_of", "related_records"]


@st.composite
def related_records(draw: st.DrawFn, *, most: int = 4, pins: bool = True) -> Related:
    """A few small records with rows that say something about them, whether or not all can hold at once."""
    count = draw(st.integers(1, most))
    alignment = draw(st.sampled_from((1, 1, 2)))
    records = []
    for _ in range(count):
        a, b = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        records.append((min(a, b), max(a, b), draw(st.integers(1, 5))))
    meeting = [(i, j) for i in range(count) for j in range(count) if i != j and records[i][1] == records[j][0]]
    overlap: list[tuple[int, int, int]] = []
    for i, j in meeting:
        own = [x for x in (i, j) if records[x][0] == records[x][1]]
        if any(x in (a, b) for x in own for a, b, _ in overlap):
            continue  # an operator's own input
        if draw(st.booleans()):
            overlap.append((i, j, draw(st.integers(-3, 5))))
    within: list[tuple[int, int, int]] = []
    for i in range(count):
        outer = [
            j
            for j in range(count)
            if (records[j][2], j) > (records[i][2], i)
            and max(records[i][0], records[j][0]) <= min(records[i][1], records[j][1])
        ]
        wanted = draw(st.booleans())
        if outer and wanted:
            j = draw(st.sampled_from(outer))
            steps = (records[j][2] - records[i][2]) // alignment
            within.append((i, j, draw(st.integers(0, steps)) * alignment))
    pinned = {}
    reserved: list[tuple[int, int]] = []
    if pins:
        pinned = {i: draw(st.integers(0, 5)) * alignment for i in range(count) if draw(st.integers(0, 3)) == 0}
        if draw(st.integers(0, 3)) == 0:
            begin = draw(st.integers(0, 6))
            reserved.append((begin * alignment, (begin + draw(st.integers(1, 3))) * alignment))
    return Related(records, alignment, overlap, within, pinned, reserved)


@st.composite
def overlapping_siblings(draw: st.DrawFn, *, most: int = 2, pins: bool = False) -> Related:
    """Slices of one record, and slices of these, that outlive it; and a few others, inputs and results of operators."""
    alignment = draw(st.sampled_from((1, 1, 2)))
    records = [(0, draw(st.integers(0, 2)), draw(st.integers(3, 8)))]
    within: list[tuple[int, int, int]] = []
    for i in range(1, 1 + draw(st.integers(1, 3))):
        outer = draw(st.sampled_from([0, 0, *range(i)]))
        first, last, size = records[outer]
        begin = draw(st.integers(first, last))
        steps = (size - 1) // alignment
        delta = draw(st.integers(0, steps)) * alignment
        records.append((begin, begin + draw(st.integers(0, 3)), draw(st.integers(1, size - delta))))
        within.append((i, outer, delta))
    for _ in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, 5))
        records.append((first, first + draw(st.integers(0, 2)), draw(st.integers(1, 5))))
    overlap = [
        (i, j, draw(st.integers(-3, 3)))
        for i, (first, last, _) in enumerate(records)
        for j, (begin, end, _) in enumerate(records)
        if i != j and last == begin and first < last and begin < end and draw(st.booleans())
    ]
    pinned = {0: draw(st.integers(0, 3)) * alignment} if pins and draw(st.booleans()) else {}
    reserved = [(2 * alignment, 4 * alignment)] if pins and draw(st.integers(0, 3)) == 0 else []
    return Related(records, alignment, overlap, within, pinned, reserved)


def problem_of(related: Related, roles: Sequence[int] | None = None) -> Problem:
    columns: Sequence[Sequence[int]] = list(zip(*related.records, strict=True))
    return Problem.from_arrays(
        *columns,
        alignment=related.alignment,
        pinned=[related.pinned.get(i, -1) for i in range(len(related.records))],
        reserved=related.reserved,
        overlap=related.overlap,
        within=related.within,
        roles=roles,
    )
