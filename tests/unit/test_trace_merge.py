"""Merged traces, against a literal model: who is alive at each request."""

from __future__ import annotations

import random

import pytest

from edgemem.errors import ModelError
from edgemem.trace import Trace
from edgemem.trace.merged_trace import common_prefix, is_part_of, merge_traces, overlay, with_headroom
from tests.extent import run_for_seeds

Life = tuple[int, int | None]  # bytes, and the number of requests made when it is freed


def lives(trace: Trace) -> list[Life]:
    """By walking over the events."""
    found: list[Life] = []
    for event in trace.events.tolist():
        if event > 0:
            found.append((event, None))
        else:
            found[-event - 1] = (found[-event - 1][0], len(found))
    return found


def trace_of(wanted: list[Life]) -> Trace:
    """A stream with these lives."""
    events: list[int] = []
    for made, (size, _) in enumerate(wanted):
        events += [-k - 1 for k, (_, free) in enumerate(wanted[:made]) if free == made]
        events.append(size)
    events += [-k - 1 for k, (_, free) in enumerate(wanted) if free == len(wanted)]
    return Trace.from_stream(events)


def at_random(chance: random.Random, count: int) -> Trace:
    return trace_of([(chance.randint(1, 9), chance.choice([None, *range(k + 1, count + 1)])) for k in range(count)])


def later(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


@run_for_seeds(range(200), quick=20)
def test_the_merged_trace_has_the_largest_sizes_and_the_latest_frees(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(0, 12)
    one, other = at_random(chance, count), at_random(chance, count)
    merged = merge_traces(one, other)
    assert merged is not None
    expected = [(max(a, b), later(f, g)) for (a, f), (b, g) in zip(lives(one), lives(other), strict=True)]
    assert lives(merged) == expected
    assert is_part_of(one, merged)
    assert is_part_of(other, merged)
    assert is_part_of(merged, one) == (lives(one) == expected)


@run_for_seeds(range(200), quick=20)
def test_runs_of_different_lengths(seed: int) -> None:
    chance = random.Random(seed)
    one, other = at_random(chance, chance.randint(0, 10)), at_random(chance, chance.randint(0, 10))
    short, long = sorted((lives(one), lives(other)), key=len)
    if len(short) != len(long):
        assert merge_traces(one, other) is None
        assert not is_part_of(one, other)
    both = [(max(a, b), later(f, g)) for (a, f), (b, g) in zip(short, long, strict=False)]
    assert lives(overlay(one, other)) == both + long[len(short) :]


@run_for_seeds(range(200), quick=20)
def test_the_common_prefix_is_the_longest_part_with_the_same_requests_alive(seed: int) -> None:
    chance = random.Random(seed)
    one = lives(at_random(chance, chance.randint(1, 10)))
    other = [*one[: chance.randint(0, len(one))], *lives(at_random(chance, chance.randint(0, 5)))]
    other = [
        (size, None if free is None or free > len(other) else max(free, k + 1)) for k, (size, free) in enumerate(other)
    ]

    def alive(run: list[Life], end: int) -> list[list[int]]:
        return [[k for k in range(made + 1) if (run[k][1] or 99) > made] for made in range(end)]

    longest = max(end for end in range(min(len(one), len(other)) + 1) if alive(one, end) == alive(other, end))
    found = lives(common_prefix(trace_of(one), trace_of(other)))
    assert len(found) == longest
    assert [size for size, _ in found] == [max(one[k][0], other[k][0]) for k in range(longest)]
    for k, (_, free) in enumerate(found):
        frees = [run[k][1] for run in (one, other)]
        assert free == (None if None in frees else min(longest, max(f for f in frees if f is not None)))


def test_what_varies_gets_twice_the_room_once_anything_grows() -> None:
    known = Trace.from_stream([100, 640, 64, -1, -2, -3])
    assert with_headroom(known, Trace.from_stream([160, 400, 64, -2, -1, -3])).events.tolist() == [
        320,
        832,
        64,
        -1,
        -2,
        -3,
    ]
    smaller = Trace.from_stream([90, 400, 64, -2, -1, -3])
    assert lives(with_headroom(known, smaller)) == [(100, 3), (640, 3), (64, 3)]


@pytest.mark.parametrize("stream", [[64, -1, -1], [-1], [64, -2], [0]])
def test_a_trace_that_makes_no_sense_is_refused(stream: list[int]) -> None:
    with pytest.raises(ModelError, match="event"):
        Trace.from_stream(stream)
