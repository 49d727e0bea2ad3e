"""Proof of places by rehearsal on the operators that LiteRT itself shows.

It needs neither the file nor the planner, so that a process can believe places which another one has made. Every tensor
is written to its place, operator by operator, and takes away what lay there; an operator that reads a tensor which is
no longer there proves the places wrong. Two names may share their bytes where the first output is a view of the first
input, or is written over an input element by element (`edgemem.model.aliasing`), or where an operator copies bytes
onto themselves because one lies in its place inside the other (`edgemem.model.slots`).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.model.aliasing import RULES
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.runtime.litert.structure import LitertOperator, Structure

__all__ = ["wrong_places"]

_ALIGNMENT: Final = 64  # of everything in LiteRT's arena
_MOST_ALIGNMENT: Final = 1 << 16  # the greatest of any plan
_RULES: Final = (RULES["elementwise"], RULES["litert"])  # LiteRT's kernels keep to both
_VIEWS: Final = _RULES[0].views | _RULES[1].views


def wrong_places(structure: Structure, places: Sequence[tuple[int, int, int]], size: int, *, inputs_kept: bool) -> str:
    """What is wrong with places in an arena, in words; "" if a run in them computes what LiteRT computes.

    Args:
        structure: what runs.
        places: (tensor index, offset, bytes). Tensors without a place are in memory of LiteRT's own.
        size: of the arena in bytes.
        inputs_kept: whether inputs are to hold their values after a run.
    """
    spans: dict[int, tuple[int, int]] = {}
    for index, offset, taken in places:
        if not 0 <= index < len(structure.tensors) or index in spans:
            return f"tensor {index} has no place or two"
        tensor = structure.tensors[index]
        if tensor.size != taken or tensor.allocation != "arena":
            return f"{tensor.name!r} has {tensor.size} bytes, and {taken} in the plan"
        if offset < 0 or offset % _ALIGNMENT or offset + taken > size:
            return f"{tensor.name!r} is at {offset}"
        spans[index] = (offset, offset + taken)
    if size > sum(padded(taken, _MOST_ALIGNMENT) for _, _, taken in places):
        return f"the arena of {size} bytes is larger than all tensors end to end"
    used = [i for op in structure.operators for i in (*op.inputs, *op.outputs, *op.workspace)]
    for index in dict.fromkeys((*structure.inputs, *structure.outputs, *used)):
        if index >= 0 and index not in spans and _is_placed(structure, index):
            return f"{structure.tensors[index].name!r} has no place"
    return _Rehearsal(structure, spans).run(inputs_kept=inputs_kept)


def _is_placed(structure: Structure, index: int) -> bool:
    tensor = structure.tensors[index]
    return tensor.allocation == "arena" and tensor.size > 0


class _Rehearsal:
    def __init__(self, structure: Structure, spans: dict[int, tuple[int, int]]) -> None:
        self._structure = structure
        self._spans = spans
        self._there: dict[int, tuple[int, int]] = {}  # tensors whose bytes are what was written to them

    def run(self, *, inputs_kept: bool) -> str:
        structure = self._structure
        inputs = dict.fromkeys(i for i in structure.inputs if i in self._spans)
        for index in inputs:
            self._write(index)
        wrong = self._missing(inputs)
        for number, operator in enumerate(structure.operators):
            wrong = wrong or self._operator(operator)
            if wrong:
                return f"{wrong} (operator {number}, {operator.type})"
        return wrong or self._missing((*structure.outputs, *(inputs if inputs_kept else ())))

    def _operator(self, operator: LitertOperator) -> str:
        wrong = self._missing(operator.inputs)
        written = [i for i in dict.fromkeys((*operator.workspace, *operator.outputs)) if i in self._spans]
        views: dict[int, int] = {}
        for index in written:
            for source in self._under(index):
                if source not in operator.inputs:
                    continue
                is_view = self._is_view(operator, index, source)
                is_same = is_view or self._is_in_slot(operator, index, source)
                if not is_same and not self._is_in_place(operator, index, source):
                    name, other = (self._structure.tensors[i].name for i in (index, source))
                    return wrong or f"{name!r} lies on the input {other!r}"
                if is_view:
                    views[index] = source
        unchanged = self._copied_onto_themselves(operator)
        for index in written:
            self._write(index, unchanged, is_view=index in views)
        return wrong or self._missing(written)

    def _is_view(self, operator: LitertOperator, index: int, source: int) -> bool:
        first = operator.outputs and index == operator.outputs[0] and source == operator.inputs[0]
        return bool(first) and operator.type in _VIEWS and self._spans[index] == self._spans[source]

    def _is_in_slot(self, operator: LitertOperator, index: int, source: int) -> bool:
        """Whether one of them lies in its place inside the other."""
        return any(
            {slot.piece, slot.whole} == {index, source} and self._keeps_to(slot.piece, slot.whole, slot.delta)
            for slot in operator.slots
        )

    def _keeps_to(self, piece: int, whole: int, delta: int) -> bool:
        spans = self._spans
        return piece in spans and whole in spans and spans[piece][0] - spans[whole][0] == delta

    def _copied_onto_themselves(self, operator: LitertOperator) -> list[tuple[int, int]]:
        """Bytes that hold after the operator what they held before, in order of their addresses."""
        return sorted(self._spans[s.piece] for s in operator.slots if self._keeps_to(s.piece, s.whole, s.delta))

    def _is_in_place(self, operator: LitertOperator, index: int, source: int) -> bool:
        """Whether each element is read before its result is written on it, and no other is there."""
        if not operator.outputs or index != operator.outputs[0] or self._spans[index] != self._spans[source]:
            return False
        ours, theirs = (prod(self._structure.tensors[i].shape) for i in (index, source))
        positions = {p for rules in _RULES for p in rules.in_place.get(operator.type, ())}
        # What is read at another position, too, is read there in the same order.
        at = {p for p, i in enumerate(operator.inputs) if i == source}
        return ours == theirs and at <= positions

    def _under(self, index: int) -> list[int]:
        """The tensors that are there, whose bytes are in the place of another."""
        low, high = self._spans[index]
        return [i for i, (begin, end) in self._there.items() if i != index and begin < high and low < end]

    def _write(self, index: int, unchanged: Sequence[tuple[int, int]] = (), *, is_view: bool = False) -> None:
        low, high = self._spans[index]
        for other in self._under(index):
            # The names of a value that is written through a view stay names of the same bytes.
            if is_view and self._spans[other] == self._spans[index]:
                continue
            begin, end = self._spans[other]
            if not _cover(unchanged, max(low, begin), min(high, end)):
                del self._there[other]
        self._there[index] = self._spans[index]

    def _missing(self, indices: Iterable[int]) -> str:
        lost = [i for i in indices if i in self._spans and i not in self._there]
        return f"{self._structure.tensors[lost[0]].name!r} is overwritten before it is read" if lost else ""


def _cover(spans: Iterable[tuple[int, int]], low: int, high: int) -> bool:
    """Whether spans, in order of their addresses, leave no byte of [low, high) out."""
    for begin, end in spans:
        if begin <= low < end:
            low = end
    return low >= high
