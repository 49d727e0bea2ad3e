"""Usage records and plans as CSV, in the columns that `edgemem_converters.csv` reads."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from edgemem.records.csv_names import cell_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.plans import PlanSet
    from edgemem.records.problem import Problem, UsageRecord

__all__ = ["as_csv", "cell_text", "problem_csv"]


def problem_csv(problem: Problem) -> str:
    """One line a record. Read back, it gives the same records and relations; alignment and reserved ranges are lost.

    Names are as `cell_text` has them.
    """
    columns: dict[str, Sequence[object]] = {}
    if any(record.kind != "tensor" for record in problem.records):
        columns["kind"] = [record.kind for record in problem.records]
    columns |= _related(problem)
    if problem.pinned is not None:
        columns["offset"] = ["" if record.offset is None else record.offset for record in problem.records]
    return _text(columns, [(i, record.name, record) for i, record in enumerate(problem.records)])


def as_csv(planset: PlanSet) -> str:
    """One line a tensor: its record's interval and size, what the records say besides, its offset, its shared object.

    Read back, the records are pinned where the plan has them.
    """
    problem = planset.problem
    columns: dict[str, Sequence[object]] = {}
    if "state" in problem.features:
        columns["kind"] = [record.kind for record in problem.records]
    columns |= _related(problem)
    if problem.regions is not None and planset.best_offsets is not None and planset.best_offsets.regions is not None:
        columns["regions"] = planset.best_offsets.regions.tolist()
    offsets, objects = planset.best_offsets, planset.best_shared_objects
    columns["offset"] = offsets.offsets.tolist() if offsets else [""] * len(problem)
    columns["object"] = objects.assignment.tolist() if objects else [""] * len(problem)
    rows = [
        (i, tensor, record) for i, record in enumerate(problem.records) for tensor in record.tensors or (record.name,)
    ]
    return _text(columns, rows)


def _related(problem: Problem) -> dict[str, Sequence[object]]:
    """The columns about regions and relations that the problem uses."""
    columns: dict[str, Sequence[object]] = {}
    if problem.regions is not None:
        columns["regions"] = ["|".join(map(str, record.regions)) for record in problem.records]
    if problem.traffic is not None:
        columns["traffic"] = problem.traffic.tolist()
    for name, rows in (("overlap", problem.overlap), ("within", problem.within)):
        if rows is not None:
            columns[name] = _entries(problem, rows)
    return columns


def _entries(problem: Problem, rows: NDArray[np.int64]) -> list[str]:
    entries: list[list[str]] = [[] for _ in range(len(problem))]
    for i, j, number in rows.tolist():
        name = re.sub(r"[\s%]", lambda found: quote(found[0], safe=""), cell_text(problem.names[j]))
        entries[i].append(f"{name}@{number}")
    return [" ".join(listed) for listed in entries]


def _text(columns: dict[str, Sequence[object]], rows: Sequence[tuple[int, str, UsageRecord]]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["tensor", "first_op", "last_op", "size", *columns])
    for i, name, record in rows:
        size = record.size if isinstance(record.size, int) else "x".join(map(str, record.size))
        table.writerow(
            [cell_text(name), record.first_op, record.last_op, size, *(values[i] for values in columns.values())]
        )
    return text.getvalue()
