"""Runs that wait: for a part of an arena, for room within a cap, and to be alone."""

from __future__ import annotations

import ctypes
import itertools
import random
import threading
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.planning.recording_plan import plan_recording
from edgemem.plans import Settings
from edgemem.replay import parts, room, turns
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.budget import BudgetedReplayer
from edgemem.replay.lanes import Lanes
from edgemem.replay.library import HOST, library
from edgemem.replay.parts import UNITS, ArenaParts, unit_of
from edgemem.replay.policy import ReplayPolicy
from edgemem.replay.room import Room
from edgemem.replay.store import StoredPlans
from edgemem.replay.turns import MOST_PASSED
from edgemem.trace.recording import Signature
from tests.interrupts import interrupted
from tests.runtime.test_replay_families import FINGERPRINT
from tests.runtime.test_small_runs import at_once, joined, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.replay.lanes import Lane

MIB = 1 << 20


@pytest.mark.parametrize("most", [3 * UNITS, 2 * UNITS + 5, UNITS])
def test_parts_never_lie_on_each_other(most: int) -> None:
    """Random parts, given back in any order, against a list of the bytes that are in use."""
    rng = random.Random(0)
    size = 64 * UNITS * 5 - 100
    given = ArenaParts(partial(ArenaMemory, has_parts=True))
    taken: list[parts.ArenaPart] = []
    for _ in range(2000):
        needed = rng.choice([1, unit_of(size), 2 * unit_of(size), 3 * unit_of(size), size])
        units = parts.units_of(needed, size)
        if rng.random() < 0.5 and any(fits(taken, given, units, most)):
            part = given.take(needed, lambda: (size, most))
            assert part.memory is not None
            assert part.memory.size >= needed
            taken.append(part)
            places = sorted(place(part) for part in taken)
            assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(places))
            assert given.bytes() <= most * unit_of(size)
        elif taken:
            given.give(taken.pop(rng.randrange(len(taken))))
    for part in taken:
        given.give(part)
    given.drop_idle()
    assert given.bytes() == 0


def place(part: parts.ArenaPart) -> tuple[int, int]:
    """Its address and bytes."""
    assert part.memory is not None
    return int(part.memory.as_bytes().ctypes.data), part.memory.size


def fits(taken: list[parts.ArenaPart], given: ArenaParts, units: int, most: int) -> list[bool]:
    """For each place of so many units, aligned to as many, in an arena that there is or may be: whether it is free."""
    free = most - sum(arena.whole.size // arena.unit for arena in given._arenas)
    found = [units <= free]
    for arena in given._arenas:
        used = arena.missing + sum(part.order for part in taken if part.arena is arena)
        found += [not used >> k & (1 << units) - 1 for k in range(0, UNITS, units)]
    return found


def enter(given: Any, size: int, most: int) -> Any:
    """Into a `Room`, or into a part of the one arena of `ArenaParts`."""
    return given.enter(size, most) if isinstance(given, Room) else given.take(size, lambda: (most, UNITS))


def leave(given: Any, place: Any) -> None:
    (given.leave if isinstance(given, Room) else given.give)(place)


def make_given(kind: str) -> Any:
    return Room() if kind == "room" else ArenaParts(partial(ArenaMemory, has_parts=True))


@pytest.mark.parametrize("kind", ["room", "parts"])
def test_larger_runs_that_come_later_let_a_smaller_one_in(kind: str) -> None:
    given, order, size = make_given(kind), list[int](), 64 * UNITS
    first = enter(given, size, size)

    def go(wanted: int) -> None:
        place = enter(given, wanted, size)
        order.append(wanted)
        leave(given, place)

    threads = at_once(partial(go, 64))
    until(lambda: len(given.queue.waiting) == 1)

    def stream() -> None:
        for _ in range(30):
            go(size)

    threads += at_once(*[stream] * 3)
    until(lambda: len(given.queue.waiting) == 4)
    leave(given, first)
    joined(threads)
    assert sorted(order) == [64] + [size] * 90
    assert order.index(64) <= MOST_PASSED


def test_an_interrupted_wait_to_be_alone_keeps_no_run_out() -> None:
    """The exception is kept with its frames, as an interactive Python keeps the last one."""
    given, kept = Room(), list[BaseException]()
    inside = given.enter(1, 1)

    def wait() -> None:
        try:
            given.enter_alone()
        except InterruptedError as error:
            kept.append(error)

    threads = at_once(wait)
    until(lambda: given.queue.waiting)
    ident = ctypes.c_ulong(threads[0].ident or 0)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(InterruptedError)) == 1
    joined(threads)
    given.leave(inside)
    joined(at_once(lambda: given.leave(given.enter(1, 1))))
    assert len(kept) == 1


