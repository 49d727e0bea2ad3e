"""Bounds and profiles against their definitions, and bounds against exact optima."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgemem.plans import LowerBounds
from edgemem.strategy.bounds import lower_bounds, naive_size, operator_breadths, positional_maxima
from tests import strategies as ours
from tests.oracle import bounds, brute
from tests.oracle.bounds import elements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.oracle.bounds import Record, TexelRecord


def in_elements(records: Sequence[Record | TexelRecord]) -> list[Record]:
    return [(first, last, elements(size)) for first, last, size in records]


@pytest.mark.full
@given(ours.rows(), ours.alignments())
@example([], 1)
@example([(0, 0, 0)], 16)
def test_bounds_equal_their_definitions(records: list[Record], alignment: int) -> None:
    problem = ours.problem_of(records, alignment)
    assert lower_bounds(problem) == LowerBounds(
        bounds.offsets_bound(records, alignment), bounds.shared_objects_bound(records)
    )
    assert positional_maxima(problem) == tuple(bounds.positional_maxima(records))
    assert naive_size(problem) == bounds.naive_size(records, alignment)


@pytest.mark.full
@given(ours.texel_rows())
def test_bounds_of_extents_are_those_of_their_texels(records: list[TexelRecord]) -> None:
    problem = ours.problem_of(records)
    texels = in_elements(records)
    assert positional_maxima(problem) == tuple(bounds.positional_maxima(texels))
    assert lower_bounds(problem).shared_objects == bounds.shared_objects_bound(texels)
    assert naive_size(problem) == bounds.naive_size(texels)


@pytest.mark.full
@given(ours.rows())
def test_profiles_and_breadths_equal_their_definitions(records: list[Record]) -> None:
    if max((last for _, last, _ in records), default=0) > 1000:
        records = [(first % 40, first % 40 + last % 7, size) for first, last, size in records]
    problem = ours.problem_of(records)
    breadths = operator_breadths(problem)
    assert breadths.dtype == np.int64
    assert breadths.tolist() == bounds.breadths(records)


@pytest.mark.full
@given(ours.rows(), ours.alignments(), st.randoms(use_true_random=False))
def test_the_order_of_the_records_does_not_move_the_bounds(
    records: list[Record], alignment: int, generator: Random
) -> None:
    shuffled = list(records)
    generator.shuffle(shuffled)
    before, after = ours.problem_of(records, alignment), ours.problem_of_columns(shuffled, alignment)
    assert lower_bounds(before) == lower_bounds(after)
    assert positional_maxima(before) == positional_maxima(after)


@pytest.mark.full
@given(ours.rows(max_records=6), ours.alignments())
def test_no_placement_goes_below_the_bound(records: list[Record], alignment: int) -> None:
    assert lower_bounds(ours.problem_of(records, alignment)).offsets <= brute.offsets_optimum(records, alignment)


@given(st.one_of(ours.rows(max_records=7), ours.texel_rows(max_records=6)))
def test_no_assignment_goes_below_the_bound(records: list[Record | TexelRecord]) -> None:
    assert lower_bounds(ours.problem_of(records)).shared_objects <= brute.shared_objects_optimum(records)


def test_the_offsets_bound_is_met_by_one_operator_with_padding() -> None:
    # 9 + 9 + 4 bytes at alignment 16: two padded to 16, the one with the largest padding (4 bytes) on top.
    assert lower_bounds(ours.problem_of([(0, 0, 9), (0, 0, 4), (0, 0, 9)], 16)).offsets == 36
    assert brute.offsets_optimum([(0, 0, 9), (0, 0, 4), (0, 0, 9)], 16) == 36


@pytest.mark.parametrize("alignment", ours.ALIGNMENTS)
@pytest.mark.parametrize("horizon", [3, 40, 1500, 10**9])
def test_bounds_of_many_records(horizon: int, alignment: int) -> None:
    records = ours.seeded_rows(horizon, 700, horizon=horizon, sizes=(0, 1, 17, 64, 4096), longest=horizon // 8)
    problem = ours.problem_of_columns(records, alignment)
    assert lower_bounds(problem) == LowerBounds(
        bounds.offsets_bound(records, alignment), bounds.shared_objects_bound(records)
    )
    assert naive_size(problem) == bounds.naive_size(records, alignment)
