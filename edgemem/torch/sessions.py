"""Training inside a plan: iterations, interruptions, and new plans where a program has changed."""

from __future__ import annotations

import os
import threading
from contextlib import ContextDecorator, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import RuntimeBindError
from edgemem.plans import Settings
from edgemem.replay.library import library
from edgemem.replay.logger import logger
from edgemem.replay.loop import Loop
from edgemem.torch.devices import alignment_of, backend
from edgemem.torch.replanner import Replanner
from edgemem.torch.sections import SECTIONS

if TYPE_CHECKING:
    from types import TracebackType

    from edgemem.planning.cycle_plan import CyclePlan
    from edgemem.replay.arena import ArenaMemory
    from edgemem.replay.loop import FallbackMemory, LoopCounts
    from edgemem.trace import Trace

__all__ = ["MOST_EVENTS", "Session", "SessionStats"]

MOST_EVENTS: Final = 1 << 20  # of a record, which takes 56 MiB then


@dataclass(frozen=True, slots=True)
class SessionStats:
    """What a session did.

    Attributes:
        iterations: that were begun.
        replans: new plans that were made.
        arena: bytes of the arena in use; 0 without a plan.
        lower_bound: bytes that no arena for the iteration's static requests can go below; 0 without a plan.
        room: bytes of the arena for dynamic requests.
        last: counts of the last iteration.
        total: counts of all iterations.
        fallback: bytes that the fallback holds beside the arena; all 0 on the CPU, where a pool of the whole
            process is the fallback.
    """

    iterations: int
    replans: int
    arena: int
    lower_bound: int
    room: int
    last: LoopCounts
    total: LoopCounts
    fallback: FallbackMemory

    def __str__(self) -> str:
        """For people: the session and its arena, the last iteration, and all of them."""
        static = self.arena - self.room
        above = f" ({static / self.lower_bound:.4f} of the lower bound)" if self.lower_bound else ""
        if self.room:
            above = f", {self.room:,} for dynamic requests, {static:,} for others{above}"
        return (
            f"{self.iterations:,} iterations, {self.replans:,} new plans, arena of {self.arena:,} bytes{above}\n"
            f"last iteration: {self.last}\nall iterations: {self.total}"
        )


