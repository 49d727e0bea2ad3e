"""The search of neighbourhoods: figures counted elsewhere, limits and seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from edgemem.schedule.bound import order_bound
from edgemem.schedule.neighbourhood import neighbourhood_order
from edgemem.schedule.ordering import Start
from edgemem.schedule.peak import order_peak
from edgemem.schedule.problem import order_problem
from edgemem.targets import BUILT_IN
from models import wired_networks as wired

if TYPE_CHECKING:
    from edgemem.model.graph import Graph

MICRO = BUILT_IN["tflm"]

# KiB that beam search of width 512, or some seconds of local search, found before in another program; and what is
# found here.
FOUND = [
    (wired.randwire(16, seed=0), 441, 441, "proof"),
    (wired.randwire(32, seed=1), 686, 686, "proof"),
    (wired.randwire(64, seed=2), 1274, 1274, "work"),
    (wired.randwire(128, seed=3), 2746, 2354, "work"),
]


@pytest.mark.parametrize(("graph", "elsewhere", "kib", "stopped"), [pytest.param(*f, id=f[0].name) for f in FOUND])
def test_orders_are_as_good_as_those_found_elsewhere(graph: Graph, elsewhere: int, kib: int, stopped: str) -> None:
    problem = order_problem(graph, MICRO)
    found = neighbourhood_order(problem)
    assert round(order_peak(problem, found.order) / 1024) <= kib <= elsewhere
    assert found.stopped == stopped
    assert found.bound == (order_peak(problem, found.order) if stopped == "proof" else 0)


def test_seeds_and_work_decide_and_nothing_else() -> None:
    problem = order_problem(wired.randwire(64, seed=5), MICRO)
    one = neighbourhood_order(problem, effort="fast", seed=1)
    assert one == neighbourhood_order(problem, effort="fast", seed=1)
    others = {neighbourhood_order(problem, effort="fast", seed=seed).order for seed in range(2, 5)}
    assert others - {one.order}


def test_search_ends_at_the_bound_or_when_time_is_up_and_never_above_its_start() -> None:
    problem = order_problem(wired.randwire(96, seed=6), MICRO)
    given = tuple(range(problem.count))
    peak = order_peak(problem, given)
    at_bound = Start(given, peak, peak)
    assert neighbourhood_order(problem, start=at_bound).order == given
    assert neighbourhood_order(problem, start=at_bound).stopped == "bound"
    out_of_time = neighbourhood_order(problem, start=Start(given, peak, 0), effort="max", time_limit=0.0)
    assert out_of_time.stopped == "time"
    assert order_peak(problem, out_of_time.order) <= peak
    bound = order_bound(problem, given)
    solved = neighbourhood_order(problem, start=Start(given, peak, bound))
    assert bound <= order_peak(problem, solved.order) < peak
