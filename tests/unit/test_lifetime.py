from __future__ import annotations

from dataclasses import replace

import pytest

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.records.lifetime import lifetimes
from edgemem.targets import BUILT_IN, Target

GENERIC = BUILT_IN["generic"]
PLAIN = replace(GENERIC, aliasing="none")


def _graph(names: str, *ops: tuple[str, str, str], inputs: str = "x", outputs: str = "y", **sizes: int) -> Graph:
    """A graph over one-letter tensors of 4 floats (or `sizes`), from (type, inputs, outputs)."""
    index = {name: i for i, name in enumerate(names)}
    tensors = tuple(Tensor(name, "float32", (sizes.get(name, 4),)) for name in names)
    made = tuple(
        Op(f"{kind}{i}", kind, tuple(index[n] for n in reads), tuple(index[n] for n in writes))
        for i, (kind, reads, writes) in enumerate(ops)
    )
    return Graph("g", tensors, made, tuple(index[n] for n in inputs), tuple(index[n] for n in outputs))


def _spans(graph: Graph, target: Target) -> dict[str, tuple[int, int]]:
    records = lifetimes(graph, target).problem.records
    return {"".join(r.tensors): (r.first_op, r.last_op) for r in records}


CHAIN = _graph("xaby", ("Conv", "x", "a"), ("Conv", "a", "b"), ("Conv", "b", "y"))


def test_a_tensor_lives_from_its_operator_to_its_last_reader() -> None:
    assert _spans(CHAIN, GENERIC) == {"a": (0, 1), "b": (1, 2)}


def test_inputs_and_outputs_are_outside_and_listed() -> None:
    assert dict(lifetimes(CHAIN, GENERIC).unplanned) == {
        "x": "a graph input, held by the caller",
        "y": "a graph output, held by the caller",
    }


def test_inputs_and_outputs_inside() -> None:
    assert _spans(CHAIN, BUILT_IN["tflm"]) == {"x": (0, 0), "a": (0, 1), "b": (1, 2), "y": (2, 2)}
    assert _spans(CHAIN, BUILT_IN["litert"])["x"] == (0, 2)


def test_an_early_output_lives_to_the_end() -> None:
    graph = _graph("xyab", ("Conv", "x", "y"), ("Conv", "x", "a"), ("Conv", "a", "b"), outputs="yb")
    assert _spans(graph, BUILT_IN["tflm"])["y"] == (0, 2)


def test_an_output_nobody_reads_lives_at_its_operator() -> None:
    graph = _graph("xaby", ("Split", "x", "ab"), ("Conv", "b", "y"))
    assert _spans(graph, GENERIC)["a"] == (0, 0)


def test_an_elementwise_operator_writes_over_an_input_that_dies() -> None:
    graph = _graph("xaby", ("Conv", "x", "a"), ("Relu", "a", "b"), ("Conv", "b", "y"))
    assert _spans(graph, GENERIC) == {"ab": (0, 2)}
    assert _spans(graph, PLAIN) == {"a": (0, 1), "b": (1, 2)}


def test_not_over_an_input_that_is_read_again() -> None:
    graph = _graph("xabcy", ("Conv", "x", "a"), ("Relu", "a", "b"), ("Conv", "b", "c"), ("Add", "ca", "y"))
    assert _spans(graph, GENERIC) == {"a": (0, 3), "b": (1, 2), "c": (2, 3)}


def test_not_over_an_input_of_another_size() -> None:
    graph = _graph("xabcy", ("Conv", "x", "a"), ("Conv", "x", "b"), ("Add", "ab", "c"), ("Conv", "c", "y"), a=1)
    assert _spans(graph, GENERIC) == {"a": (0, 2), "bc": (1, 3)}


def test_not_over_a_graph_input() -> None:
    graph = _graph("xay", ("Relu", "x", "a"), ("Conv", "a", "y"))
    assert _spans(graph, BUILT_IN["tflm"]) == {"x": (0, 0), "a": (0, 1), "y": (1, 1)}


def test_not_over_an_operand_read_as_a_whole_too() -> None:
    # PRelu reads its slope (position 1) anywhere: x may not double as both.
    graph = _graph("xaby", ("Conv", "x", "a"), ("PRelu", "aa", "b"), ("Conv", "b", "y"))
    assert _spans(graph, GENERIC) == {"a": (0, 1), "b": (1, 2)}


def test_both_operands_may_be_one() -> None:
    graph = _graph("xaby", ("Conv", "x", "a"), ("Mul", "aa", "b"), ("Conv", "b", "y"))
    assert _spans(graph, GENERIC) == {"ab": (0, 2)}


def test_a_view_shares_for_as_long_as_either_lives() -> None:
    graph = _graph("xabcy", ("Conv", "x", "a"), ("Reshape", "a", "b"), ("Conv", "a", "c"), ("Add", "bc", "y"))
    assert _spans(graph, GENERIC) == {"ab": (0, 3), "c": (2, 3)}


