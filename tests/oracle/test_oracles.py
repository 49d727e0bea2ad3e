"""The oracles themselves, against figures from outside: the paper's tables and TFLite GPU's published cases."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.data import PAPER_NETS, paper_records
from tests.oracle import bounds, brute, flow, offsets, shared_objects
from tests.strategies import seeded_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.oracle.bounds import Record, TexelRecord

MIB = 2**20

# MiB to three decimals, as printed in Pisarchyk & Lee 2020, Tables 1 and 2, for the networks in PAPER_NETS.
PAPER_SHARED_OBJECTS: dict[str, tuple[Callable[[list[Record]], list[int]], tuple[float, float, float, float]]] = {
    "naive": (shared_objects.naive, (19.248, 26.313, 48.642, 28.556)),
    "greedy_by_size": (shared_objects.greedy_by_size, (4.594, 7.178, 6.437, 6.347)),
    "greedy_by_size_improved": (
        lambda records: shared_objects.greedy_by_size_improved(records, new_objects="first"),
        (4.594, 6.891, 6.437, 6.347),
    ),
    "greedy_in_order": (shared_objects.greedy_in_order, (4.594, 8.039, 7.168, 6.347)),
}
PAPER_OFFSETS: dict[str, tuple[Callable[[list[Record]], list[int]], tuple[float, float, float, float]]] = {
    "naive": (offsets.naive, (19.248, 26.313, 48.642, 28.556)),
    "greedy_by_size": (offsets.greedy_by_size, (4.594, 5.742, 4.653, 6.271)),
    "greedy_by_breadth": (
        lambda records: offsets.greedy_by_breadth(records, op_ties="high_first"),
        (4.594, 5.742, 4.653, 7.359),
    ),
    "greedy_in_order": (offsets.greedy_in_order, (6.125, 6.508, 4.985, 8.362)),
    # The paper prints 4.321 for the third; its own lower bound is 4.320, which this reaches.
    "strip_packing": (offsets.strip_packing, (4.594, 6.029, 4.320, 6.271)),
}

# Variants whose figures the paper does not print, as they were measured independently of this code.
MEASURED_SHARED_OBJECTS: dict[str, tuple[Callable[[list[Record]], list[int]], tuple[float, float, float, float]]] = {
    "greedy_by_size, smallest": (
        lambda records: shared_objects.greedy_by_size(records, fit="smallest"),
        (5.359, 6.986, 6.636, 8.390),
    ),
    "greedy_by_size_improved, last": (shared_objects.greedy_by_size_improved, (4.594, 6.699, 6.437, 6.347)),
    "greedy_by_breadth": (shared_objects.greedy_by_breadth, (4.594, 6.891, 6.437, 6.347)),
    "equality": (shared_objects.equality, (8.912, 17.544, 25.547, 17.904)),
}


@pytest.mark.parametrize("net", PAPER_NETS)
@pytest.mark.parametrize("strategy", [*PAPER_SHARED_OBJECTS, *MEASURED_SHARED_OBJECTS])
def test_shared_objects_reach_the_printed_figures(strategy: str, net: str) -> None:
    records = paper_records(net)
    run, cells = (PAPER_SHARED_OBJECTS | MEASURED_SHARED_OBJECTS)[strategy]
    assignment = run(records)
    assert brute.assignment_faults(records, assignment) == []
    assert round(brute.assignment_size(records, assignment) / MIB, 3) == cells[PAPER_NETS.index(net)]


@pytest.mark.parametrize("net", PAPER_NETS)
@pytest.mark.parametrize("strategy", PAPER_OFFSETS)
def test_offsets_reach_the_printed_figures(strategy: str, net: str) -> None:
    records = paper_records(net)
    run, cells = PAPER_OFFSETS[strategy]
    placed = run(records)
    assert brute.offsets_faults(records, 1, placed) == []
    assert round(brute.offsets_size(records, placed) / MIB, 3) == cells[PAPER_NETS.index(net)]


def test_strip_packing_by_size_beats_the_printed_figure_on_mobilenet_v2() -> None:
    records = paper_records("mobilenet_v2")
    placed = offsets.strip_packing(records, ties="size")
    assert round(brute.offsets_size(records, placed) / MIB, 3) == 5.742


@pytest.mark.parametrize("net", PAPER_NETS)
def test_bounds_are_the_printed_ones(net: str) -> None:
    records = paper_records(net)
    at = PAPER_NETS.index(net)
    assert round(bounds.shared_objects_bound(records) / MIB, 3) == (4.594, 6.604, 6.105, 6.347)[at]
    assert round(bounds.offsets_bound(records) / MIB, 3) == (4.594, 5.742, 4.320, 6.271)[at]
    assert round(bounds.naive_size(records) / MIB, 3) == (19.248, 26.313, 48.642, 28.556)[at]


# The usage records of TFLite GPU's memory_management_test.cc and what it expects, written as (first, last, size).
CHAIN: list[Record] = [(0, 1, 16), (1, 2, 8), (2, 3, 64), (3, 4, 32), (4, 5, 8)]
COMPLEX: list[Record] = [
    (0, 1, 32),
    (1, 4, 32),
    (2, 5, 8),
    (3, 5, 16),
    (4, 5, 8),
    (5, 7, 64),
    (6, 8, 8),
    (7, 8, 8),
    (8, 9, 16),
]
SPANS = [(0, 1), (1, 2), (2, 4), (3, 5), (4, 5), (5, 7), (6, 8), (7, 8), (8, 9)]
EXTENTS_2D = [(2, 8), (2, 8), (1, 12), (2, 8), (8, 2), (2, 8), (1, 8), (2, 8), (4, 1)]
EXTENTS_3D = [(1, 2, 8), (4, 3, 2), (1, 1, 1), (2, 4, 1), (2, 2, 2), (8, 1, 2), (1, 2, 1), (1, 1, 1), (2, 2, 2)]
TEXELS_2D: list[TexelRecord] = [(*span, extent) for span, extent in zip(SPANS, EXTENTS_2D, strict=True)]
TEXELS_3D: list[TexelRecord] = [(*span, extent) for span, extent in zip(SPANS, EXTENTS_3D, strict=True)]


def test_tflite_cases_for_shared_objects() -> None:
    assert shared_objects.equality(CHAIN) == [0, 1, 2, 3, 1]
    assert shared_objects.equality(COMPLEX) == [0, 1, 2, 3, 4, 5, 4, 2, 3]
    assert shared_objects.greedy_in_order(CHAIN) == [0, 1, 0, 1, 0]
    assert shared_objects.greedy_in_order(COMPLEX) == [0, 1, 0, 2, 3, 1, 3, 2, 0]
    assert shared_objects.greedy_by_breadth(CHAIN) == [0, 1, 0, 1, 0]
    assert shared_objects.greedy_by_breadth(COMPLEX) == [0, 4, 2, 1, 3, 0, 2, 3, 1]
    assert shared_objects.greedy_by_size_improved(CHAIN) == [0, 1, 0, 1, 0]
    assert shared_objects.greedy_by_size_improved(COMPLEX) == [1, 0, 2, 1, 3, 0, 1, 2, 0]


def test_tflite_cases_for_textures() -> None:
    assert shared_objects.equality(TEXELS_2D) == [0, 1, 2, 0, 3, 1, 4, 0, 5]
    assert shared_objects.equality(TEXELS_3D) == [0, 1, 2, 3, 4, 5, 6, 2, 4]
    assert shared_objects.greedy_in_order(TEXELS_2D) == [0, 1, 2, 0, 3, 1, 2, 0, 3]
    assert shared_objects.greedy_in_order(TEXELS_3D) == [0, 1, 0, 2, 1, 3, 2, 0, 1]


def test_tflite_cases_for_offsets() -> None:
    assert offsets.greedy_by_size(CHAIN) == [0, 64, 0, 64, 0]
    assert offsets.greedy_by_size(COMPLEX) == [0, 32, 80, 64, 88, 0, 64, 72, 0]
    aligned = offsets.greedy_by_size(CHAIN, 128)
    assert aligned == [0, 128, 0, 128, 0]
    assert brute.offsets_size(CHAIN, aligned) == 160


def test_tflite_min_cost_flows_are_optimal() -> None:
    pytest.importorskip("scipy")
    assert flow.flow_cost(CHAIN, [0, 1, 0, 1, 0]) == flow.optimal_flow_cost(CHAIN)
    assert flow.flow_cost(COMPLEX, [0, 1, 2, 0, 3, 1, 3, 2, 0]) == flow.optimal_flow_cost(COMPLEX)


def test_flow_optimum_is_the_least_over_all_assignments() -> None:
    pytest.importorskip("scipy")
    for seed in range(30):
        records = seeded_rows(seed, 5, horizon=7, sizes=(0, 3, 8, 8, 20))
        costs = [
            flow.flow_cost(records, assignment)
            for assignment in _every_assignment(len(records))
            if not brute.assignment_faults(records, assignment)
        ]
        assert flow.optimal_flow_cost(records) == min(costs)


def _every_assignment(n: int) -> list[list[int]]:
    """All partitions of n records, as restricted growth strings."""
    strings: list[list[int]] = [[]]
    for _ in range(n):
        strings = [[*s, k] for s in strings for k in range(max(s, default=-1) + 2)]
    return strings


def test_offsets_optimum_on_known_puzzles() -> None:
    # Two records of 9 bytes at alignment 8: the lower pays for its padding, the upper does not.
    assert brute.offsets_optimum([(0, 0, 9), (0, 0, 9)], 8) == 25
    # The load is 4 at every operator, and yet 4 bytes are not enough.
    tight = [(0, 0, 2), (0, 1, 2), (1, 2, 1), (1, 3, 1), (2, 2, 1), (2, 3, 1), (3, 5, 2), (4, 5, 2)]
    assert bounds.offsets_bound(tight) == 4
    assert brute.offsets_optimum(tight) == 5
    assert not _fits(tight, 4)
    # At each operator the record of 9 bytes would have to lie on top; the second cannot do so twice.
    aligned = [(0, 0, 16), (0, 1, 9), (1, 2, 9), (2, 2, 16)]
    assert bounds.offsets_bound(aligned, 8) == 25
    assert brute.offsets_optimum(aligned, 8) == 32


@pytest.mark.full
def test_optima_agree_with_a_search_without_pruning() -> None:
    for seed in range(25):
        records = seeded_rows(seed, 5, horizon=6, sizes=(1, 2, 3, 5))
        sound = [a for a in _every_assignment(5) if not brute.assignment_faults(records, a)]
        assert brute.shared_objects_optimum(records) == min(brute.assignment_size(records, a) for a in sound)
        top = brute.offsets_optimum(records)
        assert not _fits(records, top - 1)
        assert _fits(records, top)


def _fits(records: list[Record], arena: int) -> bool:
    """Whether some byte-by-byte placement keeps within the arena."""

    def put(t: int, placed: list[int]) -> bool:
        if t == len(records):
            return True
        return any(
            not brute.offsets_faults(records[: t + 1], 1, [*placed, at]) and put(t + 1, [*placed, at])
            for at in range(arena - records[t][2] + 1)
        )

    return put(0, [])


def test_faults_are_found() -> None:
    assert brute.offsets_faults(CHAIN, 1, [0, 64, 0, 64, 0]) == []
    assert brute.offsets_faults(CHAIN, 1, [0, 63, 0, 64, 0]) == ["records 1 and 2 share bytes 63 to 64"]
    assert brute.offsets_faults(CHAIN, 128, [0, 128, 0, 130, 0]) == ["record 3 lies at 130"]
    assert brute.assignment_faults(CHAIN, [0, 0, 1, 2, 1]) == ["records 0 and 1 hold object 0 at once"]
    assert brute.assignment_faults(CHAIN, [0, 1, 0, 1, 3]) == ["objects are numbered [0, 1, 3]"]


def test_breadth_order_needs_only_the_change_points() -> None:
    for seed in range(40):
        generator = random.Random(seed)
        records = seeded_rows(seed, generator.randrange(1, 12), horizon=15, sizes=(0, 1, 2, 4))
        for op_ties, sign in (("low_first", 1), ("high_first", -1)):
            profiles, breadths = bounds.profiles(records), bounds.breadths(records)
            order: list[int] = []
            for op in sorted(range(len(profiles)), key=lambda op: (-breadths[op], sign * op)):
                order += [t for t in sorted(profiles[op], key=lambda t: (-records[t][2], t)) if t not in order]
            assert offsets.by_breadth(records, op_ties, "low_first") == order
        maxima = [max(column) for column in zip(*_padded_profiles(records), strict=True)]
        assert bounds.positional_maxima(records) == maxima
        assert bounds.offsets_bound(records) == max(bounds.breadths(records))


def _padded_profiles(records: list[Record]) -> list[list[int]]:
    """Sizes alive at each operator, descending, with -1 where an operator has fewer than the widest."""
    rows = [sorted((records[i][2] for i in alive), reverse=True) for alive in bounds.profiles(records)]
    width = max(map(len, rows))
    return [row + [-1] * (width - len(row)) for row in rows]
