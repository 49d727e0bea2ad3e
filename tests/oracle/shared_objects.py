"""The shared-objects strategies, written as Pisarchyk & Lee 2020 §4 and TFLite GPU's published behaviour have them.

Each function returns the object of every record; objects are numbered in order of creation. TFLite takes records
in the order given, which is by first operator there; here they are taken in that order whatever the input's order
is (ties: the earlier record), because an object handed back at one operator must not serve an earlier one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.oracle.bounds import Record, TexelRecord, elements, positional_maxima
from tests.oracle.offsets import by_breadth

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "equality",
    "greedy_by_breadth",
    "greedy_by_size",
    "greedy_by_size_improved",
    "greedy_in_order",
    "naive",
]


def naive(records: Sequence[Record | TexelRecord]) -> list[int]:
    """An object each."""
    return list(range(len(records)))


def equality(records: Sequence[Record | TexelRecord]) -> list[int]:
    """TFLite EQUALITY: reuse only an object of exactly this size.

    Of several free ones: for bytes the one freed last (objects are freed by last operator, then object), for
    texel extents the lowest.
    """
    assignment = [-1] * len(records)
    sizes: list[object] = []
    in_use: list[tuple[int, int]] = []
    pool: defaultdict[object, list[int]] = defaultdict(list)
    for t in _in_order(records):
        first, last, size = records[t]
        for done in sorted(use for use in in_use if use[0] < first):
            in_use.remove(done)
            pool[sizes[done[1]]].append(done[1])
        if not pool[size]:
            assignment[t] = len(sizes)
            sizes.append(size)
        elif isinstance(size, int):
            assignment[t] = pool[size].pop()
        else:
            assignment[t] = min(pool[size])
            pool[size].remove(assignment[t])
        in_use.append((last, assignment[t]))
    return assignment


def greedy_in_order(records: Sequence[Record | TexelRecord]) -> list[int]:
    """TFLite GREEDY_IN_ORDER (Lee et al. 2019): the free object that wastes least; objects of bytes may grow.

    Bytes: the smallest free object that is large enough (the lowest of equals), unless the largest of the smaller
    ones (the highest of equals) differs by less. Texel extents: only an object that covers the record, the least
    difference in texels, of equals the one freed first.
    """
    assignment = [-1] * len(records)
    sizes: list[int | tuple[int, ...]] = []
    in_use: list[tuple[int, int]] = []
    pool: list[int] = []
    for t in _in_order(records):
        first, last, size = records[t]
        for done in sorted(use for use in in_use if use[0] < first):
            in_use.remove(done)
            pool.append(done[1])
        best = _least_waste(pool, sizes, size)
        if best is None:
            assignment[t] = len(sizes)
            sizes.append(size)
        else:
            pool.remove(best)
            assignment[t] = best
            grown = sizes[best]
            if isinstance(grown, int) and isinstance(size, int):
                sizes[best] = max(grown, size)
        in_use.append((last, assignment[t]))
    return assignment


def _least_waste(
    pool: Sequence[int], sizes: Sequence[int | tuple[int, ...]], size: int | tuple[int, ...]
) -> int | None:
    if isinstance(size, int):
        by_size = sorted((elements(sizes[obj]), obj) for obj in pool)
        large = [entry for entry in by_size if entry[0] >= size]
        small = [entry for entry in by_size if entry[0] < size]
        if small and (not large or size - small[-1][0] < large[0][0] - size):
            return small[-1][1]
        return large[0][1] if large else None
    best = None
    for obj in pool:
        extent = sizes[obj]
        assert not isinstance(extent, int)
        covers = all(have >= need for have, need in zip(extent, size, strict=True))
        if covers and (best is None or elements(extent) < elements(sizes[best])):
            best = obj
    return best


def greedy_by_size(records: Sequence[Record], *, fit: str = "first") -> list[int]:
    """§4.3. Larger first, then earlier; into the first suitable object, or the smallest (the lowest of equals)."""
    if fit not in ("first", "smallest"):
        raise ValueError(fit)
    assignment = [-1] * len(records)
    objects: list[list[int]] = []
    sizes: list[int] = []
    for t in sorted(range(len(records)), key=lambda t: (-records[t][2], t)):
        best = None
        for obj, members in enumerate(objects):
            if _suitable(records, t, members) and (best is None or (fit == "smallest" and sizes[obj] < sizes[best])):
                best = obj
        if best is None:
            best = len(objects)
            objects.append([])
            sizes.append(records[t][2])
        objects[best].append(t)
        assignment[t] = best
    return assignment


def greedy_by_breadth(
    records: Sequence[Record], *, op_ties: str = "low_first", tensor_ties: str = "low_first"
) -> list[int]:
    """§4.2, Algorithm 1."""
    assignment = [-1] * len(records)
    shared_objects: list[list[int]] = []
    sizes: list[int] = []
    for t in by_breadth(records, op_ties, tensor_ties):
        size_t = records[t][2]
        best_obj: int | None = None
        for obj, members in enumerate(shared_objects):
            is_better = True
            if best_obj is not None:
                if sizes[best_obj] < size_t:
                    if sizes[obj] <= sizes[best_obj]:
                        is_better = False
                elif sizes[obj] >= sizes[best_obj] or sizes[obj] < size_t:
                    is_better = False
            if is_better and _suitable(records, t, members):
                best_obj = obj
        if best_obj is None:
            best_obj = len(shared_objects)
            shared_objects.append([])
            sizes.append(size_t)
        else:
            sizes[best_obj] = max(sizes[best_obj], size_t)
        shared_objects[best_obj].append(t)
        assignment[t] = best_obj
    return assignment


def greedy_by_size_improved(records: Sequence[Record], *, new_objects: str = "last") -> list[int]:
    """§4.4 as TFLite GPU does it: stages by positional maximum; in one, the pair that leaves the least idle time.

    A record's stage is the last positional maximum that is not below its size. In a stage: the least distance to
    a suitable object, then the larger, then the earlier record. A record's best object is the one that came to
    its distance first; when that one is lost, the lowest of the nearest. Without a suitable object a record's
    distance is infinite, so it goes last; `new_objects="first"` lets such records go first instead.
    """
    if new_objects not in ("first", "last"):
        raise ValueError(new_objects)
    infinity = max((last for _, last, _ in records), default=0) + 1
    maxima = positional_maxima(records)
    position = [sum(maximum >= size for maximum in maxima) - 1 for _, _, size in records]
    dist: list[list[int]] = [[] for _ in records]
    best_dist = [infinity] * len(records)
    best_object = [-1] * len(records)
    assignment = [-1] * len(records)
    objects = 0
    unassigned = set(range(len(records)))

    def priority(t: int) -> tuple[int, int, int, int]:
        opens_first = new_objects == "first" and best_dist[t] == infinity
        return (position[t], -1 if opens_first else best_dist[t], -records[t][2], t)

    while unassigned:
        best = min(unassigned, key=priority)
        unassigned.remove(best)
        is_new = best_dist[best] == infinity
        obj = objects if is_new else best_object[best]
        objects += is_new
        assignment[best] = obj
        for t in unassigned:
            distance = _distance(records[t], records[best], infinity)
            if is_new:
                dist[t].append(distance)
            elif dist[t][obj] == infinity:
                continue
            elif distance == infinity:
                dist[t][obj] = infinity
                if best_object[t] == obj:
                    best_dist[t] = min(dist[t])
                    best_object[t] = dist[t].index(best_dist[t])
            else:
                dist[t][obj] = min(dist[t][obj], distance)
            if distance < best_dist[t]:
                best_dist[t] = distance
                best_object[t] = obj
    return assignment


def _distance(a: Record, b: Record, infinity: int) -> int:
    """Operators between the nearer ends of two usage intervals; infinite when they intersect."""
    if a[1] < b[0]:
        return b[0] - a[1]
    if b[1] < a[0]:
        return a[0] - b[1]
    return infinity


def _suitable(records: Sequence[Record], t: int, members: Iterable[int]) -> bool:
    first_t, last_t, _ = records[t]
    return all(max(first_t, records[x][0]) > min(last_t, records[x][1]) for x in members)


def _in_order(records: Sequence[Record | TexelRecord]) -> list[int]:
    return sorted(range(len(records)), key=lambda t: (records[t][0], t))
