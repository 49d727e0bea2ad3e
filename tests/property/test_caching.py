"""The simulated caching allocator against a literal one, for all settings; and its laws."""

from __future__ import annotations

import random
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.trace import Trace
from edgemem.trace.caching import CachingSettings, simulate
from tests.extent import run_for_seeds
from tests.oracle.caching import CachingOracle, OutOfMemory

KIB, MIB = 1 << 10, 1 << 20
Event = tuple[int, int, int]  # size or 0, request, stream

# At the limits of the rules, and a few in between.
_SIZES = st.one_of(
    st.sampled_from([1, 512, 513, MIB - 512, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 20 * MIB, 20 * MIB + 512, 41 * MIB]),
    st.integers(1, 4 * KIB),
    st.integers(1, 64).map(lambda n: n * MIB),
    st.integers(MIB, 48 * MIB),
)


@st.composite
def _events(draw: st.DrawFn, most: int = 60) -> list[Event]:
    events: list[Event] = []
    alive: list[int] = []
    made = 0
    for _ in range(draw(st.integers(0, most))):
        wants_free = draw(st.booleans())
        if alive and wants_free:
            events.append((0, alive.pop(draw(st.integers(0, len(alive) - 1))), 0))
        else:
            events.append((draw(_SIZES), made, draw(st.integers(0, 2))))
            alive.append(made)
            made += 1
    return events


@st.composite
def _settings(draw: st.DrawFn) -> CachingSettings:
    divisions = draw(st.sampled_from([(), (4,) * 16, (0, 2, 8, 1, 4, *(16,) * 11)]))
    return CachingSettings(
        large_segment_size=draw(st.sampled_from([20 * MIB, 20 * MIB, 11 * MIB])),
        max_split_size=draw(st.sampled_from([None, 20 * MIB, 30 * MIB])),
        max_non_split_rounding=draw(st.sampled_from([None, 20 * MIB, 24 * MIB])),
        roundup_power2_divisions=divisions,
        expandable_segments=draw(st.booleans()),
    )


def _trace(events: list[Event]) -> Trace:
    size, request, stream = np.array(events, np.int64).reshape(-1, 3).T
    return Trace.from_columns(size, request, stream=stream)


def _expected(events: list[Event], settings: CachingSettings) -> tuple[CachingOracle, list[tuple[int, int, int]]]:
    values = asdict(settings)
    oracle = CachingOracle(
        max_split_size=values["max_split_size"],
        large=values["large_segment_size"],
        max_non_split_rounding=values["max_non_split_rounding"] or values["large_segment_size"],
        divisions=values["roundup_power2_divisions"],
        expandable=values["expandable_segments"],
    )
    addresses: list[int] = []
    after = []
    for size, request, stream in events:
        if size:
            try:
                addresses.append(oracle.malloc(size, stream))
            except OutOfMemory:
                break
        else:
            oracle.free(addresses[request])
        after.append((oracle.requested, oracle.allocated, oracle.reserved))
    return oracle, after


def _agrees(events: list[Event], settings: CachingSettings) -> None:
    oracle, after = _expected(events, settings)
    made = simulate(_trace(events), settings)
    columns = (made.requested.tolist(), made.allocated.tolist(), made.reserved.tolist())
    assert list(zip(*columns, strict=True)) == after
    assert made.out_of_memory == (len(after) if len(after) < len(events) else None)
    counted = (made.reserved_peak, made.times_taken)
    assert counted == (oracle.reserved_peak, oracle.times_taken)
    if made.out_of_memory is None and events:
        blocks = made.blocks(len(events) - 1)
        columns_of_blocks = (getattr(blocks, name).tolist() for name in blocks.__slots__)
        assert list(zip(*columns_of_blocks, strict=True)) == oracle.rows()


@pytest.mark.full
@given(_events(), _settings())
def test_the_simulation_equals_the_literal_allocator(events: list[Event], settings: CachingSettings) -> None:
    _agrees(events, settings)


@run_for_seeds(range(24), quick=4)
def test_the_simulation_equals_the_literal_allocator_in_long_runs(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([512, 3 * KIB, MIB, 3 * MIB, 12 * MIB, 25 * MIB]) + rng.randrange(MIB) for _ in range(12)]
    events: list[Event] = []
    alive: list[int] = []
    made = 0
    for _ in range(400):
        if alive and rng.random() < len(alive) / 30:
            events.append((0, alive.pop(rng.randrange(len(alive))), 0))
        else:
            events.append((rng.choice(sizes), made, rng.randrange(2)))
            alive.append(made)
            made += 1
    settings = CachingSettings(
        max_split_size=rng.choice([None, 24 * MIB]),
        roundup_power2_divisions=rng.choice([(), (8,) * 16]),
        expandable_segments=rng.random() < 0.4,
    )
    _agrees(events, settings)


@run_for_seeds(range(12), quick=3)
def test_it_equals_the_literal_allocator_where_blocks_are_not_split(seed: int) -> None:
    rng = random.Random(seed)
    events: list[Event] = []
    alive: list[int] = []
    made = 0
    for _ in range(200):
        if len(alive) > rng.randrange(1, 6):
            events.append((0, alive.pop(rng.randrange(len(alive))), 0))
        else:
            events.append((rng.randrange(18, 60) * MIB, made, 0))
            alive.append(made)
            made += 1
    _agrees(events, CachingSettings(max_split_size=24 * MIB))


@pytest.mark.full
@given(_events(), _settings())
def test_blocks_add_up_and_free_neighbours_are_merged(events: list[Event], settings: CachingSettings) -> None:
    simulation = simulate(_trace(events), settings)
    for event in {0, len(simulation.reserved) // 2, len(simulation.reserved) - 1} & set(
        range(len(simulation.reserved))
    ):
        blocks = simulation.blocks(event)
        assert int(blocks.size[blocks.state == 1].sum()) == simulation.allocated[event]
        assert int(blocks.size[blocks.state != 2].sum()) == simulation.reserved[event]
        assert int(blocks.requested.sum()) == simulation.requested[event]
        same = blocks.segment[1:] == blocks.segment[:-1]
        both = same & (blocks.state[1:] == blocks.state[:-1])
        assert np.all(blocks.state[1:][both] == 1)  # free neighbours are merged


@pytest.mark.full
@given(_events(), _settings())
def test_more_is_reserved_than_allocated_than_requested(events: list[Event], settings: CachingSettings) -> None:
    simulation = simulate(_trace(events), settings)
    assert np.all(simulation.requested <= simulation.allocated)
    assert np.all(simulation.allocated <= simulation.reserved)
    assert 0 <= simulation.requested_efficiency <= simulation.efficiency <= 1
