"""The bytes that records of one nest cover together, at their fixed distances; kernels/planner/offsets/related/cover.h.

Of two slices that outlive what they were cut out of, the bytes that both have count once:

    whole     [                        )       no longer in use
    slices      [        )                     in use
                     [        )
    covered     ==============
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["NestCover"]


class NestCover:
    """Of every nest of several records, without a pinned one: what is covered, as records enter and leave.

    A nest is a record that lies within no other with all that lie within it, by chains. With a pinned record in it, its
    records share bytes only where one lies inside the other, and are not counted here.

    The ends of the records cut their nests into pieces, which are the leaves of a tree; each node knows how many
    records cover all of it, and how many bytes below it are covered. O(log n) a change.

    Args:
        rows: of `within`: record, the one that it lies in, and the bytes from the begin of that.
        takes: bytes of each, padded as they are to count.
        pins: the offset of each, -1 for those that count as free.
    """

    def __init__(self, rows: Iterable[tuple[int, int, int]], takes: Sequence[int], pins: Sequence[int]) -> None:
        root, place = _places(rows)
        fixed = {root[i] for i in root if pins[i] >= 0}
        self._root = {i: top for i, top in root.items() if top not in fixed}
        cuts = sorted({(top, end) for i, top in self._root.items() for end in (place[i], place[i] + takes[i])})
        piece = {cut: k for k, cut in enumerate(cuts)}
        self._leaves = 1 << max(0, len(cuts) - 1).bit_length()
        self._span = {
            i: (self._leaves + piece[top, place[i]], self._leaves + piece[top, place[i] + takes[i]])
            for i, top in self._root.items()
        }
        self._width = [0] * (2 * self._leaves)
        for k, ((top, low), (other, high)) in enumerate(pairwise(cuts)):
            self._width[self._leaves + k] = high - low if top == other else 0
        for node in reversed(range(1, self._leaves)):
            self._width[node] = self._width[2 * node] + self._width[2 * node + 1]
        self._covers = [0] * (2 * self._leaves)
        self._bytes = [0] * (2 * self._leaves)

    def __contains__(self, record: int) -> bool:
        return record in self._root

    def are_one(self, i: int, j: int) -> bool:
        """Whether both are in one of the nests."""
        return i in self._root and self._root[i] == self._root.get(j)

    @property
    def bytes(self) -> int:
        """What those cover together that have entered and have not left."""
        return self._bytes[1]

    def enter(self, record: int) -> None:
        """Count a record of a nest."""
        self._add(record, 1)

    def leave(self, record: int) -> None:
        """Count it no longer."""
        self._add(record, -1)

    def _add(self, record: int, times: int) -> None:
        begin, end = low, high = self._span[record]
        while low < high:
            if low & 1:
                self._covers[low] += times
                self._count(low)
                low += 1
            if high & 1:
                high -= 1
                self._covers[high] += times
                self._count(high)
            low, high = low >> 1, high >> 1
        low, high = begin, end - 1
        while low > 1:
            is_one_path = low == high  # and so above all that has changed
            low, high = low >> 1, high >> 1
            before = self._bytes[low]
            self._count(low)
            if is_one_path and self._bytes[low] == before:
                return
            if high != low:
                self._count(high)

    def _count(self, node: int) -> None:
        if self._covers[node]:
            self._bytes[node] = self._width[node]
        elif node < self._leaves:
            self._bytes[node] = self._bytes[2 * node] + self._bytes[2 * node + 1]
        else:
            self._bytes[node] = 0


def _places(rows: Iterable[tuple[int, int, int]]) -> tuple[dict[int, int], dict[int, int]]:
    """Of the records in nests: the outermost record, and the bytes from the begin of that."""
    outer = {i: (j, delta) for i, j, delta in rows}
    root = {j: j for j, _ in outer.values() if j not in outer}
    place = dict.fromkeys(root, 0)
    for i in outer:
        chain = []
        at = i
        while at not in root:
            chain.append(at)
            at = outer[at][0]
        for record in reversed(chain):
            j, delta = outer[record]
            root[record], place[record] = root[j], place[j] + delta
    return root, place
