"""What became of each piece of memory between two models: new, gone, another size, alive for longer, and why."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeAlias

from edgemem.difference.edits import tensor_form

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from edgemem.difference.alignment import Alignment
    from edgemem.report.planned_memory import MemoryRecord, PlannedMemory

__all__ = ["TensorChange", "find_tensor_changes"]

ChangeKind: TypeAlias = Literal["appeared", "vanished", "grew", "shrank", "longer", "shorter"]


@dataclass(frozen=True, slots=True)
class TensorChange:
    """One piece of memory.

    Attributes:
        kind: `appeared`, `vanished`, `grew`, `shrank`, or alive for `longer` or `shorter`; of several the first.
        name: of its first tensor, in `after` unless it is gone.
        before, after: its size; 0 where it is not.
        reason: why, in words.
        at_peak: it is alive where the most is alive: in `after`, or in `before` where it is gone.
    """

    kind: ChangeKind
    name: str
    before: int
    after: int
    reason: str
    at_peak: bool


def find_tensor_changes(before: PlannedMemory, after: PlannedMemory, alignment: Alignment) -> tuple[TensorChange, ...]:
    """All changes: first what is alive at the peak, then by how many bytes each is about."""
    changes = [*_of_after(before, after, alignment), *_vanished(before, after, alignment)]
    return tuple(sorted(changes, key=lambda c: (not c.at_peak, -_weight(c))))


def _weight(change: TensorChange) -> int:
    return abs(change.after - change.before) or change.after


def _of_after(before: PlannedMemory, after: PlannedMemory, alignment: Alignment) -> Iterator[TensorChange]:
    common = _Common.of(before, after, alignment)
    tensors = _tensors_of(before), _tensors_of(after)
    owners = {before.tensors[old].name: before.tensors[old].record for old in alignment.tensors.values()}
    for k, record in enumerate(after.records):
        at_peak = record.first <= after.peak_op <= record.last
        old = alignment.records.get(k)
        if old is None:
            if record.size:
                reason = _why_new(before, after, record, k, tensors[1], owners, alignment)
                yield TensorChange("appeared", record.name, 0, record.size, reason, at_peak)
            continue
        was = before.records[old]
        if record.size != was.size:
            kind: ChangeKind = "grew" if record.size > was.size else "shrank"
            reason = _why_size(before, after, tensors[0].get(old, []), tensors[1].get(k, []), alignment)
            yield TensorChange(kind, record.name, was.size, record.size, reason, at_peak)
        elif lives := _why_life(before, after, was, record, common, alignment):
            yield TensorChange(lives[0], record.name, was.size, record.size, lives[1], at_peak)


def _vanished(before: PlannedMemory, after: PlannedMemory, alignment: Alignment) -> Iterator[TensorChange]:
    kept = set(alignment.records.values())
    operators = set(alignment.operators.values())
    tensors = _tensors_of(before)
    now_in = {old: after.tensors[new].record for new, old in alignment.tensors.items()}
    for k, record in enumerate(before.records):
        if k in kept or not record.size:
            continue
        places = [now_in[t] for t in tensors.get(k, ()) if now_in.get(t, -1) >= 0]
        if places:
            reason = f"it now lies in the memory of {after.records[places[0]].name}"
        elif before.operators and record.first not in operators:
            reason = f"{before.label(record.first)}, which made it, is gone"
        else:
            reason = "nothing makes it any longer" if tensors.get(k) else "its operator asks for no such workspace"
        yield TensorChange(
            "vanished", record.name, record.size, 0, reason, record.first <= before.peak_op <= record.last
        )


def _tensors_of(memory: PlannedMemory) -> dict[int, list[int]]:
    """The tensors in each record."""
    found: dict[int, list[int]] = {}
    for k, tensor in enumerate(memory.tensors):
        found.setdefault(tensor.record, []).append(k)
    return found


def _why_new(
    before: PlannedMemory,
    after: PlannedMemory,
    record: MemoryRecord,
    number: int,
    tensors: Mapping[int, list[int]],
    owners: Mapping[str, int],
    alignment: Alignment,
) -> str:
    if record.kind == "scratch":
        return f"workspace of {after.label(record.first)}"
    olds = [alignment.tensors[t] for t in tensors.get(number, ()) if t in alignment.tensors]
    shared = [owners[before.tensors[t].name] for t in olds if owners[before.tensors[t].name] >= 0]
    if shared:
        return f"it has memory of its own; it lay in that of {before.records[shared[0]].name}"
    if olds:
        return "it was not in the plan"
    if record.first in alignment.operators or not after.operators:
        return f"{after.label(record.first)} makes it"
    return f"the new operator {after.label(record.first)} makes it"


def _why_size(
    before: PlannedMemory, after: PlannedMemory, olds: list[int], news: list[int], alignment: Alignment
) -> str:
    for new in news:
        old = alignment.tensors.get(new)
        if old is None:
            continue
        forms = tensor_form(before.tensors[old]), tensor_form(after.tensors[new])
        if all(forms) and forms[0] != forms[1]:
            return f"{forms[1]} instead of {forms[0]}"
    if len(olds) != len(news):
        return f"{len(news)} tensors share its memory instead of {len(olds)}"
    return "it has another size"


@dataclass(frozen=True, slots=True)
class _Common:
    """How many of the first n operators of each model the other one has, too; empty where either has no operators."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, before: PlannedMemory, after: PlannedMemory, alignment: Alignment) -> _Common:
        kept = set(alignment.operators.values())
        if not before.operators or not after.operators:
            return cls((), ())
        old = accumulate((k in kept for k in range(before.steps)), initial=0)
        new = accumulate((k in alignment.operators for k in range(after.steps)), initial=0)
        return cls(tuple(old), tuple(new))


def _why_life(
    before: PlannedMemory,
    after: PlannedMemory,
    was: MemoryRecord,
    now: MemoryRecord,
    common: _Common,
    alignment: Alignment,
) -> tuple[Literal["longer", "shorter"], str] | None:
    """An operator that is new does not make what is alive around it live longer; those that both have do."""
    lived, lives = was.last + 1 - was.first, now.last + 1 - now.first
    if common.before:
        lived = common.before[was.last + 1] - common.before[was.first]
        lives = common.after[now.last + 1] - common.after[now.first]
    if lives == lived:
        return None
    last, ended = after.label(now.last), before.label(was.last)
    if not common.before:
        text = f"operators {now.first} to {now.last} instead of {was.first} to {was.last}"
    elif alignment.operators.get(now.last) == was.last:
        moves = "later" if lives > lived else "sooner"
        text = f"{last}, which uses it last, runs {moves} after {after.label(now.first)}, its first"
    elif lives < lived:
        text = f"{last} is the last to use it instead of {ended}"
    else:
        text = f"{_reader(before, after, now, alignment)}; before, {ended} was the last"
    return ("longer" if lives > lived else "shorter"), text


def _reader(before: PlannedMemory, after: PlannedMemory, now: MemoryRecord, alignment: Alignment) -> str:
    """Who keeps a record alive: an operator that reads it now and did not, or one that runs later."""
    label, old = after.label(now.last), alignment.operators.get(now.last)
    names = {before.tensors[t].name for t in before.operators[old].reads} if old is not None else set()
    if old is None:
        return f"the new operator {label} uses it last"
    return f"{label} uses it last" if now.name in names else f"{label} now reads it"
