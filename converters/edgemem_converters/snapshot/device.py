"""The history of one device: its entries in a snapshot as a trace, with the memory that the allocator held."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from edgemem.errors import ModelError
from edgemem.system.text import short_repr
from edgemem.trace.history import MemoryHistory, OutOfMemory
from edgemem.trace.trace import Trace
from edgemem_converters.snapshot.fields import integer, mapping, rows, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem_converters.snapshot.annotations import Annotations
    from edgemem_converters.snapshot.places import Places

__all__ = ["device_history"]

_ADDRESSES: Final = 2**64 - 1

# What an action adds to the memory that the allocator holds. Expandable segments map and unmap parts of them.
_RESERVES: Final = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_FREES: Final = ("free_completed", "free_requested")  # the first is when the block may be used again
_OTHERS: Final = ("snapshot",)
_LATEST: Final = 2**52  # microseconds; the year 2112

_Request: TypeAlias = tuple[int, int, int]  # bytes, stream, place


def device_history(
    device: int,
    entries: Sequence[Mapping[str | int, Any]],
    segments: Sequence[Mapping[str | int, Any]],
    *,
    places: Places,
    annotations: Annotations,
    settings: str = "",
) -> MemoryHistory:
    """The history of a device.

    Args:
        device: its number.
        entries: of its trace, in order.
        segments: that the allocator holds on it at the end.
        places: numbers the places of allocations.
        annotations: of the device.
        settings: of the allocator.

    Raises:
        ModelError: entries or segments that are none, or that contradict each other.
    """
    reader = _Device(entries, segments, places, annotations)
    for entry in entries:
        reader.read(entry)
    reader.add_blocks(segments)
    return reader.history(device, settings)


class _Device:
    """Requests and events as they come. A request from before the first entry has a negative number until the end."""

    def __init__(
        self,
        entries: Sequence[Mapping[str | int, Any]],
        segments: Sequence[Mapping[str | int, Any]],
        places: Places,
        annotations: Annotations,
    ) -> None:
        self._places = places
        self._annotations = annotations
        actions = {text(entry, "action") for entry in entries}
        self._ends = next((action for action in _FREES if action in actions), "")
        self._began = min((integer(entry, "time_us", 0) for entry in entries), default=0)
        at_end = sum(integer(segment, "total_size") for segment in segments)
        self._held = self._first_held = max(at_end - sum(map(_change, entries)), 0)
        self._alive: dict[int, int] = {}  # address -> request
        self._streams: dict[int, int] = {0: 0}
        self._before: list[_Request] = []  # in use before the first entry
        self._made: list[_Request] = []
        self._events: list[tuple[int, int, int, int, int, int]] = []  # size, request, time, section, iteration, held
        self._failures: list[OutOfMemory] = []

    def read(self, entry: Mapping[str | int, Any]) -> None:
        """The next entry."""
        action = text(entry, "action")
        self._held = max(self._held + _change(entry), 0)
        if action == "alloc":
            address = integer(entry, "addr", most=_ADDRESSES)
            if address in self._alive:
                raise ModelError(f"address {address:#x} is taken twice without a free between; record all actions")
            self._alive[address] = len(self._made)
            self._made.append(self._request(entry, integer(entry, "size"), entry))
            self._note(entry, self._made[-1][0], len(self._made) - 1)
        elif action == self._ends:
            request = self._alive.pop(integer(entry, "addr", most=_ADDRESSES), None)
            if request is None:
                self._before.append(self._request(entry, integer(entry, "size"), {}))
                request = -len(self._before)
            self._note(entry, 0, request)
        elif action == "oom":
            self._failures.append(
                OutOfMemory(len(self._events), integer(entry, "size"), integer(entry, "device_free", 0))
            )
        elif action not in (*_RESERVES, *_FREES, *_OTHERS):
            raise ModelError(f"{short_repr(action)} is no action of an allocator that PyTorch 2.13 documents")

    def add_blocks(self, segments: Sequence[Mapping[str | int, Any]]) -> None:
        """What is in use at the end, and was so before the first entry."""
        for segment in segments:
            address = integer(segment, "address", most=_ADDRESSES)
            for row in rows(segment.get("blocks"), "blocks"):
                block = mapping(row, "a block")
                at, size = integer(block, "address", address, most=_ADDRESSES), integer(block, "size")
                address = at + size
                if text(block, "state") != "inactive" and at not in self._alive:
                    self._before.append(self._request(segment, integer(block, "requested_size", size), block))

    def history(self, device: int, settings: str) -> MemoryHistory:
        """All of it, with the requests from before at the begin."""
        count = len(self._before)
        size, request, time, section, iteration, held = np.array(self._events, np.int64).reshape(-1, 6).T
        made = np.array([*self._before, *self._made], np.int64).reshape(-1, 3)
        before, none = np.arange(count), np.full(count, -1)
        request = np.append(before, np.where(request < 0, -request - 1, request + count))
        trace = Trace.from_columns(
            np.append(made[:count, 0], size),
            request,
            np.append(np.zeros(count, np.int64), time),
            np.full(len(request), -1),
            stream=made[request, 1],
            section=np.append(none, section),
            iteration=np.append(none, iteration),
            sections=self._annotations.sections,
        )
        return MemoryHistory(
            device,
            trace,
            already_alive=count,
            reserved=np.append(np.full(count, self._first_held), held),
            label=made[:, 2],
            labels=self._places.texts,
            failures=tuple(replace(failure, event=failure.event + count) for failure in self._failures),
            settings=settings,
        )

    def _request(self, entry: Mapping[str | int, Any], size: int, noted: Mapping[str | int, Any]) -> _Request:
        """Bytes, stream and place of a request; the stack stands in `noted`."""
        if not size:
            raise ModelError("a request of the snapshot is of no bytes")
        stream = self._streams.setdefault(integer(entry, "stream", 0, most=_ADDRESSES), len(self._streams))
        return size, stream, self._places.of(noted)

    def _note(self, entry: Mapping[str | int, Any], size: int, request: int) -> None:
        time = integer(entry, "time_us", self._began, most=_LATEST)
        section, iteration = self._annotations.at(time, entry)
        self._events.append((size, request, (time - self._began) * 1000, section, iteration, self._held))


def _change(entry: Mapping[str | int, Any]) -> int:
    """Bytes that an entry adds to what the allocator holds."""
    sign = _RESERVES.get(text(entry, "action"), 0)
    return sign * integer(entry, "size") if sign else 0
