"""A loop from Python: recorded, replayed, paused and replanned, with requests by ctypes as a runtime makes them."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.library import DEVICE, library
from edgemem.replay.loop import HOST_MEMORY, Loop
from edgemem.trace import Section
from edgemem.trace.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MANY = 1000


def take(size: int, *, device: int = HOST_MEMORY, stream: int = 0) -> int:
    """What a runtime does to get a block."""
    return library().c.em_torch_malloc(size, device, stream) or 0


def give(*blocks: int, device: int = HOST_MEMORY, stream: int = 0) -> None:
    for block in blocks:
        library().c.em_torch_free(block, 0, device, stream)


def slots(size: int, *rows: tuple[int, ...], spaces: tuple[list[list[int]], ...] = ()) -> Slots:
    """Of rows of bytes, offset, and then what differs from the defaults of other, lane, section and space."""
    table = np.array([(*row, *(-1, 0, -1, -1)[len(row) - 2 :]) for row in rows], np.int64).reshape(-1, 6)
    asked, offset, other, lane, section, space = table.T
    parts = tuple(np.array(part) for part in spaces)
    return Slots(size, 64, asked, offset, other, lane, section, space, parts)


@pytest.fixture
def loop() -> Iterator[Loop]:
    started = Loop()
    started.start()
    yield started
    started.stop()
    started.close()


def step() -> None:
    """100 and 200 bytes; 90 in the place of the first."""
    a, b = take(100), take(200)
    give(a)
    c = take(90)
    give(b, c)


PLAN = slots(384, (100, 0), (200, 128), (90, 0))


def test_a_record_tells_iterations_sections_and_threads(loop: Loop) -> None:
    before = take(10)
    loop.record(MANY)
    for _ in range(2):
        loop.begin()
        loop.enter(0)
        kept = take(100)
        loop.enter(1)
        worker = threading.Thread(target=lambda: give(take(50)))
        worker.start()
        worker.join()
        loop.end()
        give(kept)
    give(before)
    trace = loop.take_events([Section("layer forward"), Section("layer backward", phase=1)])
    assert trace.events.tolist() == [100, 50, -2, -1, 100, 50, -4, -3]
    assert trace.iteration.tolist() == [0, 0, 0, -1, 1, 1, 1, -1]
    assert trace.section.tolist() == [0, -1, -1, 1, 0, -1, -1, 1]
    assert trace.thread[[0, 1, 3, 4]].tolist() == [0, 1, 0, 0]
    assert trace.sections[1].phase == 1
    assert np.all(np.diff(trace.time_ns) >= 0)
    assert len(loop.take_events()) == 0


def test_a_section_without_a_meaning_is_refused(loop: Loop) -> None:
    loop.record(MANY)
    loop.enter(2)
    give(take(5))
    with pytest.raises(ModelError):
        loop.take_events([Section("one")])


def test_every_request_of_a_planned_iteration_is_a_hit(loop: Loop) -> None:
    arena = ArenaMemory(384)
    loop.replay(PLAN, arena, poison=True)
    for _ in range(3):
        loop.begin()
        step()
        loop.end()
    stats = loop.stats()
    assert (stats.last.requests, stats.last.hits, stats.last.arena_peak) == (3, 3, 300)
    assert (stats.total.iterations, stats.total.hits, stats.total.misses) == (3, 9, 0)
    assert arena.left == 0


def test_each_thread_follows_its_own_lane(loop: Loop) -> None:
    arena = ArenaMemory(512)
    loop.replay(slots(512, (64, 0), (64, 64, -1, 1), (64, 128), (64, 192, -1, 1)), arena)
    base = arena.as_bytes().ctypes.data
    loop.begin()
    found: dict[str, list[int]] = {"main": [take(64)], "worker": []}

    def work() -> None:
        found["worker"] = [take(64), take(64)]

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    found["main"].append(take(64))
    loop.end()
    assert {name: [block - base for block in blocks] for name, blocks in found.items()} == {
        "main": [0, 128],
        "worker": [64, 192],
    }
    give(*found["main"], *found["worker"])


def test_a_larger_request_is_missed_and_counted(loop: Loop) -> None:
    loop.replay(PLAN, ArenaMemory(384))
    loop.begin()
    a, b, c = take(100), take(201), take(90)
    loop.end()
    stats = loop.stats().last
    assert (stats.hits, stats.misses, stats.missed_bytes, stats.occupied) == (1, 1, 291, 1)
    give(a, b, c)


def test_dynamic_slots_take_any_size(loop: Loop) -> None:
    arena = ArenaMemory(512)
    plan = slots(512, (64, 64), (8, -1, -1, 0, -1, 0), spaces=([[0, 256], [384, 512]],))
    loop.replay(plan, arena)
    base = arena.as_bytes().ctypes.data
    loop.begin()
    blocks = [take(64), take(100), take(60), take(129)]
    loop.end()
    assert [block - base for block in blocks[:3]] == [64, 128, 0]
    counts = loop.stats().last
    assert (counts.hits, counts.dynamic_hits, counts.dynamic_misses) == (1, 2, 1)
    give(*blocks)


def test_a_pause_leaves_the_iteration_as_it_was(loop: Loop) -> None:
    loop.replay(PLAN, ArenaMemory(384))
    loop.record(MANY)
    loop.begin()
    loop.pause()
    step()
    loop.resume()
    step()
    loop.end()
    assert loop.stats().last.hits == 3
    assert loop.take_events().events.tolist() == [100, 200, -1, 90, -2, -3]
    with pytest.raises(RuntimeBindError, match="not paused"):
        loop.resume()


def test_a_new_plan_leaves_blocks_of_the_old_arena_alone(loop: Loop) -> None:
    first, second = ArenaMemory(384), ArenaMemory(384)
    loop.replay(PLAN, first)
    loop.begin()
    kept = take(100)
    ctypes.memset(kept, 7, 100)
    loop.end()
    loop.replay(PLAN, second, poison=True)
    first.close()  # lives on with its block
    loop.begin()
    step()
    loop.end()
    assert loop.stats().last.hits == 3
    assert ctypes.string_at(kept, 100) == b"\7" * 100
    arenas = library().totals().arenas
    give(kept)
    assert library().totals().arenas == arenas - 1


def test_an_arena_with_blocks_of_another_plan_is_refused(loop: Loop) -> None:
    first, second = ArenaMemory(384), ArenaMemory(384)
    loop.replay(PLAN, first)
    loop.begin()
    kept = take(100)
    loop.end()
    loop.replay(PLAN, second)
    loop.begin()
    loop.end()
    with pytest.raises(RuntimeBindError, match="in use"):
        loop.replay(PLAN, first)
    give(kept)
    loop.replay(PLAN, first)


@pytest.mark.full
def test_blocks_outlive_a_loop_that_nobody_holds() -> None:
    arenas = library().totals().arenas
    loop = Loop()
    loop.start()
    loop.replay(PLAN, ArenaMemory(384))
    loop.begin()
    kept, heap = take(100), take(5000)
    ctypes.memset(kept, 3, 100)
    ctypes.memset(heap, 4, 5000)
    del loop
    gc.collect()
    step()  # the fallback serves
    assert ctypes.string_at(kept, 100) == b"\3" * 100
    assert ctypes.string_at(heap, 5000) == b"\4" * 5000
    give(kept, heap)
    assert library().totals().arenas == arenas


def test_a_plan_and_an_arena_belong_together(loop: Loop) -> None:
    with pytest.raises(RuntimeBindError, match="384 bytes"):
        loop.replay(PLAN, ArenaMemory(320))
    column: NDArray[np.int64] = np.empty(0, np.int64)
    coarse = Slots(64, 1 << 40, column, column, column, column, column, column)
    with pytest.raises(RuntimeBindError, match="aligned"):
        loop.replay(coarse, ArenaMemory(64))


def test_calls_out_of_order_are_refused() -> None:
    loop = Loop()
    for call in (loop.begin, loop.end, loop.pause, loop.resume, lambda: loop.record(1)):
        with pytest.raises(RuntimeBindError):
            call()
    loop.start()
    other = Loop()
    with pytest.raises(RuntimeBindError, match="serves the device already"):
        other.start()
    loop.begin()
    with pytest.raises(RuntimeBindError, match="is on already"):
        loop.begin()
    loop.stop()
    other.start()
    other.stop()
    with pytest.raises(MemoryError, match="no device 32"):
        Loop(32)


# A device whose memory is a pair of functions here.
_TAKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)
_GIVE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


@pytest.fixture(scope="module")
def source() -> Iterator[dict[int, Any]]:
    """The segments that were taken and not given back, by address; they live as long as the module's tests."""
    segments: dict[int, Any] = {}

    def take_segment(out: Any, size: int) -> int:
        memory = ctypes.create_string_buffer(size + 512)
        address = -(-ctypes.addressof(memory) // 512) * 512
        segments[address] = memory
        out[0] = address
        return 0

    def give_segment(address: int) -> int:
        del segments[address]
        return 0

    functions = _TAKE(take_segment), _GIVE(give_segment)
    library().c.em_cuda_source(*(ctypes.cast(f, ctypes.c_void_p) for f in functions))
    yield segments
    library().c.em_cuda_source(None, None)


class WrappedMemory(ArenaMemory):
    """An arena of a device in host memory."""

    def __init__(self, size: int) -> None:
        c = library().c
        self._memory = ctypes.create_string_buffer(size + 512)
        self.base = -(-ctypes.addressof(self._memory) // 512) * 512
        self.adopt(c.em_arena_wrap(self.base, size, DEVICE), c.em_arena_release, size)


@pytest.mark.full
@pytest.mark.usefixtures("source")
def test_a_loop_keeps_the_arena_that_it_is_in() -> None:
    loop = Loop(23)
    loop.start()
    arenas = [WrappedMemory(512) for _ in range(2)]
    first, second = map(weakref.ref, arenas)
    loop.replay(PLAN, arenas[0])
    loop.begin()
    loop.end()
    loop.replay(PLAN, arenas[1])
    arenas.clear()
    gc.collect()
    assert first() is not None  # the loop leaves it when the next iteration begins
    loop.begin()
    gc.collect()
    assert first() is None
    kept = second()
    assert kept is not None
    block = take(100, device=23)
    assert block == kept.base
    give(block, device=23)
    del kept
    loop.stop()
    gc.collect()
    assert second() is None


def test_a_device_is_recorded_and_replayed_by_streams(source: dict[int, Any]) -> None:
    device = 20
    loop = Loop(device)
    loop.start()
    loop.record(MANY)
    loop.begin()
    a, b = take(1000, device=device), take(2000, device=device, stream=8)
    give(a, device=device)
    give(b, device=device, stream=8)
    loop.end()
    trace = loop.take_events()
    assert trace.stream.tolist() == trace.thread.tolist() == [0, 1, 0, 1]
    assert any(start <= a < start + len(memory) for start, memory in source.items())
    arena = WrappedMemory(4096)
    loop.replay(slots(4096, (1000, 0), (2000, 1024, -1, 1)), arena)
    loop.begin()
    a, b = take(1000, device=device), take(2000, device=device, stream=8)
    loop.end()
    assert b == arena.base + 1024  # the stream with the most bytes in the plan
    assert not arena.base <= a < arena.base + 4096
    counts = loop.stats().last
    assert (counts.hits, counts.other_stream) == (1, 1)
    library().c.em_torch_record_stream(b, 9)
    give(a, device=device)
    give(b, device=device, stream=8)
    assert arena.left == 1  # stream 9 may still use it
    loop.synchronized()
    assert arena.left == 0
    loop.stop()
    loop.close()


def test_a_device_without_a_loop_is_served_by_the_caching_allocator(source: dict[int, Any]) -> None:
    device = 21
    before = len(source)
    small = [take(100, device=device) for _ in range(100)]
    assert len(source) == before + 1  # one segment of 2 MiB
    assert all(block % 512 == 0 for block in small)
    assert len(set(small)) == 100
    give(*small, device=device)
    assert take(51200, device=device) == min(small)  # neighbours became one block
    assert len(source) == before + 1


def test_what_the_fallback_of_a_device_keeps_goes_back(source: dict[int, Any]) -> None:
    device = 22
    loop = Loop(device)
    before = len(source)
    block = take(3 << 20, device=device)
    memory = loop.fallback_memory()
    assert (memory.used, memory.reserved) == (3 << 20, 20 << 20)
    assert loop.empty_cache() == 0
    give(block, device=device)
    assert loop.empty_cache() == 20 << 20
    assert len(source) == before
    memory = loop.fallback_memory()
    assert (memory.used, memory.used_peak, memory.reserved, memory.reserved_peak) == (0, 3 << 20, 0, 20 << 20)
    assert Loop().fallback_memory().reserved == 0
