"""Plans that the library makes of recorded runs (kernels/android): proved by edgemem, and no worse than its rules."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgemem.errors import InvalidPlanError
from edgemem.planfile import encode
from edgemem.planning.problem_plan import plan_with_settings
from edgemem.planning.recording_plan import plan_recording
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, Settings
from edgemem.proof import prove
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.trace import Trace
from edgemem.trace.recording import Recording
from tests.native_library import FILE, MADE_HERE, RECORDED, PlanFile, Planned, Run, Session, c, last_error
from tests.plansets import fingerprint, streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.records.problem import Problem

RULES = ("greedy_by_size", "greedy_by_breadth", "greedy_in_order", "strip_packing")
sizes = st.integers(1, 5000)
small_streams = st.builds(lambda stream, size: [min(code, size) for code in stream], streams(), sizes)


def allocator() -> Any:
    lib = c()
    lib.em_allocate.restype = ctypes.c_void_p
    lib.em_allocate.argtypes = [ctypes.c_size_t]
    lib.em_free.argtypes = [ctypes.c_void_p]
    return lib


class Requests:
    """A program that makes the requests of a stream, and its frees."""

    def __init__(self) -> None:
        self.addresses: list[int] = []
        self._alive: dict[int, int] = {}

    def follow(self, stream: Sequence[int]) -> None:
        lib = allocator()
        for code in stream:
            if code > 0:
                self.addresses.append(lib.em_allocate(code))
                self._alive[len(self.addresses) - 1] = self.addresses[-1]
            else:
                lib.em_free(self._alive.pop(-code - 1))

    def free_rest(self) -> None:
        for address in self._alive.values():
            allocator().em_free(address)
        self._alive = {}


def run_in(session: Session, stream: Sequence[int]) -> Run:
    """One run of a session; what it does not free is freed after it."""
    requests = Requests()
    with session as run:
        requests.follow(stream)
    requests.free_rest()
    return run


def planned_record(stream: Sequence[int], alignment: int) -> tuple[Planned, list[int]]:
    """What em_plan_record says of a stream, and the offsets that its plan gives to the stream's requests."""
    lib, out = allocator(), Planned()
    lib.em_context_create.restype = lib.em_arena_create.restype = lib.em_arena_base.restype = ctypes.c_void_p
    context = ctypes.c_void_p(lib.em_context_create(0))
    assert lib.em_begin_record(context, ctypes.c_int64(10**6)) == 0
    requests = Requests()
    requests.follow(stream)
    assert lib.em_end(context, None) == 0
    requests.free_rest()
    plan = lib.em_plan_record(context, alignment, ctypes.byref(out))
    assert plan, last_error()
    arena = ctypes.c_void_p(lib.em_arena_create(ctypes.c_int64(out.arena), 0))
    base = lib.em_arena_base(arena)
    assert lib.em_begin_replay(context, ctypes.c_void_p(plan), arena, 1) == 0
    requests = Requests()
    requests.follow(stream)
    assert lib.em_end(context, None) == 0
    requests.free_rest()
    lib.em_plan_release(plan)
    lib.em_arena_release(arena)
    assert lib.em_context_destroy(context) == 0
    return out, [address - base for address in requests.addresses]


def proved(problem: Problem, offsets: Sequence[int], out: Planned) -> None:
    """The plan, proved as edgemem proves its own. Raises InvalidPlanError."""
    plan = OffsetPlan(out.strategy.decode(), {}, np.array(offsets, np.int64), out.arena, out.arena == out.lower_bound)
    bounds = LowerBounds(out.lower_bound, lower_bounds(problem).shared_objects)
    prove(PlanSet(problem, out.naive, bounds, (plan,), ()))


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(small_streams, st.sampled_from([1, 8, 64]))
def test_a_plan_of_a_record_is_proved_and_the_smallest_of_the_rules(stream: list[int], alignment: int) -> None:
    trace = Trace.from_stream(stream)
    problem = trace.problem(alignment=alignment)
    out, offsets = planned_record(trace.events.tolist(), alignment)
    placed = [offsets[k] for k in trace.freed.tolist()]
    assert (out.requests, out.naive, out.lower_bound) == (
        len(problem),
        naive_size(problem),
        lower_bounds(problem).offsets,
    )
    proved(problem, placed, out)
    made = plan_with_settings(problem, Settings(tuple(f"offsets/{rule}" for rule in RULES)), families=("offsets",))
    by_rule = {plan.strategy: plan for plan in made.offsets}
    assert out.arena == min(plan.size for plan in made.offsets)
    assert by_rule[out.strategy.decode()].offsets.tolist() == placed


def test_the_proof_sees_a_wrong_offset() -> None:
    stream = [100, 200, -1, -2]
    out, offsets = planned_record(stream, 64)
    problem = Trace.from_stream(stream).problem(alignment=64)
    proved(problem, offsets, out)
    with pytest.raises(InvalidPlanError):
        proved(problem, [0, 0], out)


def test_many_requests_are_planned_as_the_rules_plan_them() -> None:
    """More than the 512 records up to which the kernels scan."""
    rng = np.random.default_rng(7)
    stream: list[int] = []
    alive: list[int] = []
    made = 0
    for _ in range(4000):
        if alive and rng.random() < 0.5:
            stream.append(-alive.pop(int(rng.integers(len(alive)))) - 1)
        else:
            stream.append(int(rng.integers(1, 4000)))
            alive.append(made)
            made += 1
    trace = Trace.from_stream(stream)
    problem = trace.problem(alignment=64)
    out, offsets = planned_record(stream, 64)
    proved(problem, [offsets[k] for k in trace.freed.tolist()], out)
    made_here = plan_with_settings(problem, Settings(tuple(f"offsets/{rule}" for rule in RULES)), families=("offsets",))
    assert out.arena == min(plan.size for plan in made_here.offsets)


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(small_streams, small_streams)
def test_a_session_serves_each_run_and_soon_all_of_it(first: list[int], other: list[int]) -> None:
    """Whatever follows: a run like the one before comes from the arena, as far as it frees what it asked for."""
    first, other = (Trace.from_stream(stream).events.tolist() for stream in (first, other))
    session = Session()
    for stream in (first, first, other, other, first):
        run = run_in(session, stream)
        assert run.hits + run.misses == run.requests == sum(code > 0 for code in stream)
    for stream in (first, other):
        run_in(session, stream)
        run = run_in(session, stream)
        assume(any(code < 0 for code in stream))
        freed = [-code - 1 for code in stream if code < 0]
        assert run.source == MADE_HERE
        assert run.hits >= len(freed)
        assert run.measured <= run.planned <= run.arena
        assert run.is_complete == (run.hits == run.requests)


def test_a_session_says_what_ran() -> None:
    stream = [100, 200, -1, 90, -3, -2]
    planset = plan_recording(Recording(fingerprint(), Trace.from_stream(stream)), Settings())
    session = Session(PlanFile(encode(planset)))
    sources = []
    for run_stream in (stream, [50, -1], stream, [900, -1, 90, -2], [900, -1, 90, -2]):
        run = run_in(session, run_stream)
        sources.append((run.source, run.is_complete))
    assert sources == [(FILE, 1), (FILE, 1), (FILE, 1), (FILE, 0), (MADE_HERE, 1)]
    session = Session()
    run = run_in(session, stream)
    assert (run.source, run.replans) == (RECORDED, 1)
    assert [(row[0], row[3]) for row in session.places()] == [
        (b"request 0", 100),
        (b"request 1", 200),
        (b"request 2", 90),
    ]
