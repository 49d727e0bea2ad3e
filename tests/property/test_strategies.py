"""Every registered strategy: sound, never better than possible, repeatable, and equal to its literal transcription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings

from edgemem.strategy.catalogue import registered
from edgemem.strategy.options import default_of
from tests import extent
from tests import strategies as ours
from tests.oracle import bounds, brute, flow, offsets, shared_objects
from tests.oracle.bounds import elements
from tests.strategies import find, solved

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.plans import OptionValue
    from edgemem.records.problem import Problem
    from edgemem.strategy.registry import Family, Strategy
    from tests.oracle.bounds import Record, TexelRecord

Options = dict[str, "OptionValue"]

# A function of records (and the alignment, for offsets) and of all options, by name.
OFFSETS: dict[str, Callable[..., list[int]]] = {
    "naive": offsets.naive,
    "greedy_by_size": offsets.greedy_by_size,
    "greedy_by_breadth": offsets.greedy_by_breadth,
    "greedy_in_order": offsets.greedy_in_order,
    "strip_packing": offsets.strip_packing,
    "pyramid": offsets.pyramid,
}
SHARED_OBJECTS: dict[str, Callable[..., list[int]]] = {
    "naive": shared_objects.naive,
    "equality": shared_objects.equality,
    "greedy_in_order": shared_objects.greedy_in_order,
    "greedy_by_size": shared_objects.greedy_by_size,
    "greedy_by_size_improved": shared_objects.greedy_by_size_improved,
    "greedy_by_breadth": shared_objects.greedy_by_breadth,
}
# Those that TFLite GPU has for textures too; the others go by texels where nothing is published.
TEXTURES = ("naive", "equality", "greedy_in_order")
SOLVERS = ("mip",)


def cases(family: Family, *names: str) -> pytest.MarkDecorator:
    """One test a strategy and choice of options; without names, every strategy that needs no solver."""
    chosen = [find(family, name) for name in names] or [s for s in registered(family) if s.name not in SOLVERS]
    return pytest.mark.parametrize(
        ("strategy", "options"),
        [
            pytest.param(strategy, options, id="-".join([strategy.name, *map(str, options.values())]))
            for strategy in chosen
            for options in strategy.variants()
        ],
    )


def run(strategy: Strategy, problem: Problem, options: Options) -> list[int]:
    if strategy.extra is not None:
        pytest.importorskip("scipy")
    found = solved(strategy, problem, **options)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.int64
    assert found.shape == (len(problem),)
    return [int(value) for value in found]


def every_option(strategy: Strategy, options: Options) -> dict[str, Any]:
    """The options with the registered defaults spelt out, so that a default cannot differ from its oracle's."""
    return {name: default_of(option) for name, option in strategy.options.items()} | options


def test_the_strategies_of_the_papers_are_registered() -> None:
    assert {*OFFSETS, "mip"} <= {s.name for s in registered("offsets")}
    assert {*SHARED_OBJECTS, "min_cost_flow"} <= {s.name for s in registered("shared_objects")}


@pytest.mark.full
@cases("offsets")
@given(records=ours.rows(), alignment=ours.alignments())
@example(records=[], alignment=64)
@example(records=[(0, 3, 0), (1, 2, 0)], alignment=64)
def test_offsets_are_sound(strategy: Strategy, options: Options, records: list[Record], alignment: int) -> None:
    placed = run(strategy, ours.problem_of(records, alignment), options)
    assert brute.offsets_faults(records, alignment, placed) == []
    assert all(at == 0 for (_, _, size), at in zip(records, placed, strict=True) if size == 0)
    size = brute.offsets_size(records, placed)
    assert bounds.offsets_bound(records, alignment) <= size
    # Each of them stacks records: no offset is more than the padded sizes below it.
    assert size <= sum(bounds.align_up(size, alignment) for _, _, size in records)


@pytest.mark.full
@cases("offsets")
@settings(max_examples=extent.examples(60))
@given(records=ours.rows(max_records=6), alignment=ours.alignments())
def test_offsets_are_never_below_the_optimum(
    strategy: Strategy, options: Options, records: list[Record], alignment: int
) -> None:
    placed = run(strategy, ours.problem_of(records, alignment), options)
    assert brute.offsets_size(records, placed) >= brute.offsets_optimum(records, alignment)


