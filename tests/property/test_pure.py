"""The Python transcription of the kernels gives what the kernels give."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from edgemem import _kernels
from edgemem.errors import ModelError, PlanError
from edgemem.native import pure
from edgemem.records.relations import relation_columns
from edgemem.schedule.problem import order_problem
from tests import strategies as ours
from tests.property.test_order_problem import TARGETS, Maker, some_order
from tests.related import problem_of, related_records

if TYPE_CHECKING:
    from tests.oracle.bounds import Record
    from tests.oracle.relations import Related

LISTS = ("before", "size", "reads", "writes", "over", "own", "inside", "early", "leaves", "entry")
SETS = ("start", "kept", "lingers", "guarded")


@pytest.mark.full
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


@pytest.mark.full
@given(related_records(most=10))
def test_the_bound_of_related_records(related: Related) -> None:
    try:
        problem = problem_of(related)
    except ModelError:
        assume(False)
    columns = problem.first_op, problem.last_op, problem.size, problem.alignment
    mine, theirs = (
        k.related_lower_bound(*columns, **problem.constraints, **relation_columns(problem.overlap, problem.within))
        for k in (pure, _kernels)
    )
    assert mine == theirs


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1), st.data())
def test_range_minimum(values: list[int], data: st.DataObject) -> None:
    column = np.array(values, np.int64)
    low = np.array(data.draw(st.lists(st.integers(0, len(values) - 1))), np.int64)
    high = np.minimum(low + 3, len(values) - 1)
    assert pure.range_minimum(column, low, high).tolist() == _kernels.range_minimum(column, low, high).tolist()


@given(st.integers(0, 2**32))
def test_orders(seed: int) -> None:
    rng = random.Random(seed)
    target = rng.choice(TARGETS)
    problem = order_problem(
        Maker(rng, 256).graph(rng.randint(1, 12), scratch=not (target.texels or target.layer_rows)), target
    )
    fields = {name: getattr(problem, name) for name in LISTS} | {name: sorted(getattr(problem, name)) for name in SETS}
    mine, theirs = (k.OrderProblem(**fields, opening=problem.opening) for k in (pure, _kernels))
    order = some_order(rng, problem.before)
    assert mine.peak(order) == theirs.peak(order)
    assert mine.greedy() == theirs.greedy()
    for wrong in (order[1:], (*order, order[0]), (*order[:-1], -1), order[::-1] if any(problem.before) else order[1:]):
        for kernel in (mine, theirs):
            with pytest.raises(ValueError, match="operator"):
                kernel.peak(wrong)
    proved = [k.beam(10**9) for k in (mine, theirs)]
    assert len({(bound, stopped) for _, bound, stopped, _ in proved}) == 1
    assert all(mine.peak(order) == bound for order, bound, *_ in proved)


def test_what_is_not_transcribed_says_so() -> None:
    with pytest.raises(PlanError, match="assign_in_order is only in the compiled kernels"):
        pure.assign_in_order  # noqa: B018
