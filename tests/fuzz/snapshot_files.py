"""Snapshots of PyTorch's memory: values that no allocator notes. A case is the content as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError
from edgemem.trace.caching import simulate
from edgemem.trace.cycle import Cycle
from edgemem_converters.snapshot.histories import histories_of
from tests.fuzz.cases import Target
from tests.fuzz.mutation import mutate_json
from tests.snapshots import FRAMES, Device, snapshot

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from edgemem.trace import Trace

__all__ = ["TARGET", "use_trace"]

_MOST = 2000  # events that are simulated
_WORDS = ("alloc", "free_completed", "free_requested", "segment_alloc", "segment_unmap", "oom", "inactive", "", "START")


def _run(data: bytes) -> None:
    for history in histories_of(_content(data)):
        use_trace(history.trace)


def _content(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ModelError("no JSON") from None


def use_trace(trace: Trace) -> None:
    """What `edgemem trace` does with a trace before it plans."""
    if len(trace) > _MOST:
        return
    trace.problem(outlive=True)
    simulate(trace)
    if not (trace.iteration >= 0).any():
        return
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
    return [json.dumps(content).encode()]


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return mutate_json(chance, data, others, _WORDS)


TARGET = Target(_run, _seeds, _mutate)
