"""Placements of records that are related to each other: what is wrong with one, and the best of all there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from tests.oracle.bounds import align_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.oracle.bounds import Record

__all__ = ["Related", "optimum", "placement_faults"]


@dataclass(frozen=True)
class Related:
    """Records (first_op, last_op, bytes), and what else is known about where they may be."""

    records: Sequence[Record]
    alignment: int = 1
    overlap: Sequence[tuple[int, int, int]] = ()
    within: Sequence[tuple[int, int, int]] = ()
    pinned: dict[int, int] = field(default_factory=dict)
    reserved: Sequence[tuple[int, int]] = ()

    def lies_in(self, inner: int, outer: int) -> bool:
        """Whether there is a chain of `within` from the one to the other."""
        containers = [j for i, j, _ in self.within if i == inner]
        return outer in containers or any(self.lies_in(j, outer) for j in containers)

    def may_share(self, i: int, j: int) -> bool:
        """Whether both are parts of one whole, so that they share bytes of one value.

        With a pin in the whole or its parts: whether one lies in the other.
        """
        if self.lies_in(i, j) or self.lies_in(j, i):
            return True
        count = len(self.records)
        wholes = [k for k in range(count) if self.lies_in(i, k) and self.lies_in(j, k)]
        parts = {k for whole in wholes for k in range(count) if k == whole or self.lies_in(k, whole)}
        parts |= {k for whole in wholes for k in range(count) if self.lies_in(whole, k)}
        outermost = {k for k in parts if not any(self.lies_in(k, other) for other in range(count))}
        nest = outermost | {k for k in range(count) for whole in outermost if self.lies_in(k, whole)}
        return bool(wholes) and not nest & self.pinned.keys()


def placement_faults(related: Related, offsets: dict[int, int]) -> list[str]:
    """Everything wrong with the offsets of some of the records, in words."""
    faults = []
    for i, at in offsets.items():
        end = at + related.records[i][2]
        if at < 0 or at % related.alignment:
            faults.append(f"record {i} lies at {at}")
        if related.pinned.get(i, at) != at:
            faults.append(f"record {i} is pinned elsewhere")
        faults += [f"record {i} lies in {low}..{high}" for low, high in related.reserved if at < high and low < end]
    for i, j, delta in related.within:
        if i in offsets and j in offsets and offsets[i] != offsets[j] + delta:
            faults.append(f"record {i} does not lie in {j}")
    for i, j in combinations(sorted(offsets), 2):
        (first, last, size), (other_first, other_last, other_size) = related.records[i], related.records[j]
        if max(first, other_first) > min(last, other_last):
            continue
        if offsets[i] + size <= offsets[j] or offsets[j] + other_size <= offsets[i]:
            continue
        if related.may_share(i, j):
            continue
        if any({a, b} == {i, j} and offsets[a] - offsets[b] >= d for a, b, d in related.overlap):
            continue
        faults.append(f"records {i} and {j} share bytes")
    return faults


def optimum(related: Related) -> int | None:
    """The smallest arena by trying every offset of up to about five small records; None if there is no placement."""
    sizes = [size for _, _, size in related.records]
    reach = sum(align_up(s, related.alignment) for s in sizes)
    reach += max([high for _, high in related.reserved] + [p + max(sizes) for p in related.pinned.values()] + [0])
    best: int | None = None

    def place(i: int, offsets: dict[int, int], top: int) -> None:
        nonlocal best
        if best is not None and top >= best:
            return
        if i == len(sizes):
            best = top
            return
        for at in range(0, align_up(reach, related.alignment) + 1, related.alignment):
            if best is not None and at + sizes[i] >= best:
                break
            if not placement_faults(related, {**offsets, i: at}):
                place(i + 1, {**offsets, i: at}, max(top, at + sizes[i]))

    place(0, {}, 0)
    return best
