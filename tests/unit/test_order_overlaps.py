"""Orders under rules by which results overlap inputs and slices lie in tensors, against all orders of small graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import edgemem
from edgemem.api import order_methods
from edgemem.schedule.order import find_order
from edgemem.schedule.peak import peak_of
from edgemem.schedule.precedence import find_precedence
from edgemem.targets import BUILT_IN
from tests.tiny_graphs import random_graph

if TYPE_CHECKING:
    from edgemem.model.graph import Graph

TFLM = BUILT_IN["tflm"]
RULES = {
    "overlaps": TFLM.changed(kernels="tflm-reference"),
    "slots": TFLM.changed(slots=True),
    "both": TFLM.changed(kernels="tflm-reference", slots=True),
    "device": TFLM.changed(kernels="cmsis-nn-dsp", slots=True),
}


def every_order(graph: Graph) -> list[tuple[int, ...]]:
    before = find_precedence(graph)
    orders: list[tuple[int, ...]] = [()]
    for _ in graph.ops:
        orders = [
            (*order, k)
            for order in orders
            for k in range(len(graph.ops))
            if k not in order and set(before[k]) <= set(order)
        ]
    return orders


@pytest.mark.full
@pytest.mark.parametrize("rules", RULES)
def test_the_bound_holds_and_nearly_all_are_optimal(rules: str) -> None:
    target = RULES[rules]
    met = 0
    for seed in range(60):
        graph = random_graph(np.random.default_rng(seed), 5)
        peaks = {order: peak_of(graph.reordered(order), target) for order in every_order(graph)}
        found = find_order(graph, target)
        least = min(peaks.values())
        assert found.lower_bound <= least <= found.peak <= found.given_peak
        assert found.peak == peaks[found.order]
        assert found.given_peak == peaks[tuple(range(len(graph.ops)))]
        assert not found.optimal or found.peak == least
        met += found.peak == least
    assert met >= 57


@pytest.mark.full
def test_moves_are_counted_as_work() -> None:
    graph = random_graph(np.random.default_rng(2), 40)
    fast, most = (find_order(graph, RULES["overlaps"], effort=effort) for effort in ("fast", "max"))
    assert most.peak <= fast.peak <= fast.given_peak
    assert fast.stopped == "work"
    again = find_order(graph, RULES["overlaps"], effort="fast")
    assert (again.order, again.peak, again.method) == (fast.order, fast.peak, fast.method)


@pytest.mark.full
def test_what_found_an_order_is_a_method() -> None:
    moved = 0
    methods = {"auto", *(solver.name for solver in order_methods())}
    for seed in range(60):
        graph = random_graph(np.random.default_rng(seed), 5)
        found = edgemem.order(graph, target=RULES["overlaps"])
        assert found.method in {"given", *methods}
        if found.method in methods:  # it may be asked for
            assert edgemem.order(graph, found.method, target=RULES["overlaps"]).given_peak == found.given_peak
        moved += found.method == "auto"
    assert moved


def test_one_method_moves_nothing() -> None:
    for seed in range(20):
        graph = random_graph(np.random.default_rng(seed), 8)
        assert find_order(graph, RULES["both"], method="greedy").method in ("greedy", "given")
