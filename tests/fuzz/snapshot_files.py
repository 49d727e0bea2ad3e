"""Snapshots of PyTorch's memory: values that no allocator notes. A case is the content as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError
from edgemem.trace.caching import simulate
from edgemem.trace.cycle import Cycle
from edgemem_converters.snapshot.histories import histories_of
from tests.fuzz.cases import Target
from tests.fuzz.mutation import INTERESTING, edge, mutate_bytes
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
    if chance.random() < 0.4:
        return mutate_bytes(chance, data, others)
    try:
        content = _content(data)
        for _ in range(chance.randint(1, 3)):
            _change(chance, content)
        return json.dumps(content).encode()
    except (ModelError, RecursionError, TypeError):
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
                [0, 1],
                0.5,
            )
            at[key] = chance.choice(given)
            return


TARGET = Target(_run, _seeds, _mutate)
