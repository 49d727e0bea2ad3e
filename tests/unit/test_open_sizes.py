"""Sizes that stay open: which symbols have one value, and what a shape is called by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pytest
from onnx import TensorProto, helper, save

from edgemem.errors import PassError
from edgemem.formats import Bindings, Model, load_model
from edgemem.model.ranges import Range, Sum, open_shape, resolve, samples_of
from edgemem.passes.protocol import Guarantee, PassContext, apply_pass
from edgemem.passes.tiling.choice import find_stages
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GENERIC = BUILT_IN["generic"]


def test_symbols_of_one_value_are_told_from_those_that_move() -> None:
    known = Bindings.of({"a": 3, "b": "1..8", "c": "a+1", "d": "a+b+2", "e": "d+c", "f": "c+a"})
    assert known.fixed == {"a": 3, "c": 4, "f": 7}
    assert known.left_open.dims == {"b": 8, "d": 13, "e": 17}
    assert known.left_open.ranges == {"b": Range(1, 8), "d": Sum(("b",), 5), "e": Sum(("d",), 4)}
    for value in (1, 5, 8):  # the same sizes as before
        left = known.left_open
        whole = resolve(known.dims, known.ranges, {"b": value})
        assert resolve(left.dims, left.ranges, {"b": value}) == {name: whole[name] for name in left.dims}
    plain = Bindings({"a": 3}, {"x": (1, 2)})
    assert plain.fixed == {"a": 3}
    assert plain.left_open == Bindings()


def test_options_are_what_the_command_line_takes() -> None:
    known = Bindings.of({"a": 3, "b": "1..8", "c": "a+b"}, {"x": (1, 2)})
    assert known.options == ("--dim", "a=3", "--dim", "b=1..8", "--dim", "c=a+b", "--input-shape", "x=1,2")


def test_samples_are_the_ends_and_the_middle() -> None:
    known = Bindings.of({"a": 3, "b": "1..8", "c": "a+b"})
    assert samples_of(known.dims, known.ranges) == tuple({"a": 3, "b": b, "c": 3 + b} for b in (8, 1, 4))
    assert samples_of({"a": 3}, {}) == ({"a": 3},)
    two = Bindings.of({"a": "1..2", "b": "5..9"})
    assert {(p["a"], p["b"]) for p in samples_of(two.dims, two.ranges)} == {(2, 9), (1, 5), (2, 5), (1, 9), (1, 7)}


@pytest.mark.parametrize(
    ("size", "called"),
    [
        (lambda _n, _m: 7, 7),
        (lambda n, _m: n, "n"),
        (lambda _n, m: m, "m"),
        (lambda n, _m: 2 * n, None),
        (lambda n, _m: n + 1, "next"),
        (lambda n, m: n * m, None),
        (lambda n, _m: n * n - 8 * n + 8, None),  # n at both ends, and not between
    ],
)
def test_a_size_is_called_by_the_symbol_that_it_equals_everywhere(size: object, called: object) -> None:
    known = Bindings.of({"n": "1..8", "m": "1..8", "next": "n+1"})
    points = samples_of(known.dims, known.ranges)
    shapes = [(1, size(p["n"], p["m"])) for p in points]  # type: ignore[operator]
    assert open_shape(shapes, points, known.ranges) == (1, called)
    assert open_shape([()] * len(points), points, known.ranges) == ()


def test_symbols_that_cannot_be_told_apart_give_no_name() -> None:
    points = [{"n": 4, "same": 4}, {"n": 2, "same": 2}]
    assert open_shape([(4,), (2,)], points, ["n", "same"]) == (None,)


def network(path: Path, last: str) -> Path:
    """Relu and another operator of one input; the first dimension is open."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node(last, ["a"], ["y"])]
    save(helper.make_model(helper.make_graph(nodes, "g", [x], [y])), path)
    return path


@dataclass(frozen=True, slots=True)
class GiveAnother:
    """A pass that gives a model of its own."""

    model: Model
    name: ClassVar[str] = "another"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee("identical", "a lie")

    def apply(self, model: Model, context: PassContext) -> Model:  # noqa: ARG002
        return self.model


def test_what_a_pass_gives_is_looked_at_over_the_range(tmp_path: Path) -> None:
    """A model with other outputs at some sizes alone is a defect."""
    path = network(tmp_path / "a.onnx", "Neg")
    known = Bindings.of({"n": "1..8"})
    model = load_model(path, known)
    context = PassContext(path, tmp_path, known, GENERIC)
    right = load_model(network(tmp_path / "b.onnx", "Abs"), known)
    assert apply_pass(GiveAnother(right), model, context) is right
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 4])
    nodes = [
        helper.make_node("Slice", ["x", "from", "to", "axis"], ["a"]),  # seven rows, or all if there are fewer
        helper.make_node("Concat", ["first", "a"], ["y"], axis=0),
    ]
    ints = [helper.make_tensor(name, TensorProto.INT64, [1], [v]) for name, v in (("from", 0), ("to", 7), ("axis", 0))]
    first = helper.make_tensor("first", TensorProto.FLOAT, [1, 4], [0.0] * 4)
    wrong = tmp_path / "c.onnx"
    save(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [*ints, first])), wrong)
    lies_at_low_sizes = load_model(wrong, known)
    highest = lies_at_low_sizes.graph()
    assert [highest.tensors[i].shape for i in highest.outputs] == [(8, 4)]
    with pytest.raises(PassError, match="another changed an output"):
        apply_pass(GiveAnother(lies_at_low_sizes), model, context)


def test_graphs_with_branches_are_not_cut_into_tiles(tmp_path: Path) -> None:
    """Operators of branches are steps of their own, which no stage counts."""
    small = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 8, 8]) for name in ("x", "y", "t", "e")]
    go = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    names = (("t", "Relu"), ("e", "Neg"))
    bodies = [
        helper.make_graph(
            [helper.make_node("Abs", ["x"], [f"{n}0"]), helper.make_node(kind, [f"{n}0"], [n])], n, [], [value]
        )
        for (n, kind), value in zip(names, small[2:], strict=True)
    ]
    node = helper.make_node("If", ["go"], ["y"], then_branch=bodies[0], else_branch=bodies[1])
    path = tmp_path / "if.onnx"
    save(helper.make_model(helper.make_graph([node], "g", [small[0], go], [small[1]])), path)
    graph = load_model(path).graph()
    assert sum(len(body.ops) for op in graph.ops for body in op.bodies) == 4
    assert find_stages(graph, GENERIC).stages == ()
