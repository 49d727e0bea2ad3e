"""Runs inside recorded plans: which plan serves a run, when a run is recorded, and when planning stops.

The first run of a signature is recorded and planned; later ones are replayed. A run that deviates from its plan
continues on the heap, with right results, and the next run is recorded again (Sekiyama et al. 2018, §4.3). A signature
whose requests differ from run to run runs without a plan after a number of attempts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from edgemem.errors import InvalidPlanError, RuntimeBindError
from edgemem.proof import prove
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.context import Context
from edgemem.replay.library import HOST
from edgemem.replay.plan import replay_plan
from edgemem.replay.store import FoundPlan
from edgemem.trace.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.plans import PlanSet
    from edgemem.replay.arena import Arena
    from edgemem.replay.library import Stats
    from edgemem.replay.plan import ReplayPlan
    from edgemem.replay.store import StoredPlans
    from edgemem.trace.recording import Fingerprint, Signature

__all__ = ["Counters", "Mode", "Replayer", "Slot"]

Mode: TypeAlias = Literal["record", "replay", "plain"]
_Result = TypeVar("_Result")

# A signature is planned anew this often, and after that may deviate this often in a row before it runs plainly.
MOST_REPLANS = 4


@dataclass(slots=True)
class Counters:
    """Of a session since it was opened."""

    runs: int = 0
    replayed: int = 0
    bails: int = 0
    replans: int = 0


@dataclass(slots=True)
class Slot:
    """What is known about one signature. Changed under the replayer's lock only."""

    fingerprint: Fingerprint
    found: FoundPlan | None = None
    ready: ReplayPlan | None = None
    mode: Mode = "record"
    reason: str = ""
    plans_made: int = 0
    bails_in_a_row: int = 0
    last: Stats | None = None
    complete: Stats | None = None  # of the last run that went as planned

    def use(self, found: FoundPlan) -> None:
        """Replay this plan from now on. Raises InvalidPlanError if the allocator refuses it."""
        self.ready = replay_plan(found.proved)
        self.found, self.mode = found, "replay"


@dataclass(slots=True)
class _Lane:
    """The context and memory of one run; threads take a free one for each run."""

    context: Context
    memory: ArenaMemory | None = None


