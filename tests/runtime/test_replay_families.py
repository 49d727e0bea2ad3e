"""What a session learns from runs that do not fit: a program that asks the allocator itself stands for the runtime."""

from __future__ import annotations

import ctypes
import os
import random
import threading
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import RuntimeBindError
from edgemem.planning.recording_plan import plan_recording
from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.replay.cache import PlanCache
from edgemem.replay.families import MOST_PLANS
from edgemem.replay.library import library
from edgemem.replay.plan import replay_plan
from edgemem.replay.policy import ReplayPolicy
from edgemem.replay.replayer import Replayer
from edgemem.replay.store import StoredPlans
from edgemem.replay.worker import Worker, worker
from edgemem.trace import Trace
from edgemem.trace.recording import Fingerprint, Recording, Signature
from tests.extent import run_for_seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

FINGERPRINT = Fingerprint("runtime", "1", "model")


def blocks(events: Sequence[int], pause: Callable[[], object] = lambda: None) -> None:
    """Ask and free as the events say: n bytes, or -k - 1 for request k. Every block is filled, and found unchanged.

    At an event 0 `pause` is called.
    """
    c = library().c
    c.em_allocate.restype, c.em_allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    c.em_free.restype, c.em_free.argtypes = None, [ctypes.c_void_p]
    alive: dict[int, tuple[int, int]] = {}
    number = 0
    for event in events:
        if event > 0:
            place = c.em_allocate(event)
            ctypes.memset(place, number % 251, event)
            alive[number] = place, event
            number += 1
        elif event == 0:
            pause()
        else:
            place, size = alive.pop(-event - 1)
            assert ctypes.string_at(place, size) == bytes([(-event - 1) % 251]) * size
            c.em_free(place)
    for place, _ in alive.values():
        c.em_free(place)


class Program:
    """A program whose runs are lists of events, in a replayer."""

    def __init__(self, cache: Path | None = None, **policy: Any) -> None:
        plan = partial(plan_recording, settings=Settings())
        stored = StoredPlans(FINGERPRINT, (), Settings(), PlanCache(cache) if cache else None)
        chosen = ReplayPolicy(**({"background": False} | policy))
        self.replayer = Replayer(stored, first=partial(plan, is_first=True), better=plan, policy=chosen)

    def run(self, events: Sequence[int], shape: tuple[int, ...] = (), *, learn: bool = False) -> None:
        signature = Signature("run", (("x", "float", shape),))
        family = self.replayer.family(signature)
        with self.replayer.learning() if learn else nullcontext():
            self.replayer.run(family, lambda: signature, blocks, events)

    @property
    def state(self) -> tuple[str, int, int, int]:
        """Mode, runs served whole, runs that were not, plans beyond the first."""
        assert self.replayer.current is not None
        totals = self.replayer.totals()
        return self.replayer.current.mode, totals.replayed, totals.bails, totals.replans


def scaled(size: int) -> list[int]:
    """A run whose requests grow with the shape."""
    return [100 * size, 64, -1, 50 * size, -2, 100 * size, -3, -4]


def test_one_plan_serves_every_smaller_shape() -> None:
    program = Program()
    program.run(scaled(9), (9,))
    for size in (9, 1, 5, 8, 2):
        program.run(scaled(size), (size,))
    assert program.state == ("replay", 5, 0, 0)


