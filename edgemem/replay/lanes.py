"""The contexts and arenas of a session: a run takes one of them, and threads that run at once take several."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from edgemem.replay.context import Context
from edgemem.replay.forks import in_children
from edgemem.replay.parts import ArenaParts
from edgemem.replay.turns import Queue, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.replay.arena import Arena, ArenaMemory
    from edgemem.replay.parts import ArenaPart

__all__ = ["Counters", "Lane", "Lanes"]


@dataclass(frozen=True, slots=True)
class Counters:
    """Of a session since it was opened.

    Attributes:
        runs: all.
        replayed: those that a plan served whole.
        bails: those in a plan that did not fit.
        replans: plans made beyond the first of each family.
    """

    runs: int
    replayed: int
    bails: int
    replans: int


@dataclass(slots=True, weakref_slot=True, eq=False)
class Lane:
    """What one run at a time has.

    Attributes:
        context: where it is recorded or replayed.
        memory: its arena, if it ever had one.
        part: the part of an arena that the run in it has, where runs have parts.
        generation: of the plans that the arena was made for.
        counts: runs, runs that were served whole, and runs that were not.
        touched: bytes that runs used at once since the arena had no pages, at most.
        seen, since: `counts[0]` when `look` saw it last, and when it saw another number before, in seconds.
    """

    context: Context
    memory: ArenaMemory | None = None
    part: ArenaPart | None = None
    generation: int = -1
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    touched: int = 0
    seen: int = -1
    since: float = 0.0


class _Turn(Waiter):
    """A run that waits for a lane."""

    __slots__ = ("lane",)

    def __init__(self) -> None:
        super().__init__()
        self.lane: Lane | None = None


class Lanes:
    """Up to `most` lanes; a run that finds none waits for its turn.

    Args:
        kind: of the memory that is planned.
        make: an arena by its size in bytes; with `has_parts=True`, one for parts.
        most: lanes at once.
        shared: the arena of all lanes, or None if each has its own.

    Attributes:
        most: lanes at once; of lanes without an arena there is no limit.
        parts: of arenas, for runs in lanes without one.
    """

    def __init__(self, kind: int, make: Callable[..., ArenaMemory], most: int, shared: Arena | None) -> None:
        self._kind = kind
        self._make = make
        self.parts = ArenaParts(partial(make, has_parts=True))
        self.most = max(most, 1)
        self._shared = shared
        self._idle: list[Lane] = []
        self._counts: list[list[int]] = []
        self._have_parts = False
        self._is_closed = False
        self.start_again()
        in_children(self, Lanes.start_again)

    @property
    def has_waited(self) -> bool:
        """Whether a run ever waited for a lane."""
        return self._queue.has_waited

    def start_again(self) -> None:
        """Begin with the idle lanes alone."""
        self._lock = threading.Lock()
        self._queue: Queue[_Turn] = Queue()
        self._lanes: weakref.WeakSet[Lane] = weakref.WeakSet(self._idle)
        self.parts.start_again()

    def take_idle(self) -> Lane | None:
        """A lane of this run's own, until `give`; None if there is none without waiting."""
        try:
            return self._idle.pop()  # the one used last, whose memory is in the processor's caches
        except IndexError:
            return None

    def take(self) -> Lane:
        """A lane of this run's own, until `give`. A thread that has one waits for ever if there is no other."""
        found = self._found()
        if found is not None:
            return found

        def takes(turn: _Turn) -> bool:
            turn.lane = turn.lane or self._found()
            return turn.lane is not None

        lane = self._queue.enter(_Turn(), takes).lane
        assert lane is not None
        return lane

    def take_bare(self) -> Lane:
        """A lane without an arena, of which there is no limit, until `give`."""
        try:
            lane = self._idle.pop()  # the one used last, whose context is in the processor's caches
        except IndexError:
            with self._lock:
                return self._made()
        self.drop_memory(lane)
        return lane

    def have_parts(self) -> None:
        """Runs have parts of arenas from now on: lanes lose their own."""
        self._have_parts = True
        self.drop_idle_memory()

    def take_part(self, needed: int, limits: Callable[[], tuple[int, int]]) -> Lane:
        """As `take_bare`, with a part of an arena; the arguments and errors are those of `ArenaParts.take`."""
        part = self.parts.take(needed, limits)
        lane = self.take_bare()
        lane.part = part
        return lane

    def give(self, lane: Lane) -> None:
        """Let other runs have it, and its part of an arena."""
        part = lane.part
        if part is not None:
            lane.part = None
            self.parts.give(part)
        self._idle.append(lane)
        if self._have_parts and lane.memory is not None:  # whether they have them since before or since now
            self._each_idle(self.drop_memory)
        if self._queue.waiting or self._is_closed:
            self._given()

    def _given(self) -> None:
        if self._is_closed:
            self.close()
        self._queue.serve()

    def _found(self) -> Lane | None:
        return self.take_idle() or self._new()

    def _new(self) -> Lane | None:
        with self._lock:
            found = self.take_idle()  # one that was looked at meanwhile
            # Once they are closed nobody gives a lane back, and a run may still have waited for one.
            if found is not None or (len(self._lanes) >= self.most and not self._is_closed):
                return found
            return self._made()

    def _made(self) -> Lane:
        lane = Lane(Context(self._kind))
        self._lanes.add(lane)
        self._counts.append(lane.counts)
        return lane

    def new_memory(self, lane: Lane, size: int, generation: int) -> ArenaMemory:
        """An arena of `size` bytes for the lane, in place of the one it had.

        A block that outlived its run keeps the old one, which is freed with the block.
        """
        self.drop_memory(lane)
        lane.memory = self._make(size)
        lane.generation, lane.touched = generation, 0
        return lane.memory

    def drop_memory(self, lane: Lane) -> None:
        """Release the lane's arena."""
        memory, lane.memory = lane.memory, None  # first: nobody runs in one that is closed, wherever this ends
        if memory is not None:
            memory.close()

    def drop_idle_memory(self) -> None:
        """Release the arenas in which nothing runs now."""
        self._each_idle(self.drop_memory)
        self.parts.drop_idle()

    def shrink_idle(self, now: float, idle_s: float) -> bool:
        """Give back what the last runs did not need; whether no lane has run for `idle_s` seconds.

        Called again and again. An arena in which nothing ran for so long is released. One whose pages are more than
        twice what its runs used since the last call has them given back, and takes those that it needs again.

        Args:
            now: seconds of a clock.
            idle_s: seconds.
        """
        busy: list[Lane] = []

        def look(lane: Lane) -> None:
            if lane.counts[0] != lane.seen:
                lane.seen, lane.since = lane.counts[0], now
                used = lane.context.recent_peak()
                if lane.memory is not None and 2 * used < lane.touched:
                    lane.memory.give_pages()
                    lane.touched = 0
                lane.touched = max(lane.touched, used)
            elif now - lane.since >= idle_s:
                self.drop_memory(lane)
                return
            busy.append(lane)

        self._each_idle(look)
        return not busy and len(self._idle) == len(self._lanes)

    def _each_idle(self, call: Callable[[Lane], object]) -> None:
        # A run that finds no lane meanwhile waits for this one, and makes no other. Another thread in here waits, too:
        # the lane that this one holds would be missing for it.
        with self._lock:
            for _ in range(len(self._idle)):
                try:
                    lane = self._idle.pop(0)
                except IndexError:
                    break
                try:
                    call(lane)
                finally:
                    self._idle.append(lane)
        self._given()

    def counters(self, plain_runs: int, replans: int) -> Counters:
        """What has happened so far, with the runs outside the lanes and the plans that were made anew."""
        counts = list(self._counts)
        runs, replayed, bails = (sum(c[k] for c in counts) for k in range(3))
        return Counters(runs + plain_runs, replayed, bails, replans)

    def arena_bytes(self) -> int:
        """Bytes of all arenas that there are now, the shared one included."""
        if self._shared is not None:
            return self._shared.size
        with self._lock:
            lanes = list(self._lanes)
        return self.parts.bytes() + sum(memory.size for lane in lanes if (memory := lane.memory) is not None)

    def close(self) -> None:
        """Release the idle lanes; those in use follow when their runs end."""
        self._is_closed = True
        while (lane := self.take_idle()) is not None:
            self.drop_memory(lane)
            lane.context.close()
        self.parts.close()
