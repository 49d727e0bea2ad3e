"""The best plans as CSV: one line a tensor."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["as_csv"]


def as_csv(planset: PlanSet) -> str:
    """One line a tensor: the record's interval and size, its offset, its shared object."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["tensor", "first_op", "last_op", "size", "offset", "object"])
    offsets, objects = planset.best_offsets, planset.best_shared_objects
    for i, record in enumerate(planset.problem.records):
        size = record.size if isinstance(record.size, int) else "x".join(map(str, record.size))
        place = [int(offsets.offsets[i]) if offsets else "", int(objects.assignment[i]) if objects else ""]
        for tensor in record.tensors or (record.name,):
            rows.writerow([tensor, record.first_op, record.last_op, size, *place])
    return text.getvalue()
