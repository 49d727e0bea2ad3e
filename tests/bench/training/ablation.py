"""What each part of spatio-temporal planning saves (STWeaver, §8): memory efficiency of five allocators.

python tests/bench/training/ablation.py [--strategy auto] [NAME ...]

caching    PyTorch's caching allocator, simulated
expandable the same with PyTorch's setting expandable_segments:True, simulated
static     the requests of static sections have places in a plan; dynamic ones go to the fallback
+ dynamic  dynamic ones are served from the Dynamic Reusable Space, what does not fit by the fallback
+ room     and from room above the static ones that is theirs alone (edgemem/trace/dynamic_slots.py)

The last three are edgemem's runtime allocator itself, the one that PyTorch calls on a GPU, on a range of addresses that
nothing lies in: it never touches device memory. Its fallback has the rules of PyTorch's allocator. The plan is made of
the first iterations, and serves those and as many more, whose dynamic sizes are different in each. Efficiency is the
most bytes allocated over the most bytes reserved (§2.2), weights, gradients and optimizer states included; what remains
to 100 % is fragmentation.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.append(str(Path(__file__).resolve().parents[3]))

import numpy as np

from edgemem.planning import make_plans
from edgemem.planning.choice import choices
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.library import DEVICE, library
from edgemem.replay.loop import Loop, LoopCounts
from edgemem.trace.caching import simulate
from edgemem.trace.caching_settings import CachingSettings
from edgemem.trace.cycle import Cycle
from edgemem.trace.dynamic_slots import dynamic_slots
from tests.training_traces.traces import SETUPS, training_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.plans import PlanSet
    from edgemem.trace.slots import Slots
    from edgemem.trace.trace import Trace
    from tests.training_traces.setup import TrainingSetup

ALIGNMENT: Final = 512
GIB: Final = 1 << 30
NAMES: Final = (
    "1f1b",
    "virtual_pipeline",
    "recompute",
    "virtual_pipeline_recompute",
    "tensor_parallel",
    "moe",
    "moe_recompute",
    "moe_virtual_pipeline",
    "moe_virtual_pipeline_recompute",
)

_TAKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)
_GIVE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Addresses:
    """A device whose memory is only addresses: each segment gets new ones."""

    def __init__(self) -> None:
        self._next = 1 << 44
        self._functions = _TAKE(self._take), _GIVE(lambda _: 0)  # kept alive here
        library().c.em_cuda_source(*(ctypes.cast(f, ctypes.c_void_p) for f in self._functions))

    def reserve(self, size: int) -> int:
        """The first of so many addresses."""
        begin = self._next
        self._next += -(-size // (2 << 20)) * (2 << 20) + (2 << 20)
        return begin

    def _take(self, out: Any, size: int) -> int:
        out[0] = self.reserve(size)
        return 0


class AddressArena(ArenaMemory):
    """An arena in addresses alone."""

    def __init__(self, addresses: Addresses, size: int) -> None:
        c = library().c
        self.adopt(c.em_arena_wrap(addresses.reserve(size), size, DEVICE), c.em_arena_release, size)


class _Memory(ctypes.Structure):
    """`em_torch_memory` of the C header."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("used", "used_peak", "reserved", "reserved_peak"))


@dataclass(frozen=True)
class Run:
    """What the runtime allocator did with a whole trace.

    Attributes:
        reserved: bytes of the arena, and the most that the fallback reserved.
        counts: of all requests within iterations.
    """

    reserved: int
    counts: LoopCounts


def allocate(trace: Trace, slots: Slots, addresses: Addresses, device: int) -> Run:
    """Every request and free of a trace through the runtime allocator, inside a plan from the first iteration on."""
    c = library().c
    loop = Loop(device)
    loop.start()
    arena = AddressArena(addresses, slots.size)
    loop.replay(slots, arena)
    blocks: dict[int, int] = {}
    iteration = section = -1
    ends = dict(_iteration_ends(trace))
    columns = (trace.size, trace.request, trace.stream, trace.section, trace.iteration)
    for event, (size, request, stream, where, number) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if number >= 0 and number != iteration:
            loop.begin()
            iteration, section = number, -1
        if where != section:
            loop.enter(where)
            section = where
        pointer = stream or None
        if size:
            blocks[request] = c.em_torch_malloc(size, device, pointer)
            assert blocks[request], f"request {request} of {size} bytes was not served"
        else:
            c.em_torch_free(blocks.pop(request), 0, device, pointer)
        if ends.get(event) == number:
            loop.end()
    counts = loop.stats().total
    memory = _Memory()
    c.em_torch_memory_get(device, ctypes.byref(memory))
    for block in blocks.values():
        c.em_torch_free(block, 0, device, None)
    loop.stop()
    return Run(slots.size + memory.reserved_peak, counts)


def _iteration_ends(trace: Trace) -> Iterator[tuple[int, int]]:
    """The last event of each iteration, and its number."""
    inside = np.flatnonzero(trace.iteration >= 0)
    last = np.flatnonzero(np.diff(trace.iteration[inside], append=-1))
    yield from zip(inside[last].tolist(), trace.iteration[inside[last]].tolist(), strict=True)


def planned(setup: TrainingSetup, strategy: str) -> tuple[Cycle, PlanSet, float]:
    """The steady iteration of a run, its plan, and the seconds that planning took."""
    cycle = Cycle.of(training_trace(setup), by_stream=True)
    problem, _ = cycle.problem(ALIGNMENT)
    begin = time.perf_counter()
    if strategy == "auto":
        return cycle, make_plans(problem, families=("offsets",)), time.perf_counter() - begin
    return cycle, make_plans(problem, choices(f"offsets/{strategy}")), time.perf_counter() - begin


def main() -> None:
    """A line for each setup."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="setups of tests/training_traces/traces.py")
    parser.add_argument("--strategy", default="auto", help="for the static requests")
    given = parser.parse_args()
    addresses = Addresses()
    devices = count()
    shares = ("caching", "expandable", "static", "+ dynamic", "+ room")
    columns = ("setup", "events", "dynamic", "allocated GiB", *shares, "plan / bound", "s", "served")
    print(f"| {' | '.join(columns)} |")
    print("|---|" + "--:|" * (len(columns) - 1))
    for name in given.names or NAMES:
        setup = SETUPS[name]
        trace = training_trace(replace(setup, iterations=2 * setup.iterations))
        if len(np.unique(trace.stream)) > 1:
            sys.exit(f"{name} has several streams: a plan of a device is of one")
        caching = simulate(trace)
        expandable = simulate(trace, CachingSettings.parse("expandable_segments:True"))
        cycle, planset, seconds = planned(setup, given.strategy)
        best = planset.best_offsets
        assert best is not None
        reuse = dynamic_slots(cycle, planset, headroom=-1)
        nothing = np.empty((0, 2), np.int64)
        static = replace(reuse, spaces=tuple(nothing for _ in reuse.spaces))
        runs = [
            allocate(trace, slots, addresses, next(devices) % 32)
            for slots in (static, reuse, dynamic_slots(cycle, planset))
        ]
        efficiency = [
            caching.efficiency,
            expandable.efficiency,
            *(caching.allocated_peak / run.reserved for run in runs),
        ]
        counts = runs[-1].counts
        served = (counts.hits + counts.dynamic_hits) / counts.requests
        print(
            f"| {name} | {len(trace):,} | {int(cycle.is_dynamic.sum()):,} | {caching.allocated_peak / GIB:.2f} | "
            + " | ".join(f"{share:.1%}" for share in efficiency)
            + f" | {best.size / cycle.lower_bound(ALIGNMENT):.4f} | {seconds:.1f} | {served:.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
