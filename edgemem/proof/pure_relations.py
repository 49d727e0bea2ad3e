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
    """Which records lie inside which; those inside a record have the numbers `enter` + 1 to `leave` (exclusive).

    Raises ValueError for a record inside two others, or inside itself by a chain.
    """

    def __init__(self, count: int, rows: Sequence[tuple[int, int, int]]) -> None:
        self.is_flat = not rows
        self.enter = list(range(count))
        self.leave = list(range(1, count + 1))
        self.outer: dict[int, int] = {}
        self.inside: dict[int, list[int]] = {}
        for inner, outer, _ in rows:
            if inner in self.outer:
                raise ValueError("a record lies inside two others")
            self.outer[inner] = outer
            self.inside.setdefault(outer, []).append(inner)
        if self.is_flat:
            return
        number = 0
        todo = [(record, False) for record in range(count) if record not in self.outer]
        while todo:
            record, done = todo.pop()
            if done:
                self.leave[record] = number
                continue
            self.enter[record] = number
            number += 1
            todo.append((record, True))
            todo += [(inner, False) for inner in self.inside.get(record, ())]
        if number < count:
            raise ValueError("a record lies inside itself")

    def related(self, a: int, b: int) -> bool:
        """Whether one of the two lies inside the other."""
        return self._holds(a, b) or self._holds(b, a)

    def _holds(self, outer: int, inner: int) -> bool:
        return self.enter[outer] <= self.enter[inner] < self.leave[outer]
