"""Division into parts: figures counted elsewhere, and what no search is needed for."""

from __future__ import annotations

import pytest

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.schedule.bound import order_bound
from edgemem.schedule.greedy import greedy_order
from edgemem.schedule.order import find_order
from edgemem.schedule.ordering import Start
from edgemem.schedule.parts import parts_order
from edgemem.schedule.peak import order_peak
from edgemem.schedule.problem import order_problem
from edgemem.targets import BUILT_IN, Target
from models import wired_networks as wired

MICRO = BUILT_IN["tflm"]


@pytest.mark.parametrize("blocks", [4, 9])
def test_inception_is_proved_block_by_block(blocks: int) -> None:
    # 488 KiB was counted before with another program, by a search over all sets of operators.
    problem = order_problem(wired.inception(blocks), MICRO)
    found = parts_order(problem, effort="fast")
    assert found.stopped == "proof"
    assert order_peak(problem, found.order) == found.bound
    assert round(found.bound / 1024) == 488
    # Blocks are alike: more of them are no more work, since only the one with the highest peak is searched.
    assert found.work == parts_order(order_problem(wired.inception(2), MICRO), effort="fast").work


def tiles(count: int, sizes: tuple[int, ...]) -> Graph:
    """Chains from one tensor to one concatenation, layer by layer."""
    tensors = [Tensor("x", "int8", (50,))]
    ops = []
    last = [0] * count
    for layer, size in enumerate(sizes):
        for k in range(count):
            tensors.append(Tensor(f"t{layer}_{k}", "int8", (size,)))
            ops.append(Op(f"op{layer}_{k}", "CONV_2D", (last[k],), (len(tensors) - 1,)))
            last[k] = len(tensors) - 1
    tensors.append(Tensor("y", "int8", (1,)))
    ops.append(Op("join", "CONCATENATION", tuple(last), (len(tensors) - 1,)))
    return Graph("tiles", tuple(tensors), tuple(ops), (0,), (len(tensors) - 1,))


def test_tiles_run_one_after_the_other() -> None:
    # Greedy runs all first layers first: they add the least.
    rules = Target("plain", alignment=1, inputs="until_last_use")
    graph = tiles(200, (30, 100, 5))
    problem = order_problem(graph, rules)
    found = parts_order(problem, effort="fast")
    assert order_peak(problem, found.order) == 50 + 198 * 5 + 130
    assert order_peak(problem, greedy_order(problem)) > 6000
    place = {k: at for at, k in enumerate(found.order)}
    assert all(place[k + 400] == place[k] + 2 for k in range(200))
    assert find_order(graph, rules, method="parts", effort="fast").peak == 50 + 198 * 5 + 130


def test_what_cannot_be_divided_stays_as_it_is() -> None:
    problem = order_problem(wired.randwire(64, seed=2), MICRO)
    given = tuple(range(problem.count))
    start = Start(given, order_peak(problem, given), order_bound(problem, given))
    best = parts_order(problem, start=start)
    assert order_peak(problem, best.order) <= start.peak
    assert best.work == 0
