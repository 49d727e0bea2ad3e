"""Threads, forks and exceptions between instructions: no run waits for ever, and nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.planning.recording_plan import plan_recording
from edgemem.plans import Settings
from edgemem.replay import lanes
from edgemem.replay.arena import Arena, ArenaMemory
from edgemem.replay.cache import PlanCache
from edgemem.replay.lanes import Lanes
from edgemem.replay.learner import MOST_FAMILIES
from edgemem.replay.library import HOST, library
from edgemem.replay.policy import ReplayPolicy
from edgemem.replay.replayer import Replayer
from edgemem.replay.store import StoredPlans
from edgemem.replay.worker import Worker, worker
from edgemem.runtime.onnxruntime import install
from edgemem.trace.recording import Signature
from tests.interrupts import interrupted
from tests.runtime.test_replay_families import FINGERPRINT, Program, blocks

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS = [640, 64, -1, 640, -2, -3]
SIGNATURE = Signature("run", (("x", "float", ()),))


def run(program: Program, call: Callable[..., object], *arguments: object) -> None:
    program.replayer.run(program.replayer.family(SIGNATURE), lambda: SIGNATURE, call, *arguments)


def begun(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def ends(target: Callable[[], object], seconds: float = 10) -> bool:
    thread = begun(target)
    thread.join(seconds)
    return not thread.is_alive()


def held(is_on: threading.Event, may_end: threading.Event) -> None:
    is_on.set()
    assert may_end.wait(20)


def taken_and_given(given: Lanes) -> None:
    given.give(given.take())


def sharing(arena: Arena, *, background: bool = False) -> Program:
    """A program in a shared arena."""
    program = Program()
    plan = partial(plan_recording, settings=Settings())
    stored = StoredPlans(FINGERPRINT, (), Settings(), None)
    program.replayer = Replayer(
        stored, first=plan, better=plan, policy=ReplayPolicy(background=background), shared=arena
    )
    return program


def test_a_run_inside_another_one_needs_no_lane_of_its_own() -> None:
    program = Program(most_arenas=1)
    run(program, blocks, EVENTS)
    assert ends(lambda: run(program, lambda: run(program, blocks, EVENTS)))


def test_whoever_holds_a_shared_arena_may_run_while_others_wait() -> None:
    arena = Arena()
    program = sharing(arena)
    run(program, blocks, EVENTS)

    def work() -> None:
        with arena.lock:
            begun(lambda: run(program, blocks, EVENTS))
            time.sleep(0.2)  # it waits for the arena by now
            run(program, blocks, EVENTS)

    assert ends(work)


def test_runs_that_are_not_recorded_do_not_wait_for_each_other() -> None:
    program = Program(background=False)
    family = program.replayer.family(SIGNATURE)
    family.give_up("for this test")
    together = threading.Barrier(3)
    threads = [begun(lambda: run(program, together.wait, 10)) for _ in range(3)]
    for thread in threads:
        thread.join(20)
    assert not together.broken


@pytest.mark.parametrize("number", [1, 2])
def test_an_exception_before_a_recording_leaves_the_family_free(number: int) -> None:
    program = Program(background=True)
    family = program.replayer.family(SIGNATURE)
    calls = 0

    def interrupted() -> Signature:
        nonlocal calls
        calls += 1
        if calls == number:
            raise KeyboardInterrupt
        return SIGNATURE

    with suppress(KeyboardInterrupt):
        program.replayer.run(family, interrupted, blocks, EVENTS)
    assert worker().wait(30)
    assert not family.is_pending
    run(program, blocks, EVENTS)
    assert worker().wait(30)
    assert program.state[0] == "replay"


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("edgemem.replay.worker._WORKERS", [])
    monkeypatch.setattr(threading.Thread, "start", start)


@pytest.mark.usefixtures("no_threads")
def test_without_a_thread_for_plans_a_session_runs_plainly() -> None:
    program = Program(background=True)
    for _ in range(3):
        run(program, blocks, EVENTS)
    assert program.state == ("plain", 0, 0, 0)
    assert "thread" in program.replayer.family(SIGNATURE).reason
    assert worker().wait(0)


@pytest.mark.usefixtures("no_threads")
def test_a_job_without_a_thread_is_not_waited_for() -> None:
    jobs = Worker()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="thread"):
            jobs.submit(lambda: None)
    assert jobs.wait(0)


def test_a_family_that_gives_up_gives_its_arenas_back() -> None:
    program = Program()
    chance = random.Random(1)
    for _ in range(60):
        sizes = [chance.choice([64, 1 << 20]) for _ in range(chance.randint(1, 40))]
        run(program, blocks, [*sizes, *(-k - 1 for k in range(len(sizes)))])
    assert program.state[0] == "plain"
    assert program.replayer.arena_bytes() == 0


def test_closing_releases_what_a_run_still_uses_when_it_ends() -> None:
    before = library().totals()
    program = Program()
    for _ in range(2):
        run(program, blocks, EVENTS)
    is_on, may_end = threading.Event(), threading.Event()
    thread = begun(lambda: run(program, partial(held, is_on, may_end)))
    assert is_on.wait(10)
    program.replayer.close()
    may_end.set()
    thread.join(10)
    after = library().totals()
    assert (after.arenas, after.contexts) == (before.arenas, before.contexts)


@pytest.mark.full
def test_calls_of_ever_other_names_do_not_pile_up() -> None:
    program = Program(record="never")
    kept = program.replayer.family(SIGNATURE)
    for number in range(3 * MOST_FAMILIES):
        program.replayer.family(Signature("run", (), (f"output {number}",)))
    assert len(program.replayer._learner._families) <= MOST_FAMILIES
    program = Program()
    for number in range(MOST_FAMILIES + 3):
        signature = Signature("run", (), (f"output {number}",))
        program.replayer.run(program.replayer.family(signature), partial(replace, signature), blocks, EVENTS)
    assert len(program.replayer._learner._families) == MOST_FAMILIES
    assert program.state[0] == "plain"
    assert kept.mode == "record"


def test_the_arenas_may_be_counted_while_others_are_made() -> None:
    many = Lanes(HOST, ArenaMemory, 500, None)
    taken = [many.take() for _ in range(200)]

    def work() -> None:
        for _ in range(300):
            taken.append(many.take())
            many.new_memory(taken[-1], 64, 0)
        for _ in range(20):
            for lane in taken:
                many.new_memory(lane, 64, 0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        thread = begun(work)
        while thread.is_alive():
            many.arena_bytes()
    finally:
        sys.setswitchinterval(before)
    assert many.arena_bytes() == 500 * 64


def test_two_threads_that_give_memory_back_miss_no_lane() -> None:
    closes, goes_on = threading.Event(), threading.Event()

    class Memory(ArenaMemory):
        def close(self) -> None:
            closes.set()
            goes_on.wait(10)
            super().close()

    one = Lanes(HOST, Memory, 1, None)
    lane = one.take()
    one.new_memory(lane, 64, 0)
    one.give(lane)
    first = begun(one.drop_idle_memory)
    assert closes.wait(10)
    second = begun(one.drop_idle_memory)
    second.join(0.2)
    assert second.is_alive(), "the lane that the first one holds is idle, too"
    goes_on.set()
    for thread in (first, second):
        thread.join(10)
    assert one.arena_bytes() == 0


def test_a_run_that_waits_for_a_lane_goes_on_when_the_lanes_are_closed() -> None:
    one = Lanes(HOST, ArenaMemory, 1, None)
    lane = one.take()  # and somebody has it still when it has been given back, such as a traceback
    taking = begun(one.take)
    one.close()
    one.give(lane)
    taking.join(10)
    assert not taking.is_alive()


def test_an_exception_at_any_point_leaves_the_lanes_to_others() -> None:
    """As from a signal's handler, which runs between any two lines."""
    places = (lanes.__file__, threading.__file__)
    for point in range(200):
        one = Lanes(HOST, ArenaMemory, 1, None)
        lane: Any = one.take()
        other = begun(partial(taken_and_given, one))
        time.sleep(0.01)  # it waits by now
        with interrupted(point, places) as interrupt:
            one.give(lane)
        del lane
        other.join(10)
        assert not other.is_alive(), point
        if not interrupt.is_done:
            return
    pytest.fail("more points than were tried")


