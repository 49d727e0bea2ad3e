"""A trace's records are what was alive together: compared with a simulation byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import ModelError
from edgemem.strategy.bounds import lower_bounds
from edgemem.trace import Section, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

# 100 bytes, 200 bytes, the first freed, 90 bytes, 40 that are never freed, and the rest freed.
STREAM = [100, 200, -1, 90, 40, -2, -3]


@st.composite
def streams(draw: Any) -> list[int]:
    """Any valid stream: requests, and frees of what is alive."""
    stream: list[int] = []
    alive: list[int] = []
    made = 0
    for _ in range(draw(st.integers(0, 40))):
        if alive and draw(st.booleans()):
            stream.append(-alive.pop(draw(st.integers(0, len(alive) - 1))) - 1)
        else:
            stream.append(draw(st.integers(1, 10**12)))
            alive.append(made)
            made += 1
    return stream


def test_the_columns_of_a_stream() -> None:
    trace = Trace.from_stream(STREAM)
    assert trace.size.tolist() == [100, 200, 0, 90, 40, 0, 0]
    assert trace.request.tolist() == [0, 1, 0, 2, 3, 1, 2]
    assert trace.requests.tolist() == [0, 1, 3, 4]
    assert trace.ends.tolist() == [2, 5, 6, -1]
    assert trace.freed.tolist() == [0, 1, 2]
    assert trace.peak == 330
    assert len(trace) == 7


def test_what_is_never_freed_has_no_record() -> None:
    problem = Trace.from_stream(STREAM).problem()
    assert [(r.name, r.first_op, r.last_op, r.size) for r in problem.records] == [
        ("request 0", 0, 1, 100),
        ("request 1", 1, 4, 200),
        ("request 2", 3, 5, 90),
    ]
    assert problem.alignment == 64
    assert lower_bounds(problem).offsets == 128 + 200
    assert Trace.from_stream(STREAM).problem(names=list("abcd")).names == ("a", "b", "c")


def test_a_request_may_take_the_place_of_one_freed_just_before() -> None:
    problem = Trace.from_stream([64, -1, 64, -2]).problem()
    assert lower_bounds(problem).offsets == 64


def test_a_free_and_its_request_in_a_row_overlap_what_is_between() -> None:
    problem = Trace.from_stream([64, 64, -1, -2]).problem()
    assert lower_bounds(problem).offsets == 128


def test_times_and_threads_are_kept_and_nothing_can_be_changed() -> None:
    trace = Trace.from_columns([8, 0], [0, 0], [5, 9], [3, 3])
    assert trace.time_ns.tolist() == [5, 9]
    assert trace.thread.tolist() == [3, 3]
    with pytest.raises(ValueError, match="read-only"):
        trace.size[0] = 1


def test_an_empty_trace() -> None:
    trace = Trace.from_stream([])
    assert (len(trace), trace.peak, len(trace.problem())) == (0, 0, 0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Trace.from_columns([8, -1], [0, 1]), "asks for -1 bytes"),
        (lambda: Trace.from_columns([8, 8], [0, 2]), "makes request 2; 1 is next"),
        (lambda: Trace.from_columns([8, 0, 0], [0, 0, 0]), "frees request 0, which is not alive"),
        (lambda: Trace.from_columns([0], [0]), "which is not alive"),
        (lambda: Trace.from_stream([-1]), "which is not alive"),
        (lambda: Trace.from_stream([0]), "which is not alive"),
        (lambda: Trace.from_columns([8], [0, 1]), "differ in length"),
    ],
)
def test_nonsense_is_refused(make: Callable[[], Trace], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        make()


@given(streams())
def test_a_stream_survives_and_its_records_are_what_lives_together(stream: list[int]) -> None:
    trace = Trace.from_stream(stream)
    assert trace.events.tolist() == stream
    problem = trace.problem(alignment=1)
    sizes: list[int] = []
    alive: dict[int, int] = {}
    freed = {-e - 1 for e in stream if e < 0}
    most = most_planned = 0
    for event, value in enumerate(stream):
        if value > 0:
            alive[len(sizes)] = value
            sizes.append(value)
        else:
            del alive[-value - 1]
        most = max(most, sum(alive.values()))
        planned = sum(v for k, v in alive.items() if k in freed)
        most_planned = max(most_planned, planned)
        together = (problem.first_op <= event) & (event <= problem.last_op)
        assert int(problem.size[together].sum()) == planned
    assert trace.peak == most
    assert lower_bounds(problem).offsets == most_planned
    assert np.array_equal(trace.freed, sorted(freed))


SECTIONS = (Section("a forward"), Section("experts forward", phase=3, is_dynamic=True))


def test_streams_sections_and_iterations_are_kept() -> None:
    trace = Trace.from_columns(
        [8, 0], [0, 0], stream=[7, 7], section=[1, -1], iteration=[-1, 4], sections=SECTIONS, thread=[1, 2]
    )
    assert trace.stream.tolist() == [7, 7]
    assert trace.section.tolist() == [1, -1]
    assert trace.iteration.tolist() == [-1, 4]
    assert trace.thread.tolist() == [1, 2]
    assert trace.time_ns.tolist() == [0, 0]
    assert trace.sections == SECTIONS


def test_a_trace_without_them_is_on_the_default_stream_in_no_section_and_in_no_iteration() -> None:
    trace = Trace.from_stream([8, -1])
    assert trace.stream.tolist() == [0, 0]
    assert trace.section.tolist() == trace.iteration.tolist() == [-1, -1]
    assert trace.sections == ()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"section": [0, 2]}, "event 1 of the trace is in section 2; there are 2"),
        ({"section": [-2, 0]}, "event 0 of the trace is in section -2"),
        ({"iteration": [-2, 0]}, "event 0 of the trace is in iteration -2, which is the first"),
        ({"iteration": [2, 1]}, "event 1 of the trace is in iteration 1, which follows iteration 2"),
        ({"stream": [1]}, "differ in length"),
    ],
)
def test_sections_and_iterations_that_are_none_are_refused(columns: dict[str, list[int]], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        Trace.from_columns([8, 0], [0, 0], sections=SECTIONS, **columns)