@pytest.mark.full
@cases("offsets", "mip")
@settings(max_examples=extent.examples(40))
@given(records=ours.rows(max_records=6), alignment=ours.alignments())
@example(records=[(0, 0, 2), (0, 1, 2), (1, 2, 1), (1, 3, 1), (2, 2, 1), (2, 3, 1), (3, 5, 2), (4, 5, 2)], alignment=1)
@example(records=[(0, 0, 16), (0, 1, 9), (1, 2, 9), (2, 2, 16)], alignment=8)
@example(records=[(0, 0, 16), (0, 1, 9), (1, 2, 9), (2, 2, 16)], alignment=16)
def test_the_solver_finds_the_optimum(
    strategy: Strategy, options: Options, records: list[Record], alignment: int
) -> None:
    # The solver reckons in floating point: it promises the optimum only for sizes within six digits of each other.
    records = [(first, last, size % 10_007) for first, last, size in records]
    placed = run(strategy, ours.problem_of(records, alignment), options)
    assert brute.offsets_faults(records, alignment, placed) == []
    assert brute.offsets_size(records, placed) == brute.offsets_optimum(records, alignment)


@pytest.mark.full
@cases("offsets", *OFFSETS)
@settings(max_examples=extent.examples(200))
@given(records=ours.rows(), alignment=ours.alignments())
def test_offsets_equal_the_transcription(
    strategy: Strategy, options: Options, records: list[Record], alignment: int
) -> None:
    expected = OFFSETS[strategy.name](records, alignment, **every_option(strategy, options))
    assert run(strategy, ours.problem_of(records, alignment), options) == expected


@pytest.mark.full
@cases("shared_objects")
@given(records=ours.rows(), alignment=ours.alignments())
@example(records=[], alignment=1)
@example(records=[(0, 3, 0), (1, 2, 0)], alignment=1)
# An object freed at operator 1 must not serve operator 0 again because a later record came first in the list.
@example(records=[(0, 1, 8), (5, 6, 4), (0, 1, 8)], alignment=1)
def test_shared_objects_are_sound(strategy: Strategy, options: Options, records: list[Record], alignment: int) -> None:
    assignment = run(strategy, ours.problem_of(records, alignment), options)
    assert brute.assignment_faults(records, assignment) == []
    size = brute.assignment_size(records, assignment)
    assert bounds.shared_objects_bound(records) <= size <= sum(size for _, _, size in records)


@pytest.mark.full
@cases("shared_objects")
@settings(max_examples=extent.examples(60))
@given(records=ours.rows(max_records=7))
def test_shared_objects_are_never_below_the_optimum(
    strategy: Strategy, options: Options, records: list[Record]
) -> None:
    assignment = run(strategy, ours.problem_of(records), options)
    assert brute.assignment_size(records, assignment) >= brute.shared_objects_optimum(records)


@pytest.mark.full
@cases("shared_objects", *SHARED_OBJECTS)
@settings(max_examples=extent.examples(200))
@given(records=ours.rows(), alignment=ours.alignments())
def test_shared_objects_equal_the_transcription(
    strategy: Strategy, options: Options, records: list[Record], alignment: int
) -> None:
    expected = SHARED_OBJECTS[strategy.name](records, **every_option(strategy, options))
    assert run(strategy, ours.problem_of(records, alignment), options) == expected


@pytest.mark.full
@cases("shared_objects", "min_cost_flow")
@given(records=ours.rows(max_records=40))
def test_the_flow_costs_the_least(strategy: Strategy, options: Options, records: list[Record]) -> None:
    pytest.importorskip("scipy")
    assignment = run(strategy, ours.problem_of(records), options)
    assert flow.flow_cost(records, assignment) == flow.optimal_flow_cost(records)


@pytest.mark.full
@cases("shared_objects")
@given(records=ours.texel_rows())
@example(records=[(0, 1, (2, 8)), (2, 3, (8, 2)), (4, 5, (0, 9))])
def test_textures_are_sound(strategy: Strategy, options: Options, records: list[TexelRecord]) -> None:
    assignment = run(strategy, ours.problem_of(records), options)
    assert brute.assignment_faults(records, assignment) == []
    texels = [(first, last, elements(size)) for first, last, size in records]
    assert brute.assignment_size(records, assignment) >= bounds.shared_objects_bound(texels)


