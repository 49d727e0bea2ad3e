"""Estimated costs of operators, counted by hand."""

from __future__ import annotations

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.remat.operators import estimated_costs
from edgemem.schedule.problem import order_problem
from edgemem.targets import BUILT_IN

# A fully connected layer of 8 inputs and 4 outputs, a view of its result, and a RELU of that.
GRAPH = Graph(
    "g",
    (
        Tensor("x", "int8", (1, 8)),
        Tensor("w", "int8", (4, 8), "constant"),
        Tensor("y", "int8", (1, 4)),
        Tensor("z", "int8", (2, 2)),
        Tensor("r", "int8", (2, 2)),
    ),
    (
        Op("fc", "FULLY_CONNECTED", (0, 1), (2,)),
        Op("view", "RESHAPE", (2,), (3,)),
        Op("relu", "RELU", (3,), (4,)),
    ),
    (0,),
    (4,),
)


def test_costs_are_products_and_bytes_moved_and_views_are_free() -> None:
    problem = order_problem(GRAPH, BUILT_IN["litert"])
    assert estimated_costs(GRAPH, problem) == (32 + 8 + 32 + 4, 0, 8)
    assert estimated_costs(GRAPH, problem, macs_per_byte=10) == (4 + 44, 0, 8)


def test_where_nothing_is_a_view_it_moves_its_bytes() -> None:
    problem = order_problem(GRAPH, BUILT_IN["pytorch"])
    assert estimated_costs(GRAPH, problem)[1] == 8