def test_nothing_writes_over_a_view_that_is_still_read() -> None:
    graph = _graph(
        "xabcdy",
        ("Conv", "x", "a"),
        ("Reshape", "a", "b"),
        ("Relu", "a", "c"),  # a dies here, but its bytes live on as b
        ("Conv", "c", "d"),
        ("Add", "bd", "y"),
    )
    assert _spans(graph, GENERIC) == {"ab": (0, 4), "c": (2, 3), "d": (3, 4)}


def test_a_chain_of_views_and_in_place_results_is_one_record() -> None:
    graph = _graph("xabcy", ("Conv", "x", "a"), ("Reshape", "a", "b"), ("Relu", "b", "c"), ("Conv", "c", "y"))
    assert _spans(graph, GENERIC) == {"abc": (0, 3)}


def test_a_view_of_a_graph_input_is_a_copy() -> None:
    graph = _graph("xay", ("Reshape", "x", "a"), ("Conv", "a", "y"))
    assert _spans(graph, GENERIC) == {"a": (0, 1)}


def test_uint4_and_uint8_do_not_share_in_place() -> None:
    tensors = (
        Tensor("x", "uint8", (8,)),
        Tensor("a", "uint4", (8,)),
        Tensor("b", "uint8", (8,)),
        Tensor("y", "uint8", (8,)),
    )
    ops = (Op("q", "Conv", (0,), (1,)), Op("c", "Cast", (1,), (2,)), Op("o", "Conv", (2,), (3,)))
    graph = Graph("g", tensors, ops, (0,), (3,))
    assert _spans(graph, GENERIC) == {"a": (0, 1), "b": (1, 2)}
    assert [r.size for r in lifetimes(graph, GENERIC).problem.records] == [4, 8]


def test_variables_constants_and_opaque_tensors() -> None:
    tensors = (
        Tensor("x", "float32", (4,)),
        Tensor("state", "float32", (4,), "variable"),
        Tensor("w", "float32", (4,), "constant"),
        Tensor("seq", "sequence", (), "opaque", "a sequence of tensors"),
        Tensor("y", "float32", (4,)),
    )
    ops = (Op("s", "SequenceConstruct", (0, 1, 2), (3,)), Op("c", "ConcatFromSequence", (3,), (4,)))
    graph = Graph("g", tensors, ops, (0,), (4,))
    assert _spans(graph, BUILT_IN["litert"]) == {"x": (0, 1), "state": (0, 1), "y": (1, 1)}
    unplanned = dict(lifetimes(graph, GENERIC).unplanned)
    assert unplanned["seq"] == "a sequence of tensors"
    assert unplanned["state"].startswith("a variable")
    assert "w" not in unplanned


def _branches(op_type: str) -> Graph:
    def body(name: str) -> Graph:
        tensors = (
            Tensor("a", "float32", (4,), "captured"),
            Tensor(f"{name}/t", "float32", (100,)),
            Tensor(f"{name}/out", "float32", (4,)),
        )
        return Graph(name, tensors, (Op("c1", "Conv", (0,), (1,)), Op("c2", "Conv", (1,), (2,))), (), (2,))

    tensors = tuple(Tensor(n, "float32", (4,)) for n in "xaby")
    ops = (
        Op("make", "Conv", (0,), (1,)),
        Op("choose", op_type, (0, 1), (2,), bodies=(body("then"), body("else"))),
        Op("end", "Conv", (2,), (3,)),
    )
    return Graph("g", tensors, ops, (0,), (3,))


def test_bodies_come_before_their_operator_and_one_after_the_other() -> None:
    result = lifetimes(_branches("If"), GENERIC)
    assert result.steps == (
        "make",
        "choose/then/c1",
        "choose/then/c2",
        "choose/else/c1",
        "choose/else/c2",
        "choose",
        "end",
    )
    assert _spans(_branches("If"), GENERIC) == {
        "a": (0, 5),  # captured by both bodies
        "then/t": (1, 2),
        "then/outelse/out": (2, 5),  # one of them is there
        "else/t": (3, 4),
        "b": (5, 6),
    }


def test_bodies_outside_are_listed() -> None:
    result = lifetimes(_branches("If"), replace(GENERIC, bodies="outside"))
    assert result.steps == ("make", "choose", "end")
    assert {name for name, _ in result.unplanned} >= {"then/t", "else/out"}


