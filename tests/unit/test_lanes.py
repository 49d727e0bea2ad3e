"""Cycles of threads that are not in step."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.errors import ModelError
from edgemem.planning.cycle_plan import plan_cycles
from edgemem.trace import Trace
from edgemem.trace.lanes import of_lane, steady_cycles

# (thread, bytes or 0 for the free of the thread's oldest block) in three iterations: each thread does the same, at
# another moment of the other one.
ITERATIONS = (
    ((0, 100), (1, 64), (0, 200), (0, 0), (0, 0), (1, 0)),
    ((0, 100), (0, 200), (1, 64), (1, 0), (0, 0), (0, 0)),
    ((1, 64), (0, 100), (1, 0), (0, 200), (0, 0), (0, 0)),
)


def trace_of(iterations: tuple[tuple[tuple[int, int], ...], ...]) -> Trace:
    rows = []
    alive: dict[int, list[int]] = {}
    made = 0
    for number, events in enumerate(iterations):
        for thread, size in events:
            blocks = alive.setdefault(thread, [])
            request = made if size else blocks.pop(0)
            if size:
                blocks.append(made)
                made += 1
            rows.append((size, request, thread, number))
    size, request, thread, iteration = np.array(rows, np.int64).T
    return Trace.from_columns(size, request, thread=thread, iteration=iteration)


def test_each_thread_has_a_cycle_of_its_own_the_larger_one_first() -> None:
    large, small = steady_cycles(trace_of(ITERATIONS))
    assert large.size.tolist() == [100, 200]
    assert (large.start.tolist(), large.end.tolist(), large.lane.tolist()) == ([0, 1], [2, 3], [0, 0])
    assert (small.size.tolist(), small.lane.tolist(), small.length) == ([64], [1], 2)


def test_threads_in_step_have_one_cycle() -> None:
    (cycle,) = steady_cycles(trace_of((ITERATIONS[0],) * 3))
    assert cycle.size.tolist() == [100, 64, 200]


def test_a_thread_that_does_not_repeat_itself_is_left_out() -> None:
    iterations = tuple(
        tuple((thread, size + 8 * k if thread and size else size) for thread, size in events)
        for k, events in enumerate(ITERATIONS)
    )
    (cycle,) = steady_cycles(trace_of(iterations))
    assert cycle.size.tolist() == [100, 200]


def test_where_the_main_thread_differs_the_error_says_where() -> None:
    iterations = tuple(
        tuple((thread, size + 8 * k if not thread and size else size) for thread, size in events)
        for k, events in enumerate(ITERATIONS)
    )
    with pytest.raises(ModelError, match="no two iterations in a row agree"):
        steady_cycles(trace_of(iterations))


def test_on_a_device_the_stream_with_the_most_bytes_is_planned_alone() -> None:
    (cycle,) = steady_cycles(trace_of((ITERATIONS[0],) * 3), one_stream=True)
    assert cycle.size.tolist() == [100, 200]


def test_a_lane_keeps_its_blocks_whoever_frees_them() -> None:
    trace = Trace.from_columns([8, 4, 0, 0], [0, 1, 0, 1], thread=[0, 1, 1, 0], iteration=[0, 0, 0, 0])
    assert of_lane(trace, 0).events.tolist() == [8, -1]
    assert of_lane(trace, 1).events.tolist() == [4, -1]
    assert of_lane(trace, 1).thread.tolist() == [1, 0]


def test_their_plans_share_no_memory() -> None:
    cycles = steady_cycles(trace_of(ITERATIONS))
    plan = plan_cycles(cycles)
    slots = plan.slots
    assert slots.lane.tolist() == [0, 0, 1]
    assert slots.bytes.tolist() == [100, 200, 64]
    assert plan.lower_bound == sum(cycle.lower_bound(64) for cycle in cycles)
    assert plan.lower_bound <= plan.size <= plan.lower_bound + 64
    assert slots.offset[2] >= (slots.offset + slots.bytes)[:2].max()
    assert slots.offset[2] % slots.alignment == 0
