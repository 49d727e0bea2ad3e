"""A hard cap on the memory of a session's runs: which of them run at once, and which are refused.

The allocator counts every arena and every block that a run takes, results included until they are freed, and refuses
what would exceed the cap; the runtime makes a failure of it. Such a run is done again with no other run of the session
beside it, no idle arena and no plan, because a plan that does not fit takes memory beside what the run takes. A run
that does not fit even then is refused. A run that must not be done again is alone from the start.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final, TypeVar

from edgemem.errors import BudgetExceededError
from edgemem.native import kernels
from edgemem.replay.library import Handle, library
from edgemem.replay.parts import UNITS, unit_of, units_of
from edgemem.replay.replayer import Replayer
from edgemem.replay.room import Room
from edgemem.replay.turns import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.replay.arena import ArenaMemory
    from edgemem.replay.call import Call
    from edgemem.replay.families import Family
    from edgemem.replay.lanes import Lane
    from edgemem.replay.ready_plans import ReadyPlan
    from edgemem.trace.recording import Signature

__all__ = ["BudgetedReplayer", "MemoryCap"]

_Result = TypeVar("_Result")


class MemoryCap(Handle):
    """At most `most` bytes of arenas and of blocks outside them, of all threads that are within it."""

    def __init__(self, most: int) -> None:
        c = library().c
        super().__init__(c.em_budget_create(most), c.em_budget_release, "no budget")
        self.most = most
        self._enter: Final = library().address("em_budget_enter")

    @property
    def held(self) -> int:
        """Bytes that count in it now."""
        return int(library().short.em_budget_held(self.pointer))

    @property
    def is_here(self) -> bool:
        """Whether what this thread takes counts in it now."""
        return bool(library().short.em_budget_here() == self.pointer)

    def call(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """`function(*arguments)`, and what this thread takes meanwhile counts in it. Raises what the function raises.

        Compiled code calls it: an exception that a signal's handler raises cannot keep the thread from leaving.
        """
        result: _Result = kernels.call_within(self._enter, self.pointer, function, *arguments)
        return result


class _RefusedArenaError(RefusedError):
    """The budget has no room for an arena now."""


class BudgetedReplayer(Replayer):
    """As `Replayer`, within `most_bytes`. Further arguments as it has them; the memory is the host's, and not shared.

    Raises RuntimeBindError without the compiled allocator.
    """

    def __init__(self, *arguments: Any, most_bytes: int, make: Callable[..., ArenaMemory], **options: Any) -> None:
        self._cap: Final = MemoryCap(most_bytes)
        self._gate = Room()
        self._is_alone = False  # the one run that is inside, and has no plan
        # Whose last run was refused and not done again; the next one has all memory for itself.
        self._refused: weakref.WeakSet[Family] = weakref.WeakSet()

        def made(size: int, **flags: bool) -> ArenaMemory:
            try:
                return make(size, **flags)
            except MemoryError:
                need = library().short.em_budget_refused()
                if not need:
                    raise
                raise _RefusedArenaError(need) from None

        super().__init__(*arguments, make=made, **options)
        self._learner.most_arena = most_bytes

    @property
    def held(self) -> int:
        """Bytes that arenas and blocks of the runs take now."""
        return self._cap.held

    def start_again(self) -> None:
        """As `Replayer.start_again`."""
        super().start_again()
        self._gate, self._is_alone = Room(), False

    def run(
        self, family: Family, described: Callable[[], Signature], call: Callable[..., _Result], *arguments: object
    ) -> _Result:
        """As `Replayer.run`. Raises BudgetExceededError for a run that does not fit."""
        cap = self._cap
        if cap.is_here:  # inside another run of this session
            return super().run(family, described, call, *arguments)
        if family.smaller:
            signature = described()

            def described() -> Signature:
                return signature

            need = self._need(family, family.small_for(signature.inputs))
        else:
            need = self._need(family, None)
        place = self._gate.enter(need, cap.most) if family.is_repeatable else self._gate.enter_alone()
        try:
            is_first = not family.is_repeatable and family.mode != "replay"  # what it takes comes beside idle arenas
            if is_first or family in self._refused:
                self._begin_alone()
            try:
                result = self._within(family, described, call, *arguments)
            except BudgetExceededError as error:
                if error.__cause__ is not None and not family.is_repeatable:  # it may have changed its inputs
                    self._refused.add(family)
                    if family.mode == "replay":
                        self._deviates(family, error, records=self.policy.record == "first-run")
                    raise
                self._gate.leave(place, keep=False)
                place = self._gate.enter_alone()
                self._begin_alone()
                is_above_plan = error.__cause__ is not None and family.mode == "replay"
                if is_above_plan:  # it is recorded, if it may be
                    self._deviates(family, error, records=self.policy.record == "first-run")
                try:
                    return self._within(family, described, call, *arguments)
                except BudgetExceededError as last:
                    if is_above_plan:
                        self._deviates(family, last, records=False)
                    raise
            self._refused.discard(family)
            if self._gate.queue.has_waited:
                self._want_smaller(family, described)
            return result
        finally:
            if place in self._gate:  # another one may be alone, while this one waits for that
                self._is_alone = False
                self._gate.leave(place)

    def _need(self, family: Family, small: ReadyPlan | None) -> int:
        """Bytes that a run takes with its arena and what lies outside it, by a plan of smaller runs or by any."""
        arena = self._learner.arena_size
        need = self._learner.run_bytes
        if small is not None:
            need = units_of(small.ready.size, arena) * unit_of(arena) + small.outside
        if not need:  # one after the other, until it is known what a run takes
            return self._cap.most if family.mode == "record" and self.policy.record == "first-run" else 0
        return need if need <= self._cap.most else 0  # the pool serves a run whose plan is of larger ones

    def _lane(self, served: ReadyPlan | None) -> Lane:
        return super()._lane(None if self._is_alone else served)

    def _sliced(self) -> tuple[int, int]:
        size, most = super()._sliced()
        return size, min(most, max(self._cap.most * UNITS // max(self._learner.run_bytes, 1), UNITS))

    def _begin_alone(self) -> None:
        """The run inside, which is the only one, has all memory for itself: no idle arena, and no plan."""
        self._is_alone = True
        self.trim()

    def _within(
        self, family: Family, described: Callable[[], Signature], call: Callable[..., _Result], *arguments: object
    ) -> _Result:
        cap, c = self._cap, library().short
        held = cap.held

        def checked(*arguments: object) -> _Result:
            # Not around all of the run: behind the call, arenas are made for those that wait for what it gives back.
            try:
                return call(*arguments)
            except Exception as error:
                if need := c.em_budget_refused():
                    raise self._refusal(described(), need, held) from error
                raise

        c.em_budget_refused()
        try:
            result: _Result = cap.call(super().run, family, described, checked, *arguments)
            return result
        except _RefusedArenaError as error:
            raise self._refusal(described(), error.args[0], held) from None

    def _deviates(self, family: Family, error: BudgetExceededError, *, records: bool) -> None:
        self._learner.deviates(family, str(error), is_useless=False, records=records)

    def _refusal(self, signature: Signature, need: int, held: int) -> BudgetExceededError:
        feeds = ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, _, shape in signature.inputs)
        kept = f", with {held:,} that were held before it" if held else ""
        return BudgetExceededError(
            f"a run with {feeds or 'no inputs'} needs at least {need:,} bytes{kept}; max_bytes is "
            f"{self._cap.most:,}. Run smaller inputs, drop results of earlier runs, or raise max_bytes",
            required=need,
            available=self._cap.most,
        )

    def _in_lane(
        self, run: Call[_Result], served: ReadyPlan | None, flags: int, lane: Lane
    ) -> tuple[_Result, bool, bytes | None]:
        return super()._in_lane(run, None if self._is_alone else served, flags, lane)

    def _memory(self, family: Family, served: ReadyPlan, lane: Lane) -> ArenaMemory | None:
        # The pool serves a run whose plan is of larger ones.
        return super()._memory(family, served, lane) if served.ready.size <= self._cap.most else None
