"""Records inside records, put there one after the other, as long as no bytes come to hold two values.

    whole    [                           )      a record inside another has its place fixed, and so have all records
    pieces      [    )    [         )           that are inside each other by a chain: a nest
                       [     )

All records of one nest are slices and pieces of one value, so that two of them may share bytes: at their distance these
are the same bytes of that value. But no operator may write into either while both are in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Nests"]


class Nests:
    """Which records lie inside which. At first none does.

    Args:
        spans: (first step, last step, bytes) of each record, both steps inclusive.
        alignment: of every distance, in bytes.
        writes: for some records the steps, after the first, at which an operator writes into them.
    """

    def __init__(
        self, spans: Sequence[tuple[int, int, int]], alignment: int, writes: Mapping[int, Sequence[int]]
    ) -> None:
        columns = np.array(spans, np.int64).reshape(-1, 3)
        self._first, self._last, self._size = (column.tolist() for column in columns.T)
        self._alignment = alignment
        self._writes = {record: np.array(steps, np.int64) for record, steps in writes.items() if len(steps)}
        self._container: dict[int, tuple[int, int]] = {}
        # The records of a nest point to one of them, directly or through others, which has a list of all, and one of
        # those that are written into: record -> (record, bytes from the begin of that one to its own).
        self._towards: dict[int, tuple[int, int]] = {}
        self._members: dict[int, list[int]] = {}
        self._written = {record: [record] for record in self._writes}

    def rows(self) -> tuple[tuple[int, int, int], ...]:
        """(record, record that it lies in, distance in bytes), ascending."""
        return tuple((inner, outer, delta) for inner, (outer, delta) in sorted(self._container.items()))

    def put(self, piece: int, whole: int, delta: int) -> bool:
        """Put a record into another one, `delta` bytes from its start; returns whether that is possible.

        It is not for a record that lies in another one already, or whose bytes would hold two values.
        """
        (inner, place), (outer, start) = self._find(piece), self._find(whole)
        if piece in self._container or inner == outer or delta % self._alignment:
            return False
        if delta < 0 or delta + self._size[piece] > self._size[whole] or not self._meet(piece, whole):
            return False
        shift = start + delta - place  # from the begin of `outer` to that of `inner`
        if self._would_write(inner, outer, shift) or self._would_write(outer, inner, -shift):
            return False
        self._container[piece] = whole, delta
        small, large, apart = inner, outer, shift
        if len(self._members.get(small, (small,))) > len(self._members.get(large, (large,))):
            small, large, apart = outer, inner, -shift
        self._towards[small] = large, apart
        self._members.setdefault(large, [large]).extend(self._members.pop(small, [small]))
        if small in self._written:
            self._written.setdefault(large, []).extend(self._written.pop(small))
        return True

    def _find(self, record: int) -> tuple[int, int]:
        """The record with the list of the nest, and the bytes from its begin to that of the record."""
        apart = 0
        while record in self._towards:
            record, further = self._towards[record]
            apart += further
        return record, apart

    def _would_write(self, a: int, b: int, shift: int) -> bool:
        """Whether something that is written into, of the nest of `a`, shares bytes with a record of the nest of `b`.

        While both are in use, and an operator writes; `shift` is from the begin of `b` to that of `a`.
        """
        return any(
            self._is_written(record, other)
            for record in self._written.get(a, ())
            for other in self._members.get(b, (b,))
            if self._share(record, other, shift + self._find(record)[1] - self._find(other)[1])
        )

    def _meet(self, a: int, b: int) -> bool:
        """Whether both are in use at the same step."""
        return bool(max(self._first[a], self._first[b]) <= min(self._last[a], self._last[b]))

    def _share(self, a: int, b: int, apart: int) -> bool:
        """Whether they have bytes in common, where `a` begins so many bytes behind the begin of `b`."""
        return bool(apart < self._size[b] and apart + self._size[a] > 0)

    def _is_written(self, a: int, b: int) -> bool:
        """Whether an operator writes into the first of the two while both are in use."""
        first, last = max(self._first[a], self._first[b]), min(self._last[a], self._last[b])
        steps = self._writes[a]
        return bool(((steps >= first) & (steps <= last)).any())
