from __future__ import annotations

import numpy as np
import pytest

from edgemem.errors import ModelError
from edgemem.records.problem import Problem, UsageRecord


def test_rows_and_columns_are_the_same_problem() -> None:
    rows = Problem([UsageRecord("a", 0, 2, 10), UsageRecord("b", 1, 1, 20)], alignment=16)
    columns = Problem.from_arrays([0, 1], [2, 1], [10, 20], names=["a", "b"], alignment=16)
    assert rows.records == columns.records
    assert rows.names == columns.names == ("a", "b")
    assert rows.size.tolist() == columns.size.tolist() == [10, 20]


def test_texel_sizes_are_products() -> None:
    problem = Problem([UsageRecord("a", 0, 0, (4, 3)), UsageRecord("b", 0, 0, (2, 5))])
    assert problem.size.tolist() == [12, 10]
    assert problem.extents is not None
    assert problem.records[1].size == (2, 5)


def test_columns_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Problem.from_arrays([0], [0], [1]).size[0] = 2


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (UsageRecord("t", 3, 2, 1), "'t' has last_op before first_op"),
        (UsageRecord("t", -1, 2, 1), "'t' has a negative first_op"),
        (UsageRecord("t", 0, 2, -1), "'t' has a negative size"),
        (UsageRecord("t", 0, 2, (4, -1)), "'t' has a negative size"),
        (UsageRecord("t", 0, 2, 2**63), "within int64"),
        (UsageRecord("t", 0, 2, 2**62), "more than int64 holds"),
        (UsageRecord("t", 0, 2, (2**40, 2**40)), "more texels than int64 holds"),
        (UsageRecord("t", 0, 2, 1.5), "integers"),  # type: ignore[arg-type]
    ],
)
def test_impossible_records_are_refused(record: UsageRecord, what: str) -> None:
    with pytest.raises(ModelError, match=what):
        Problem([record])


def test_sums_beyond_int64_are_refused() -> None:
    with pytest.raises(ModelError, match="more than int64 holds"):
        Problem.from_arrays(np.zeros(8, int), np.zeros(8, int), np.full(8, 2**60))


def test_mixed_ranks_are_refused() -> None:
    with pytest.raises(ModelError, match="one rank"):
        Problem([UsageRecord("a", 0, 0, (4, 3)), UsageRecord("b", 0, 0, 7)])


@pytest.mark.parametrize("alignment", [0, -1, 3, 48, 2**63, 2**2000, 3**10000], ids=lambda a: str(a % 1000))
def test_alignment_is_a_power_of_two(alignment: int) -> None:
    with pytest.raises(ModelError, match="power of two"):
        Problem([], alignment=alignment)


def test_lengths_must_match() -> None:
    with pytest.raises(ModelError, match="differ in length"):
        Problem.from_arrays([0, 1], [0], [1])
    with pytest.raises(ModelError, match="1 names for 2 records"):
        Problem.from_arrays([0, 1], [0, 1], [1, 1], names=["a"])


def test_no_records_is_a_problem_too() -> None:
    assert len(Problem([])) == 0
    assert Problem([]).records == ()