@dataclass(slots=True)
class Replayer:
    """All plans and arenas of one session.

    Attributes:
        plans: stored ones, and where new ones go.
        plan: makes the proved plan set of a recording.
        silent: the reason to give if a run made no request to the allocator.
        shared: the arena that the session shares with others, or None for its own.
        poison: fill the arena with a pattern before each run, and what is freed.
        kind: of memory that is planned.
        make: an arena of the session's own, by its size.
        limit: plans kept, the least recently used one goes first.
    """

    plans: StoredPlans
    plan: Callable[[Recording], PlanSet]
    silent: str = "nothing asked the allocator"
    shared: Arena | None = None
    poison: bool = False
    kind: int = HOST
    make: Callable[[int], ArenaMemory] = ArenaMemory
    limit: int = 8
    counters: Counters = field(default_factory=Counters)
    current: Slot | None = None
    _slots: OrderedDict[Signature, Slot] = field(default_factory=OrderedDict)
    _idle: list[_Lane] = field(default_factory=list)
    _arena_bytes: int = 0
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, signature: Signature, call: Callable[[], _Result]) -> _Result:
        """Call, with this thread's requests recorded or replayed. Raises what the call raises."""
        with self._lock:
            if self._closed:
                raise RuntimeBindError("the session is closed; open a new one")
            slot = self._slot(signature)
            self.current = slot
            self.counters.runs += 1
            mode, ready = slot.mode, slot.ready
            lane = self._idle.pop() if self._idle else None
        if mode == "plain":
            if lane is not None:
                self._back(lane)
            return call()
        lane = lane or _Lane(Context(self.kind))
        try:
            if mode == "replay":
                assert ready is not None
                return self._replay(slot, ready, lane, call)
            return self._record(slot, lane, call)
        finally:
            self._back(lane)

    def arena_bytes(self) -> int:
        """Bytes of all arenas that the session has now, the shared one included."""
        return self.shared.size if self.shared is not None else self._arena_bytes

    def close(self) -> None:
        """Release every arena and plan; what is in use follows when its run ends."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._slots.clear()
        for lane in idle:
            self._discard(lane)

    def _slot(self, signature: Signature) -> Slot:
        slot = self._slots.get(signature)
        if slot is None:
            slot = Slot(self.plans.fingerprint(signature), reason=self.plans.why_not_embedded(signature))
            stored = self.plans.find(signature)
            if stored is not None:
                try:
                    slot.use(stored)
                except InvalidPlanError:
                    if stored.source != "cache":
                        raise
            self._slots[signature] = slot
            while len(self._slots) > max(self.limit, 1):
                self._slots.popitem(last=False)
        self._slots.move_to_end(signature)
        return slot

    def _record(self, slot: Slot, lane: _Lane, call: Callable[[], _Result]) -> _Result:
        if not lane.context.begin_record():
            return call()  # inside another run of this thread, which has these requests in its recording
        try:
            result = call()
        except BaseException:
            lane.context.end()
            raise
        stats = lane.context.end()
        trace = lane.context.trace() if not stats.failed else None
        with self._lock:
            slot.last = stats
            if slot.mode != "record":
                return result  # another thread was first
            if trace is None or not len(trace):
                slot.mode = "plain"
                slot.reason = "the run made more requests than can be recorded" if trace is None else self.silent
                return result
            # Planned under the lock: it is quick, and two threads would only do the same twice.
            planset = self.plan(Recording(slot.fingerprint, trace))
            slot.use(FoundPlan(prove(planset), "made now"))
            slot.plans_made += 1
            self.counters.replans += slot.plans_made > 1
        self.plans.keep(planset)
        return result

    def _replay(self, slot: Slot, ready: ReplayPlan, lane: _Lane, call: Callable[[], _Result]) -> _Result:
        try:
            memory = self.shared.acquire(ready.size) if self.shared is not None else self._memory(lane, ready.size)
        except (MemoryError, RuntimeBindError) as e:
            self._forget(slot, ready, e)
            return self._record(slot, lane, call)
        try:
            if not lane.context.begin_replay(ready, memory, poison=self.poison):
                return call()
            try:
                result = call()
            except BaseException:
                lane.context.end()
                raise
            stats = lane.context.end()
        finally:
            if self.shared is not None:
                self.shared.release()
        with self._lock:
            slot.last = stats
            if stats.bail < 0:
                slot.complete = stats
                slot.bails_in_a_row = 0
                self.counters.replayed += 1
            else:
                self._deviated(slot, ready, stats)
        return result

    def _forget(self, slot: Slot, ready: ReplayPlan, error: MemoryError | RuntimeBindError) -> None:
        """There is no arena for a plan: one from the cache may be another's, so it is forgotten and the run recorded.

        Raises the error for a plan that was made now, and RuntimeBindError for one that is in the model file.
        """
        with self._lock:
            if slot.ready is not ready:
                return  # it was planned anew meanwhile
            source = slot.found.source if slot.found is not None else "made now"
            if source == "cache":
                slot.found = slot.ready = None
                slot.mode = "record"
            elif source == "file" and isinstance(error, MemoryError):
                raise RuntimeBindError(
                    f"there is no memory for the plan in the model file, which takes {ready.size:,} bytes; record it "
                    "again, or open the session with stored=False"
                ) from None
            else:
                raise error

    def _deviated(self, slot: Slot, ready: ReplayPlan, stats: Stats) -> None:
        self.counters.bails += 1
        if slot.ready is not ready:
            return  # it was planned anew meanwhile
        slot.bails_in_a_row += 1
        slot.reason = f"the run was not as recorded from event {stats.bail} of {ready.events} on"
        if slot.plans_made <= MOST_REPLANS:
            slot.mode = "record"
        elif slot.bails_in_a_row > MOST_REPLANS:
            slot.mode = "plain"
            slot.reason = f"the requests differ from run to run: {slot.plans_made} plans did not hold"

    def _memory(self, lane: _Lane, size: int) -> ArenaMemory:
        if lane.memory is None or lane.memory.size < size or lane.memory.left:
            # A block that outlived its run keeps the old memory; it is freed with the block.
            self._drop(lane)
            lane.memory = self.make(size)
            with self._lock:
                self._arena_bytes += size
        return lane.memory

    def _drop(self, lane: _Lane) -> None:
        if lane.memory is not None:
            with self._lock:
                self._arena_bytes -= lane.memory.size
            lane.memory.close()
            lane.memory = None

    def _discard(self, lane: _Lane) -> None:
        self._drop(lane)
        lane.context.close()

    def _back(self, lane: _Lane) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(lane)
                return
        self._discard(lane)
