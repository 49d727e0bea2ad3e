"""Operators in time."""

from __future__ import annotations

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.steps import steps_of

BODY = Graph(
    "then", (Tensor("i", "int8", (1,)), Tensor("o", "int8", (1,))), (Op("a/b", "ABS", (0,), (1,)),), (0,), (1,)
)
GRAPH = Graph(
    "g",
    tuple(Tensor(n, "int8", (1,)) for n in "xy"),
    (Op("c/if", "IF", (0, -1), (1,), (BODY, BODY)), Op("", "ABS", (1,), (-1,))),
    (0,),
    (1,),
)


def test_bodies_come_before_the_operator_that_runs_them() -> None:
    steps = steps_of(GRAPH)
    assert [s.label for s in steps] == ["c/if/then/a/b", "c/if/then#1/a/b", "c/if", "ABS"]
    assert [(s.depth, s.index) for s in steps] == [(1, 0), (1, 0), (0, 0), (0, 1)]
    assert [s.starts for s in steps] == [(), (), (0, 1), ()]
    assert (steps[0].reads, steps[0].writes) == (("i",), ("o",))
    assert (steps[2].reads, steps[3].writes) == (("x", ""), ("",))


def test_bodies_may_be_left_out() -> None:
    assert [(s.label, s.depth, s.index, s.starts) for s in steps_of(GRAPH, bodies=False)] == [
        ("c/if", 0, 0, ()),
        ("ABS", 0, 1, ()),
    ]
