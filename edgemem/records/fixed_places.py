"""Records whose places are fixed, by pins or by what they are within: whether they leave each other room."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.records.pins import check_pins, check_reserved
from edgemem.records.relations import outside_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.records.columns import ProblemColumns

__all__ = ["check_places"]


class _Sums:
    """A Fenwick tree: numbers at positions 0 to n - 1, with sums over ranges."""

    def __init__(self, count: int) -> None:
        self._sums = [0] * (count + 1)

    def add(self, position: int, number: int) -> None:
        position += 1
        while position < len(self._sums):
            self._sums[position] += number
            position += position & -position

    def below(self, position: int) -> int:
        """The sum at 0 to position - 1."""
        total = 0
        while position:
            total += self._sums[position]
            position -= position & -position
        return total


def check_places(problem: ProblemColumns, name: Callable[[int], str]) -> None:
    """Raise ModelError for records that no plan can place, because their places are fixed onto each other.

    `name` gives the name of a record by its index.
    """
    if problem.overlap is None and problem.within is None and problem.regions is None:
        check_pins(problem, name)
    else:
        _check_related(problem, name)


def _check_related(problem: ProblemColumns, name: Callable[[int], str]) -> None:
    """`check_places` where pins are not all there is.

    A pinned record is in the first region it may lie in. What lies within a pinned record, and what a pinned record
    lies within, is pinned with it. Such records share bytes only where one lies inside the other.
    """
    places, root = _places(problem, name)
    for i, at in places.items():
        check_reserved(problem, i, at, name)
    order = sorted(places, key=lambda i: (int(problem.first_op[i]), i))
    if len(order) < 2:
        return
    first, last = problem.first_op.tolist(), problem.last_op.tolist()
    spans = {i: (at, at + int(problem.size[i])) for i, at in places.items()}
    enter, leave = _numbers(problem)
    lows, highs = sorted({low for low, _ in spans.values()}), sorted({high for _, high in spans.values()})
    begins, ends = _Sums(len(lows)), _Sums(len(highs))
    around, inside = _Sums(len(problem) + 1), _Sums(len(problem))  # what is alive around, and inside, each record
    partners = _partners(problem)
    alive: set[int] = set()
    leaving = sorted(places, key=last.__getitem__)
    gone = 0

    def change(i: int, number: int) -> None:
        begins.add(bisect_left(lows, spans[i][0]), number)
        ends.add(bisect_left(highs, spans[i][1]), number)
        around.add(enter[i], number)
        around.add(leave[i], -number)
        inside.add(enter[i], number)

    def meet(i: int, j: int) -> bool:
        return spans[i][0] < spans[j][1] and spans[j][0] < spans[i][1]

    def related(i: int, j: int) -> bool:
        return enter[i] <= enter[j] < leave[i] or enter[j] <= enter[i] < leave[j]

    def may_overlap(i: int, j: int) -> bool:
        distances = partners.get(i, {})
        return j in distances and spans[i][0] - spans[j][0] >= distances[j]

    for i in order:
        while last[leaving[gone]] < first[i]:
            alive.discard(leaving[gone])
            change(leaving[gone], -1)
            gone += 1
        low, high = spans[i]
        met = begins.below(bisect_left(lows, high)) - ends.below(bisect_left(highs, low + 1))
        allowed = around.below(enter[i] + 1) + inside.below(leave[i]) - inside.below(enter[i])
        for j in partners.get(i, {}).keys() & alive:
            allowed += meet(i, j) and not related(i, j) and (may_overlap(i, j) or may_overlap(j, i))
        if met > allowed:
            for j in sorted(alive):
                if meet(i, j) and not related(i, j) and not may_overlap(i, j) and not may_overlap(j, i):
                    if root[i] == root[j]:
                        raise ModelError(
                            f"within: records {name(j)!r} and {name(i)!r} share bytes of {name(root[i])!r} while both "
                            "are in use, and neither lies inside the other; only records without a pin may do so. "
                            "Leave out the pin, or the row of one of them"
                        )
                    raise ModelError(
                        f"records {name(j)!r} at {spans[j][0]}..{spans[j][1]} and {name(i)!r} at {low}..{high} are "
                        "pinned onto each other while both are in use"
                    )
        alive.add(i)
        change(i, 1)


def _places(problem: ProblemColumns, name: Callable[[int], str]) -> tuple[dict[int, int], list[int]]:
    """Record -> address, for those that are pinned or in one nest with a pinned one; and the outermost of each record.

    Each region has addresses of its own.
    """
    count = len(problem)
    root, depth = list(range(count)), [0] * count  # the outermost container, and the distance from its begin
    rows = outside_in(problem, name)
    masks = [0] * count if problem.regions is None else problem.regions.tolist()
    for i, j, delta in rows:
        root[i], depth[i] = root[j], depth[j] + delta
        common = masks[root[i]] & masks[i] if masks[root[i]] and masks[i] else masks[root[i]] | masks[i]
        if not common and (masks[root[i]] or masks[i]):
            raise ModelError(f"within: there is no region for {name(i)!r} and all that it lies in or beside")
        masks[root[i]] = common
    begin: dict[int, tuple[int, int]] = {}  # outermost container -> (its offset, the pinned record that says so)
    pins = [] if problem.pinned is None else problem.pinned.tolist()
    for i, pin in enumerate(pins):
        if pin < 0 or not problem.size[i]:
            continue
        if pin % problem.alignment:
            raise ModelError(f"record {name(i)!r} is pinned at {pin}, no multiple of {problem.alignment}")
        start, other = begin.setdefault(root[i], (pin - depth[i], i))
        if start != pin - depth[i]:
            raise ModelError(
                f"records {name(other)!r} and {name(i)!r} are pinned at {pins[other]} and {pin}, but within "
                f"{name(root[i])!r} they are {depth[i] - depth[other]} bytes apart"
            )
        if start < 0:
            raise ModelError(f"record {name(i)!r} is pinned at {pin}, but lies at {depth[i]} in {name(root[i])!r}")
    width = 1 + sum(problem.size.tolist()) + max((s for s, _ in begin.values()), default=0)
    places = {}
    for i, top in enumerate(root):
        if top in begin and problem.size[i]:
            region = (masks[top] & -masks[top]).bit_length() - 1 if masks[top] else 0
            places[i] = begin[top][0] + depth[i] + width * region
    return places, root


def _numbers(problem: ProblemColumns) -> tuple[Sequence[int], Sequence[int]]:
    """Numbers of the records such that those inside record i have enter[i] < enter < leave[i]."""
    rows = outside_in(problem)
    outer = {i: j for i, j, _ in rows}
    held = [1] * len(problem)  # by a record, itself included
    for i, j, _ in reversed(rows):
        held[j] += held[i]
    enter, number = [0] * len(problem), 0
    for i in range(len(problem)):
        if i not in outer:
            enter[i] = number
            number += held[i]
    taken = [1] * len(problem)
    for i, j, _ in rows:
        enter[i] = enter[j] + taken[j]
        taken[j] += held[i]
    return enter, [begin + count for begin, count in zip(enter, held, strict=True)]


def _partners(problem: ProblemColumns) -> dict[int, dict[int, int]]:
    """Record -> records it has an overlap with, and for an input the distance."""
    partners: dict[int, dict[int, int]] = {}
    if problem.overlap is not None:
        for i, j, distance in problem.overlap.tolist():
            partners.setdefault(i, {})[j] = distance
            partners.setdefault(j, {}).setdefault(i, 2**63)  # no distance: i is the input, not j
    return partners
