"""The Python transcription of the kernels gives what the kernels give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgemem import _kernels
from edgemem.errors import PlanError
from edgemem.native import pure
from tests import strategies as ours

if TYPE_CHECKING:
    from tests.oracle.bounds import Record


@given(ours.rows(), ours.alignments(), st.randoms(use_true_random=False))
@example([], 1, None)
@example([(0, 0, 0), (3, 5, 65)], 64, None)
def test_equal_to_the_kernels(records: list[Record], alignment: int, random: object) -> None:
    problem = ours.problem_of(records, alignment)
    columns = problem.first_op, problem.last_op, problem.size
    order = np.arange(len(records), dtype=np.int64)
    if random is not None:
        random.shuffle(order)  # type: ignore[attr-defined]
    for chosen in (order, np.argsort(-problem.size, kind="stable")):
        ours_, theirs = (k.place_in_smallest_gap(*columns, alignment, chosen) for k in (pure, _kernels))
        assert ours_.tolist() == theirs.tolist()
    assert pure.offset_lower_bound(*columns, alignment) == _kernels.offset_lower_bound(*columns, alignment)
    assert pure.positional_maxima(*columns).tolist() == _kernels.positional_maxima(*columns).tolist()
    for mine, theirs in zip(pure.section_breadths(*columns), _kernels.section_breadths(*columns), strict=True):
        assert mine.tolist() == theirs.tolist()


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1), st.data())
def test_range_minimum(values: list[int], data: st.DataObject) -> None:
    column = np.array(values, np.int64)
    low = np.array(data.draw(st.lists(st.integers(0, len(values) - 1))), np.int64)
    high = np.minimum(low + 3, len(values) - 1)
    assert pure.range_minimum(column, low, high).tolist() == _kernels.range_minimum(column, low, high).tolist()


def test_what_is_not_transcribed_says_so() -> None:
    with pytest.raises(PlanError, match="assign_in_order is only in the compiled kernels"):
        pure.assign_in_order  # noqa: B018