def test_a_plan_that_another_process_removes_does_not_hide_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(tmp_path)
    run(program, blocks, EVENTS)
    found = list(tmp_path.glob("*.edgemem"))
    assert found
    monkeypatch.setattr(Path, "glob", lambda *_: [tmp_path / "gone", *found])
    assert PlanCache(tmp_path).load(FINGERPRINT, Settings())


def in_child(call: Callable[[], object]) -> int:
    """The status of a forked child that calls this; a child that hangs is ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(10)
            call()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_runs_in_an_arena_that_another_thread_was_using() -> None:
    program = sharing(Arena())
    run(program, blocks, EVENTS)
    is_on, may_end = threading.Event(), threading.Event()
    thread = begun(lambda: run(program, partial(held, is_on, may_end)))
    assert is_on.wait(10)

    def child() -> None:
        run(program, blocks, EVENTS)
        assert program.state[:2] == ("replay", 1)

    status = in_child(child)
    may_end.set()
    thread.join(10)
    assert status == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_opens_sessions_while_a_thread_of_its_parent_did() -> None:
    class Options:
        enable_mem_pattern = enable_mem_reuse = True

        def add_session_config_entry(self, *_: str) -> None:
            pass

    is_on, may_end = threading.Event(), threading.Event()

    def opens() -> None:
        def load() -> None:
            is_on.set()
            may_end.wait(20)

        install.load_planned(load, Options(), is_device=False)

    def child() -> None:
        install.load_planned(lambda: None, Options(), is_device=False)

    thread = begun(opens)
    assert is_on.wait(10)
    status = in_child(child)
    may_end.set()
    thread.join(10)
    assert status == 0


_LIMITED_LATER = """
import ctypes, resource
from edgemem.replay.library import library
c = library().c
c.em_allocate.restype, c.em_allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
assert c.em_allocate(100)
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
kept = bytearray(64 << 20)
assert c.em_allocate(64 << 20)
"""


def test_a_limit_that_is_set_later_leaves_addresses_to_the_process() -> None:
    subprocess.run([sys.executable, "-c", _LIMITED_LATER], check=True, timeout=60)


def test_a_family_that_gave_up_is_asked_to_learn() -> None:
    """Warm-ups with runs of several forms, after the family has given up on the ones before."""
    program = Program(record="warmup")
    chance = random.Random(3)
    for _ in range(60):
        sizes = [chance.randint(1, 1 << chance.randint(4, 16)) for _ in range(chance.randint(1, 40))]
        order = list(range(len(sizes)))
        chance.shuffle(order)
        program.run([*sizes, *(-k - 1 for k in order)], learn=True)
    assert program.state[0] in ("plain", "replay")
