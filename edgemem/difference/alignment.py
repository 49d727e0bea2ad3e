"""Which operator and which tensor of one model are those of another one.

Operators that write a tensor of the same name and have the same type are the same. Between them, those of equal types
in the same order are. A tensor is that of the same operator's same output, or the one with the same name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.report.planned_memory import MemoryOperator, PlannedMemory

__all__ = ["Alignment", "align"]

_MOST: Final = 1 << 18  # pairs of operators that one comparison of two runs of them may look at


@dataclass(frozen=True, slots=True)
class Alignment:
    """What of `after` is what of `before`, by index.

    Attributes:
        operators: operator of after -> operator of before.
        tensors: tensor of after -> tensor of before.
        records: record of after -> record of before.
        moved: operators that run at another place among those that both have.
    """

    operators: Mapping[int, int]
    tensors: Mapping[int, int]
    records: Mapping[int, int]
    moved: int


def align(before: PlannedMemory, after: PlannedMemory) -> Alignment:
    """The alignment of two models; operators without names or types are those of the same place."""
    operators = _operators(before, after)
    tensors = _tensors(before, after, operators)
    places = [operators[k] for k in sorted(operators)]
    return Alignment(
        operators, tensors, _records(before, after, operators, tensors), len(places) - _longest_rise(places)
    )


def _operators(before: PlannedMemory, after: PlannedMemory) -> dict[int, int]:
    keys = [_keys(before), _keys(after)]
    unique = [{key: k for k, key in enumerate(listed) if count[key] == 1} for listed, count in map(_counted, keys)]
    found = {k: unique[0][key] for key, k in unique[1].items() if key and key in unique[0]}
    taken = set(found.values())
    left = [[k for k in range(len(before.operators)) if k not in taken]]
    left.append([k for k in range(len(after.operators)) if k not in found])
    for olds, news in _gaps(found, *left):
        pairs = _matched([before.operators[k] for k in olds], [after.operators[k] for k in news])
        found |= {news[b]: olds[a] for a, b in pairs}
    return found


def _counted(keys: list[str]) -> tuple[list[str], Counter[str]]:
    return keys, Counter(keys)


def _keys(memory: PlannedMemory) -> list[str]:
    """Type and first result of each operator; "" without a result."""
    return [
        f"{op.type} {memory.tensors[op.writes[0]].name}" if op.writes else f"{op.type} {op.label}" if op.label else ""
        for op in memory.operators
    ]


def _gaps(found: Mapping[int, int], olds: list[int], news: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """What is left of both sides between operators that were found in the same order."""
    anchors = [(new, found[new]) for new in sorted(found)]
    kept = _rising([old for _, old in anchors])
    edges = [(anchors[k][0], anchors[k][1]) for k in kept] + [(1 << 62, 1 << 62)]
    a = b = 0
    for new_edge, old_edge in edges:
        end_a, end_b = a, b
        while end_a < len(olds) and olds[end_a] < old_edge:
            end_a += 1
        while end_b < len(news) and news[end_b] < new_edge:
            end_b += 1
        if end_a > a and end_b > b:
            yield olds[a:end_a], news[b:end_b]
        a, b = end_a, end_b


def _matched(olds: Sequence[MemoryOperator], news: Sequence[MemoryOperator]) -> list[tuple[int, int]]:
    """Pairs of equal types in the same order: from both ends, and between them those of the longest equal runs."""
    old_types, new_types = ([op.type or op.label for op in side] for side in (olds, news))
    first = _common(old_types, new_types)
    last = _common(old_types[first:][::-1], new_types[first:][::-1])
    ends = len(olds) - last, len(news) - last
    pairs = [(k, k) for k in range(first)] + [(ends[0] + k, ends[1] + k) for k in range(last)]
    middle = old_types[first : ends[0]], new_types[first : ends[1]]
    if len(middle[0]) * len(middle[1]) > _MOST:
        return pairs + [(first + k, first + k) for k, (a, b) in enumerate(zip(*middle, strict=False)) if a == b]
    blocks = SequenceMatcher(None, middle[0], middle[1], autojunk=False).get_matching_blocks()
    return pairs + [(first + a + k, first + b + k) for a, b, size in blocks for k in range(size)]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many are equal from the beginning on."""
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _tensors(before: PlannedMemory, after: PlannedMemory, operators: Mapping[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for new, old in operators.items():
        found |= dict(zip(after.operators[new].writes, before.operators[old].writes, strict=False))
    taken = set(found.values())
    names = {t.name: k for k, t in enumerate(before.tensors) if k not in taken}
    for k, tensor in enumerate(after.tensors):
        if k not in found and tensor.name in names:
            found[k] = names[tensor.name]
    inputs = [[k for k in _inputs(m) if k not in known] for m, known in ((before, found.values()), (after, found))]
    return {**found, **dict(zip(inputs[1], inputs[0], strict=False))}


def _inputs(memory: PlannedMemory) -> list[int]:
    """Tensors that no operator writes, in the order in which they are read."""
    written = {k for op in memory.operators for k in op.writes}
    return list(dict.fromkeys(k for op in memory.operators for k in op.reads if k not in written))


def _records(
    before: PlannedMemory, after: PlannedMemory, operators: Mapping[int, int], tensors: Mapping[int, int]
) -> dict[int, int]:
    found: dict[int, int] = {}
    taken: set[int] = set()
    for new, old in sorted(tensors.items()):
        a, b = before.tensors[old].record, after.tensors[new].record
        if a >= 0 and b >= 0 and b not in found and a not in taken:
            found[b] = a
            taken.add(a)
    # Workspace has no tensor: that of the same operator, one after the other; and rows without any graph have names.
    places: dict[tuple[int | str, str], list[int]] = {}
    for k, record in enumerate(before.records):
        if k not in taken:
            places.setdefault((record.first if record.kind == "scratch" else record.name, record.kind), []).append(k)
    for k, record in enumerate(after.records):
        if k not in found:
            place = operators.get(record.first, -1) if record.kind == "scratch" else record.name
            rest = places.get((place, record.kind))
            if rest:
                found[k] = rest.pop(0)
    return found


def _rising(values: Sequence[int]) -> list[int]:
    """Indices of a longest rising subsequence."""
    from bisect import bisect_left

    tails: list[int] = []
    at: list[int] = []
    previous = [-1] * len(values)
    for k, value in enumerate(values):
        place = bisect_left(tails, value)
        tails[place : place + 1] = [value]
        at[place : place + 1] = [k]
        previous[k] = at[place - 1] if place else -1
    k = at[-1] if at else -1
    found = []
    while k >= 0:
        found.append(k)
        k = previous[k]
    return found[::-1]


def _longest_rise(values: Sequence[int]) -> int:
    return len(_rising(values))
