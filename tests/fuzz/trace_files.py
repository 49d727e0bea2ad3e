"""Snapshots of PyTorch's memory and recorded traces: damaged files, and values that no allocator notes."""

from __future__ import annotations

import atexit
import pickle
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError
from edgemem.trace import Section, Trace
from edgemem.trace.caching import simulate
from edgemem.trace.cycle import Cycle
from edgemem.trace.file import load_trace, save_trace
from edgemem_converters.snapshot import SnapshotConverter
from edgemem_converters.snapshot.plain_pickle import read_plain
from tests.fuzz.cases import Target
from tests.fuzz.mutation import INTERESTING, edge, mutate_bytes
from tests.snapshots import FRAMES, Device, snapshot

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["TARGET"]

_MOST = 2000  # events that are simulated
_WORDS = ("alloc", "free_completed", "free_requested", "segment_alloc", "segment_unmap", "oom", "inactive", "", "START")


def _run(data: bytes) -> None:
    is_archive = data.startswith(b"PK")
    path = _PLACE / ("trace.npz" if is_archive else "snapshot.pickle")
    path.write_bytes(data)
    traces = [load_trace(path)] if is_archive else [h.trace for h in SnapshotConverter.open(path).histories()]
    for trace in traces:
        if len(trace) > _MOST:
            continue
        trace.problem(outlive=True)
        simulate(trace)
        cycle = Cycle.of(trace, dynamic=("*experts*",))
        cycle.problem(512)
        cycle.lower_bound(512)


def _seeds() -> list[bytes]:
    device, other, marks = Device(), Device(1), []
    address = device.segment(1 << 21)["address"]
    other.block(other.segment(1 << 20, noted=False), 700)
    for step in range(3):
        marks += [{"name": f"ProfilerStep#{step}", "stage": "START", "device": 0, "time_us": device.time_us + 1}]
        device.alloc(address, 5000, frames=FRAMES)
        device.alloc(address + 8192, 300, stream=7, user_metadata="experts")
        device.free(address, 5000)
        device.free(address + 8192, 300)
    device.note("oom", size=1 << 30, device_free=5)
    content = snapshot(device, other, external_annotations=marks, allocator_settings={"PYTORCH_CUDA_ALLOC_CONF": ""})
    trace = Trace.from_columns(
        [8, 4, 0, 0, 8, 4, 0, 0],
        [0, 1, 0, 1, 2, 3, 2, 3],
        iteration=[0] * 4 + [1] * 4,
        section=[0, 1, -1, -1] * 2,
        sections=(Section("a", 1), Section("experts", is_dynamic=True)),
    )
    path = _PLACE / "seed.npz"
    save_trace(trace, path)
    return [*(pickle.dumps(content, protocol) for protocol in (2, 4)), path.read_bytes()]


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if data.startswith(b"PK") or chance.random() < 0.4:
        return mutate_bytes(chance, data, others)
    try:
        content: Any = read_plain(data)
        for _ in range(chance.randint(1, 3)):
            _change(chance, content)
        return pickle.dumps(content, chance.choice((2, 4)))
    except (ModelError, RecursionError):
        return mutate_bytes(chance, data, others)


def _change(chance: random.Random, content: Any) -> None:
    """Give a value somewhere in a snapshot another one, or move a row of a list."""
    at = content
    for _ in range(8):
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and chance.random() < 0.9:
            at = at[key]
        elif isinstance(at, list) and chance.random() < 0.7:
            at.insert(chance.choice(keys), at.pop(key))
            return
        elif isinstance(at, dict) and chance.random() < 0.1:
            del at[key]
            return
        else:
            given: tuple[Any, ...] = (
                edge(chance),
                chance.choice(INTERESTING),
                chance.choice(_WORDS),
                None,
                [],
                {},
                (0, 1),
                0.5,
            )
            at[key] = chance.choice(given)
            return


_FOLDER = tempfile.TemporaryDirectory(prefix="edgemem-fuzz-trace-")
atexit.register(_FOLDER.cleanup)
_PLACE = Path(_FOLDER.name)

TARGET = Target(_run, _seeds, _mutate)
