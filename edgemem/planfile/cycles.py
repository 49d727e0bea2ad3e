"""Cycles in a plan file: one period of a training program, whose requests are the records of the plan set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.planfile.columns import read_codes, read_column, read_strings, required
from edgemem.planfile.conditions import check_length
from edgemem.trace.cycle import Cycle
from edgemem.trace.trace import Section

if TYPE_CHECKING:
    from edgemem.planfile.reader import Table

__all__ = ["read_cycle"]


def read_cycle(table: Table) -> Cycle:
    """The cycle in a table. Raises PlanFileError for columns that are missing, or differ in length."""
    size, start, end, lane, section, free_section = (
        required(table.int64s(name), name) for name in ("sizes", "starts", "ends", "lanes", "sections", "free_sections")
    )
    names, phases = read_strings(table, "names"), read_column(table, "phases").tolist()
    dynamic, dynamic_sections = read_codes(table, "dynamic", 2), read_codes(table, "dynamic_sections", 2)
    check_length("phases", len(phases), len(names))
    check_length("dynamic_sections", len(dynamic_sections), len(names))
    return Cycle(
        table.integer("length"),
        size,
        start,
        end,
        lane,
        section,
        free_section,
        np.frombuffer(dynamic, np.uint8).astype(bool),
        tuple(map(Section, names, phases, map(bool, dynamic_sections))),
        device=table.string("device") or "",
    )
