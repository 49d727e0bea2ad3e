"""Runs of operators, some of them several times: peaks counted by hand, and the problem that the runs are."""

from __future__ import annotations

import random

import pytest

from edgemem.errors import PlanError
from edgemem.remat.runs import Sources, expand_runs, runs_peak, sources_of
from edgemem.schedule.peak import order_peak
from edgemem.schedule.problem import OrderProblem
from tests.unit.test_order_bound import is_order, some_problem

# 0 writes a (10), 1 reads it and writes b (1), 2 reads b and writes c (20), 3 reads a and c and writes d (1).
SKIP = OrderProblem(
    before=((), (0,), (1,), (0, 2)),
    size=(10, 1, 20, 1),
    reads=((), (0,), (1,), (0, 2)),
    writes=((0,), (1,), (2,), (3,)),
    over=((), (), (), ()),
    kept=frozenset({3}),
)


def test_a_copy_dies_with_its_last_reader_and_the_next_one_is_new() -> None:
    assert runs_peak(SKIP, (0, 1, 2, 3)) == 10 + 20 + 1
    assert runs_peak(SKIP, (0, 1, 0, 2, 3)) == 31
    assert runs_peak(SKIP, (0, 1, 2, 0, 3)) == 31
    narrow = OrderProblem(SKIP.before, (10, 1, 20, 1), SKIP.reads, SKIP.writes, SKIP.over, own=(0, 0, 15, 0))
    assert runs_peak(narrow, (0, 1, 2, 3)) == 10 + 1 + 20 + 15
    assert runs_peak(narrow, (0, 1, 2, 0, 3)) == 1 + 20 + 15


def test_runs_of_each_operator_once_are_an_order() -> None:
    rng = random.Random(7)
    for _ in range(60):
        problem = some_problem(rng, rng.randint(1, 8))
        runs = tuple(range(problem.count))
        assert runs_peak(problem, runs) == order_peak(problem, runs)


def test_of_a_kept_class_the_last_copy_is_kept() -> None:
    problem = OrderProblem(
        before=((), (0,), (1,)),
        size=(8, 1, 9),
        reads=((), (0,), (1,)),
        writes=((0,), (1,), (2,)),
        over=((), (), ()),
        kept=frozenset({0, 2}),
        own=(0, 0, 2),
    )
    assert runs_peak(problem, (0, 1, 2)) == 8 + 1 + 9 + 2
    assert runs_peak(problem, (0, 1, 2, 0)) == 9 + 8
    assert expand_runs(problem, (0, 1, 2, 0)).kept == {2, 3}


def test_a_copy_that_nothing_reads_lingers_where_unread_results_do() -> None:
    rules = {"before": ((), (0,)), "size": (4, 2, 1), "reads": ((), (0,)), "writes": ((0, 1), (2,)), "over": ((), ())}
    one_op, to_end = OrderProblem(**rules), OrderProblem(**rules, lingers=frozenset({1, 2}), keeps_unread=True)  # type: ignore[arg-type]
    assert runs_peak(one_op, (0, 1)) == 6
    assert runs_peak(to_end, (0, 1)) == 4 + 2 + 1
    assert runs_peak(one_op, (0, 0, 1)) == 6
    assert runs_peak(to_end, (0, 0, 1)) == 6 + 6 + 1


def test_memory_is_taken_from_the_last_reader_of_a_copy() -> None:
    problem = OrderProblem(
        before=((), (0,), (0, 1)),
        size=(8, 8, 8),
        reads=((), (0,), (0, 1)),
        writes=((0,), (1,), (2,)),
        over=((), (0,), (1,)),
    )
    assert runs_peak(problem, (0, 1, 2)) == 16
    # The first copy of class 0 has one reader, which writes over it; operator 2 reads the second one.
    assert expand_runs(problem, (0, 1, 0, 2)).over == ((), (0,), (), (1,))
    assert runs_peak(problem, (0, 1, 0, 2)) == 16


def test_a_reader_of_a_view_reads_the_copy_that_the_view_was_made_of() -> None:
    # 1 is a view of class 0, 2 reads it through the view and 3 reads the class itself.
    problem = OrderProblem(
        before=((), (0,), (1,), (0, 2)),
        size=(8, 1, 1),
        reads=((), (0,), (0,), (0, 1)),
        writes=((0,), (), (1,), (2,)),
        over=((), (), (), ()),
    )
    assert sources_of(problem, 2) == {0: Sources(is_direct=False, views=(1,))}
    assert sources_of(problem, 3)[0] == Sources(is_direct=True, views=())
    assert expand_runs(problem, (0, 1, 0, 2, 3)).reads == ((), (0,), (), (0,), (3, 1))
    assert runs_peak(problem, (0, 1, 0, 2, 3)) == 8 + 8 + 1
    assert runs_peak(problem, (0, 1, 2, 0, 3)) == 8 + 1 + 1


def test_every_order_of_the_larger_problem_is_a_sequence_of_runs_with_the_same_peak() -> None:
    rng = random.Random(8)
    moved = 0
    for _ in range(60):
        problem = some_problem(rng, rng.randint(2, 6))
        runs = list(range(problem.count))
        for _ in range(3):
            k = rng.randrange(problem.count)
            runs.insert(rng.randint(runs.index(k) + 1, len(runs)), k)
        larger = expand_runs(problem, runs)
        order = list(range(len(runs)))
        for _ in range(20):
            at = rng.randrange(len(order) - 1)
            other = [*order[:at], order[at + 1], order[at], *order[at + 2 :]]
            if is_order(larger, tuple(other)):
                order = other
        moved += order != sorted(order)
        assert runs_peak(problem, [runs[r] for r in order]) == order_peak(larger, order)
    assert moved > 30


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ((0, 2, 1, 3), "operator 2 cannot run at place 1 of the runs: operator 1 must run before it"),
        ((0, 1, 2), "operator 3 never runs"),
        ((0, 1, 4), "there is no operator 4: there are 4"),
    ],
)
def test_other_sequences_are_refused(runs: tuple[int, ...], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        runs_peak(SKIP, runs)