def test_arenas_of_an_earlier_size_count_until_their_last_run_ends() -> None:
    given, size, arenas = make_given("parts"), 64 * UNITS, library().totals().arenas
    sizes, taken = [size], list[parts.ArenaPart]()
    small = given.take(64, lambda: (sizes[0], UNITS))
    waiting = at_once(lambda: taken.append(given.take(size, lambda: (sizes[0], UNITS))))
    until(lambda: len(given.queue.waiting) == 1)
    sizes[0] = 2 * size
    later = at_once(lambda: taken.append(given.take(2 * size, lambda: (sizes[0], UNITS))))
    until(lambda: len(given.queue.waiting) == 2)
    assert (given.bytes(), library().totals().arenas) == (size, arenas + 1)
    given.give(small)
    for _ in range(2):
        until(lambda: taken)
        assert (given.bytes(), library().totals().arenas) == (2 * size, arenas + 1)
        given.give(taken.pop())
    joined(waiting + later)


def test_smaller_arenas_never_take_the_room_of_a_whole_one() -> None:
    """Also those that are made while an arena of an earlier size leaves no room for it."""
    given, early, size = make_given("parts"), 192 * UNITS, 320 * UNITS
    limits = [(early, UNITS)]
    old = given.take(1, lambda: limits[0])
    limits[0] = (size, UNITS + 5)
    small = [given.take(1, lambda: limits[0]) for _ in range(5)]
    assert given.bytes() == early + 5 * 320
    taken = list[parts.ArenaPart]()
    waiting = at_once(lambda: taken.append(given.take(1, lambda: limits[0])))
    until(lambda: len(given.queue.waiting) == 1)
    given.give(old)
    joined(waiting)
    given.give(taken.pop())
    joined(at_once(lambda: taken.append(given.take(size, lambda: limits[0]))))
    assert given.bytes() == (UNITS + 5) * 320
    for part in (*small, *taken):
        given.give(part)
    limits[0] = (size, UNITS)
    given.give(given.take(2, lambda: limits[0]))
    assert given.bytes() == size


@pytest.mark.parametrize("kind", ["room", "parts"])
def test_an_exception_at_any_point_leaves_what_a_run_had_to_others(kind: str) -> None:
    """As from a signal's handler, which runs between any two lines."""
    places = (room.__file__, parts.__file__, turns.__file__)

    for point in range(300):
        given = make_given(kind)
        with interrupted(point, places) as interrupt:
            leave(given, enter(given, 640, 640))
        joined(at_once(lambda given=given: leave(given, enter(given, 640, 640))))  # type: ignore[misc]
        if not interrupt.is_done:
            return
    pytest.fail("more points than were tried")


