"""A thread's run, recorded or replayed by the allocator."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.replay.library import HOST, STATS, Handle, Stats, library
from edgemem.trace import Trace

if TYPE_CHECKING:
    from edgemem.replay.arena import ArenaMemory
    from edgemem.replay.plan import ReplayPlan

__all__ = ["Context"]

MOST_EVENTS: Final = 1 << 20
_OK, _BUSY = 0, -2
_POISON: Final = 1
_EVENT = np.dtype([("size", np.int64), ("request", np.int64), ("time_ns", np.int64), ("thread", np.int64)])


class Context(Handle):
    """Where a thread's run is recorded or replayed, in HOST or DEVICE memory; one run at a time."""

    def __init__(self, kind: int = HOST) -> None:
        self._c = library().c
        super().__init__(self._c.em_context_create(kind), self._c.em_context_destroy, "no context")

    def begin_record(self) -> bool:
        """Record every request of this thread until `end`. False if the thread has an active run already."""
        return int(self._c.em_begin_record(self.pointer, MOST_EVENTS)) == _OK

    def begin_replay(self, plan: ReplayPlan, arena: ArenaMemory, *, poison: bool = False) -> bool:
        """Serve this thread's requests by the plan until `end`. False if the arena or the thread is in use."""
        status = self._c.em_begin_replay(self.pointer, plan.pointer, arena.pointer, _POISON if poison else 0)
        if status not in (_OK, _BUSY):
            raise RuntimeBindError(f"the allocator refuses to replay: {library().error()}")
        return int(status) == _OK

    def end(self) -> Stats:
        """End the run of this thread; its statistics."""
        out = ctypes.create_string_buffer(STATS.size)
        if self._c.em_end(self.pointer, out) != _OK:
            raise RuntimeBindError(f"the run cannot be ended: {library().error()}")
        return Stats(*STATS.unpack(out))

    def trace(self) -> Trace:
        """The last recording."""
        start = ctypes.c_void_p()
        count = self._c.em_events(self.pointer, ctypes.byref(start))
        raw = ctypes.string_at(start.value, count * _EVENT.itemsize) if count and start.value else b""
        events = np.frombuffer(raw, _EVENT)
        return Trace.from_columns(*(events[name] for name in ("size", "request", "time_ns", "thread")))