@cases("shared_objects")
@settings(max_examples=extent.examples(40))
@given(records=ours.texel_rows(max_records=6))
def test_textures_are_never_below_the_optimum(strategy: Strategy, options: Options, records: list[TexelRecord]) -> None:
    assignment = run(strategy, ours.problem_of(records), options)
    assert brute.assignment_size(records, assignment) >= brute.shared_objects_optimum(records)


@pytest.mark.full
@cases("shared_objects", *TEXTURES)
@given(records=ours.texel_rows())
def test_textures_equal_the_transcription(strategy: Strategy, options: Options, records: list[TexelRecord]) -> None:
    expected = SHARED_OBJECTS[strategy.name](records, **every_option(strategy, options))
    assert run(strategy, ours.problem_of(records), options) == expected


def assert_repeatable(strategy: Strategy, options: Options, records: list[Record], alignment: int) -> None:
    from_rows, from_columns = ours.problem_of(records, alignment), ours.problem_of_columns(records, alignment)
    once = run(strategy, from_rows, options)
    assert run(strategy, from_rows, options) == once
    assert run(strategy, from_columns, options) == once


@pytest.mark.full
@cases("offsets")
@settings(max_examples=extent.examples(40))
@given(records=ours.rows(), alignment=ours.alignments())
def test_offsets_are_repeatable(strategy: Strategy, options: Options, records: list[Record], alignment: int) -> None:
    assert_repeatable(strategy, options, records, alignment)


@pytest.mark.full
@cases("shared_objects")
@settings(max_examples=extent.examples(40))
@given(records=ours.rows())
def test_shared_objects_are_repeatable(strategy: Strategy, options: Options, records: list[Record]) -> None:
    assert_repeatable(strategy, options, records, 1)


# Kernels may switch to other data structures above some size; ties are where those go wrong.
LARGE: dict[str, list[Record]] = {
    "few sizes": ours.seeded_rows(1, 900, horizon=300, sizes=(16, 48, 64), longest=25),
    "few operators": ours.seeded_rows(2, 600, horizon=6, sizes=(1, 2, 3, 100, 101)),
    "one size": ours.seeded_rows(3, 700, horizon=200, sizes=(32,), longest=12),
    "long and short": ours.seeded_rows(4, 300, horizon=2000, sizes=(8, 24, 4096))
    + ours.seeded_rows(5, 900, horizon=2000, sizes=(0, 8, 24, 100), longest=3),
    "many sizes": ours.seeded_rows(6, 1000, horizon=400, sizes=range(1, 100_000), longest=40),
    "chain": ours.chain(7, 1500, (1, 7, 64, 65)),
    "all overlapping": ours.all_overlapping(8, 600, (3, 3, 64, 2**33)),
    "far operators": ours.seeded_rows(9, 600, horizon=10**9, sizes=(5, 6, 64), longest=10**8),
}


@pytest.fixture(params=LARGE)
def large(request: pytest.FixtureRequest) -> list[Record]:
    return LARGE[request.param]


@pytest.mark.full
@cases("offsets", *OFFSETS)
@pytest.mark.parametrize("alignment", [1, 64])
def test_large_offsets_equal_the_transcription(
    strategy: Strategy, options: Options, large: list[Record], alignment: int
) -> None:
    expected = OFFSETS[strategy.name](large, alignment, **every_option(strategy, options))
    assert run(strategy, ours.problem_of_columns(large, alignment), options) == expected


@pytest.mark.full
@cases("shared_objects", *SHARED_OBJECTS)
def test_large_shared_objects_equal_the_transcription(
    strategy: Strategy, options: Options, large: list[Record]
) -> None:
    expected = SHARED_OBJECTS[strategy.name](large, **every_option(strategy, options))
    assert run(strategy, ours.problem_of_columns(large), options) == expected


@cases("shared_objects", "min_cost_flow")
def test_large_flows_cost_the_least(strategy: Strategy, options: Options, large: list[Record]) -> None:
    pytest.importorskip("scipy")
    part = large[:300]
    assignment = run(strategy, ours.problem_of_columns(part), options)
    assert brute.assignment_faults(part, assignment) == []
    assert flow.flow_cost(part, assignment) == flow.optimal_flow_cost(part)