def test_a_small_run_has_a_part_beside_those_that_are_kept_for_a_larger_one() -> None:
    """Half of the arena waits for two runs to end; of the other half, nobody else has anything."""
    given, size = make_given("parts"), 64 * UNITS
    quarters = [enter(given, size // 4, size) for _ in range(4)]
    taken = list[Any]()
    half = at_once(lambda: taken.append(enter(given, size // 2, size)))
    until(lambda: len(given.queue.waiting) == 1)
    for k in (3, 1):  # one of each half
        leave(given, quarters.pop(k))
    beside = enter(given, size // 4, size)
    assert taken == []
    leave(given, quarters.pop(0))
    joined(half)
    for part in (*taken, beside, *quarters):
        leave(given, part)
    given.drop_idle()
    assert given.bytes() == 0


def test_small_runs_go_beside_a_larger_one_that_waits_if_there_is_room_for_it_too() -> None:
    given, taken = Room(), list[Any]()
    first = given.enter(6, 10)
    threads = at_once(lambda: taken.append(("large", given.enter(8, 10))))
    until(lambda: len(given.queue.waiting) == 1)
    beside = given.enter(2, 10)
    threads += at_once(lambda: taken.append(("small", given.enter(1, 10))))
    until(lambda: len(given.queue.waiting) == 2)
    given.leave(first)
    joined(threads[:1])
    assert [name for name, _ in taken] == ["large"]
    given.leave(beside)
    joined(threads)
    assert [name for name, _ in taken] == ["large", "small"]


def test_no_thread_that_comes_again_takes_a_lane_away_from_one_that_waits() -> None:
    lanes, order = Lanes(HOST, ArenaMemory, 1, None), list[int]()
    first = lanes.take()

    def go(name: int) -> None:
        for _ in range(50):
            lane = lanes.take()
            order.append(name)
            lanes.give(lane)

    threads = list[threading.Thread]()
    for name in range(4):
        threads += at_once(partial(go, name))
        until(lambda name=name: len(lanes._queue.waiting) == name + 1)  # type: ignore[misc]
    lanes.give(first)
    joined(threads)
    assert order[:4] == [0, 1, 2, 3]
    assert max(sum(1 for _ in run) for _, run in itertools.groupby(order[:190])) <= 2


def waits(given: Any, count: int) -> None:
    until(lambda: len(given.queue.waiting) == count)


@pytest.fixture
def nobody_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits goes on only when it is handed something."""
    monkeypatch.setattr(turns, "_LOOK_AGAIN", 60)


@pytest.mark.usefixtures("nobody_looks_again")
def test_a_run_that_waits_to_be_alone_is_told_behind_one_that_needs_nothing() -> None:
    given = Room()
    first = given.enter_alone()
    threads = at_once(lambda: given.leave(given.enter(0, 10)))
    waits(given, 1)
    threads += at_once(lambda: given.leave(given.enter_alone()))
    waits(given, 2)
    given.leave(first)
    joined(threads)


def test_runs_that_are_alone_let_another_one_in() -> None:
    """There is always one more that waits to be alone."""
    given, order = Room(), list[str]()
    first = given.enter_alone()

    def beside() -> None:
        given.enter(1, 10)
        order.append("beside")

    threads = at_once(beside)
    waits(given, 1)

    def alone() -> None:
        place = given.enter_alone()
        if len(order) < 10 * MOST_PASSED and "beside" not in order:
            threads.extend(at_once(alone))
            until(lambda: given.queue.waiting)
        order.append("alone")
        given.leave(place)

    threads += at_once(alone)
    waits(given, 2)
    given.leave(first)
    joined(threads)
    assert order.index("beside") <= MOST_PASSED + 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("kind", ["room", "alone", "parts"])
def test_an_exception_while_something_is_handed_on_leaves_it_to_the_one_that_waits(
    kind: str, error: type[BaseException]
) -> None:
    """In the thread that hands it on, between any two lines."""
    files = (room.__file__, parts.__file__, turns.__file__)
    for point in range(300):
        given = make_given("room" if kind == "alone" else kind)
        first = enter(given, 640, 640)

        def go(given: Any = given) -> None:
            leave(given, given.enter_alone() if kind == "alone" else enter(given, 640, 640))

        threads = at_once(go)
        waits(given, 1)
        with interrupted(point, files, error) as interrupt:
            leave(given, first)
        assert interrupt.is_done == interrupt.is_raised, "the thread never hears of it"
        del first
        joined(threads)
        joined(at_once(go))
        if not interrupt.is_done:
            return
    pytest.fail("more points than were tried")


@pytest.mark.usefixtures("nobody_looks_again")
@pytest.mark.parametrize("kind", ["room", "parts"])
def test_an_exception_that_is_kept_does_not_keep_what_its_thread_was_handed(kind: str) -> None:
    given, kept = make_given(kind), list[BaseException]()
    first = enter(given, 640, 640)

    def wait() -> None:
        try:
            enter(given, 640, 640)
        except InterruptedError as error:
            kept.append(error)

    threads = at_once(wait)
    waits(given, 1)
    ident = ctypes.c_ulong(threads[0].ident or 0)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(InterruptedError)) == 1
    leave(given, first)  # it comes out of the wait with what it was handed, and with the exception
    joined(threads)
    joined(at_once(lambda: leave(given, enter(given, 640, 640))))
    assert len(kept) == 1


def test_one_that_found_something_itself_is_handed_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its look and its way out, another thread gives something back."""
    lanes = Lanes(HOST, ArenaMemory, 1, None)
    first, taken = lanes.take(), list[Any]()
    queue, look = lanes._queue, lanes._found

    class Lock:
        """The queue's, opened for others when the thread has found something."""

        has_found = False
        lock = queue.lock

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()
            if self.has_found:
                self.has_found = False
                joined(at_once(queue.serve))

    def found() -> Any:
        lane = look()
        lock.has_found = lane is not None
        return lane

    lock = Lock()
    monkeypatch.setattr(queue, "lock", lock)
    monkeypatch.setattr(lanes, "_found", found)
    threads = at_once(lambda: taken.append(lanes.take()))
    waits(SimpleNamespace(queue=queue), 1)
    lanes._idle.append(first)  # as in `give`, before the others are served
    joined(threads)
    assert taken == [first]


def capped() -> tuple[BudgetedReplayer, Callable[[Callable[[], str]], str]]:
    """A replayer within a MiB, and how it does a run."""
    plan = partial(plan_recording, settings=Settings())
    stored = StoredPlans(FINGERPRINT, (), Settings(), None)
    policy = ReplayPolicy(background=False)
    replayer = BudgetedReplayer(stored, first=plan, better=plan, policy=policy, most_bytes=MIB, make=ArenaMemory)
    signature = Signature("run", ())
    return replayer, lambda call: replayer.run(replayer.family(signature), lambda: signature, call)


def refused() -> str:
    assert not library().c.em_allocate(2 * MIB)
    raise RuntimeError("the runtime has no memory")


def test_a_refused_run_is_done_again_though_a_thread_that_waits_is_refused_an_arena_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread whose run ends makes the arena for the one that waits."""
    replayer, run = capped()
    lanes = replayer._lanes
    give, calls = lanes.give, list[str]()

    def give_and_serve(lane: Lane) -> None:
        give(lane)
        with suppress(turns.RefusedError):
            lanes._make(2 * MIB)

    def call() -> str:
        calls.append("call")
        return refused() if len(calls) == 1 else "done"

    monkeypatch.setattr(lanes, "give", give_and_serve)
    assert run(call) == "done"
    assert len(calls) == 2


def test_an_interrupted_wait_to_be_alone_changes_nothing_for_the_run_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    replayer, run = capped()

    def wait() -> None:
        replayer._is_alone = True  # the other run, which began meanwhile
        raise InterruptedError

    monkeypatch.setattr(replayer._gate, "enter_alone", wait)
    with pytest.raises(InterruptedError):
        run(refused)
    assert replayer._is_alone
