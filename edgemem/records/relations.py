"""Relations between records that are alive together: which there are, and whether any plan can honour them.

Two records that are alive at the same operator have disjoint bytes, unless a relation says otherwise:

    overlap (i, j, distance)                        within (i, j, delta)

    time    i ──────┐                               time    j ────────────
                    └ j ──────  same operator                   i ────
    bytes       [ i       )                         bytes   [ j           )
            [ j       )                                         [ i   )
            <-> offset_i - offset_j >= distance             <-> offset_i - offset_j == delta

An overlap is a permission: the two may as well be disjoint. A record that lies within another has no choice. All that
lie within one record, by chains, are a nest with it: slices and pieces of one value. Any two of a nest may share bytes,
whether one lies inside the other or they overlap in part: at their distance these are the same bytes of that value.

    time    whole ───────┐              bytes   [ whole                )
            slices    ───────                     [ slice    )
                       ────────                        [ slice    )

Only in a nest with a pinned record two must lie one inside the other, to share bytes while both are in use
(`edgemem.records.fixed_places`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from edgemem.records.columns import ProblemColumns

__all__ = ["RelationColumns", "check_overlap", "check_within", "outside_in", "relation_columns", "relation_rows"]

# Distances add up with offsets, of which the greatest is below 2**62.
_FARTHEST = 2**61


def relation_rows(rows: NDArray[np.int64] | Iterable[tuple[int, int, int]], what: str) -> NDArray[np.int64] | None:
    """The rows as a read-only int64 [m, 3] array, or None when there are none. Raises ModelError for anything else."""
    listed = rows if isinstance(rows, np.ndarray) else list(rows)
    if not len(listed):
        return None
    try:
        array = np.array(listed)
    except ValueError:
        array = np.zeros(0)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise ModelError(f"{what} is rows of three integers within int64: two records and a number of bytes")
    if (np.abs(array[:, 2].astype(np.float64)) > _FARTHEST).any():
        raise ModelError(f"{what} has a number of bytes beyond 2**61")
    array = np.array(array, dtype=np.int64, order="C")
    array.flags.writeable = False
    return array


class RelationColumns(TypedDict, total=False):
    """`overlap` and `within` (int64, three numbers a row), as kernels take them."""

    overlap: NDArray[np.int64]
    within: NDArray[np.int64]


def relation_columns(overlap: NDArray[np.int64] | None, within: NDArray[np.int64] | None) -> RelationColumns:
    """Relations (int64 [m, 3], or None) row by row, where there are any."""
    given = RelationColumns()
    if overlap is not None and len(overlap):
        given["overlap"] = np.ascontiguousarray(overlap, np.int64).reshape(-1)
    if within is not None and len(within):
        given["within"] = np.ascontiguousarray(within, np.int64).reshape(-1)
    return given


def check_overlap(problem: ProblemColumns, name: Callable[[int], str]) -> None:
    """Raise ModelError for a pair that is no input and result of one operator."""
    if problem.overlap is None:
        return
    _check_indices(problem, problem.overlap, "overlap", name)
    first, last = problem.first_op, problem.last_op
    i, j, _ = problem.overlap.T
    apart = last[i] != first[j]
    if apart.any():
        a, b = (int(column[apart.argmax()]) for column in (i, j))
        raise ModelError(
            f"overlap: record {name(a)!r} is used until operator {last[a]}, but {name(b)!r} begins at {first[b]}; "
            "an overlap is of an input and a result of one operator"
        )
    if len(set(zip(i.tolist(), j.tolist(), strict=True))) < len(i):
        raise ModelError("overlap names a pair of records twice; keep the row with the smaller distance")
    both = np.zeros(len(problem), np.int64)
    both[i] = 1
    both[j] += 2
    own = (both == 3) & (first == last)
    if own.any():
        raise ModelError(f"overlap: record {name(int(own.argmax()))!r} is an input of the operator that makes it")


def check_within(problem: ProblemColumns, name: Callable[[int], str]) -> None:
    """Raise ModelError for a record that cannot lie inside the other, in two others, or by a chain in itself."""
    if problem.within is None:
        return
    _check_indices(problem, problem.within, "within", name)
    inside: set[int] = set()
    first, last, size = problem.first_op.tolist(), problem.last_op.tolist(), problem.size.tolist()
    masks = None if problem.regions is None else problem.regions.tolist()
    for i, j, delta in problem.within.tolist():
        pair = f"within: record {name(i)!r} at {delta} in {name(j)!r}"
        if i in inside:
            raise ModelError(f"{pair}: it lies inside another record, too; a record has one container at most")
        if delta < 0 or delta + size[i] > size[j]:
            raise ModelError(f"{pair} would end at {delta + size[i]} of {size[j]} bytes; it must lie inside")
        if delta % problem.alignment:
            raise ModelError(f"{pair}: {delta} is no multiple of the alignment {problem.alignment}")
        if max(first[i], first[j]) > min(last[i], last[j]):
            raise ModelError(f"{pair}: the two are never in use together; leave the row out")
        if masks is not None and masks[i] and masks[j] and not masks[i] & masks[j]:
            raise ModelError(f"{pair}: there is no region that both may lie in")
        inside.add(i)
    outside_in(problem, name)


def outside_in(problem: ProblemColumns, name: Callable[[int], str] = str) -> list[tuple[int, int, int]]:
    """Rows of `within`, each after the row of its container. Raises ModelError for a chain that ends in itself."""
    if problem.within is None:
        return []
    children: dict[int, list[tuple[int, int, int]]] = {}
    rows = [(i, j, delta) for i, j, delta in problem.within.tolist()]
    for row in rows:
        children.setdefault(row[1], []).append(row)
    inside = {i for i, _, _ in rows}
    reached = [row for j in children if j not in inside for row in children[j]]
    for row in reached:  # grows
        reached += children.get(row[0], ())
    if len(reached) < len(rows):
        lost = next(iter(inside - {i for i, _, _ in reached}))
        raise ModelError(f"within: record {name(lost)!r} lies inside itself, by a chain of others")
    return reached


def _check_indices(problem: ProblemColumns, rows: NDArray[np.int64], what: str, name: Callable[[int], str]) -> None:
    pairs = rows[:, :2]
    if (pairs < 0).any() or (pairs >= len(problem)).any():
        raise ModelError(f"{what} names record {pairs.max()} of {len(problem)}, counted from 0")
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        raise ModelError(f"{what} relates record {name(int(pairs[same.argmax(), 0]))!r} to itself")
    empty = problem.size[pairs] == 0
    if empty.any():
        at = int(pairs[empty][0])
        raise ModelError(f"{what}: record {name(at)!r} is empty, and what is empty lies nowhere; leave the row out")
