"""Runs that are called alike, the plans that serve them, and what is learnt from runs that do not fit.

A plan serves every run whose requests are no larger than its places and are freed no later, whatever the shapes of the
inputs are. So the runs of one method with the same inputs and outputs share their plans; shapes matter only where they
change the number of requests. After a run that does not fit the next ones are recorded, and a plan that is made of one
that does not fit either has room for both: twice the room for what varies, so that shapes which grow step by step need
few plans (Sekiyama et al. 2018, §4.3, plans anew for every deviation). Where the number of requests depends on data,
one plan lays the runs over each other; if that takes much more memory, it keeps the part at the beginning that all runs
share.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from edgemem.replay.ready_plans import LEAST_PART, ReadyPlan, SmallPlan, elements
from edgemem.replay.store import ENOUGH
from edgemem.trace.merged_trace import common_prefix, is_part_of, merge_traces, overlay, with_headroom

if TYPE_CHECKING:
    from collections.abc import Hashable

    from edgemem.replay.store import FoundPlan
    from edgemem.trace import Trace
    from edgemem.trace.recording import Signature

__all__ = ["MOST_PLANS", "Family", "Mode", "Shapes"]

Mode: TypeAlias = Literal["record", "replay", "plain"]
Shapes: TypeAlias = "tuple[tuple[str, str, tuple[int, ...]], ...]"  # as `Signature.inputs`

MOST_PLANS: Final = 12  # made for one family
_MOST_ATTEMPTS: Final = 3 * MOST_PLANS  # recordings from which something was to be learnt
_MOST_SERVED: Final = 4  # plans at once, of runs with different numbers of requests
_MOST_SHAPES: Final = 1024  # remembered
# Runs of the same shapes with different numbers of requests, before that is taken as the rule.
_MOST_CONFLICTS: Final = 2
_MOST_GROWTH: Final = 1.25  # of the most that is alive, when runs with different numbers of requests get one plan
_LEAST_SHARE: Final = 4  # a part of the requests smaller than 1 / this is not worth an arena
_LEARNING_RUNS: Final = 8  # recorded after a run that did not fit, until one is found from which something is learnt
# Runs in a row that find less than half of their requests in the arena, before a family gives up.
_MOST_USELESS: Final = 16


class Wanted(NamedTuple):
    """What the next plan has to serve.

    Attributes:
        trace: with headroom.
        recorded: without; the same object if there is no headroom.
    """

    trace: Trace
    recorded: Trace


@dataclass(slots=True, eq=False, weakref_slot=True)
class Family:
    """Not safe for several threads: the replayer's lock is held by whoever changes it, and the gate by `wanted`.

    Attributes:
        is_repeatable: as the signature of its runs says.
        only: the plan that serves every run now; None while there are several, or while something is to be decided.
        is_settled: nothing is to be learnt from its next run, which one plan serves or one of the smaller ones.
        reason: why the plan in the file is not used, or why the family runs plainly; "" otherwise.
        deviation: what the last run that did not fit had left over; "" before there was one.
        gate: held by a run that others of the family wait for, and while a plan is made.
        is_pending: a run is being recorded, or its plan is being made.
        plans_made: in this session.
        learning: runs that are still to be recorded while they are replayed.
        smaller: plans of smaller runs, the smallest first; None before they were made.
        wants_smaller: the next small run is recorded for them.
    """

    is_repeatable: bool = True
    gate: threading.RLock = field(default_factory=threading.RLock)
    only: ReadyPlan | None = None
    reason: str = ""
    deviation: str = ""
    is_pending: bool = False
    plans_made: int = 0
    learning: int = 0
    smaller: tuple[SmallPlan, ...] | None = None
    wants_smaller: bool = False
    is_settled: bool = False
    is_plain: bool = False
    is_single: bool = False
    latest: ReadyPlan | None = None
    _served: dict[int, ReadyPlan] = field(default_factory=dict)  # by number of requests
    _by_shapes: dict[Hashable, int] = field(default_factory=dict)
    _conflicts: int = 0
    _attempts: int = 0
    _useless: int = 0

    @property
    def mode(self) -> Mode:
        """What its next run does."""
        return "plain" if self.is_plain else "replay" if self._served else "record"

    @property
    def plans(self) -> tuple[ReadyPlan, ...]:
        """The plans that serve its runs."""
        return tuple(self._served.values())

    @property
    def may_learn(self) -> bool:
        """Whether it may get another plan."""
        return (
            not self.is_plain
            and not self.is_pending
            and self.plans_made < MOST_PLANS
            and self._attempts < _MOST_ATTEMPTS
        )

    def choose(self, shapes: Shapes | None) -> ReadyPlan | None:
        """The plan for a run with these shapes, else the one that served last; None if there is none."""
        if self.smaller and shapes is not None and (small := self.small_for(shapes)) is not None:
            return small
        requests = self._by_shapes.get(shapes)
        found = self._served.get(requests) if requests is not None else None
        if found is None:
            found = self.latest
        self.latest = found
        return found

    def small_for(self, shapes: Shapes) -> ReadyPlan | None:
        """The plan of smaller runs for one with these shapes; None if it needs the largest."""
        asked = elements(shapes)
        return next((small.served for small in self.smaller or () if asked <= small.most), None)

    def is_sample(self, shapes: Shapes) -> bool:
        """Whether a run with these shapes is recorded, to plan for smaller runs."""
        return self.wants_smaller and self._is_small(shapes)

    def _is_small(self, shapes: Shapes) -> bool:
        return self.whole is not None and 0 < elements(shapes) * LEAST_PART <= self.whole.elements

    @property
    def whole(self) -> ReadyPlan | None:
        """The plan that serves runs of any shapes; None if there is none, or there are several."""
        return next(iter(self._served.values())) if len(self._served) == 1 else None

    def want_smaller(self, shapes: Shapes) -> None:
        """Make plans for runs as small as this one, unless that was tried."""
        if self.smaller is None and self.may_learn and self._is_small(shapes):
            self.wants_smaller = True
            self.settle()

    def add_smaller(self, plans: tuple[SmallPlan, ...]) -> None:
        """Serve smaller runs by these, until the largest plan changes."""
        self.smaller, self.wants_smaller = plans, False
        self.settle()

    def is_small(self, served: ReadyPlan) -> bool:
        """Whether it is a plan of smaller runs."""
        return any(small.served is served for small in self.smaller or ())

    def narrow(self, served: ReadyPlan, shapes: Shapes) -> bool:
        """Whether it is a plan of smaller runs; it did not serve the whole of a run with these shapes."""
        is_small = self.is_small(served)
        if is_small:
            kept = self.smaller or ()
            for small in kept:
                if small.served is served:
                    small.most = min(small.most, elements(shapes) * 3 // 4)
            self.add_smaller(tuple(small for small in kept if small.most >= small.least))
        return is_small

    def add(self, served: ReadyPlan, shapes: Hashable | None = None) -> None:
        """Serve runs by this plan, in place of one for the same number of requests."""
        self.smaller = None
        kept = {} if self.is_single else self._served
        self._served = {**kept, served.requests: served}  # anew, because other threads may be reading the old one
        if shapes is not None:
            self._by_shapes[shapes] = served.requests
        self.latest = served
        self.settle()

    def settle(self) -> None:
        """Decide whether one plan serves every run from now on, or those of smaller runs and it do."""
        self.is_settled = self.whole is not None and not (self.learning or self.is_plain or self.wants_smaller)
        self.only = self.whole if self.is_settled and not self.smaller else None

    @property
    def is_undecided(self) -> bool:
        """Whether runs that fit tell something: which plan serves their shapes, or that there is no more to learn."""
        return bool(self.learning) or len(self._served) > 1

    def fits(self, shapes: Hashable, served: ReadyPlan) -> None:
        """A run with these shapes was served whole."""
        self._useless = 0
        if self.learning:
            self.learning -= 1
            if not self.learning:
                self.settle()
        if len(self._served) > 1:
            self._remember(shapes, served.requests)

    def has(self, found: FoundPlan) -> bool:
        """Whether this is still one of its plans."""
        return any(served.found is found for served in self._served.values())

    def forget(self, served: ReadyPlan) -> None:
        """Do without this plan; the next run is recorded."""
        if self.is_small(served):
            self.add_smaller(())
            return
        self._served = {n: other for n, other in self._served.items() if other is not served}
        self.latest, self.smaller = None, None
        self.settle()

    def deviates(self, deviation: str, *, is_useless: bool, records: bool) -> None:
        """A run did not fit.

        `is_useless`: the arena served less than half of it. `records`: the next ones may be recorded.
        """
        self.deviation = deviation
        if records and self.may_learn:
            self.learning = _LEARNING_RUNS
        else:
            self._useless = self._useless + 1 if is_useless else 0
            if not self.is_pending:
                self.learning = 0  # nothing more can be learnt
            if self._useless >= _MOST_USELESS and not self.is_pending:
                made = f"{self.plans_made} plans did" if self.plans_made else "the stored plan does"
                self.give_up(f"the requests differ from run to run: {made} not hold")
        self.settle()

    def give_up(self, reason: str) -> None:
        """Run plainly from now on."""
        self.is_plain, self.reason, self.learning = True, reason, 0
        self._served = {}
        self.latest, self.smaller, self.wants_smaller = None, None, False
        self.settle()

    def wanted(self, trace: Trace, shapes: Hashable, *, most: int) -> Wanted | None:
        """What the next plan has to serve after this recording; None if nothing is to be planned.

        `most`: leave room for shapes that grow further, within so many bytes alive at once.
        """
        self._attempts += 1
        requests = len(trace.requests)
        known = self._served.get(requests)
        before = self._by_shapes.get(shapes, requests)
        self._remember(shapes, requests)
        self._conflicts += before != requests
        is_one_too_many = known is None and len(self._served) >= _MOST_SERVED
        if self.is_single or self._conflicts > _MOST_CONFLICTS or is_one_too_many:
            single = self._single(trace)
            return Wanted(single, single) if single is not None else None
        if known is None:
            return Wanted(trace, trace)
        # The stored plan of another process is for these very shapes: requests differ a little, and nothing grows.
        is_foreign = not self.plans_made and known.signature.inputs == shapes
        return _larger(known.found, trace, most, is_foreign=is_foreign)

    def widest(self, signature: Signature, trace: Trace) -> Signature:
        """The signature of a plan for this trace: the largest shapes that it serves."""
        known = self._served.get(len(trace.requests)) or (self.latest if self.is_single else None)
        if known is None or len(known.signature.inputs) != len(signature.inputs):
            return signature
        inputs = tuple(
            (name, dtype, tuple(map(max, shape, old)) if len(shape) == len(old) else shape)
            for (name, dtype, shape), (_, _, old) in zip(signature.inputs, known.signature.inputs, strict=True)
        )
        return replace(signature, inputs=inputs)

    def _remember(self, shapes: Hashable, requests: int) -> None:
        if len(self._by_shapes) >= _MOST_SHAPES:
            self._by_shapes.clear()
        self._by_shapes[shapes] = requests

    def _single(self, trace: Trace) -> Trace | None:
        """One plan for runs with any number of requests: of all of them, or of the part that they share."""
        known = [served.trace for served in self._served.values()]
        if not known:
            return trace
        whole = shared = known[0]
        for other in (*known[1:], trace):
            whole, shared = overlay(whole, other), common_prefix(shared, other)
        runs = (*known, trace)
        if whole.peak > _MOST_GROWTH * max(t.peak for t in runs):
            whole = shared
            if len(shared.requests) * _LEAST_SHARE < max(len(t.requests) for t in runs):
                self.give_up("the requests differ from run to run, almost from the beginning")
                return None
        was_single, self.is_single = self.is_single, True
        if was_single and is_part_of(whole, known[0]):
            return None
        return whole


def _larger(known: FoundPlan, trace: Trace, most: int, *, is_foreign: bool) -> Wanted | None:
    """A trace of which both are parts, with headroom within `most` bytes; None if the known one is that already.

    If the known one `is_foreign`, there is no headroom, and it is dropped where both together take more than this one:
    on this processor its runs do not come.
    """
    if is_part_of(trace, known.trace):
        return None
    recorded = merge_traces(known.recorded, trace)
    assert recorded is not None  # the numbers of requests are equal
    if is_foreign:
        alone = trace if recorded.peak > ENOUGH * trace.peak else recorded
        return Wanted(alone, alone)
    roomy = with_headroom(known.trace, trace) if most else merge_traces(known.trace, trace)
    if roomy is not None and most and roomy.peak > most:
        roomy = merge_traces(known.trace, trace)
    return Wanted(roomy, recorded) if roomy is not None and roomy.peak > recorded.peak else Wanted(recorded, recorded)
