"""What a session learns from its recordings: the families of its runs, and the making of their plans."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError, InvalidPlanError, RuntimeBindError
from edgemem.proof import prove
from edgemem.replay.context import trace_of
from edgemem.replay.families import Family
from edgemem.replay.library import Stats, library
from edgemem.replay.logger import logger
from edgemem.replay.parts import UNITS, unit_of
from edgemem.replay.ready_plans import PARTS, SMALL_PART, ReadyPlan, SmallPlan, elements
from edgemem.replay.store import FoundPlan
from edgemem.replay.worker import worker
from edgemem.trace.merged_trace import between
from edgemem.trace.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from edgemem.plans import PlanSet
    from edgemem.replay.families import Shapes
    from edgemem.replay.store import StoredPlans
    from edgemem.trace import Trace
    from edgemem.trace.recording import Signature

__all__ = ["MOST_FAMILIES", "Learner"]

MOST_FAMILIES: Final = 256  # of one session
_ROOMY: Final = 4  # a plan has headroom within 1 / this of what there is, so that several runs fit at once


class Learner:
    """The plans of one session.

    Args:
        plans: stored ones, and where new ones go.
        first: makes the first plan of a recording, quickly.
        better: makes a plan that may take longer, where the first one is above its lower bound.
        silent: the reason to give if a run made no request to the allocator.
        given_up: called when a family runs plainly from now on.

    Attributes:
        lock: held by whoever changes a family.
        generation: grows when the plans change; arenas of an older one are replaced.
        arena_size: bytes for the largest plan of all families, which share their arenas; 0 without a plan.
        run_bytes: bytes of the run that takes most, with its arena and what lies outside it; 0 without a plan.
        most_arena: bytes; plans that need more do not count in `arena_size` and `run_bytes`.
        replans: plans made beyond the first of each family.
        has_smaller: a family had plans for smaller runs.
        is_closed: the session is closed.
    """

    def __init__(
        self,
        plans: StoredPlans,
        *,
        first: Callable[[Recording], PlanSet],
        better: Callable[[Recording], PlanSet],
        silent: str,
        given_up: Callable[[], object] = lambda: None,
    ) -> None:
        self._given_up = given_up
        self.lock = threading.Lock()
        self.generation = 0
        self.arena_size = 0
        self.run_bytes = 0
        self.most_arena = sys.maxsize
        self.replans = 0
        self.has_smaller = False
        self.is_closed = False
        self._plans = plans
        self._first = first
        self._better = better
        self._silent = silent
        self._families: dict[Hashable, Family] = {}

    def family(self, signature: Signature) -> Family:
        """The family of runs that are called like this. Raises InvalidPlanError if a plan in the file is refused."""
        key = signature.family
        with self.lock:
            family = self._families.get(key)
            if family is not None:
                return family
            family = Family(signature.is_repeatable)
            if len(self._families) >= MOST_FAMILIES:  # first those without a plan, such as of calls that were refused
                self._families = {k: f for k, f in self._families.items() if f.mode == "replay" or f.is_pending}
            if len(self._families) >= MOST_FAMILIES:
                family.give_up(f"the session was called in more than {MOST_FAMILIES} ways")
                return family
            for found in self._plans.find(signature):
                try:
                    served = ReadyPlan.of(found)
                    family.add(served, served.signature.inputs)
                except InvalidPlanError:
                    if found.source != "cache":
                        raise
            if family.mode == "record":
                family.reason = self._plans.why_not_embedded(signature)
                if family.reason:
                    logger().warning("%s", family.reason)
            self._families[key] = family
            self._count()
            return family

    def check_open(self) -> None:
        """Raise RuntimeBindError if the session is closed."""
        if self.is_closed:
            raise RuntimeBindError("the session is closed; open a new one")

    def give_up(self, family: Family, reason: str) -> None:
        """Run this family plainly from now on."""
        with self.lock:
            family.give_up(reason)
            self._count()
        self._given_up()
        logger().warning("runs without a plan: %s", reason)

    def forget(self, family: Family, served: ReadyPlan) -> None:
        """Do without this plan; the next run is recorded."""
        with self.lock:
            family.forget(served)
            self._count()

    def does_without(self, family: Family, served: ReadyPlan, error: Exception) -> bool:
        """Whether runs go on without this plan, for whose arena there is no memory; it is then forgotten.

        Raises RuntimeBindError for a plan in the model file.
        """
        source = served.found.source
        if source == "cache" or (source == "made now" and isinstance(error, MemoryError)):
            self.forget(family, served)
            logger().warning("no memory for an arena of %d bytes: the run goes on without a plan", served.ready.size)
            return True
        if source == "file" and isinstance(error, MemoryError):
            raise RuntimeBindError(
                f"there is no memory for the plan in the model file, which takes {served.ready.size:,} bytes; "
                "record it again, or open the session with stored=False"
            ) from None
        return False

    def deviates(self, family: Family, deviation: str, *, is_useless: bool, records: bool) -> None:
        """A run did not fit; arguments as `Family.deviates` has them."""
        with self.lock:
            family.deviates(deviation, is_useless=is_useless, records=records)
            if family.is_plain:
                self._count()

    def plan(
        self, family: Family, events: bytes, signature: Signature, *, is_asked: bool = False, is_hurried: bool = False
    ) -> None:
        """Plan what a recording shows.

        Args:
            family: of the run.
            events: the recording, as `Context.take_events` gives it.
            signature: of the run.
            is_asked: the user asked for a plan of this run: an error is raised. Else there is room for shapes that grow
                further, and an error is logged and ends planning for the family.
            is_hurried: on the worker's thread, where a plan that takes longer follows.
        """
        with family.gate:  # one after the other
            try:
                self._plan(family, trace_of(events), signature, is_asked=is_asked, is_hurried=is_hurried)
            except (EdgememError, MemoryError) as error:
                if is_asked:
                    raise
                self.give_up(family, f"no plan could be made: {error}")
            finally:
                family.is_pending = False
                if not family.is_plain:
                    library().trim()  # what the recorded run took outside the arenas

    def want_smaller(self, family: Family, last: bytes, described: Callable[[], Signature]) -> None:
        """Runs wait for one another: plan for smaller ones, if the last run took a small part of its plan.

        Args:
            family: of a run.
            last: raw statistics of a run.
            described: the signature of the run.
        """
        served = family.only
        if served is None or family.smaller is not None or not last:
            return
        if Stats.from_raw(last).peak * SMALL_PART <= served.ready.size:
            with self.lock:
                family.want_smaller(described().inputs)

    def plan_smaller(self, family: Family, events: bytes, signature: Signature) -> None:
        """Plan for smaller runs, after the recording of one."""
        with family.gate:
            made: list[SmallPlan] = []
            whole = family.whole
            try:
                trace = trace_of(events)
                if whole is not None and len(trace.requests) == whole.requests:
                    plans = [self._small_plan(trace, signature, whole, part) for part in PARTS]
                    made = [plan for plan in plans if plan is not None]
            except (EdgememError, MemoryError) as error:
                logger().warning("no plans for smaller runs could be made: %s", error)
            finally:
                with self.lock:
                    if not self.is_closed and family.whole is whole:
                        family.add_smaller(tuple(made))
                        self.has_smaller |= bool(made)
                    family.is_pending = False
                library().trim()  # as after `plan`

    def _small_plan(self, small: Trace, signature: Signature, whole: ReadyPlan, part: int) -> SmallPlan | None:
        """A plan in 1 / `part` of the arena for runs between a recorded one and the largest; None if none fits."""
        few, many, room = elements(signature.inputs), whole.elements, UNITS // part * unit_of(self.arena_size)
        most = many // part
        while most >= few:
            wanted = between(small, whole.trace, (few, most, many))
            planset = self._first(Recording(self._plans.fingerprint(signature), wanted))
            served = ReadyPlan.of(FoundPlan(prove(planset), "made now"))
            if served.ready.size <= room:
                return SmallPlan(served, most, max(most // 2, few))
            most = most * room // served.ready.size * 7 // 8
        return None

    def narrow(self, family: Family, served: ReadyPlan, shapes: Shapes) -> bool:
        """As `Family.narrow`."""
        with self.lock:
            return family.narrow(served, shapes)

    def leave_pool(self, family: Family, generation: int) -> None:
        """Give the pool's free pages back after a run that it served, if a plan was made meanwhile.

        The plan's own trim found the pages of such a run in use, and no later run takes them again. While there is no
        plan, and where there will be none, the next run needs them.

        Args:
            family: of the run, which has ended.
            generation: before its plan was chosen.
        """
        if generation != self.generation and not family.is_plain:
            library().trim()

    def plan_later(self, family: Family, plan: Callable[[], None]) -> None:
        """Call one of the above on the worker's thread. Without a thread the family is run plainly."""
        try:
            worker().submit(plan)
        except RuntimeError as error:  # too many threads, or the process ends
            family.is_pending = False
            self.give_up(family, f"no thread can be started that makes plans: {error}")

    def _plan(self, family: Family, trace: Trace, signature: Signature, *, is_asked: bool, is_hurried: bool) -> None:
        if not len(trace):
            family.reason = self._silent
            return
        wanted = family.wanted(trace, signature.inputs, most=0 if is_asked else self.most_arena // _ROOMY)
        if wanted is None:
            if family.is_plain:
                self.give_up(family, family.reason)
            return
        fingerprint = self._plans.fingerprint(family.widest(signature, wanted.trace))
        planset = self._planned(Recording(fingerprint, wanted.trace), is_hurried=is_hurried)
        is_final, exact = _is_at_bound(planset), None
        if wanted.recorded is not wanted.trace:
            exact = self._planned(Recording(fingerprint, wanted.recorded), is_hurried=is_hurried)
        found = FoundPlan(prove(planset), "made now", exact)
        served = ReadyPlan.of(found)
        # Also for a session that is closed by now: the next one has it, without headroom that it may never need.
        self._plans.keep(exact or planset)
        with self.lock:
            if self.is_closed or family.is_plain:
                return
            self.replans += family.plans_made > 0
            family.plans_made += 1
            family.add(served, signature.inputs)
            self._count()
        if not is_final and is_hurried:
            worker().submit(lambda: self._improve(family, found))

    def _planned(self, recording: Recording, *, is_hurried: bool) -> PlanSet:
        """A plan of a recording: the first one if that is at its lower bound, or there is no time for another."""
        planset = self._first(recording)
        return planset if is_hurried or _is_at_bound(planset) else self._better(recording)

    def start_again(self) -> None:
        """After a fork, in the child: locks may have been held by threads that are not there."""
        self.lock = threading.Lock()
        for family in self._families.values():
            family.gate = threading.RLock()
            family.is_pending = False

    def close(self) -> None:
        """Drop every plan; one that is being made is not used."""
        with self.lock:
            self.is_closed = True
            for family in self._families.values():
                family.only = None
            self._families.clear()

    def _improve(self, family: Family, found: FoundPlan) -> None:
        """A smaller plan in place of one that was made in a hurry."""
        recording, before = found.planset.recording, found.planset.best_offsets
        if self.is_closed or worker().is_ending or recording is None or not family.has(found):
            return
        planset = self._better(recording)
        best = planset.best_offsets
        if best is None or before is None or best.size >= before.size:
            return
        served = ReadyPlan.of(FoundPlan(prove(planset), "made now", found.exact))
        with self.lock:
            if self.is_closed or not family.has(found):
                return
            family.add(served)
            self._count()
        if found.exact is None:
            self._plans.keep(planset)

    def _count(self) -> None:
        """The plans have changed: runs take new arenas, of the size that the largest plan needs now."""
        plans = [s for family in self._families.values() for s in family.plans if s.ready.size <= self.most_arena]
        self.arena_size = max((s.ready.size for s in plans), default=0)
        self.run_bytes = max((s.ready.size + s.outside for s in plans), default=0)
        self.generation += 1


def _is_at_bound(planset: PlanSet) -> bool:
    best = planset.best_offsets
    return best is not None and best.size <= planset.bounds.offsets