@pytest.mark.parametrize("strategy", ["greedy_by_size", "greedy_by_breadth", "pyramid", "strip_packing"])
@pytest.mark.parametrize("events", [[195, 108, 11, 67, -1, -3, -2, -4], [86, 60, 43, 99, -1, -2, -4, -3]])
def test_a_plan_that_ends_with_another_record_than_the_last_is_no_larger_than_all(
    strategy: str, events: list[int]
) -> None:
    """All are in use at once: no plan is smaller than the records, each padded but the one on top."""
    recording = Recording(FINGERPRINT, Trace.from_stream(np.array(events)))
    planset = plan_recording(recording, Settings(strategies=(f"offsets/{strategy}",)))
    assert replay_plan(prove(planset)).size <= sum(-(-event // 64) * 64 for event in events if event > 0)


def test_a_small_run_is_planned_in_a_hurry() -> None:
    program = Program(background=True)
    for _ in range(2):
        program.run([195, 108, 11, 67, -1, -3, -2, -4])
        assert worker().wait(30)
    assert program.state[:3] == ("replay", 1, 0)


@pytest.mark.parametrize("is_same", [True, False])
def test_a_process_that_asks_for_a_little_more_with_the_same_shapes_gets_no_headroom(
    tmp_path: Path, is_same: bool
) -> None:
    Program(tmp_path).run([640, 640, -1, -2], (3,))
    second = Program(tmp_path)
    for _ in range(3):
        second.run([640, 704, -1, -2], (3,) if is_same else (4,))
    assert second.state == ("replay", 1, 2, 0)
    assert second.replayer.arena_bytes() == (640 + 704 if is_same else 640 + 2 * 704)


def test_shapes_that_grow_step_by_step_need_a_plan_a_doubling() -> None:
    program = Program()
    for size in range(1, 257):
        program.run(scaled(size), (size,))
    mode, replayed, bails, replans = program.state
    assert mode == "replay"
    assert replans <= 9
    assert bails <= 2 * 9
    assert replayed >= 256 - 3 * 9


def test_runs_with_other_numbers_of_requests_have_plans_of_their_own() -> None:
    program = Program()
    first, second = [640, 64, -1, 640, -2, -3], [64, 640, 64, 640, -1, -2, -3, -4]
    for _ in range(3):
        program.run(first, (1,))
    for _ in range(3):
        program.run(second, (2,))
    before = program.state
    for _ in range(5):
        program.run(first, (1,))
        program.run(second, (2,))
    after = program.state
    assert after[1] - before[1] == 10
    assert (after[0], after[2], after[3]) == ("replay", before[2], 1)


def test_what_depends_on_data_gets_one_plan() -> None:
    program = Program()
    short, long = [512, 64, -1, -2], [512, 64, -1, 512, -2, -3]
    for _ in range(8):
        program.run(short)
        program.run(long)
    before = program.state
    for _ in range(4):
        program.run(short)
        program.run(long)
    assert program.state[1] - before[1] == 8


def test_the_part_that_all_runs_share_stays_planned() -> None:
    """The rest differs so much that one plan of all would take far more memory than any run."""
    program = Program()
    chance = random.Random(0)
    starts = [4096, 4096, -1, 4096, -2, 4096, -3, 4096, -4, 4096, -5, -6]
    for _ in range(60):
        rest, alive = [], []
        number = 6
        for _ in range(chance.randint(1, 8)):
            rest.append(chance.choice([64, 1 << 20]))
            alive.append(number)
            number += 1
            if chance.random() < 0.5:
                rest.append(-alive.pop(chance.randrange(len(alive))) - 1)
        program.run([*starts, *rest, *(-k - 1 for k in alive)])
    mode, _, _, replans = program.state
    assert replans < MOST_PLANS
    stats, _ = program.replayer.last()
    assert stats is not None
    assert mode == "plain" or stats.hits >= 5


def test_a_program_that_never_repeats_stops_trying() -> None:
    program = Program()
    chance = random.Random(1)
    for _ in range(200):
        sizes = [chance.randint(1, 1 << chance.randint(4, 16)) for _ in range(chance.randint(1, 40))]
        order = list(range(len(sizes)))
        chance.shuffle(order)
        program.run([*sizes, *(-k - 1 for k in order)])
    assert program.state[3] < MOST_PLANS
    before = program.replayer.totals()
    program.run([64, -1])
    assert program.replayer.totals().replans == before.replans


@run_for_seeds(range(30), quick=6)
def test_no_block_is_ever_written_over_whatever_the_runs_do(seed: int) -> None:
    chance = random.Random(seed)
    program = Program(poison=True)
    template = [chance.choice([64, 1000, 5000]) for _ in range(12)]
    for _ in range(40):
        events: list[int] = []
        alive: list[int] = []
        for number, size in enumerate(template[: chance.randint(8, 12)]):
            events.append(max(1, int(size * chance.choice([0.5, 1, 1, 1, 1.5]))))
            alive.append(number)
            while alive and chance.random() < 0.4:
                events.append(-alive.pop(chance.randrange(len(alive)) if chance.random() < 0.2 else 0) - 1)
        program.run(events, (chance.randint(1, 3),))


def test_never_and_warmup_record_nothing_by_themselves() -> None:
    for record in ("never", "warmup"):
        program = Program(record=record)
        for _ in range(3):
            program.run(scaled(3))
        assert program.state == ("record", 0, 0, 0)
    program.run(scaled(3), learn=True)
    program.run(scaled(2))
    assert program.state[:3] == ("replay", 1, 0)
    program.run(scaled(4))
    program.run(scaled(4))
    assert program.state == ("replay", 1, 2, 0)


def test_plans_are_made_on_another_thread_and_runs_go_on_meanwhile() -> None:
    program = Program(background=True)
    go_on = threading.Event()

    def busy() -> None:
        go_on.wait(60)

    worker().submit(busy)
    for _ in range(5):
        program.run(scaled(3))
    assert program.state == ("record", 0, 0, 0)
    go_on.set()
    assert worker().wait(30)
    program.run(scaled(3))
    assert program.state == ("replay", 1, 0, 0)


def test_what_was_learnt_is_there_for_the_next_session(tmp_path: Path) -> None:
    program = Program(cache=tmp_path)
    for size in (1, 4, 4, 4):
        program.run(scaled(size), (size,))
    assert len(list(tmp_path.iterdir())) == 1, "the wider plan is in the place of the first one"
    again = Program(cache=tmp_path)
    for size in (4, 2, 8):
        again.run(scaled(size), (size,))
    assert again.state == ("replay", 2, 1, 0), "the cache hands on what was recorded, not room for twice the growth"


def test_runs_at_once_have_so_many_arenas_and_wait_for_their_turn() -> None:
    program = Program(most_arenas=2)
    program.run(scaled(4))
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for size in range(1, 5):
                program.run(scaled(size))
        except BaseException as e:  # noqa: BLE001 - shown below
            failed.append(e)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    assert program.state == ("replay", 32, 0, 0)
    served = program.replayer.arena_bytes()
    assert served <= 2 * 1000


def test_an_exception_at_any_place_leaves_no_run_behind() -> None:
    program = Program()
    program.run(scaled(3))

    def fails() -> None:
        raise KeyboardInterrupt

    signature = Signature("run", (("x", "float", ()),))
    family = program.replayer.family(signature)
    kept = []
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt) as caught:
            program.replayer.run(family, lambda: signature, fails)
        kept.append(caught)  # its frames stay alive
    # As if the exception had come between two instructions: the lane is lost within its run.
    lane = program.replayer._lanes.take()
    assert lane.context.begin_record()
    kept.append(lane)  # type: ignore[arg-type]
    for _ in range(3):
        program.run(scaled(3))
    assert program.state == ("replay", 3, 0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_on() -> None:
    program = Program(background=True)
    program.run(scaled(3))
    assert worker().wait(30)
    program.run(scaled(3))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            program.run(scaled(3))
            program.run(scaled(30))
            program.run(scaled(30))
            status = 0 if worker().wait(30) and program.state[0] == "replay" else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_a_closed_replayer_runs_no_more() -> None:
    program = Program()
    program.run(scaled(3))
    program.replayer.close()
    with pytest.raises(RuntimeBindError, match="closed"):
        program.run(scaled(3))


def test_a_job_that_fails_is_logged_and_others_follow(caplog: pytest.LogCaptureFixture) -> None:
    jobs = Worker()
    done: list[int] = []

    def fails() -> None:
        raise ValueError("this one")

    jobs.submit(fails)
    jobs.submit(lambda: done.append(1))
    assert jobs.wait(30)
    assert done == [1]
    assert "this one" in caplog.text
