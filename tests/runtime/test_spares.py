"""What a run gives back while nobody waits: a spare for the next run that needs the same, taken without a lock."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import weakref
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.replay import parts, room, turns
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.lanes import Lane, Lanes
from edgemem.replay.library import HOST, library
from edgemem.replay.parts import UNITS, ArenaPart, ArenaParts, unit_of
from edgemem.replay.room import Room
from tests.interrupts import interrupted
from tests.runtime.test_small_runs import at_once, joined, until
from tests.runtime.test_waiting_runs import enter, leave, make_given, place, waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.replay.turns import Waiter

SIZE = 64 * UNITS


@pytest.mark.parametrize("kind", ["room", "parts"])
def test_what_was_given_back_is_for_the_next_run_of_that_size_or_for_any_other(kind: str) -> None:
    given, size = make_given(kind), SIZE
    small = [enter(given, 64, size) for _ in range(UNITS)]
    for one in reversed(small):
        leave(given, one)
    again = list[Any]()
    with given.queue.lock:  # which those of the same size do without
        joined(at_once(lambda: again.extend(enter(given, 64, size) for _ in range(UNITS))))
    assert set(map(id, again)) == set(map(id, small))
    for one in again:
        leave(given, one)
    whole = enter(given, size, size)
    waiting = at_once(lambda: leave(given, enter(given, 64, size)))
    until(lambda: given.queue.waiting)
    leave(given, whole)
    joined(waiting)


def test_parts_near_the_beginning_are_taken_first() -> None:
    given, size = make_given("parts"), SIZE
    parts_of_it = [enter(given, 64, size) for _ in range(UNITS)]
    random.Random(0).shuffle(parts_of_it)
    for part in parts_of_it:
        leave(given, part)
    assert [enter(given, 64, size).order for _ in range(4)] == [1, 2, 4, 8]


def test_what_is_given_back_to_closed_parts_is_released() -> None:
    given, arenas = make_given("parts"), library().totals().arenas
    early, late = (enter(given, 64, SIZE) for _ in range(2))
    leave(given, early)
    given.close()
    leave(given, late)
    assert library().totals().arenas == arenas


def test_a_thread_that_finds_no_memory_for_another_one_ends() -> None:
    """It hands on what it gives back: there is no part for the first that waits, and no memory for the second."""
    lacks, most = [False], [UNITS]

    def make(size: int) -> ArenaMemory:
        if lacks[0]:
            raise MemoryError
        return ArenaMemory(size, has_parts=True)

    given, refused = ArenaParts(make), list[bool]()
    first, second = (given.take(64, lambda: (SIZE, UNITS)) for _ in range(2))
    threads = at_once(lambda: given.give(given.take(SIZE, lambda: (SIZE, most[0]))))
    waits(given, 1)

    def small() -> None:
        with pytest.raises(MemoryError):
            given.take(4 * 64, lambda: (SIZE, most[0]))
        refused.append(True)

    threads += at_once(small)
    waits(given, 2)
    lacks[0], most[0] = True, UNITS + 5  # of which the second may have an arena
    joined(at_once(lambda: given.give(first)))
    until(lambda: refused)
    given.give(second)
    joined(threads)


def test_an_arena_with_a_block_that_outlived_its_run_goes_with_its_last_run() -> None:
    """Although there are always runs that need what the last one gave back."""
    given = make_given("parts")
    early, late = (enter(given, 64, SIZE) for _ in range(2))
    arena = early.arena
    early.memory = arena.parts[1] = kept = SimpleMemory(left=1)
    leave(given, early)
    beside = enter(given, 64, SIZE)
    leave(given, late)
    again = enter(given, 64, SIZE)
    assert kept.is_closed
    assert beside.arena is again.arena is not arena


class SimpleMemory:
    """Of a part, with blocks in use."""

    is_closed = False

    def __init__(self, left: int) -> None:
        self.left = left

    def close(self) -> None:
        """Whoever has the arena no longer needs it."""
        self.is_closed = True


def test_a_part_of_before_a_fork_is_not_for_the_next_run() -> None:
    given = make_given("parts")
    before = enter(given, 64, SIZE)
    given.start_again()
    leave(given, before)
    assert enter(given, 64, SIZE).arena is not before.arena


@pytest.mark.parametrize("limits", [(100 * SIZE, UNITS), (SIZE, 5)])
def test_arenas_of_earlier_limits_go_with_their_runs(limits: tuple[int, int]) -> None:
    """Although the runs that go on need what was given back."""
    given = make_given("parts")
    given.give(given.take(64, lambda: limits))
    part = given.take(64, lambda: (SIZE, UNITS))
    assert given.bytes() == SIZE
    given.give(part)


@pytest.mark.parametrize("kind", ["room", "parts"])
def test_what_was_given_back_after_a_wait_does_not_keep_its_owner(kind: str) -> None:
    given = make_given(kind)
    first = enter(given, SIZE, SIZE)
    waiting = at_once(partial(lambda given: leave(given, enter(given, SIZE, SIZE)), given))
    waits(given, 1)
    leave(given, first)
    joined(waiting)
    gc.collect()
    gc.disable()
    try:
        ref = weakref.ref(given)
        del given
        assert ref() is None
    finally:
        gc.enable()


def test_a_lane_that_is_given_back_while_parts_begin_loses_its_arena() -> None:
    lanes = Lanes(HOST, ArenaMemory, 1, None)
    lane = lanes.take()
    lanes.new_memory(lane, 4096, 0)

    class Idle(list[Lane]):
        def append(self, lane: Lane) -> None:
            if not lanes._have_parts:
                lanes.have_parts()
            super().append(lane)

    lanes._idle = Idle()
    lanes.give(lane)
    assert lanes.arena_bytes() == 0


@pytest.mark.parametrize("kind", ["room", "parts"])
def test_who_begins_to_wait_while_a_spare_is_kept_is_handed_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_LOOK_AGAIN", 60)
    given, threads = make_given(kind), list[threading.Thread]()
    first = enter(given, 64, SIZE)

    class Spares(dict[Any, Any]):
        def setdefault(self, need: Any, spares: Any = None) -> Any:
            if not threads:
                threads.extend(at_once(lambda: leave(given, enter(given, SIZE, SIZE))))
                waits(given, 1)
            return super().setdefault(need, spares)

    monkeypatch.setattr(given.queue, "_spares", Spares())
    leave(given, first)
    joined(threads)


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Use:
    """What each thread has now, and what was wrong with it. An interrupted one has it until its next run."""

    def __init__(self, units: int, most: int) -> None:
        self.lock = threading.Lock()
        self.units, self.most = units, most
        self.size = SIZE
        self.gate, self.parts = Room(), ArenaParts(partial(ArenaMemory, has_parts=True))
        self.places: dict[int, Waiter] = {}
        self.taken: dict[int, tuple[ArenaPart, int, int]] = {}  # with where it begins, and its bytes
        self.wrong: list[str] = []

    def enter(self, key: int, size: int) -> None:
        mine = self.gate.enter(size, self.most)
        with self.lock:
            self.places[key] = mine
            sizes = [other.size for other in list(self.places.values())]
        if len(sizes) > 1 and sum(sizes) > self.most:
            self.wrong.append(f"{sizes} within {self.most}")

    def take(self, key: int, needed: int) -> None:
        part = self.parts.take(needed, lambda: (self.size, self.units))
        begin, size = place(part)
        with self.lock:
            others = [(b, n) for _, b, n in list(self.taken.values())]
            self.taken[key] = part, begin, size
        if size < needed or any(begin < b + n and b < begin + size for b, n in others):
            self.wrong.append(f"{needed} bytes: {begin}, {size} beside {others}")

    def give(self, key: int) -> None:
        taken, mine = self.taken.pop(key, None), self.places.get(key)
        if taken is not None:
            self.parts.give(taken[0])
        if self.places.pop(key, None) is not None and mine is not None:
            self.gate.leave(mine)

    def drop(self, key: int) -> None:
        self.taken.pop(key, None)
        self.places.pop(key, None)


@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("is_interrupted", [False, True])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=pytest.mark.full) for k in range(3, 15))])
def test_random_runs_have_nothing_together_and_leave_nothing(
    seed: int, is_interrupted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that have places, and parts in them, for moments; exceptions come between any two lines, or none."""
    if not is_interrupted:  # who waits goes on only when it is handed something
        monkeypatch.setattr(turns, "_LOOK_AGAIN", 120)
    rng = random.Random(seed)
    gc.collect()  # arenas of earlier tests
    arenas = library().totals().arenas
    use = Use(rng.choice([UNITS, 2 * UNITS, 2 * UNITS + 5]), 100)
    needs = rng.choice([[1], [1, 64, 128, SIZE], [1, 192, 512], [64, SIZE]])
    rooms = rng.choice([[10], [0, 10, 10, 60, 100], [10, 10, 1 << 62], [30, 150]])
    sizes = rng.choice([[SIZE], [SIZE], [SIZE, SIZE, 2 * SIZE]])

    def go(key: int, own: random.Random) -> None:
        use.enter(key, own.choice(rooms))
        use.take(key, own.choice(needs))
        chance = own.random()
        if chance < 0.5:
            time.sleep(own.random() * 0.0003)
        if chance < 0.02:
            use.size = own.choice(sizes)
        if chance < 0.01:
            use.parts.drop_idle()
        if len(sizes) == 1 and use.parts.bytes() > use.units * unit_of(SIZE):
            use.wrong.append(f"{use.parts.bytes()} bytes of {use.units} units")
        use.give(key)

    def work(key: int) -> None:
        own = random.Random(seed * 100 + key)
        files = (room.__file__, parts.__file__, turns.__file__)
        try:
            for _ in range(30 if is_interrupted else 100):  # a hand-over that is lost costs a look of 50 ms
                with interrupted(own.randrange(600), files) if is_interrupted else nullcontext():
                    go(key, own)
                use.drop(key)
        except Exception as error:  # noqa: BLE001
            use.wrong.append(repr(error))

    joined(at_once(*[partial(work, key) for key in range(rng.choice([2, 4, 8, 16]))]))
    assert not use.wrong
    joined(at_once(lambda: use.gate.leave(use.gate.enter_alone())))
    joined(at_once(lambda: use.parts.give(use.parts.take(2 * SIZE, lambda: (2 * SIZE, UNITS)))))
    assert use.parts.bytes() == 2 * SIZE
    use.parts.close()
    assert use.parts.bytes() == 0
    assert library().totals().arenas == arenas