class Session:
    """A training loop inside a plan. There is one at a time on a device.

        with plan.session() as session:
            for batch in batches:
                with session.iteration():
                    step(batch)
                with session.paused():
                    evaluate()

    What the program does inside an iteration is free: a request that does not come as planned, or whose place is in
    use, is served from elsewhere, and results are those of PyTorch. Tensors may outlive the session.

    Args:
        plan: the plan to begin with; without one the session records and makes its own.
        device: "cpu" or "cuda".
        settings: for new plans; by default those of the plan.
        replans: new plans at most; 0 keeps the one it has.
        poison: fill memory of the arena that is not in use with a pattern.
    """

    def __init__(
        self,
        plan: CyclePlan | None = None,
        *,
        device: str = "cpu",
        settings: Settings | None = None,
        replans: int = 16,
        poison: bool = False,
    ) -> None:
        self._backend = backend(device)
        self._settings = settings or (plan.plansets[0].settings if plan else Settings(alignment=alignment_of(device)))
        self._replans = replans
        self._poison = poison
        self._first = plan
        self._plan: CyclePlan | None = None
        self._loop: Loop | None = None
        self._arena: ArenaMemory | None = None
        self._replanner: Replanner | None = None
        self._stats: SessionStats | None = None
        self._is_inside = False
        self._is_plan_new = False  # no iteration has ended since it came
        self._pauses = 0
        self._iterations = 0
        self._thread = 0  # the one that began the session

    def __repr__(self) -> str:
        state = "open" if self._loop is not None else "not open"
        return f"<Session on {self._backend.name}, {state}, {self._iterations:,} iterations: {self._plan or 'no plan'}>"

    @property
    def plan(self) -> CyclePlan | None:
        """The plan in use; None while there is none."""
        return self._plan

    @property
    def stats(self) -> SessionStats:
        """Counts so far; after the session those of all of it. Raises RuntimeBindError before it has begun."""
        if self._loop is None:
            if self._stats is None:
                raise RuntimeBindError("the session has not begun; use it in a `with` statement")
            return self._stats
        counts = self._loop.stats()
        return SessionStats(
            iterations=self._iterations,
            replans=self._replanner.made if self._replanner else 0,
            arena=self._plan.size if self._plan else 0,
            lower_bound=self._plan.lower_bound if self._plan else 0,
            room=self._plan.room if self._plan else 0,
            last=counts.last,
            total=counts.total,
            fallback=self._loop.fallback_memory(),
        )

    def iteration(self) -> _Iteration:
        """One iteration, in a `with` statement or as a decorator of a function that is one.

        An exception in it leaves the session as it is: the next one follows. Raises RuntimeBindError outside the
        session, inside another iteration, and on another thread than that which began the session: the plan is of
        what its own thread asks for.
        """
        return _Iteration(self)

    def paused(self) -> _Pause:
        """A part of the program that the plan knows nothing of: it takes no place of the arena.

        In a `with` statement or as a decorator of a function. It may stand inside or between iterations, on the thread
        that runs them. Raises RuntimeBindError outside the session.
        """
        return _Pause(self)

    def __enter__(self) -> Session:  # noqa: PYI034 - subclassing is not meant
        with _opening:
            if self._backend.name in _open:
                raise RuntimeBindError(f"a session is open on {self._backend.name} already; end it first")
            if self._loop is not None:
                raise RuntimeBindError("the session has begun already; make another one")
            loop = Loop(self._backend.number)
            self._backend.prepare()
            loop.start()
            self._loop = loop
            _open[self._backend.name] = self
        try:
            self._stats, self._iterations, self._pauses = None, 0, 0
            self._thread = threading.get_ident()
            self._replanner = Replanner(
                self._first,
                self._settings,
                most=self._replans,
                one_stream=self._backend.number >= 0,
                record=self.record,
                take=self.take_record,
            )
            if self._first is not None:
                self._use(self._first)
            SECTIONS.follow(loop)
            self._backend.install()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def record(self) -> None:
        """Note what is asked for from now on, also while the plan is replayed."""
        self._running().record(MOST_EVENTS)

    def take_record(self) -> Trace:
        """What was noted since `record`, which ends. Raises RuntimeBindError outside the session."""
        return self._running().take_events(SECTIONS.all)

    def _running(self) -> Loop:
        if self._loop is None:
            raise RuntimeBindError("the session is not open; use it in a `with` statement")
        return self._loop

    def _use(self, plan: CyclePlan) -> None:
        """Replay this plan from the next iteration on. Raises MemoryError if there is no memory for its arena."""
        arena = self._backend.arena(plan.size)
        # The plan may come from another process, such as one that planned for all ranks.
        slots = replace(plan.slots, section=SECTIONS.numbers(plan.cycles[0].sections)[plan.slots.section])
        self._running().replay(slots, arena, poison=self._poison)
        self._plan, self._arena, self._is_plan_new = plan, arena, True

    def _begin_iteration(self) -> None:
        loop = self._running()
        if threading.get_ident() != self._thread:
            raise RuntimeBindError(
                "an iteration runs on the thread that began the session; begin the session on this thread"
            )
        if self._is_inside:
            raise RuntimeBindError("an iteration is on already; end it first")
        if self._pauses:
            raise RuntimeBindError("the session is paused; begin the iteration outside of `paused`")
        SECTIONS.begin_iteration()
        loop.begin()
        self._is_inside = True
        self._iterations += 1

    def _end_iteration(self) -> None:
        """Also after an exception, and after a session that was ended in the iteration."""
        self._is_inside = False
        if self._loop is None:
            return
        with suppress(RuntimeBindError):  # an interrupt may have come before it began
            self._loop.end()
        SECTIONS.begin_iteration(is_inside=False)
        self._backend.settle(self._loop)
        last = self._loop.stats().last
        assert self._replanner is not None
        if self._is_plan_new:
            self._is_plan_new = False
            library().trim()  # gradients from before the plan, which the iteration has freed
        plan = self._replanner.after(last.misses + last.occupied)
        if plan is None:
            return
        try:
            self._use(plan)
            self._replanner.adopt(plan)
        except (MemoryError, RuntimeBindError) as e:
            logger().warning("training goes on without the new plan of %d bytes: %s", plan.size, e)
        library().trim()

    def _change_pause(self, by: int) -> None:
        self._pauses += by
        if self._loop is not None:
            (self._loop.pause if by > 0 else self._loop.resume)()
            if not (self._pauses or self._is_inside):
                library().trim()  # what an evaluation took, and the next iterations do not

    def _end(self) -> None:
        """End the session; blocks stay valid."""
        loop = self._loop
        if loop is None:
            return
        try:
            self._backend.uninstall()
            SECTIONS.leave(loop)
            if self._is_inside:
                loop.end()
            self._stats = self.stats
        finally:
            self._loop = self._arena = self._plan = None
            self._is_inside, self._pauses = False, 0
            _open.pop(self._backend.name, None)
            loop.stop()
        library().trim()


class _Iteration(ContextDecorator):
    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        try:
            self._session._begin_iteration()  # noqa: SLF001 - of this module
        except KeyboardInterrupt:
            self._session._end_iteration()  # noqa: SLF001
            raise

    def __exit__(self, *_: object) -> None:
        self._session._end_iteration()  # noqa: SLF001


class _Pause(ContextDecorator):
    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._session._running()  # noqa: SLF001 - of this module
        self._session._change_pause(1)  # noqa: SLF001

    def __exit__(self, *_: object) -> None:
        self._session._change_pause(-1)  # noqa: SLF001


_opening = threading.Lock()
_open: dict[str, Session] = {}


def _end_in_child() -> None:
    """In a forked child: the session is the parent's. Its tensors stay valid, and PyTorch allocates for itself."""
    global _opening  # noqa: PLW0603 - a thread that is not there may hold it
    _opening = threading.Lock()
    for session in list(_open.values()):
        session._end()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_in_child)
