"""Snapshots of PyTorch's memory, built by hand in the shape that `torch.cuda.memory._snapshot` documents."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FRAMES", "Device", "snapshot", "write"]

FRAMES = [
    {"filename": "/usr/lib/python3/dist-packages/torch/nn/functional.py", "line": 2, "name": "linear"},
    {"filename": "/home/me/train.py", "line": 40, "name": "forward"},
    {"filename": "/home/me/train.py", "line": 90, "name": "main"},
]
_BASE = 0x7F0000000000


class Device:
    """Writes the trace of one device as a caching allocator with one large segment on each stream would.

    Each request is rounded to 512 bytes and gets addresses that nothing had before.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.entries: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self._time = 1_700_000_000_000_000
        self._next = _BASE + (number << 36)

    def note(self, action: str, **values: Any) -> None:
        """One entry, a millisecond later than the one before."""
        self._time += 1000
        entry = {"action": action, "frames": [], "stream": 0, "time_us": self._time, "pool_id": (0, 0), **values}
        self.entries.append(entry)

    @property
    def time_us(self) -> int:
        return self._time

    def segment(self, size: int, stream: int = 0, *, noted: bool = True) -> dict[str, Any]:
        """A new segment, with an entry for it if it was `noted`."""
        made = {
            "device": self.number,
            "address": self._next,
            "total_size": size,
            "stream": stream,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "allocated_size": 0,
            "active_size": 0,
            "blocks": [{"size": size, "requested_size": 0, "address": self._next, "state": "inactive", "frames": []}],
        }
        self._next += size
        self.segments.append(made)
        if noted:
            self.note("segment_alloc", addr=made["address"], size=size, stream=stream)
        return made

    def block(self, segment: dict[str, Any], requested: int, state: str = "active_allocated") -> int:
        """A block at the begin of what is free of a segment; its address."""
        rest = segment["blocks"].pop()
        size = -(-requested // 512) * 512
        used = {**rest, "size": size, "requested_size": requested, "state": state, "frames": FRAMES}
        left = {**rest, "address": rest["address"] + size, "size": rest["size"] - size}
        segment["blocks"] += [used, left]
        return int(rest["address"])

    def alloc(self, address: int, size: int, stream: int = 0, **values: Any) -> None:
        self.note("alloc", addr=address, size=size, stream=stream, **values)

    def free(self, address: int, size: int, stream: int = 0) -> None:
        """A free whose request and completion are both noted."""
        self.note("free_requested", addr=address, size=size, stream=stream)
        self.note("free_completed", addr=address, size=size, stream=stream)


def snapshot(*devices: Device, **more: Any) -> dict[str, Any]:
    """The snapshot of some devices, with an empty trace for each number that is not among them."""
    by_number = {device.number: device for device in devices}
    traces = [by_number[k].entries if k in by_number else [] for k in range(max(by_number, default=-1) + 1)]
    return {"segments": [s for d in devices for s in d.segments], "device_traces": traces, **more}


def write(path: Path, content: object) -> Path:
    """The content as a pickle, as `torch.cuda.memory._dump_snapshot` makes it."""
    path.write_bytes(pickle.dumps(content))
    return path
