"""Ways to run a graph with operators run again: their figures are those of the rewritten graph."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from edgemem.errors import ModelError
from edgemem.formats import Bindings, open_bytes
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.macs import count_macs
from edgemem.passes.protocol import PassContext
from edgemem.passes.recompute.recompute_pass import RecomputeOperators
from edgemem.passes.recompute.repeated_graph import repeat
from edgemem.passes.recompute.ways import SearchEffort, find_front, find_ways
from edgemem.schedule.order import find_order
from edgemem.schedule.peak import peak_of
from edgemem.targets import BUILT_IN
from tests.branchy import wired_tflite

MICRO = replace(BUILT_IN["tflm"], aliasing="elementwise")
FAST = SearchEffort("fast")


@pytest.fixture(scope="module")
def stage() -> Graph:
    """In its best order."""
    graph = open_bytes(wired_tflite(16, 2, int8=True), ".tflite").graph()
    return graph.reordered(find_order(graph, MICRO, effort="fast").order)


@pytest.mark.full
def test_a_front_falls_and_its_figures_are_those_of_the_graphs(stage: Graph) -> None:
    found = find_front(stage, MICRO, max_macs=2, points=4, search=FAST)
    assert len(found.ways) > 2
    for way in found.ways:
        graph = repeat(stage, way.runs).graph
        assert way.peak == peak_of(graph, MICRO)
        assert way.macs == count_macs(graph) <= 2 * count_macs(stage)
        assert way.peak >= found.lower_bound
    for one, other in pairwise(found.ways):
        assert other.peak < one.peak
        assert other.macs >= one.macs
    assert found.ways[0].runs == tuple(range(len(stage.ops)))
    assert found.ways[-1].macs > found.ways[0].macs


@pytest.mark.full
def test_a_budget_is_met_with_little_arithmetic(stage: Graph) -> None:
    front = find_front(stage, MICRO, max_macs=2, points=3, search=FAST)
    for way in front.ways[-2:]:
        near = find_ways(stage, MICRO, max_macs=2, budget=way.peak, search=FAST)
        fit = [w for w in near.ways if w.peak <= way.peak]
        assert fit
        assert fit[0].macs <= way.macs * 1.1


def test_no_arithmetic_no_way(stage: Graph) -> None:
    ordered = find_ways(stage, MICRO, max_macs=1.0, search=FAST)
    assert all(way.macs == count_macs(stage) for way in ordered.ways)


def test_what_cannot_be_reordered_stays_as_it_is(stage: Graph) -> None:
    stateful = replace(MICRO, states={"t0": stage.tensors[stage.outputs[0]].name})
    assert len(find_front(stage, stateful, max_macs=2, search=FAST).ways) == 1


@pytest.mark.full
def test_the_pass_takes_the_cheapest_within_the_budget(stage: Graph, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("pass")
    model = open_bytes(wired_tflite(16, 2, int8=True), ".tflite")
    front = find_front(stage, MICRO, max_macs=1.5, points=4, search=FAST)
    budget = front.ways[-1].peak
    context = PassContext(folder / "m.tflite", folder, Bindings(), MICRO)
    made = RecomputeOperators(budget, 1.5).apply(model, context)
    assert peak_of(made.graph(), MICRO) <= budget
    assert count_macs(made.graph()) <= 1.5 * count_macs(stage)
    assert RecomputeOperators(peak_of(model.graph(), MICRO), 1.5).apply(model, context) is model


def test_a_view_runs_again_with_what_it_is_a_view_of() -> None:
    """x -> a -> view of a -> sums: where a is made again, so is the view, or its reader would keep the first copy."""
    names = ("x", "a", "v", "b", "c", "d", "e", "out")
    sizes = (4, 64, 64, 256, 4, 64, 4, 4)
    tensors = tuple(Tensor(n, "int8", (s * 16,)) for n, s in zip(names, sizes, strict=True))
    ops = (
        Op("a", "f", (0,), (1,)),
        Op("v", "Reshape", (1,), (2,)),
        Op("b", "g", (2,), (3,)),
        Op("c", "h", (3,), (4,)),
        Op("e", "k", (2, 4), (6,)),
        Op("out", "m", (6,), (7,)),
    )
    graph = Graph("view", tensors, ops, (0,), (7,))
    target = BUILT_IN["generic"]
    assert peak_of(graph, target) == (64 + 256 + 4) * 16
    made = repeat(graph, (0, 1, 2, 3, 0, 1, 4, 5)).graph
    assert peak_of(made, target) == (64 + 256) * 16
    assert peak_of(repeat(graph, (0, 1, 2, 3, 0, 4, 5)).graph, target) == (64 + 256 + 4) * 16


def test_a_small_graph_by_hand() -> None:
    """a (8) -> b (16) -> c (4), and out reads a and c: without a beside b and c, the peak is that of a and b."""
    tensors = tuple(Tensor(n, "int8", (s * 16,)) for n, s in zip("xabcy", (1, 8, 16, 4, 1), strict=True))
    ops = (Op("a", "f", (0,), (1,)), Op("b", "g", (1,), (2,)), Op("c", "h", (2,), (3,)), Op("out", "k", (1, 3), (4,)))
    graph = Graph("small", tensors, ops, (0,), (4,))
    assert peak_of(graph, BUILT_IN["generic"]) == (8 + 16 + 4) * 16
    found = find_ways(graph, BUILT_IN["generic"], max_macs=9, search=FAST)
    assert found.ways[-1].peak == (8 + 16) * 16 == found.lower_bound
    assert sorted(found.ways[-1].runs) == [0, 0, 1, 2, 3]


def test_runs_of_another_graph_are_refused(stage: Graph) -> None:
    with pytest.raises(ModelError, match="once or more"):
        repeat(stage, (0, 1))
