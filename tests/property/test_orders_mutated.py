"""Solvers that are broken on purpose: what checks orders must find every one of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from edgemem.schedule.ordering import Solved
from edgemem.schedule.peak import order_peak
from edgemem.schedule.registry import SOLVERS
from edgemem.strategy.options import TIME_LIMIT
from tests.oracle.orders.campaign import wrongs
from tests.oracle.orders.cases import small_case

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.schedule.problem import OrderProblem
    from edgemem.strategy.options import Option

Mutation: TypeAlias = "Callable[[Solved, OrderProblem, dict[str, Any]], Solved]"

calls = count()


def swapped(solved: Solved, _: OrderProblem, __: dict[str, Any]) -> Solved:
    """Its first two operators change places, whether they may or not."""
    first = solved.order[:2][::-1]
    return replace(solved, order=(*first, *solved.order[2:]))


def cut(solved: Solved, _: OrderProblem, __: dict[str, Any]) -> Solved:
    return replace(solved, order=solved.order[:-1])


def bound_one_higher(solved: Solved, _: OrderProblem, __: dict[str, Any]) -> Solved:
    return replace(solved, bound=solved.bound + 1)


def bound_of_the_peak(solved: Solved, problem: OrderProblem, _: dict[str, Any]) -> Solved:
    """The peak of the operators' own order is said to be a bound, and the search to be at its end."""
    order = tuple(range(len(solved.order)))
    return Solved(order, order_peak(problem, order), "bound")


def proof_of_nothing(solved: Solved, _: OrderProblem, __: dict[str, Any]) -> Solved:
    return Solved(tuple(range(len(solved.order))), 0, "proof")


def worse_with_effort(solved: Solved, _: OrderProblem, options: dict[str, Any]) -> Solved:
    given = tuple(range(len(solved.order)))
    return replace(solved, order=solved.order if options.get("effort") == "fast" else given)


def another_each_time(solved: Solved, _: OrderProblem, __: dict[str, Any]) -> Solved:
    given = tuple(range(len(solved.order)))
    return replace(solved, order=given if next(calls) % 2 else solved.order)


def nothing_without_time(solved: Solved, _: OrderProblem, options: dict[str, Any]) -> Solved:
    return Solved(()) if options.get("time_limit") == 0 else solved


MUTATIONS: dict[Mutation, set[str]] = {
    swapped: {"its order is not topological"},
    cut: {"its order is not topological"},
    bound_one_higher: {"its bound is above the optimum", "a bound above the optimum"},
    bound_of_the_peak: {"its bound is above the optimum", "it claims a proof, and is not the best"},
    proof_of_nothing: {"it claims a proof, and is not the best"},
    worse_with_effort: {"default is worse than fast"},
    another_each_time: {"another answer the second time"},
    nothing_without_time: {"its order is not topological"},
}


@pytest.mark.full
@pytest.mark.parametrize("name", sorted({"beam", "greedy"} & SOLVERS.keys()))
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_broken_solvers_are_found(mutation: Mutation, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = SOLVERS[name]

    def broken(problem: OrderProblem, **options: Any) -> Solved:
        known = {k: v for k, v in options.items() if k in good.options}
        found = good.function(problem, **known)
        return mutation(found if isinstance(found, Solved) else Solved(found), problem, options)

    limits: dict[str, Option] = {"effort": ("fast", "default", "max"), "time_limit": TIME_LIMIT}
    monkeypatch.setitem(SOLVERS, name, replace(good, function=broken, options={**good.options, **limits}))
    found: set[str] = set()
    for seed in range(60):
        found |= {check.split(": ")[-1] for check in wrongs("small", small_case(seed))}
        if found & MUTATIONS[mutation]:
            return
    pytest.fail(f"only {found} in 60 graphs")
