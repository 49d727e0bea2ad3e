"""Relations between records, checked, and the records inside others as a forest; for the proof in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

__all__ = ["Nesting", "check_records", "triples"]


def triples(rows: Column | None) -> list[tuple[int, int, int]]:
    """The rows of a relation."""
    if rows is None:
        return []
    flat = rows.tolist()
    if len(flat) % 3:
        raise ValueError("a relation has three numbers a row")
    return list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))


def check_records(
    first_op: Column, last_op: Column, size: Column, alignment: int, overlap: Column | None, within: Column | None
) -> None:
    """Raise ValueError as the kernel's `check` does, for what a Problem has not refused before."""
    count = len(first_op)
    if len(last_op) != count or len(size) != count:
        raise ValueError("first_op, last_op and size differ in length")
    if alignment < 1 or alignment & (alignment - 1):
        raise ValueError("the alignment is no power of two")
    if (first_op > last_op).any() or (first_op < 0).any():
        raise ValueError("a record ends before it begins")
    if (size < 0).any():
        raise ValueError("a record has a negative size")
    for i, j, _ in triples(overlap) + triples(within):
        if not (0 <= i < count and 0 <= j < count):
            raise ValueError("a relation names a record that does not exist")
        if i == j:
            raise ValueError("a record is related to itself")
    pairs = triples(overlap)
    if any(last_op[i] != first_op[j] for i, j, _ in pairs):
        raise ValueError("an overlap of records that do not meet in one operator")
    if any(first_op[i] == last_op[i] for i in {i for i, _, _ in pairs} & {j for _, j, _ in pairs}):
        raise ValueError("a record is an input of the operator that makes it")
    Nesting(count, triples(within))


class Nesting:
    """Which records lie inside which; each has a number, `enter`, and those inside a record have higher ones.

    Attributes:
        root: of each record, the one that it lies in and that lies in no other. Records of one root are a nest.

    Raises ValueError for a record inside two others, or inside itself by a chain.
    """

    def __init__(self, count: int, rows: Sequence[tuple[int, int, int]]) -> None:
        self.is_flat = not rows
        self.enter = list(range(count))
        self.root = list(range(count))
        self.outer: dict[int, int] = {}
        self.delta: dict[int, int] = {}
        self.inside: dict[int, list[int]] = {}
        for inner, outer, delta in rows:
            if inner in self.outer:
                raise ValueError("a record lies inside two others")
            self.outer[inner], self.delta[inner] = outer, delta
            self.inside.setdefault(outer, []).append(inner)
        if self.is_flat:
            return
        number = 0
        todo = [record for record in reversed(range(count)) if record not in self.outer]
        while todo:
            record = todo.pop()
            self.enter[record] = number
            self.root[record] = self.root[self.outer[record]] if record in self.outer else record
            number += 1
            todo += self.inside.get(record, [])
        if number < count:
            raise ValueError("a record lies inside itself")

    def related(self, a: int, b: int) -> bool:
        """Whether the two are of one nest: what they share at their distance is the same bytes of the same value."""
        return self.root[a] == self.root[b]

    def places(self, size: Sequence[int]) -> dict[int, int]:
        """Of the records in nests of several: where they begin, counted from the outermost one.

        Not of nests with a record that does not fit where it should lie.
        """
        place: dict[int, int] = {}
        wrong = set()
        for record in sorted({*self.outer, *self.inside}, key=self.enter.__getitem__):
            outer, delta = self.outer.get(record, record), self.delta.get(record, 0)
            place[record] = place.get(outer, 0) + delta
            if not 0 <= delta <= size[outer] - size[record]:
                wrong.add(self.root[record])
        return {record: at for record, at in place.items() if self.root[record] not in wrong}
