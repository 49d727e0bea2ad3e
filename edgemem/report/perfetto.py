"""A plan as a trace of Perfetto (ui.perfetto.dev): slices of operators and records, and a counter of the bytes alive.

    process `model`
      operators     a slice an operator
      bytes alive   a counter
      lane 0, 1...  a slice a record; records that are alive together are in different lanes

An operator takes a microsecond: the trace shows an order, not times. Perfetto's TrackEvent is a protobuf message, whose
fields are numbered in its `track_event.proto`.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from edgemem.planfile.protobuf import encode_field, encode_number

if TYPE_CHECKING:
    from edgemem.report.planned_memory import MemoryRecord, PlannedMemory

__all__ = ["as_perfetto"]

STEP_NS: Final = 1000

_BEGIN, _END, _COUNTER = 1, 2, 4  # TrackEvent.Type
_SIZE_BYTES: Final = 3  # CounterDescriptor.Unit
_EXPLICIT: Final = 3  # TrackDescriptor.ChildTracksOrdering
_PROCESS, _OPERATORS, _ALIVE, _LANES = 1, 2, 3, 16  # numbers of tracks; lanes follow


def as_perfetto(memory: PlannedMemory) -> bytes:
    """The trace's bytes: one message `Trace`, packets in the order of their times."""
    events: list[tuple[int, int, bytes]] = []  # time, ends before begins, event

    def slice_of(track: int, name: str, first: int, last: int, notes: dict[str, int | str]) -> None:
        begin = b"".join(_note(key, value) for key, value in notes.items())
        begin += encode_number(9, _BEGIN) + encode_number(11, track) + _text(23, name)
        events.append((first * STEP_NS, 1, begin))
        events.append(((last + 1) * STEP_NS, 0, encode_number(9, _END) + encode_number(11, track)))

    for k, op in enumerate(memory.operators):
        notes: dict[str, int | str] = {"type": op.type, "weights": op.weights, "MACs": op.macs}
        slice_of(_OPERATORS, op.label, k, k, {key: value for key, value in notes.items() if value})
    lanes = _lanes(memory.records)
    for record, lane in zip(memory.records, lanes, strict=True):
        if lane >= 0:
            of_record: dict[str, int | str] = {"size": record.size, "offset": record.offset, "kind": record.kind}
            slice_of(_LANES + lane, record.name, record.first, record.last, of_record)
    for time, size in _alive(memory.records):
        counter = encode_number(9, _COUNTER) + encode_number(11, _ALIVE) + encode_number(30, size)
        events.append((time * STEP_NS, 2, counter))
    tracks = [
        encode_number(1, _PROCESS)
        + encode_field(3, encode_number(1, 1) + _text(6, f"{memory.name}: {memory.subject}"))
        + encode_number(11, _EXPLICIT),
        _track(_OPERATORS, "operators", 0),
        _track(_ALIVE, f"{memory.unit} alive", 1, encode_field(8, encode_number(3, _SIZE_BYTES))),
        *(_track(_LANES + lane, f"lane {lane}", 2 + lane) for lane in range(max(lanes, default=-1) + 1)),
    ]
    packets = [encode_field(60, track) for track in tracks]
    packets += [
        encode_number(8, time) + encode_field(11, event) for time, _, event in sorted(events, key=lambda e: e[:2])
    ]
    return b"".join(encode_field(1, encode_number(10, 1) + packet) for packet in packets)


def _track(number: int, name: str, rank: int, more: bytes = b"") -> bytes:
    head = encode_number(1, number) + _text(2, name) + encode_number(5, _PROCESS)
    return head + encode_number(12, rank) + more


def _note(name: str, value: int | str) -> bytes:
    text = _text(6, value) if isinstance(value, str) else encode_number(4, value & (1 << 64) - 1)
    return encode_field(4, _text(10, name) + text)


def _text(number: int, text: str) -> bytes:
    return encode_field(number, text.encode(errors="replace"))


def _lanes(records: tuple[MemoryRecord, ...]) -> list[int]:
    """The lowest lane that is free for each record's whole life; -1 for one without bytes."""
    lanes = [-1] * len(records)
    free: list[int] = []
    ends: list[tuple[int, int]] = []
    count = 0
    for k in sorted(range(len(records)), key=lambda k: (records[k].first, -records[k].last)):
        record = records[k]
        if not record.size:
            continue
        while ends and ends[0][0] < record.first:
            heappush(free, heappop(ends)[1])
        if free:
            lanes[k] = heappop(free)
        else:
            lanes[k], count = count, count + 1
        heappush(ends, (record.last, lanes[k]))
    return lanes


def _alive(records: tuple[MemoryRecord, ...]) -> list[tuple[int, int]]:
    """The sum of sizes from each operator on at which it changes."""
    changes: dict[int, int] = {}
    for record in records:
        changes[record.first] = changes.get(record.first, 0) + record.size
        changes[record.last + 1] = changes.get(record.last + 1, 0) - record.size
    total, found = 0, []
    for time in sorted(changes):
        total += changes[time]
        found.append((time, total))
    return found