def test_a_loop_has_its_values_in_its_outputs_from_the_start() -> None:
    body = Graph(
        "body",
        tuple(Tensor(f"body/{n}", "float32", (4,)) for n in ("in", "t", "out")),
        (Op("c1", "Conv", (0,), (1,)), Op("c2", "Conv", (1,), (2,))),
        (0,),
        (2,),
    )
    tensors = tuple(Tensor(n, "float32", (4,)) for n in "xaby")
    ops = (Op("c", "Conv", (0,), (1,)), Op("loop", "Loop", (1,), (2,), bodies=(body,)), Op("e", "Conv", (2,), (3,)))
    assert _spans(Graph("g", tensors, ops, (0,), (3,)), GENERIC) == {
        "a": (0, 3),
        "body/in": (1, 1),  # it is given anew in every round
        "body/t": (1, 2),
        "body/out": (2, 2),
        "b": (1, 4),
    }


def test_what_a_branch_takes_in_lives_until_its_last_use() -> None:
    def body(name: str) -> Graph:
        tensors = tuple(Tensor(f"{name}/{n}", "float32", (4,)) for n in ("in", "t", "out"))
        return Graph(name, tensors, (Op("c1", "CONV", (0,), (1,)), Op("c2", "CONV", (1,), (2,))), (0,), (2,))

    tensors = tuple(Tensor(n, "float32", (4,)) for n in "xaby")
    ops = (
        Op("c", "CONV", (0,), (1,)),
        Op("if", "IF", (1,), (2,), bodies=(body("then"), body("else"))),
        Op("e", "CONV", (2,), (3,)),
    )
    spans = _spans(Graph("g", tensors, ops, (0,), (3,)), GENERIC)
    assert spans["then/in"] == (1, 1)
    assert spans["else/in"] == (3, 3)
    assert spans["then/outelse/out"] == (2, 5)
    assert spans["a"] == (0, 5)


def test_scratch_lives_at_its_operator() -> None:
    graph = replace(CHAIN, ops=(replace(CHAIN.ops[0], scratch=(100, 0)), *CHAIN.ops[1:]))
    scratch = [r for r in lifetimes(graph, GENERIC).problem.records if r.kind == "scratch"]
    assert [(r.first_op, r.last_op, r.size) for r in scratch] == [(0, 0, 100)]


# Floats alone, of four dimensions at most; of the runtime's own layout.
TEXTURES = Target("textures", alignment=1, aliasing="none", texels=True)


@pytest.mark.parametrize(
    ("layout", "shape", "extent"),
    [
        ("nchw", (1, 6, 5, 7), (7, 10)),
        ("nhwc", (1, 5, 7, 6), (7, 10)),
        ("nhwc", (2, 5, 7, 4), (14, 5)),
        ("nhwc", (3, 9), (3, 3)),
        ("", (9,), (1, 3)),
    ],
)
def test_textures_hold_four_channels_a_texel(layout: str, shape: tuple[int, ...], extent: tuple[int, int]) -> None:
    tensors = (Tensor("x", "float32", (1,)), Tensor("a", "float32", shape), Tensor("y", "float32", (1,)))
    graph = Graph("g", tensors, (Op("f", "F", (0,), (1,)), Op("g", "F", (1,), (2,))), (0,), (2,), layout)  # type: ignore[arg-type]
    assert [r.size for r in lifetimes(graph, TEXTURES).problem.records] == [extent]


def test_what_is_no_texture_is_listed() -> None:
    tensors = (Tensor("x", "float32", (1,)), Tensor("a", "int64", (2,)), Tensor("y", "float32", (1,)))
    graph = Graph("g", tensors, (Op("f", "F", (0,), (1,)), Op("g", "F", (1,), (2,))), (0,), (2,))
    assert ("a", "int64, not a texture format") in lifetimes(graph, TEXTURES).unplanned


def test_elements_narrower_than_a_byte_are_kept_as_the_target_says() -> None:
    tensors = (*(Tensor(n, "int4", (9,)) for n in "xa"), Tensor("y", "int8", (5,)))
    graph = Graph("g", tensors, (Op("0", "NEG", (0,), (1,)), Op("1", "NEG", (1,), (2,))), (0,), (2,))
    for target, sizes in (("litert", {"x": 5, "a": 5, "y": 5}), ("tflm", {"x": 9, "a": 9, "y": 5})):
        records = lifetimes(graph, replace(BUILT_IN[target], aliasing="none", scratch="unknown")).problem.records
        assert {record.name: record.size for record in records} == sizes
    # In place only where both have the same bytes and elements of the same width.
    for dtype, together in (("int4", True), ("uint4", True), ("int8", False)):
        made = (*tensors[:2], Tensor("y", dtype, (9,)), Tensor("z", "int8", (5,)))
        inner = Graph("g", made, (*graph.ops, Op("2", "CONV", (2,), (3,))), (0,), (3,))
        for packed in (False, True):
            rules = replace(BUILT_IN["tflm"], aliasing="elementwise", sub_byte="packed" if packed else "unpacked")
            assert ("ay" in _spans(inner, rules)) is together
