"""A program that does the same again and again, on several threads: recorded, then served by a plan.

A loop serves every request that comes through `em_torch_malloc` for one device, whatever thread makes it. Requests that
do not fit into the plan, and places that are still in use, go to the fallback: results are right whatever the program
does. kernels/replay/edgemem_arena.h has the rules.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields
from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.replay.library import Handle, library
from edgemem.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.replay.arena import ArenaMemory
    from edgemem.trace.slots import Slots
    from edgemem.trace.trace import Section

__all__ = ["HOST_MEMORY", "FallbackMemory", "Loop", "LoopCounts", "LoopStats"]

HOST_MEMORY: Final = -1  # the device of host memory
_OK, _NO_MEMORY = 0, -3
_POISON: Final = 1
_EVENT: Final = np.dtype(
    [(name, np.int64) for name in ("size", "request", "time_ns", "thread", "stream", "section", "iteration")]
)


@dataclass(frozen=True, slots=True)
class LoopCounts:
    """What happened to the requests of iterations. Each counts in exactly one of `hits` to `failed`.

    Attributes:
        iterations: that have ended.
        requests: within iterations, except while the loop was paused.
        hits: served by the place of a slot.
        dynamic_hits: served by a place in the space of a dynamic slot.
        misses: no slot fits, or there is no plan.
        occupied: a slot fits, but its places are in use.
        dynamic_misses: the space of the slot has no room.
        unplanned: the plan says that the fallback serves it.
        other_stream: on a device, of a stream that the plan is not of.
        failed: not served, because memory is short.
        missed_bytes: of `misses`, `occupied` and `dynamic_misses`.
        arena_peak: most bytes of this loop's blocks in arenas at once.
        fallback_peak: most bytes of this loop's blocks in the fallback at once.
        unnoted: events that the record had no room for.
    """

    iterations: int
    requests: int
    hits: int
    dynamic_hits: int
    misses: int
    occupied: int
    dynamic_misses: int
    unplanned: int
    other_stream: int
    failed: int
    missed_bytes: int
    arena_peak: int
    fallback_peak: int
    unnoted: int

    def __str__(self) -> str:
        """For people: what there was of each."""
        served = f"{self.hits + self.dynamic_hits:,} of {self.requests:,} requests in the plan"
        others = ("misses", "occupied", "dynamic_misses", "unplanned", "other_stream", "failed", "unnoted")
        return ", ".join([served, *(f"{n:,} {name}" for name in others if (n := getattr(self, name)))])


@dataclass(frozen=True, slots=True)
class LoopStats:
    """Counts of the iteration that ended last, and of all since the loop was started."""

    last: LoopCounts
    total: LoopCounts


@dataclass(frozen=True, slots=True)
class FallbackMemory:
    """What the fallback of a device holds in bytes, without arenas; all 0 for host memory.

    Attributes:
        used: blocks in use, rounded up as the allocator does.
        used_peak: the most there was.
        reserved: taken from the device, in use or kept for later requests.
        reserved_peak: the most there was.
    """

    used: int
    used_peak: int
    reserved: int
    reserved_peak: int


# The C structures are int64 fields in the same order.
_COUNTS: Final = Struct(f"{len(fields(LoopCounts))}q")
_MEMORY: Final = Struct(f"{len(fields(FallbackMemory))}q")


class _Slots(ctypes.Structure):
    """`em_slots` of the C header."""

    _fields_ = (
        ("size", ctypes.c_int64),
        ("alignment", ctypes.c_int64),
        ("slots", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("intervals", ctypes.c_void_p),
        ("intervals_count", ctypes.c_int64),
        ("spaces", ctypes.c_int64),
    )


class Loop(Handle):
    """Records and replays the iterations of one device's memory; one loop of a device is active at a time.

    Args:
        device: number of the device, or HOST_MEMORY.

    Raises:
        MemoryError: the device has no such number, or memory is short.
        RuntimeBindError: there is no compiled allocator.
    """

    def __init__(self, device: int = HOST_MEMORY) -> None:
        self.device = device
        self._c = library().c
        self._enter = library().short.em_loop_enter
        # The one that the loop is in, and those that it was told to go to: their memory must not go away before.
        self._arenas: list[ArenaMemory] = []
        super().__init__(self._c.em_loop_create(device), self._c.em_loop_destroy, f"no loop for device {device}")

    def start(self) -> None:
        """Serve the requests of the device from now on. Raises RuntimeBindError if another loop does."""
        self._check(self._c.em_loop_start(self.pointer))

    def stop(self) -> None:
        """End the iteration, the record and the replay: the fallback serves all from now on. Blocks stay valid."""
        self._c.em_loop_stop(self.pointer)
        self._arenas.clear()

    def record(self, most_events: int) -> None:
        """Drop the last record and note at most `most_events` events from now on, also while a plan is replayed.

        Frees of blocks that were made before are no part of the record. Raises RuntimeBindError if the loop is not
        started.
        """
        self._check(self._c.em_loop_record(self.pointer, most_events))

    def take_events(self, sections: Sequence[Section] = ()) -> Trace:
        """End the record; its trace, whose iterations count from 0.

        `Trace.thread` is the number of the lane: of the thread in host memory, of the stream on a device. It is -1 for
        a thread that has made no request in an iteration yet. Iteration -1 is outside of any, or one that was on when
        the record began.

        Args:
            sections: what the numbers given to `enter` mean, in their order.

        Raises:
            ModelError: a number given to `enter` is not one of `sections`.
        """
        start = ctypes.c_void_p()
        count = self._c.em_loop_events(self.pointer, ctypes.byref(start))
        raw = ctypes.string_at(start.value, count * _EVENT.itemsize) if count and start.value else b""
        self._c.em_loop_events_drop(self.pointer)
        events = np.frombuffer(raw, _EVENT)
        return Trace.from_columns(
            events["size"],
            events["request"],
            events["time_ns"],
            events["thread"] if self.device == HOST_MEMORY else events["stream"],
            stream=events["stream"],
            section=events["section"],
            iteration=events["iteration"],
            sections=sections,
        )

    def replay(self, slots: Slots, arena: ArenaMemory, *, poison: bool = False) -> None:
        """Serve requests by these slots from the next `begin` on, instead of by those before.

        The arena before is left then; blocks in it stay valid. `poison` fills unused host memory with a pattern.

        Raises:
            RuntimeBindError: the arena does not fit the slots, or has blocks that are in use; the loop's own one may
                have.
            MemoryError: memory is short.
        """
        table = np.stack((slots.bytes, slots.offset, slots.other, slots.lane, slots.section, slots.space), axis=1)
        intervals = _intervals(slots)
        plan = _Slots(
            size=slots.size,
            alignment=slots.alignment,
            slots=table.ctypes.data,
            count=len(table),
            intervals=intervals.ctypes.data,
            intervals_count=len(intervals),
            spaces=len(slots.spaces),
        )
        flags = _POISON if poison else 0
        self._check(self._c.em_loop_replay(self.pointer, ctypes.byref(plan), arena.pointer, flags))
        self._arenas.append(arena)

    def begin(self) -> None:
        """An iteration begins; in host memory the calling thread has a lane from now on.

        Raises RuntimeBindError if one is on, or the loop is not started.
        """
        self._check(self._c.em_loop_begin(self.pointer))
        del self._arenas[:-1]

    def end(self) -> None:
        """The iteration ends. Raises RuntimeBindError if none is on."""
        self._check(self._c.em_loop_end(self.pointer))

    def pause(self) -> None:
        """Have the fallback serve requests of all threads, neither matched, noted nor counted, until `resume`.

        Pauses nest. Raises RuntimeBindError if the loop is not started.
        """
        self._check(self._c.em_loop_pause(self.pointer))

    def resume(self) -> None:
        """End a pause. Raises RuntimeBindError if there is none."""
        self._check(self._c.em_loop_resume(self.pointer))

    def enter(self, section: int) -> None:
        """The calling thread is in this section from now on, until the next iteration begins; -1 for none."""
        self._enter(self.pointer, section)

    def synchronized(self) -> None:
        """The program waited for all streams: freed blocks that several streams used may serve requests again."""
        self._c.em_loop_synchronized(self.pointer)

    def stats(self) -> LoopStats:
        """What happened since `start`."""
        last, total = (ctypes.create_string_buffer(_COUNTS.size) for _ in range(2))
        self._c.em_loop_stats_get(self.pointer, last, total)
        return LoopStats(LoopCounts(*_COUNTS.unpack(last)), LoopCounts(*_COUNTS.unpack(total)))

    def empty_cache(self) -> int:
        """Give the memory that the fallback keeps for later requests back to the device or the system; its bytes.

        What was recorded leaves as much there as it needed. So it is to be called before an arena is made.
        """
        return int(self._c.em_torch_empty_cache(self.device))

    def fallback_memory(self) -> FallbackMemory:
        """What the fallback of the device holds."""
        out = ctypes.create_string_buffer(_MEMORY.size)
        self._c.em_torch_memory_get(self.device, out)
        return FallbackMemory(*_MEMORY.unpack(out))

    def _check(self, status: int) -> None:
        if status == _NO_MEMORY:
            raise MemoryError(library().error())
        if status != _OK:
            raise RuntimeBindError(f"the allocator refuses: {library().error()}")


def _intervals(slots: Slots) -> NDArray[np.int64]:
    """The intervals of all spaces with the number of their space, as `em_interval` has them; int64 [m, 3]."""
    rows = [np.column_stack((np.full(len(space), k), space)) for k, space in enumerate(slots.spaces)]
    return np.ascontiguousarray(np.concatenate([np.empty((0, 3), np.int64), *rows]), dtype=np.int64)
