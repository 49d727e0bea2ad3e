"""A thread's run, recorded or replayed by the allocator."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.replay.library import HOST, STATS, Handle, Stats, library
from edgemem.replay.stack import is_on
from edgemem.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import CodeType

    from edgemem.replay.arena import ArenaMemory
    from edgemem.replay.plan import ReplayPlan

__all__ = ["POISON", "RECORD", "Context", "is_inside_run", "trace_of"]

MOST_EVENTS: Final = 1 << 20
POISON: Final = 1  # fill unused arena memory with a pattern
RECORD: Final = 2  # record the run while it is replayed
_OK, _BUSY, _NO_MEMORY = 0, -2, -3
_BAIL: Final = 3  # the place of `bail` among the fields of Stats
_EVENT: Final = np.dtype([("size", np.int64), ("request", np.int64), ("time_ns", np.int64), ("thread", np.int64)])


class Context(Handle):
    """Where a thread's run is recorded or replayed, in HOST or DEVICE memory; one run at a time.

    One that is dropped within a run, because an exception came between two instructions, ends the run.
    """

    def __init__(self, kind: int = HOST) -> None:
        c = library().c
        self._c = c
        short = library().short
        self._begin, self._end = short.em_begin_replay, short.em_end
        self._out = (ctypes.c_int64 * (STATS.size // 8))()
        super().__init__(c.em_context_create(kind), c.em_context_abandon, "no context")
        _BY_POINTER[self.pointer] = self

    def begin_record(self) -> bool:
        """Record every request of this thread until `end`. False if the thread has an active run already."""
        return bool(self._c.em_begin_record(self.pointer, MOST_EVENTS) == _OK)

    def begin_replay(self, plan: ReplayPlan, arena: ArenaMemory, flags: int = 0) -> bool:
        """Serve this thread's requests by the plan until `end`. False if the arena or the thread is in use.

        `flags` are POISON and RECORD. Raises RuntimeBindError if the plan and the arena do not belong together,
        MemoryError if memory is short.
        """
        status = self._begin(self.pointer, plan.pointer, arena.pointer, flags)
        if status == _OK:
            return True
        if status == _NO_MEMORY:
            raise MemoryError(library().error())
        if status != _BUSY:
            raise RuntimeBindError(f"the allocator refuses to replay: {library().error()}")
        return False

    def end(self) -> bool:
        """End the run of this thread. False if a request of a replay did not fit into its plan.

        Raises RuntimeBindError if this thread has no run of this context.
        """
        if self._end(self.pointer, self._out) != _OK:
            raise RuntimeBindError(f"the run cannot be ended: {library().error()}")
        return self._out[_BAIL] < 0

    def end_if_active(self) -> None:
        """End the run of this thread if it has one of this context."""
        self._end(self.pointer, None)

    def raw_stats(self) -> bytes:
        """The statistics of the last run as `Stats.from_raw` reads them."""
        return bytes(self._out)

    def stats(self) -> Stats:
        """The statistics of the last run."""
        return Stats.from_raw(bytes(self._out))

    def recent_peak(self) -> int:
        """The most bytes that were alive at once in a run that has ended since the last call."""
        return int(self._c.em_recent_peak(self.pointer))

    def take_events(self) -> bytes:
        """The record of the last run as `trace_of` reads it; the context forgets it."""
        start = ctypes.c_void_p()
        count = self._c.em_events(self.pointer, ctypes.byref(start))
        raw = ctypes.string_at(start.value, count * _EVENT.itemsize) if count and start.value else b""
        self._c.em_events_drop(self.pointer)
        return raw


_BY_POINTER: weakref.WeakValueDictionary[int, Context] = weakref.WeakValueDictionary()


def is_inside_run(kind: int, codes: Collection[CodeType]) -> bool:
    """Whether a run is on in this thread, further down its stack, in a function with one of these codes.

    The function has the run's context in its variable `lane`. An exception between two instructions, such as one from a
    signal's handler, can leave a run behind in which nothing runs any more. It is ended.
    """
    active = _BY_POINTER.get(library().short.em_active(kind) or 0)  # if it is one of Python's and still exists
    if active is None:
        return False
    if is_on(codes, lambda names: (lane := names.get("lane")) is not None and lane.context is active):
        return True
    active.end_if_active()
    return False


def trace_of(events: bytes) -> Trace:
    """A trace from what `Context.take_events` gave."""
    columns = np.frombuffer(events, _EVENT)
    return Trace.from_columns(*(columns[name] for name in ("size", "request", "time_ns", "thread")))
