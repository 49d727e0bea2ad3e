"""Settings of the caching allocator as users write them, and simulations that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.errors import ModelError
from edgemem.trace import Trace
from edgemem.trace.caching import CachingSettings, simulate

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", CachingSettings()),
        ("expandable_segments:True", CachingSettings(expandable_segments=True)),
        ("expandable_segments:False", CachingSettings()),
        (
            "max_split_size_mb:128, max_non_split_rounding_mb:32",
            CachingSettings(max_split_size=128 * MIB, max_non_split_rounding=32 * MIB),
        ),
        ("large_segment_size_mb:64", CachingSettings(large_segment_size=64 * MIB)),
        ("garbage_collection_threshold:0.8", CachingSettings()),
        ("roundup_power2_divisions:4", CachingSettings(roundup_power2_divisions=(4,) * 16)),
        # The example of PyTorch's documentation: below 256 MiB 1, above 1 GiB 8.
        (
            "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
            CachingSettings(roundup_power2_divisions=(*(1,) * 9, 2, 4, *(8,) * 5)),
        ),
        ("backend:native,pinned_use_background_threads:True", CachingSettings()),
    ],
)
def test_settings_are_read_as_pytorch_reads_them(text: str, expected: CachingSettings) -> None:
    assert CachingSettings.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb:19",
        "max_split_size_mb",
        "max_split_size_mb:many",
        "expandable_segments:Maybe",
        "garbage_collection_threshold:1.5",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:[100:4]",
        "roundup_power2_divisions:[4]",
        "backend:cudaMallocAsync",
        "large_segment_size_mb:10",
        "large_segment_size_mb:64,max_split_size_mb:63",
        "max_split_size_mb:63,large_segment_size_mb:64",
        "large_segment_size_mb:64,max_non_split_rounding_mb:63",
        "expandable_segments:true",
        "garbage_collection_threshold:0",
        "roundup_power2_divisions:0",
        "no_such_setting:1",
        "expandable_segments:True]",
        "expandable_segments:True,,",
    ],
)
def test_settings_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(ModelError):
        CachingSettings.parse(text)


def test_bytes_are_counted_after_each_event() -> None:
    simulation = simulate(Trace.from_stream([100, 3 * MIB, -1, 31 * MIB + 1, -3]))
    assert simulation.requested.tolist() == [100, 3 * MIB + 100, 3 * MIB, 34 * MIB + 1, 3 * MIB]
    # The last request gets a segment of 32 MiB as one block: less than 1 MiB could be split off.
    assert simulation.allocated.tolist() == [512, 3 * MIB + 512, 3 * MIB, 35 * MIB, 3 * MIB]
    assert simulation.reserved.tolist() == [2 * MIB, 22 * MIB, 22 * MIB, 54 * MIB, 54 * MIB]


def test_peaks_and_efficiency() -> None:
    simulation = simulate(Trace.from_stream([3 * MIB, 2 * MIB, -1, -2]))
    assert (simulation.requested_peak, simulation.allocated_peak, simulation.reserved_peak) == (
        5 * MIB,
        5 * MIB,
        20 * MIB,
    )
    assert simulation.efficiency == 0.25
    assert simulation.fragmentation == 15 * MIB
    assert simulation.times_taken == 1
    assert simulation.peak_event == 0
    assert simulation.out_of_memory is None


def test_a_simulation_says_what_matters_in_one_line() -> None:
    simulation = simulate(Trace.from_stream([3 * MIB, 2 * MIB, 1 << 41]), CachingSettings(expandable_segments=True))
    assert repr(simulation) == (
        "Simulation(3 events: 5,242,880 bytes allocated, 20,971,520 reserved, efficiency 25.0%, "
        "out of memory at event 2)"
    )


def test_blocks_lie_where_the_rules_put_them() -> None:
    blocks = simulate(Trace.from_stream([3 * MIB, 2 * MIB, -1])).blocks(2)
    assert blocks.size.tolist() == [3 * MIB, 2 * MIB, 15 * MIB]
    assert blocks.state.tolist() == [0, 1, 0]
    assert blocks.requested.tolist() == [0, 2 * MIB, 0]
    assert blocks.largest_free == 15 * MIB


def test_blocks_of_an_event_that_is_not_there_are_refused() -> None:
    simulation = simulate(Trace.from_stream([3 * MIB]))
    for event in (-1, 1):
        with pytest.raises(IndexError, match=f"event {event} of a trace of 1 events"):
            simulation.blocks(event)


def test_streams_do_not_share_free_blocks() -> None:
    size, request = [12 * MIB, 0, 12 * MIB], [0, 0, 1]
    assert simulate(Trace.from_columns(size, request, stream=[0, 0, 0])).reserved_peak == 12 * MIB
    assert simulate(Trace.from_columns(size, request, stream=[0, 0, 1])).reserved_peak == 24 * MIB


def test_a_simulation_ends_where_a_request_is_larger_than_any_segment() -> None:
    simulation = simulate(Trace.from_stream([12 * MIB, 1 << 41, -1]), CachingSettings(expandable_segments=True))
    assert simulation.out_of_memory == 1
    assert simulation.reserved.tolist() == [20 * MIB]


def test_expandable_segments_leave_no_hole_between_segments() -> None:
    """Blocks of one segment merge where two segments would stay apart."""
    trace = Trace.from_stream([12 * MIB, 12 * MIB, -1, -2, 24 * MIB])
    assert simulate(trace).reserved_peak == 48 * MIB
    assert simulate(trace, CachingSettings(expandable_segments=True)).reserved_peak == 40 * MIB


def test_a_trace_without_events_reserves_nothing() -> None:
    simulation = simulate(Trace.from_stream(np.zeros(0, np.int64)))
    assert (simulation.reserved_peak, simulation.efficiency, simulation.peak_event) == (0, 1.0, None)
    assert len(simulation.blocks().size) == 0
