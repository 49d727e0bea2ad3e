"""A loop does what a model of the whole program says: threads, streams, plans that follow each other, pauses, records.

Beside the model, a ledger of the bytes themselves: no block lies in another one, or in what a stream may still use.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.library import DEVICE, library
from edgemem.replay.loop import HOST_MEMORY, Loop
from edgemem.trace import Section
from edgemem.trace.slots import Slots
from tests.oracle.loop_program import Block, ModelArena, ProgramModel

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVICE_NUMBER = 27
SIZE = 1024
THREADS = STREAMS = 3
SECTIONS = 3
STEPS = 150
SIZES = (1, 64, 65, 100, 128, 200)
_TAKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)
_GIVE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


@pytest.fixture(scope="module", autouse=True)
def source() -> Iterator[None]:
    """Device memory, which is the host's here and is given back at the end of the module."""
    segments: list[Any] = []

    def take_segment(out: Any, size: int) -> int:
        segments.append(ctypes.create_string_buffer(size + 512))
        out[0] = -(-ctypes.addressof(segments[-1]) // 512) * 512
        return 0

    functions = _TAKE(take_segment), _GIVE(lambda _: 0)
    library().c.em_cuda_source(*(ctypes.cast(f, ctypes.c_void_p) for f in functions))
    yield
    library().c.em_cuda_source(None, None)


@pytest.fixture(scope="module")
def workers() -> Iterator[list[ThreadPoolExecutor]]:
    """Threads that do what they are told, one after the other."""
    made = [ThreadPoolExecutor(1) for _ in range(THREADS)]
    yield made
    for worker in made:
        worker.shutdown()


class Step(NamedTuple):
    what: str
    thread: int
    number: int
    stream: int


RARE = ("plan", "synchronize", "share", "share", "pause", "resume", "resume", "record")
KINDS = (*("take",) * 20, *("give",) * 16, *("enter",) * 6, *("turn",) * 3, *RARE)


def random_plan(dice: Random) -> Slots:
    """Any slots of several lanes; places may overlap."""
    parts = []
    for _ in range(dice.randrange(3)):
        cuts = sorted(dice.sample(range(SIZE + 1), 2 * dice.randrange(4)))
        parts.append(np.array(cuts, np.int64))
    rows = []
    sections = [-1] * THREADS
    for _ in range(dice.randrange(40)):
        lane = dice.choice((0, 0, 0, 1, 2))
        sections[lane] = dice.choice((*(sections[lane],) * 12, *range(-1, SECTIONS)))
        size = dice.choice(SIZES)
        kind = dice.choice(("place",) * 6 + ("fallback", "dynamic"))
        places = range(0, SIZE - size + 1, 64)
        offset = other = space = -1
        if kind == "dynamic" and parts:
            space = dice.randrange(len(parts))
        elif kind == "place":
            offset, other = dice.choice(places), dice.choice((-1, dice.choice(places)))
        rows.append((size, offset, other, lane, sections[lane], space))
    asked, offsets, others, lanes, within, spaces = np.array(rows, np.int64).reshape(-1, 6).T
    return Slots(SIZE, 64, asked, offsets, others, lanes, within, spaces, tuple(parts))


def random_step(dice: Random) -> Step:
    return Step(dice.choice(KINDS), dice.choice((0, 0, 0, 1, 2)), dice.randrange(30), dice.choice((0, 0, 0, 1, 2)))


class Memory(ArenaMemory):
    """An arena of the kind of memory that a loop is of."""

    def __init__(self, device: int) -> None:
        if device == HOST_MEMORY:
            super().__init__(SIZE)
            self.base = self.as_bytes().ctypes.data
            return
        c = library().c
        self._memory = ctypes.create_string_buffer(SIZE + 512)
        self.base = -(-ctypes.addressof(self._memory) // 512) * 512
        self.adopt(c.em_arena_wrap(self.base, SIZE, DEVICE), c.em_arena_release, SIZE)


class Run:
    """A program that runs on the loop and on the model, and compares."""

    def __init__(self, device: int, plans: list[Slots], workers: list[ThreadPoolExecutor]) -> None:
        self.device, self.plans, self.workers = device, plans, workers
        self.is_host = device == HOST_MEMORY
        self.loop, self.model = Loop(device), ProgramModel(is_host=self.is_host)
        self.arenas: list[tuple[Memory, ModelArena]] = []
        self.alive: list[tuple[int, Block]] = []
        self.withheld: list[tuple[int, Block]] = []
        self.used_by: list[tuple[int, int, int]] = []  # begin, end and stream of what was freed since the last wait
        self.is_on_record: set[Block] = set()
        self.loop.start()

    def take(self, step: Step) -> None:
        size, stream = SIZES[step.number % len(SIZES)], 0 if self.is_host else step.stream
        address = self.workers[step.thread].submit(library().c.em_torch_malloc, size, self.device, stream).result()
        block = self.model.take(step.thread, size, stream)
        found = [(m, address - a.base) for a, m in self.arenas if a.base <= address < a.base + SIZE]
        assert found == ([(block.arena, block.offset)] if block.arena is not None else [])
        assert address % (64 if self.is_host or found else 512) == 0
        for other, held in self.alive + self.withheld:
            assert address + size <= other or other + held.size <= address
        for begin, end, last in self.used_by:
            assert last == stream or address + size <= begin or end <= address
        self.alive.append((address, block))
        if block.request >= 0:
            self.is_on_record.add(block)

    def give(self, step: Step) -> None:
        if not self.alive:
            return
        address, block = self.alive.pop(step.number % len(self.alive))
        stream = block.stream
        self.workers[step.thread].submit(library().c.em_torch_free, address, block.size, self.device, stream).result()
        self.model.give(step.thread, block, is_of_record=block in self.is_on_record)
        if block.is_shared:
            self.withheld.append((address, block))
        self.used_by.append((address, address + block.size, block.stream))

    def enter(self, step: Step) -> None:
        section = step.number % (SECTIONS + 1) - 1
        self.workers[step.thread].submit(self.loop.enter, section).result()
        self.model.enter(step.thread, section)

    def turn(self, step: Step) -> None:
        """The one that is on ends, or another one begins; on the first thread, which asks at once."""
        if self.model.is_inside:
            self.loop.end()
            self.model.end()
            assert Counter(asdict(self.loop.stats().last)) == self.model.last
        else:
            self.workers[step.thread].submit(self.loop.begin).result()
            self.model.begin(step.thread)

    def plan(self, step: Step) -> None:
        slots = self.plans[step.number % len(self.plans)]
        if step.stream == 0 or not self.arenas:
            memory = Memory(self.device)
            self.arenas.append((memory, ModelArena(SIZE)))
        memory, arena = self.arenas[-1 - step.number % len(self.arenas)]
        if self.model.replay(slots, arena):
            self.loop.replay(slots, memory, poison=True)
        else:
            with pytest.raises(RuntimeBindError):
                self.loop.replay(slots, memory)

    def pause(self, _: Step) -> None:
        self.model.pause(1)
        self.loop.pause()

    def resume(self, _: Step) -> None:
        if self.model.pause(-1):
            self.loop.resume()
        else:
            with pytest.raises(RuntimeBindError):
                self.loop.resume()

    def record(self, step: Step) -> None:
        self.check_record()
        self.is_on_record.clear()
        self.loop.record(4 * step.number)
        self.model.record(4 * step.number)

    def share(self, step: Step) -> None:
        if self.alive:
            address, block = self.alive[step.number % len(self.alive)]
            library().c.em_torch_record_stream(address, step.stream)
            self.model.share(block, step.stream)

    def synchronize(self, _: Step) -> None:
        self.loop.synchronized()
        self.model.synchronized()
        self.withheld.clear()
        self.used_by.clear()

    def check_record(self) -> None:
        trace = self.loop.take_events([Section(str(k)) for k in range(SECTIONS)])
        events = np.array(self.model.events, np.int64).reshape(-1, 6)
        thread = events[:, 2] if self.is_host else events[:, 3]
        expected = (events[:, 0], events[:, 1], thread, events[:, 3], events[:, 4], events[:, 5])
        found = (trace.size, trace.request, trace.thread, trace.stream, trace.section, trace.iteration)
        for one, other in zip(found, expected, strict=True):
            assert one.tolist() == other.tolist()

    def finish(self) -> None:
        stats = self.loop.stats()
        assert (Counter(asdict(stats.total)), Counter(asdict(stats.last))) == (self.model.total, self.model.last)
        self.check_record()
        assert [a.left for a, _ in self.arenas] == [
            sum(b.arena is m for _, b in self.alive + self.withheld) for _, m in self.arenas
        ]

    def close(self) -> None:
        for address, block in self.alive:
            library().c.em_torch_free(address, block.size, self.device, block.stream)
        self.loop.synchronized()
        self.loop.close()
        for memory, _ in self.arenas:
            assert memory.left == 0
            memory.close()


@pytest.mark.full
@pytest.mark.parametrize("device", [HOST_MEMORY, DEVICE_NUMBER])
@given(seed=st.integers(0, 2**32))
def test_a_program_runs_as_the_model_says(workers: list[ThreadPoolExecutor], device: int, seed: int) -> None:
    dice = Random(seed)
    run = Run(device, [random_plan(dice) for _ in range(3)], workers)
    try:
        run.plan(Step("plan", 0, 0, 0))
        run.turn(Step("turn", 0, 0, 0))
        for _ in range(STEPS):
            step = random_step(dice)
            getattr(run, step.what)(step)
        run.finish()
    finally:
        run.close()
