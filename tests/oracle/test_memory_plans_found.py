"""Where verify and the checker differed once: what `python -m tests.oracle.memory_plans` found, made small."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import onnx
import pytest

import edgemem
from edgemem import Problem, lower_bounds
from edgemem.formats import open_bytes
from edgemem.strategy.bounds import naive_size
from tests.oracle.memory_plans.checker import Checker
from tests.oracle.memory_plans.onnx_file import read_onnx

if TYPE_CHECKING:
    from edgemem.model.graph import Graph

# Three rounds of two values.
LOOP = """g (float[4] x) => (float[4] y) <int64 n = {3}> {
    s = Sin(x)
    p, q = Loop<body = b (int64 i, bool c, float[4] v, float[4] w) => (bool k, float[4] vo, float[4] wo)
        { k = Identity(c) vo = Softmax(v) wo = Softmax(w) }>(n, , s, s)
    y = Add(p, q)
}"""
# One branch gives back what the loop has, the other something new.
KEPT = """g (float[4] x, bool f) => (float[4] y) <int64 n = {3}> {
    s = Sin(x)
    p = Loop<body = b (int64 i, bool c, float[4] v) => (bool k, float[4] a) {
        a = If(f)<
            then_branch = t () => (float[4] r) { r = Identity(v) },
            else_branch = e () => (float[4] o) { m = Relu(v) o = Identity(m) }
        >
        k = Identity(c)
    }>(n, f, x)
    y = Add(p, s)
}"""


def read(text: str) -> tuple[Graph, Checker]:
    data = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}').SerializeToString()
    forms = dict.fromkeys(("s", "p", "q", "v", "w", "vo", "wo", "a", "r", "m", "o", "y"), ("float32", (4,)))
    return open_bytes(data, ".onnx").graph(), Checker(read_onnx(data, shapes=forms))


def test_a_result_of_a_loop_on_what_its_body_takes_in() -> None:
    graph, checker = read(LOOP)
    planset = edgemem.plan(graph, strategy="offsets/greedy_by_size")
    assert not checker.wrongs(planset)
    (plan,), names = planset.offsets, planset.problem.names
    # What the first value is copied to destroys the second, before that is copied in its turn.
    offsets = plan.offsets.copy()
    offsets[names.index("q")] = offsets[names.index("v")] = plan.size // 64 * 64 + 64
    records = list(planset.problem.records)
    for name, first, last in (("q", 2, records[names.index("q")].last_op), ("v", 1, 1)):
        k = names.index(name)
        records[k] = replace(records[k], first_op=first, last_op=last)
    problem = Problem(records, alignment=planset.problem.alignment)
    bounds, size = lower_bounds(problem), int((offsets + problem.size).max())
    plan = replace(plan, offsets=offsets, size=size, optimal=size == bounds.offsets)
    wrong = replace(planset, problem=problem, bounds=bounds, naive=naive_size(problem), offsets=(plan,))
    assert checker.wrongs(wrong)
    assert edgemem.verify(wrong, graph)


def test_a_branch_that_gives_back_what_the_loop_has() -> None:
    graph, checker = read(KEPT)
    assert not checker.wrongs(edgemem.plan(graph, strategy="offsets/greedy_by_size"))


def test_a_pinned_tensor_that_is_empty() -> None:
    graph, _ = read("g (float[0] x) => (float[0] y) { a = Sin(x) y = Cos(a) }")
    with pytest.raises(edgemem.errors.ModelError):
        edgemem.plan(graph, pins={"a": 64})
