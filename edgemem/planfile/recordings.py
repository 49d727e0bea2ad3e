"""Recordings in a plan file: the fingerprint, and the stream that the records and the heap requests make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import PlanFileError
from edgemem.planfile.columns import read_column, read_groups, read_strings, read_values, required
from edgemem.planfile.conditions import check_length
from edgemem.planfile.schema import slots
from edgemem.planfile.streams import HeapRequests, stream_of
from edgemem.trace.recording import Fingerprint, Recording, Signature
from edgemem.trace.trace import Trace

if TYPE_CHECKING:
    from edgemem.planfile.reader import Table
    from edgemem.records.problem import Problem

__all__ = ["read_recording"]


def read_recording(table: Table, problem: Problem) -> Recording:
    """The recording whose requests with a place are the problem's records. Raises PlanFileError if they disagree."""
    signature = required(table.table("signature", slots("Signature")), "signature")
    fingerprint = Fingerprint(
        required(table.string("runtime"), "runtime"),
        required(table.string("version"), "version"),
        required(table.string("model"), "model"),
        read_values(table, "options"),
        _signature(signature),
    )
    events, sizes, ends = read_column(table, "heap_events"), read_column(table, "heap_sizes"), table.int64s("heap_ends")
    if ends is None:
        ends = np.full(len(events), -1, np.int64)
    elif not (ends >= 0).any():
        raise PlanFileError("heap_ends has no event at all")
    stream = stream_of(problem, HeapRequests(events, sizes, ends), table.integer("events"))
    return Recording(fingerprint, Trace.from_stream(stream))


def _signature(table: Table) -> Signature:
    names, types = read_strings(table, "inputs"), read_strings(table, "types")
    flat: tuple[int, ...] = tuple(read_column(table, "dims").tolist())
    shapes = read_groups(flat, table.int64s("dim_ends"), "dim_ends")
    check_length("types", len(types), len(names))
    check_length("dim_ends", len(shapes), len(names))
    return Signature(
        required(table.string("call"), "call"),
        tuple(zip(names, types, shapes, strict=True)),
        read_strings(table, "outputs"),
        table.boolean("bound"),
        table.boolean("shared"),
    )
