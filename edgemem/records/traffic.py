"""How many bytes operators move in each record, which decides in which of several regions it costs least."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.model.steps import Step
    from edgemem.records.problem import UsageRecord

__all__ = ["with_traffic"]


def with_traffic(
    records: Sequence[UsageRecord], steps: Sequence[Step], views: Sequence[str], size_of: Callable[[str], int]
) -> list[UsageRecord]:
    """The records with the bytes that operators read and write in them.

    An operator writes each of its results once, and reads each of its inputs once. A view that lies on its input moves
    nothing. Workspace is written once and read once. What an operator in a body moves counts once, however often the
    body runs.

    Args:
        records: of the steps' tensors, sizes in bytes.
        steps: the operators.
        views: for each step the memory that its first result is a view of; "" if it is none.
        size_of: the bytes of a tensor in a record.
    """
    owner = {name: k for k, record in enumerate(records) for name in record.tensors}
    moved = [2 * record.size if record.kind == "scratch" and isinstance(record.size, int) else 0 for record in records]
    for step, view in zip(steps, views, strict=True):
        reads, writes = dict.fromkeys(step.reads), dict.fromkeys(step.writes)
        if view and owner.get(step.reads[0]) == owner.get(step.writes[0]):
            reads.pop(step.reads[0], None)
            writes.pop(step.writes[0], None)
        for name in (*reads, *writes):
            if name in owner:
                moved[owner[name]] += size_of(name)
    return [replace(record, traffic=traffic) for record, traffic in zip(records, moved, strict=True)]
