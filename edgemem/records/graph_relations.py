"""Which records of a graph may share bytes though both are in use: the relations of its problem under a target.

`overlap` comes from the target's kernel profile (`edgemem.model.overlap`), `within` is a choice out of what
`edgemem.model.slots` permits. Operators in bodies, and records with tensors of bodies, have no relations: a body runs
at another time than the steps before and after it say.

The choice of `within`: what an outermost concatenation puts together lies in its result, and what a slice cuts out lies
in what it is cut from. A slice that is put into a concatenation lies in neither: it is kept after the others are gone,
and would hold its place in one and the other (the kept tail of a stripe).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from edgemem.model.aliasing import RULES
from edgemem.model.overlap import distance
from edgemem.model.slots import CONCATENATIONS
from edgemem.records.nests import Nests
from edgemem.records.roles import roles_of
from edgemem.records.sizes import tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from edgemem.model.graph import Graph, Op
    from edgemem.model.slots import Slot
    from edgemem.model.steps import Step
    from edgemem.records.live_range import Sharing
    from edgemem.records.problem import UsageRecord
    from edgemem.targets import Target

__all__ = ["RelatedColumns", "find_relations", "keep_apart"]

Row: TypeAlias = tuple[int, int, int]
Slots: TypeAlias = "Sequence[tuple[Slot, ...]]"


@dataclass(frozen=True, slots=True)
class RelatedColumns:
    """Columns of a problem: rows of `overlap` and `within`, and `roles`; None where no two records have one role."""

    overlap: tuple[Row, ...] = ()
    within: tuple[Row, ...] = ()
    roles: tuple[int, ...] | None = None


def keep_apart(graph: Graph, steps: Sequence[Step], sharing: Sharing, target: Target, slots: Slots) -> Sharing:
    """The sharing without what relations say better: an operator whose result may take the memory of an input.

    With a kernel profile only the profile says which result may: where it has a distance, the two are related instead
    of one record, so that a record that lies in another may be an input as well. In bodies, where nothing is related,
    they stay one record if the distance permits it. A slice that may lie in what it is cut from is not written over
    either.
    """
    over = list(sharing.over)
    cut = {
        graph.tensors[slot.piece].name
        for op, found in zip(graph.ops, slots, strict=True)
        if target.slots and not _joins(op)
        for slot in found
    }
    for number, step in enumerate(steps):
        kept = set(over[number])
        if not step.depth:
            kept = set() if target.kernels != "none" else kept - cut
        elif kept and target.kernels != "none":
            for position, name in enumerate(step.reads):
                least = distance(target.kernels, step.graph, step.op, position)
                if least is None or least > 0:
                    kept.discard(sharing.root.get(name, ""))
        over[number] = tuple(name for name in over[number] if name in kept)
    return replace(sharing, over=tuple(over))


def find_relations(
    graph: Graph,
    steps: Sequence[Step],
    target: Target,
    records: Sequence[UsageRecord],
    kept: Collection[str],
    slots: Slots,
) -> RelatedColumns:
    """The relations between the records of a graph.

    Args:
        graph: the graph.
        steps: its operators in time.
        target: its `kernels` and `slots` say which relations there are.
        records: the usage records; `first_op` and `last_op` count steps.
        kept: names of records that stay to the end of the run, whatever reads them.
        slots: of each operator of the graph (`find_slots`).
    """
    free = _FreeRecords(graph, target, records)
    within = _choose_within(graph, steps, target, free, slots) if target.slots else ()
    overlap = _find_overlap(graph, steps, target, free, kept, within) if target.kernels != "none" else ()
    return RelatedColumns(overlap, within, roles_of(graph, records, slots) if overlap or within else None)


class _FreeRecords:
    """The records that may have relations, by the tensors of the graph that are in them."""

    def __init__(self, graph: Graph, target: Target, records: Sequence[UsageRecord]) -> None:
        self.records = records
        self._places: dict[str, int] = {}
        sizes = {t.name: tensor_bytes(t, target, graph.layout) for t in graph.tensors if t.kind == "activation"}
        for index, record in enumerate(records):
            if record.kind not in ("tensor", "input", "output") or record.offset is not None or not record.size:
                continue
            if all(sizes.get(name) == record.size for name in record.tensors):
                self._places.update(dict.fromkeys(record.tensors, index))

    def of(self, name: str) -> int:
        """The record that the tensor is in; -1 if it has none, or one without relations."""
        return self._places.get(name, -1)

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """(first step, last step, bytes) of every record."""
        for record in self.records:
            yield record.first_op, record.last_op, record.size if isinstance(record.size, int) else 0


def _find_overlap(
    graph: Graph,
    steps: Sequence[Step],
    target: Target,
    free: _FreeRecords,
    kept: Collection[str],
    within: Sequence[Row],
) -> tuple[Row, ...]:
    nested = {(i, j) for i, j, _ in within} | {(j, i) for i, j, _ in within}
    rows = []
    for number, step in enumerate(steps):
        made = free.of(step.writes[0]) if step.writes and not step.depth else -1
        if made < 0 or free.records[made].first_op != number:
            continue
        often = Counter(free.of(name) for name in step.reads)
        for position, name in enumerate(step.reads):
            read = free.of(name)
            if read < 0 or read == made or often[read] > 1 or (read, made) in nested:
                continue
            record = free.records[read]
            if record.last_op != number or record.name in kept:
                continue
            least = distance(target.kernels, graph, step.op, position)
            if least is not None:
                rows.append((read, made, least))
    return tuple(rows)


def _choose_within(
    graph: Graph, steps: Sequence[Step], target: Target, free: _FreeRecords, slots: Slots
) -> tuple[Row, ...]:
    nests = Nests(tuple(free.spans()), target.alignment, _writes(steps, target, free))
    for slot in _wanted(graph, slots):
        piece, whole = (free.of(graph.tensors[index].name) for index in (slot.piece, slot.whole))
        if piece >= 0 and whole >= 0 and piece != whole:
            nests.put(piece, whole, slot.delta)
    return nests.rows()


def _wanted(graph: Graph, slots: Slots) -> Iterator[Slot]:
    """The slots that the choice asks for, in the order of the operators."""
    together = {slot.piece for op, found in zip(graph.ops, slots, strict=True) if _joins(op) for slot in found}
    cut = {slot.piece for op, found in zip(graph.ops, slots, strict=True) if not _joins(op) for slot in found}
    for op, found in zip(graph.ops, slots, strict=True):
        tails = cut if _joins(op) else together
        yield from (slot for slot in found if slot.piece not in tails)


def _joins(op: Op) -> bool:
    return op.type in CONCATENATIONS


def _writes(steps: Sequence[Step], target: Target, free: _FreeRecords) -> Mapping[int, Sequence[int]]:
    """The steps at which a record is written again, in place."""
    views = RULES[target.aliasing].views
    found: dict[int, list[int]] = {}
    for number, step in enumerate(steps):
        if step.op.type in views:
            continue
        for name in step.writes:
            record = free.of(name)
            if record >= 0 and free.records[record].tensors[0] != name:
                found.setdefault(record, []).append(number)
    return found
