"""Split graphs: what is cut, what is whole, constants in files, the choice of stages, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgemem.errors import ModelError, TilingError, UnsupportedError
from edgemem.formats import Rewritable, open_bytes
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.rewrite import NEW
from edgemem.passes.splitting.choice import find_splits
from edgemem.passes.splitting.split import check_sizes, find_region, split
from edgemem.passes.splitting.stage import SplitStage, parse_stages
from edgemem.schedule.peak import peak_of
from edgemem.shrinking.explanation import change_needed, largest_operator
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite import TfliteConverter
from models.tflite_networks import mobilenet_v2

RULES = replace(BUILT_IN["onnxruntime"], inputs="until_last_use")


def attention(tokens: int = 64, heads: int = 4, depth: int = 8) -> Graph:
    """softmax(q k) v of projections of one input."""
    rows, scores = (heads, tokens, depth), (heads, tokens, tokens)
    shapes = {"x": rows, "q": rows, "k": (heads, depth, tokens), "v": rows, "s": scores, "p": scores, "y": rows}
    tensors = (
        *(Tensor(n, "float32", s) for n, s in shapes.items()),
        Tensor("w", "float32", (depth, depth), "constant"),
    )
    place = {t.name: i for i, t in enumerate(tensors)}
    plain = {"transA": 0, "transB": 0}

    def op(kind: str, inputs: str, output: str, **attributes: Any) -> Op:
        return Op(output, kind, tuple(place[n] for n in inputs), (place[output],), attributes=attributes)

    ops = (
        op("MatMul", "xw", "q", **plain),
        op("Transpose", "x", "k", permutation=(0, 2, 1)),
        op("Relu", "x", "v"),
        op("MatMul", "qk", "s", **plain),
        op("Softmax", "s", "p", axis=2),
        op("MatMul", "pv", "y", **plain),
    )
    return Graph("attention", tensors, ops, (0,), (place["y"],), "nchw")


def test_parts_are_the_same_at_all_sizes_along_an_axis_that_no_size_moves() -> None:
    graphs = [attention(64), attention(1), attention(33)]
    check_sizes(graphs, [SplitStage(3, 5, 2, 0)])
    with pytest.raises(TilingError, match="along axis 1 follows a range"):
        check_sizes([attention(64), attention(32)], [SplitStage(3, 5, 2, 1)])
    graph, *others = graphs
    assert {stage.axis for stage in find_splits(graph, RULES).stages} == {1}
    found = find_splits(graph, RULES, others=others)
    assert {stage.axis for stage in found.stages} == {0}
    assert found.peak < peak_of(graph, RULES)


def test_rows_of_attention_read_keys_and_values_whole() -> None:
    graph = attention()
    region = find_region(graph, SplitStage(0, 5, 4, 1))
    assert list(region.cuts) == [0, 3, 4, 5]
    assert region.before == (1, 2)
    made = split(graph, [SplitStage(0, 5, 4, 1)])
    assert [op.type for op in made.graph.ops[:3]] == ["Transpose", "Relu", "Slice"]
    assert made.graph.ops[-1].type == "Concat"
    sizes = [t.size for t in made.graph.tensors if t.name.startswith(("s[", "p["))]
    assert sizes == [4 * 16 * 64 * 4] * 8


def test_heads_of_attention_are_cut_everywhere() -> None:
    region = find_region(attention(), SplitStage(0, 5, 4, 0))
    assert list(region.cuts) == [0, 1, 2, 3, 4, 5]
    assert set(region.axes.values()) == {0}


@pytest.mark.parametrize(
    ("stage", "why"),
    [
        (SplitStage(3, 4, 2, 2), "Softmax needs all of axis 2"),
        (SplitStage(5, 5, 2, 3), "no axis 3"),
        (SplitStage(5, 5, 9, 2), "8 blocks along axis 2, fewer than 9"),
    ],
)
def test_what_cannot_be_split_is_refused_with_the_reason(stage: SplitStage, why: str) -> None:
    with pytest.raises(TilingError, match=why):
        split(attention(), [stage])


@pytest.mark.parametrize("stages", [[(0, 6, 2, 0)], [(2, 1, 2, 0)], [(0, 3, 2, 0), (3, 4, 2, 0)], [(0, 1, 0, 0)]])
def test_stages_that_are_none(stages: list[tuple[int, int, int, int]]) -> None:
    with pytest.raises(ModelError):
        split(attention(), [SplitStage(*stage) for stage in stages])


def test_a_stage_is_the_text_that_names_it() -> None:
    assert "+".join(map(str, parse_stages("20:24:4/1+30:31:2/0"))) == "20:24:4/1+30:31:2/0"
    for text in ("", "0:1:2", "0:1:2/", "0:1:2/-1", "0:1:2x3", "0:1:٢/1"):
        with pytest.raises(ModelError, match="FIRST:LAST:PARTS/AXIS"):
            parse_stages(text)


def test_nothing_is_computed_twice() -> None:
    graph = attention()
    made = split(graph, [SplitStage(3, 5, 3, 1)])
    for index, op in enumerate(graph.ops):
        parts = [o for o, source in zip(made.graph.ops, made.sources, strict=True) if source == index]
        whole = graph.tensors[op.outputs[0]].size
        assert sum(made.graph.tensors[o.outputs[0]].size for o in parts) == whole
    assert {o.type for o, s in zip(made.graph.ops, made.sources, strict=True) if s == NEW} == {"Slice", "Concat"}


def test_the_choice_lowers_the_peak_as_the_graph_is_written() -> None:
    graph = attention(tokens=256)
    found = find_splits(graph, RULES)
    assert found.peak == peak_of(split(graph, found.stages).graph, RULES) < 0.3 * peak_of(graph, RULES)
    assert found == find_splits(graph, RULES)
    relaxed = find_splits(graph, RULES, budget=int(0.7 * peak_of(graph, RULES)))
    assert found.peak < relaxed.peak <= 0.7 * peak_of(graph, RULES)
    assert sum(s.parts for s in relaxed.stages) < sum(s.parts for s in found.stages)
    assert find_splits(graph, RULES, budget=peak_of(graph, RULES)).stages == ()
    assert find_splits(graph, RULES, among=()).stages == ()


def test_parts_in_layers_of_textures_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="whole layers"):
        find_splits(attention(), BUILT_IN["gpu-texture-array"])


def convolutions() -> onnx.ModelProto:
    """Two convolutions; both of them and a Mul read constants that have the channels."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="wide", kernel_shape=[1, 1]),
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones((1, 64, 1, 1), np.float32), "c")),
        helper.make_node("Mul", ["a", "c"], ["b"], name="scaled"),
        helper.make_node("GlobalAveragePool", ["b"], ["y"], name="pool"),
        helper.make_node("Conv", ["x", "w"], ["z"], name="again", kernel_shape=[1, 1]),
    ]
    weights = numpy_helper.from_array(rng.standard_normal((64, 4, 1, 1)).astype(np.float32), "w")
    shapes = {"x": (1, 4, 8, 8), "y": (1, 64, 1, 1), "z": (1, 64, 8, 8)}
    x, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    graph = helper.make_graph(nodes, "wide", [x], [y, z], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_constants_that_nothing_reads_whole_leave_an_onnx_file() -> None:
    whole = convolutions()
    alone = convolutions()
    del alone.graph.node[-1], alone.graph.output[-1]
    for model, kept in ((whole, True), (alone, False)):
        opened = open_bytes(model.SerializeToString(), ".onnx")
        assert isinstance(opened, Rewritable)
        made = onnx.load_from_string(opened.rewritten(split(opened.graph(), [SplitStage(0, 2, 4, 1)])).content())
        held = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
        assert ("w" in held) is kept
        assert "c" not in held
        assert not any(node.op_type == "Constant" for node in made.graph.node)
        before = numpy_helper.to_array(model.graph.initializer[0])
        parts = [held[n.input[1]] for n in made.graph.node if n.op_type == "Conv" and n.input[1] != "w"]
        assert np.concatenate(parts).tobytes() == before.tobytes()


def test_scales_of_channels_are_cut_with_weights_and_the_file_does_not_grow_by_them() -> None:
    data = mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2)
    model = TfliteConverter.from_bytes(data)
    made = model.rewritten(split(model.graph(), [SplitStage(3, 4, 3, 3)]))
    graph = made.graph()
    parts = [op for op in graph.ops if op.type == "DEPTHWISE_CONV_2D"][:4]
    assert (
        sum(graph.tensors[op.inputs[1]].shape[3] for op in parts[1:])
        == (model.graph().tensors[model.graph().ops[4].inputs[1]].shape[3])
    )
    constants = [sum(t.size for t in g.tensors if t.kind == "constant") for g in (model.graph(), graph)]
    assert constants[0] == constants[1]
    assert len(made.content()) < len(data) + 4000


def test_the_change_that_a_network_needs_is_named() -> None:
    graph = Graph(
        "one",
        (Tensor("x", "int8", (1, 32, 32, 8)), Tensor("y", "int8", (1, 32, 32, 32)), Tensor("z", "int8", (1, 1, 1, 32))),
        (Op("wide", "CONV_2D", (0,), (1,)), Op("pool", "MEAN", (1,), (2,))),
        (0,),
        (2,),
        "nhwc",
    )
    largest = largest_operator(graph, BUILT_IN["tflm"])
    assert largest is not None
    assert largest.needs == 32 * 32 * 40
    assert change_needed(graph, largest, 20 * 1024) == (
        "its inputs and results together must be at most 20,480: 32 -> 12 channels of 'y' or sides of 32x32 -> 22x22"
    )
    assert change_needed(graph, largest, 0) == "its inputs and results together must be at most 0"
