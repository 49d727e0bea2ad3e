"""The compiled kernels of the planner and of the proof, with columns that no caller in edgemem would give.

A case is a byte that chooses the kernel, one each for the number of records, the alignment and what else is given, and
int64 columns. A kernel refuses columns (ValueError), or its result holds: the proof, which shares no code with the
planner, finds nothing wrong with offsets that the planner gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem import native
from tests.fuzz.cases import Target
from tests.fuzz.mutation import EDGES, edge, mutate_bytes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

__all__ = ["TARGET"]

_MOST = 64  # records
_WORK = 20_000


class _Words:
    """The columns of a case, one after the other; zeros where it has ended."""

    def __init__(self, data: bytes) -> None:
        head = data[:4].ljust(4, b"\0")
        self.kernel, self.count, self.flags = head[0], head[1] % (_MOST + 1), head[3]
        self.alignment = EDGES[head[2] % len(EDGES)] if head[2] > 127 else 1 << head[2] % 63
        self.alignment = min(self.alignment, 2**63 - 1)
        body = data[4:]
        self._values = np.frombuffer(body[: len(body) // 8 * 8], np.int64)
        self._at = 0

    def column(self, count: int | None = None) -> Column:
        count = self.count if count is None else count
        taken = self._values[self._at : self._at + count]
        self._at += count
        return np.concatenate((taken, np.zeros(count - len(taken), np.int64)))

    def optional(self, bit: int, count: int | None = None) -> Column | None:
        return self.column(count) if self.flags >> bit & 1 else None


def _places(words: _Words, offsets: Callable[..., Column]) -> None:
    """A kernel that gives offsets, which the proof then accepts."""
    first, last, size = words.column(), words.column(), words.column()
    constraints = {}
    if (pinned := words.optional(0)) is not None:
        constraints["pinned"] = pinned
    if (reserved := words.optional(1, 4)) is not None:
        constraints["reserved"] = reserved
    found = offsets(first, last, size, **constraints)
    arena = np.array([int((found + size).max(initial=0))], np.int64)
    if reserved is not None:
        ranges = reserved.reshape(-1, 2)
        constraints["reserved"] = np.ascontiguousarray(ranges[ranges[:, 0] < ranges[:, 1]].reshape(-1))
    faults = native.kernels.find_offset_faults(first, last, size, words.alignment, found, arena, **constraints)
    nowhere = size == 0  # the proof looks at where those are that are nowhere, too
    wrong = [row for row in faults.reshape(-1, 7).tolist() if not nowhere[row[1] % max(1, len(size))]]
    assert not wrong, f"the proof refuses {found.tolist()}: {wrong}"


def _run(data: bytes) -> None:
    words = _Words(data)
    k: Any = native.kernels
    alignment = words.alignment
    kind = words.kernel % 12
    if kind == 0:
        order = np.argsort(words.column(), kind="stable")
        _places(words, lambda *c, **more: k.place_in_smallest_gap(*c, alignment, order, **more))
    elif kind == 1:
        effort = (_WORK, words.flags, None, 1 + words.flags // 64)  # work, seed, seconds, threads
        _places(words, lambda *c, **more: k.search_offsets(*c, alignment, *effort, **more)[0])
    elif kind == 2:
        order = np.argsort(words.column(), kind="stable")
        words.flags = 0
        _places(words, lambda *c: k.place_on_offset_lines(*c, alignment, order))
    elif kind == 3:
        columns = (words.column(), words.column(), words.column(), alignment)
        more = {"pinned": words.optional(0), "reserved": words.optional(1, 4)}
        k.offset_lower_bound(*columns, **more)
        relations = {"overlap": words.optional(2, 6), "within": words.optional(3, 6)}
        k.recompute_claims(*columns, **more, **relations)
    elif kind == 4:
        placed = (words.column(), words.column(), words.column(), alignment, words.column())
        regions = 1 + words.flags // 64
        given: dict[str, Any] = {"pinned": words.optional(0), "reserved": words.optional(1, 4)}
        given |= {"overlap": words.optional(2, 6), "within": words.optional(3, 6)}
        if words.flags & 16:
            given |= {"region": words.column(), "reserved_region": words.column(2)}
        k.find_offset_faults(*placed, words.column(regions), **given)
    else:
        _objects(words, kind)


def _objects(words: _Words, kind: int) -> None:
    k: Any = native.kernels
    first, last = words.column(), words.column()
    rank = 1 + words.flags % 3
    extent = words.column(words.count * rank).reshape(words.count, rank)
    if kind == 5:
        order = np.argsort(words.column(), kind="stable")
        found = k.assign_in_order(first, last, extent, order, "first" if words.flags & 64 else "closest")
    elif kind == 6:
        found = k.assign_nearest(first, last, extent, words.column(), bool(words.flags & 64))
    elif kind == 7:
        found = k.assign_by_min_cost_flow(first, last, extent)
    elif kind == 8:
        found, *_ = k.search_shared_objects(first, last, extent, _WORK, words.flags)
    elif kind == 9:
        k.find_object_faults(first, last, extent, words.column(), words.column(6).reshape(-1, rank))
        return
    elif kind == 10:
        k.positional_maxima(first, last, extent[:, 0].copy())
        k.section_breadths(first, last, extent[:, 0].copy())
        return
    else:
        k.range_minimum(first, last, words.column())
        return
    objects = np.zeros((int(found.max(initial=-1)) + 1, rank), np.int64)
    np.maximum.at(objects, found, extent)
    faults = k.find_object_faults(first, last, extent, found, objects)
    assert not len(faults), f"the proof refuses {found.tolist()}: {faults.tolist()}"


def _seeds() -> list[bytes]:
    made = []
    for kind in range(12):
        for flags in (0, 3, 12, 16):
            count = 5
            rng = np.random.default_rng(kind)
            first = rng.integers(0, 6, count)
            columns = [first, first + rng.integers(0, 4, count), rng.integers(0, 100, count), rng.integers(0, 9, count)]
            columns.append(np.array([1024, 2048, 4096, 4096]))
            body = b"".join(column.astype(np.int64).tobytes() for column in columns)
            made.append(bytes((kind, count, 0, flags)) + body)
    return made


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if chance.random() < 0.2:
        return mutate_bytes(chance, data, others)
    changed = bytearray(data[:4].ljust(4, b"\0"))
    values = (
        np.frombuffer(data[4 : 4 + (len(data) - 4) // 8 * 8], np.int64).copy() if len(data) > 11 else np.zeros(20, int)
    )
    for _ in range(chance.choice((0, 0, 1))):
        changed[chance.randrange(4)] = chance.randrange(256)
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(values))
        old = int(values[at])
        fresh = chance.choice(
            (edge(chance), -edge(chance), old + chance.randint(-4, 4), chance.randrange(300), old * 64)
        )
        values[at] = (fresh + 2**63) % 2**64 - 2**63
    if chance.random() < 0.3:  # as the planner's callers would: intervals that are some
        count = changed[1] % (_MOST + 1)
        rng = np.random.default_rng(chance.randrange(2**32))
        spread = chance.choice((4, 40, 2**62))
        first = rng.integers(0, spread, count)
        lengths, sizes = (
            rng.integers(0, chance.choice((2, 9, spread)), count),
            rng.integers(0, 2 ** chance.randint(1, 56), count),
        )
        values = np.concatenate((first, first + lengths, sizes, rng.integers(-1, 64, 3 * count + 40)))
    return bytes(changed) + values.astype(np.int64).tobytes()


TARGET = Target(_run, _seeds, _mutate, allowed=(ValueError,))
