"""Runs inside recorded plans: which plan serves a run, and when a run is recorded.

The first run of a family is recorded and planned; later ones are replayed. A request that does not fit into the plan is
served by the heap, so results are right in any run; such runs are recorded, too, and the next plan has room for them.
Planning, its proof and the cache have a thread of their own: until a plan is ready, runs go on with the one before, or
without one.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.call import Call
from edgemem.replay.context import POISON, RECORD, is_inside_run
from edgemem.replay.forks import in_children
from edgemem.replay.lanes import Lanes
from edgemem.replay.learner import Learner
from edgemem.replay.library import HOST, Stats, library
from edgemem.replay.parts import UNITS
from edgemem.replay.policy import ReplayPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from edgemem.plans import PlanSet
    from edgemem.replay.arena import Arena
    from edgemem.replay.families import Family
    from edgemem.replay.lanes import Counters, Lane
    from edgemem.replay.ready_plans import ReadyPlan
    from edgemem.replay.store import StoredPlans
    from edgemem.trace.recording import Recording, Signature

__all__ = ["Replayer"]

_Result = TypeVar("_Result")


class Replayer:
    """All plans and arenas of one session.

    Args:
        plans: stored ones, and where new ones go.
        first: makes the first plan of a recording, quickly.
        better: makes a plan that may take longer, where the first one is above its lower bound.
        policy: which runs are recorded, and how they are planned.
        silent: the reason to give if a run made no request to the allocator.
        shared: the arena that the session shares with others, or None for its own.
        kind: of memory that is planned.
        make: an arena of the session's own, by its size; of host memory, with `has_parts=True` one for parts.
    """

    def __init__(
        self,
        plans: StoredPlans,
        *,
        first: Callable[[Recording], PlanSet],
        better: Callable[[Recording], PlanSet],
        policy: ReplayPolicy | None = None,
        silent: str = "nothing asked the allocator",
        shared: Arena | None = None,
        kind: int = HOST,
        make: Callable[..., ArenaMemory] = ArenaMemory,
    ) -> None:
        self.policy = policy or ReplayPolicy()
        self.current: Family | None = None
        # Runs in a shared arena wait for it alone: one that waited for a lane, too, could hold what another waits for.
        most = sys.maxsize if shared is not None else self.policy.most_arenas or os.cpu_count() or 1
        self._lanes = Lanes(kind, make, most, shared)
        self._learner = Learner(plans, first=first, better=better, silent=silent, given_up=self._lanes.drop_idle_memory)
        self._shared = shared
        self._kind = kind
        self._flags = POISON if self.policy.poison else 0
        self._last: bytes = b""
        self._complete: bytes = b""
        self._plain_runs = 0
        self._is_direct = shared is None  # the usual way of a run, in few steps
        self._learning = 0
        in_children(self, type(self).start_again)

    def family(self, signature: Signature) -> Family:
        """The family of runs that are called like this. Raises InvalidPlanError if a plan in the file is refused."""
        return self._learner.family(signature)

    def run(
        self, family: Family, described: Callable[[], Signature], call: Callable[..., _Result], *arguments: object
    ) -> _Result:
        """`call(*arguments)`, with this thread's requests recorded or replayed. Raises what the call raises.

        `described` tells the signature with the shapes of this run; it is called only where they matter.
        """
        generation = self._learner.generation
        served = family.only if self._is_direct else self._settled(family, described)
        if served is None:
            return self._decide(Call(family, generation, described, call, arguments))
        # The usual case, in few steps: they are all that a run costs.
        self.current = family
        lane = self._lanes.take_idle() if self._is_direct else self._lane(served)
        if lane is None:
            return self._replayed(Call(family, generation, described, call, arguments), served)
        try:
            context, memory, part = lane.context, lane.memory, lane.part
            if part is not None:
                memory = part.memory
            elif lane.generation != generation:
                memory = None
            is_ready = (
                memory is not None
                and memory.size >= served.ready.size
                and context.begin_replay(served.ready, memory, self._flags)
            )
            if is_ready:
                result = call(*arguments)
                is_whole = context.end()
        except BaseException:
            lane.context.end_if_active()
            self._lanes.give(lane)
            self._learner.leave_pool(family, generation)
            raise
        if not is_ready:
            self._lanes.give(lane)
            return self._replayed(Call(family, generation, described, call, arguments), served)
        self._count(lane, is_whole)
        if not is_whole:
            self._deviated(Call(family, generation, described, call, arguments), lane, served)
        self._lanes.give(lane)
        if not is_whole:
            self._learner.leave_pool(family, generation)
        return result

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Meanwhile every run is recorded, and planned before it returns, whatever the policy is."""
        with self._learner.lock:
            self._learning += 1
            self._is_direct = False
        try:
            yield
        finally:
            with self._learner.lock:
                self._learning -= 1
                self._is_direct = self._shared is None and not self._learning
            library().trim()

    def start_again(self) -> None:
        """After a fork, in the child: locks may have been held by threads that are not there."""
        self._learner.start_again()

    def totals(self) -> Counters:
        """What has happened so far."""
        return self._lanes.counters(self._plain_runs, self._learner.replans)

    def last(self) -> tuple[Stats | None, Stats | None]:
        """Of the last run, and of the last run that was served whole."""
        return (
            Stats.from_raw(self._last) if self._last else None,
            Stats.from_raw(self._complete) if self._complete else None,
        )

    def arena_bytes(self) -> int:
        """Bytes of all arenas that the session has now, the shared one included."""
        return self._lanes.arena_bytes()

    def trim(self) -> None:
        """Give back what no run uses now: arenas, the free pages of the pool, and what the C library keeps."""
        self._lanes.drop_idle_memory()
        library().trim()

    def shrink_idle(self, now: float, idle_s: float) -> bool:
        """As `Lanes.shrink_idle`."""
        return self._lanes.shrink_idle(now, idle_s)

    def close(self) -> None:
        """Release every arena and plan; what is in use follows when its run ends."""
        self._learner.close()
        self._lanes.close()
        library().trim()

    def _learnt(self, run: Call[_Result]) -> _Result:
        family, signature = run.family, run.described()
        # A user who holds the shared arena may run, too: it is the first that is taken, always.
        with nullcontext() if self._shared is None else self._shared.lock, family.gate:
            with self._learner.lock:
                self.current = family
                served = None if family.is_plain else family.choose(signature.inputs)
            if family.is_plain:
                return run()
            result, is_whole, events = self._executed(run, served, RECORD)
            if events is not None and not is_whole and not family.is_plain:
                family.is_pending = True
                self._learner.plan(family, events, signature, is_asked=True)
        return result

    def _settled(self, family: Family, described: Callable[[], Signature]) -> ReadyPlan | None:
        """The plan of a run that has a part of an arena, if there is nothing to decide."""
        if self._learning or self._shared is not None or self._learner.is_closed or not family.is_settled:
            return None
        if is_inside_run(self._kind, _RUNS):  # the other run may have what this one would wait for
            return None
        return family.only or family.small_for(described().inputs) or family.whole

    def _decide(self, run: Call[_Result]) -> _Result:
        """A run of a family that has no plan, has several, or may get another one."""
        if self._learning:
            return self._learnt(run)
        if self._is_direct and self._learner.has_smaller:
            self._is_direct = False
            self._lanes.have_parts()
        family = run.family
        claims = False
        try:
            # Without a background, a run that is recorded and planned comes first.
            is_gated = not self.policy.background
            with (
                self._shared.lock if is_gated and self._shared is not None else nullcontext(),
                family.gate if is_gated else nullcontext(),
            ):
                shapes = run.described().inputs if family.mode == "replay" else None
                with self._learner.lock:
                    self._learner.check_open()
                    self.current = family
                    served = None if family.is_plain else family.choose(shapes)
                    may_record = self.policy.record == "first-run" and family.may_learn
                    is_sample = shapes is not None and family.is_sample(shapes)
                    claims = may_record and (served is None or family.learning > 0 or is_sample)
                    family.is_pending |= claims  # other runs of the family do not record meanwhile
                    self._plain_runs += served is None and not claims
                if claims:
                    return self._recorded(run, served)
        except BaseException:
            if claims:
                family.is_pending = False
            raise
        if served is not None:
            return self._replayed(run, served)
        try:
            return run()
        finally:
            self._learner.leave_pool(family, run.generation)

    def _replayed(self, run: Call[_Result], served: ReadyPlan) -> _Result:
        result, is_whole, events = self._executed(run, served, 0)
        if is_whole and events is not None and run.family.is_undecided:
            with self._learner.lock:
                run.family.fits(run.described().inputs, served)
        if self._lanes.has_waited:
            self._want_smaller(run.family, run.described)
        return result

    def _want_smaller(self, family: Family, described: Callable[[], Signature]) -> None:
        """Runs wait for one another: the next small one is recorded, if it may be."""
        if self._kind == HOST and self.policy.record == "first-run":
            self._learner.want_smaller(family, self._last, described)

    def _recorded(self, run: Call[_Result], served: ReadyPlan | None) -> _Result:
        family, signature = run.family, run.described()
        is_planned = False
        try:
            result, is_whole, events = self._executed(run, served, RECORD)
            plan: Callable[..., None] | None = partial(self._learner.plan, is_hurried=self.policy.background)
            if is_whole and served is not None:
                with self._learner.lock:
                    family.fits(signature.inputs, served)
                    plan = self._learner.plan_smaller if family.is_sample(signature.inputs) else None
            if plan is not None and events is not None:
                is_planned = True
                if self.policy.background:
                    self._learner.plan_later(family, partial(plan, family, events, signature))
                else:
                    plan(family, events, signature)
        finally:
            if not is_planned:
                family.is_pending = False
        return result

    def _executed(self, run: Call[_Result], served: ReadyPlan | None, flags: int) -> tuple[_Result, bool, bytes | None]:
        """A run in a lane: its result, whether the plan served it whole, and its events if `flags` has RECORD.

        The events are None if there was no run: it was inside another one of this thread.
        """
        if is_inside_run(self._kind, _RUNS):  # before it waits for a lane, which may be the one that the other run has
            return run(), False, None
        is_whole = False
        lane = self._lane(served)
        try:
            with nullcontext() if self._shared is None or served is None else self._shared.lock:
                result, is_whole, events = self._in_lane(run, served, flags, lane)
            return result, is_whole, events
        finally:
            lane.context.end_if_active()
            self._lanes.give(lane)
            if not is_whole:
                self._learner.leave_pool(run.family, run.generation)

    def _in_lane(
        self, run: Call[_Result], served: ReadyPlan | None, flags: int, lane: Lane
    ) -> tuple[_Result, bool, bytes | None]:
        context = lane.context
        if served is None:
            begun = context.begin_record()
        else:
            memory = self._memory(run.family, served, lane)
            begun = memory is not None and self._begun(lane, served, memory, flags)
        if not begun:
            lane.counts[0] += 1
            return run(), False, None
        result = run()
        is_whole = context.end() and served is not None
        self._count(lane, is_whole)
        if not is_whole and served is not None:
            self._deviated(run, lane, served)
        if not flags & RECORD:
            return result, is_whole, b""
        if context.stats().failed:
            self._learner.give_up(run.family, "the run made more requests than can be recorded")
            return result, is_whole, None
        return result, is_whole, context.take_events()

    def _count(self, lane: Lane, is_whole: bool) -> None:
        self._last = lane.context.raw_stats()
        lane.counts[0] += 1
        if is_whole:
            self._complete = self._last
            lane.counts[1] += 1

    def _begun(self, lane: Lane, served: ReadyPlan, memory: ArenaMemory, flags: int) -> bool:
        """Begin a replay; False where that is impossible, as inside another run of this thread."""
        flags |= self._flags
        if lane.context.begin_replay(served.ready, memory, flags):
            return True
        if self._shared is None and lane.part is None and memory.left:  # a block that outlived its run
            memory = self._lanes.new_memory(lane, memory.size, self._learner.generation)
            return lane.context.begin_replay(served.ready, memory, flags)
        return False

    def _memory(self, family: Family, served: ReadyPlan, lane: Lane) -> ArenaMemory | None:
        """The arena for a run; None, and the plan is forgotten, if it takes more memory than there is.

        Raises RuntimeBindError for a plan in the model file, and for a shared arena that is closed or too small.
        """
        try:
            if self._shared is not None:
                return self._shared.take(served.ready.size)
            if lane.part is not None:
                return lane.part.memory
            size, generation = served.ready.size, self._learner.generation
            if lane.memory is None or lane.memory.size < size or lane.generation != generation:
                return self._lanes.new_memory(lane, max(self._learner.arena_size, size), generation)
            return lane.memory
        except (MemoryError, RuntimeBindError) as error:
            if not self._learner.does_without(family, served, error):
                raise
            return None

    def _lane(self, served: ReadyPlan | None) -> Lane:
        """A lane for a run, with a part of an arena, once runs have parts of one."""
        if not self._learner.has_smaller or self._shared is not None:
            return self._lanes.take()
        if served is not None and served.ready.size <= self._learner.arena_size:
            with suppress(MemoryError):  # which the lane will find again
                return self._lanes.take_part(served.ready.size, self._sliced)
        return self._lanes.take_bare()

    def _sliced(self) -> tuple[int, int]:
        """The bytes of an arena of which runs have parts, and how many units of them there may be."""
        return self._learner.arena_size, self._lanes.most * UNITS

    def _deviated(self, run: Call[_Result], lane: Lane, served: ReadyPlan) -> None:
        """A run did not fit into its plan."""
        lane.counts[2] += 1
        family = run.family
        if family.smaller and self._learner.narrow(family, served, run.described().inputs):
            return
        stats = lane.context.stats()
        self._learner.deviates(
            family,
            f"the plan did not serve the whole run: {stats.misses} of {stats.requests} requests were served by the "
            f"heap, the first after {stats.bail} events",
            is_useless=2 * stats.hits < stats.requests,
            records=self.policy.record == "first-run",
        )
        if family.is_plain and self._shared is None:
            self._lanes.drop_memory(lane)
            self._lanes.drop_idle_memory()


_RUNS: Final = (Replayer.run.__code__, Replayer._in_lane.__code__)  # noqa: SLF001
