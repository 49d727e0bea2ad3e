"""Tiled models in ONNX Runtime: the pass, what its kernels do with parts, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem import api
from edgemem.errors import ModelError, NumericDifferenceError, TilingError
from edgemem.formats import Bindings, Model, Rewritable, load_model, open_bytes
from edgemem.passes.protocol import PassContext, apply_pass
from edgemem.passes.tiling.choice import find_stages
from edgemem.passes.tiling.kernels import is_same_sum, product_of
from edgemem.passes.tiling.stage import TileStage, parse_stages
from edgemem.passes.tiling.tile import tile
from edgemem.runtime.onnxruntime.baked_file import baked_note
from edgemem.runtime.onnxruntime.baking import bake_sized
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.onnxruntime.session_comparison import OriginalRuns
from edgemem.runtime.onnxruntime.tile_pass import TileOperators
from edgemem.schedule.peak import peak_of
from edgemem.targets import BUILT_IN
from models.build import build

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import ModelProto

ort = pytest.importorskip("onnxruntime")


def context(path: Path, folder: Path) -> PassContext:
    return PassContext(path, folder, Bindings(), BUILT_IN["onnxruntime"])


def convolution(channels: int, filters: int, kernel: int, side: int) -> ModelProto:
    weights = np.random.default_rng(0).standard_normal((filters, channels, kernel, kernel)).astype(np.float32)
    pad = kernel // 2
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[pad] * 4)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, depth, side, side))
        for name, depth in (("x", channels), ("y", filters))
    ]
    graph = helper.make_graph([node], "one", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.full
@settings(max_examples=40)
@given(
    channels=st.sampled_from((16, 64, 150, 300)),
    filters=st.sampled_from((4, 48, 150)),
    kernel=st.sampled_from((1, 3)),
    side=st.integers(6, 26),
    rows=st.integers(2, 6),
    threads=st.sampled_from((1, 2)),
)
def test_parts_with_the_same_blocks_have_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory,
    channels: int,
    filters: int,
    kernel: int,
    side: int,
    rows: int,
    threads: int,
) -> None:
    """What `is_same_sum` promises holds in ONNX Runtime; what it does not promise may hold, too."""
    path = tmp_path_factory.mktemp("tiles") / "conv.onnx"
    path.write_bytes(convolution(channels, filters, kernel, side).SerializeToString())
    model = load_model(path)
    assert isinstance(model, Rewritable)
    graph = model.graph()
    product = product_of(graph, graph.ops[0])
    assert product is not None
    parts = {(side * (k + 1) // rows - side * k // rows) * side for k in range(rows)}
    assume(is_same_sum(product, parts, threads=(threads,)))
    made = model.rewritten(tile(graph, [TileStage(0, 0, rows)]))
    found = OriginalRuns(path, threads=(threads,)).compare(made, level="none")
    assert found.is_identical, found


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "unet.onnx"
    path.write_bytes(build("unet", size="small").SerializeToString())
    return path


@pytest.mark.full
@pytest.mark.parametrize("level", ["extended", "all"])
def test_a_tiled_model_runs_as_planned(level: str, network: Path, tmp_path: Path) -> None:
    """Cut at the level `extended` with the same bits; at `all`, with the kernels of a default session."""
    steps = "optimize=extended,tile=24:27:7x1+28:28:2x1+29:32:14x1"
    steps += "" if level == "extended" else f"@{level}"
    made = edgemem.shrink(network, target="onnxruntime", steps=steps, outputs="close")
    whole = edgemem.shrink(network, target="onnxruntime", steps=f"optimize={level}", outputs="close")
    assert made.chosen.arena < whole.chosen.arena
    note = baked_note(made.model.content())
    assert note is not None
    assert note.level == level
    assert level == "all" or made.chosen.macs <= 1.12  # kernels of the level `all` fill up blocks of channels
    path = tmp_path / "tiled.onnx"
    made.save(path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    stock = ort.InferenceSession(str(network), options, providers=["CPUExecutionProvider"])
    with InferenceSession(str(path), options, cache=False) as session:
        for seed in range(3):
            image = np.random.default_rng(seed).standard_normal((1, 3, 64, 64)).astype(np.float32)
            (here,), (there,) = (s.run(None, {"image": image}) for s in (stock, session))
            if level == "extended":
                assert here.tobytes() == there.tobytes()
            assert np.abs(here - there).max() <= 1e-5 * np.abs(here).max()
        report = session.memory_report
        assert not report.reason
        assert report.planned == made.chosen.arena


def test_a_difference_from_the_default_session_is_told(network: Path) -> None:
    """The same file differs in no bit; weights that are a little larger differ by more than levels do."""
    same = load_model(network)
    assert OriginalRuns(network, threads=(1,)).compare(same).is_identical
    graph = onnx.load(network)
    weights = next(i for i in graph.graph.initializer if len(i.dims) == 4)
    larger = numpy_helper.from_array(numpy_helper.to_array(weights) * np.float32(1.01), weights.name)
    weights.CopyFrom(larger)
    other = open_bytes(graph.SerializeToString(), ".onnx")
    assert isinstance(other, Model)
    found = OriginalRuns(network, threads=(1,)).compare(other)
    assert not found.is_identical
    assert found.largest > 100 * found.levels


def test_no_tiles_are_made_where_they_do_not_help(tmp_path: Path) -> None:
    path = tmp_path / "transformer.onnx"
    path.write_bytes(build("transformer", size="small").SerializeToString())
    made = edgemem.shrink(path, allow=["optimize", "tile"])
    assert "tile" not in {step.name for step in made.chosen.steps}


@pytest.mark.full
def test_a_budget_takes_the_least_arithmetic(network: Path, tmp_path: Path) -> None:
    graph = OptimiseGraph("extended").apply(load_model(network), context(network, tmp_path)).graph()
    rules = BUILT_IN["onnxruntime"]
    least = find_stages(graph, rules, max_macs=1.3)
    relaxed = find_stages(graph, rules, max_macs=1.3, budget=2 * least.peak)
    assert relaxed.macs_ratio <= least.macs_ratio
    assert relaxed.peak <= 2 * least.peak


def test_other_bits_are_refused_unless_allowed(tmp_path: Path) -> None:
    path = tmp_path / "conv.onnx"
    path.write_bytes(convolution(64, 32, 3, 16).SerializeToString())
    steps = "optimize=extended,tile=0:0:8x1"
    with pytest.raises(NumericDifferenceError, match="differs by up to"):
        edgemem.shrink(path, steps=steps, outputs="identical")
    made = edgemem.shrink(path, steps=steps, outputs="close")
    assert made.chosen.outputs.startswith("differ by ")


def test_a_file_in_blocks_of_channels_is_refused(network: Path, tmp_path: Path) -> None:
    """The original can be tiled for the level `all`, but not what was optimised to that level before."""
    path = tmp_path / "baked.onnx"
    bake_sized(network, path, "all")
    if not any(op.type.startswith("com.microsoft.nchwc::") for op in load_model(path).graph().ops):
        pytest.skip("onnxruntime has no blocked kernels here")
    with pytest.raises(TilingError, match="the model that it was made from"):
        edgemem.shrink(path, steps="optimize,tile=0:0:2x1")


@pytest.mark.parametrize(
    ("stages", "why"),
    [
        ("0:99:2", "not in the graph"),
        ("0:1:2+1:2:2", "overlaps"),
        ("0:1", "no stage"),
        ("0:1:0", "no tile"),
        ("0:0:65", "fewer than tiles"),
    ],
)
def test_stages_that_cannot_be(network: Path, stages: str, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        edgemem.shrink(network, steps=f"optimize=extended,tile={stages}")


def test_tiles_are_of_an_optimised_graph(network: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="put optimize before it"):
        apply_pass(TileOperators.parse("0:1:2"), load_model(network), context(network, tmp_path))


def test_an_operator_that_needs_all_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(build("mobilenet_v2", size="small").SerializeToString())
    count = len(load_model(path).graph().ops)
    with pytest.raises(TilingError, match="row by row"):
        tile(load_model(path).graph(), [TileStage(0, count - 1, 2)])


@pytest.mark.parametrize(("axis", "refused"), [(1, False), (2, True), (3, True)])
def test_scales_along_rows_are_not_cut(axis: int, *, refused: bool) -> None:
    scale, zero = (
        numpy_helper.from_array(np.ones(4, np.float32), "s"),
        numpy_helper.from_array(np.zeros(4, np.int8), "z"),
    )
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], name="scaled", axis=axis)
    kinds = (("x", TensorProto.FLOAT), ("y", TensorProto.INT8))
    ends = [helper.make_tensor_value_info(name, kind, (1, 4, 4, 4)) for name, kind in kinds]
    graph = helper.make_graph([node], "one", ends[:1], ends[1:], [scale, zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    opened = open_bytes(model.SerializeToString(), ".onnx").graph()
    if refused:
        with pytest.raises(TilingError, match="scales along"):
            tile(opened, [TileStage(0, 0, 2)])
    else:
        assert len(tile(opened, [TileStage(0, 0, 2)]).graph.ops) == 5


def test_stages_as_text() -> None:
    stages = parse_stages("0:9:14x1+10:20:7")
    assert stages == (TileStage(0, 9, 14), TileStage(10, 20, 7))
    assert parse_stages("+".join(map(str, stages))) == stages
    for text in ("", "0:9", "0:-9:2", "0:9:2xa", "0:²:2", f"0:{'9' * 5000}:2"):
        with pytest.raises(ModelError, match="is no stage"):
            parse_stages(text)


def striped(count: int) -> ModelProto:
    """Two layers in stripes that keep rows, as a streaming pass writes them: each layer alone is large."""
    rng = np.random.default_rng(0)
    constants: list[Any] = []

    def constant(values: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(values), f"k{len(constants)}"))
        return str(constants[-1].name)

    wide = constant(rng.standard_normal((32, 2, 3, 3)).astype(np.float32))
    narrow = constant(rng.standard_normal((1, 32, 3, 3)).astype(np.float32))
    axis, nodes, tail, pieces = constant(np.array([2])), [], "", []
    for k in range(count):
        first, last = constant(np.array([4 * k])), constant(np.array([4 * k + 6]))
        nodes.append(helper.make_node("Slice", ["x", first, last, axis], [f"x{k}"]))
        nodes.append(helper.make_node("Conv", [f"x{k}", wide], [f"y{k}"], pads=[0, 1, 0, 1]))
        window = f"y{k}"
        if tail:
            window = f"w{k}"
            nodes.append(helper.make_node("Concat", [tail, f"y{k}"], [window], axis=2))
        tail = f"tail{k}"
        if k < count - 1:
            ends = [constant(np.array([end])) for end in (-2, 99)]
            nodes.append(helper.make_node("Slice", [window, *ends, axis], [tail]))
        nodes.append(helper.make_node("Conv", [window, narrow], [f"z{k}"], pads=[0, 1, 0, 1]))
        pieces.append(f"z{k}")
    nodes.append(helper.make_node("Concat", pieces, ["y"], axis=2))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 4 * count + 2, 16))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 1, 4 * count - 2, 16))
    graph = helper.make_graph(nodes, "striped", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_file_in_stripes_keeps_its_order_when_it_is_optimised(tmp_path: Path) -> None:
    """Before, it had ONNX Runtime's own order, in which all stripes of a layer run before the next layer."""
    path = tmp_path / "striped.onnx"
    path.write_bytes(striped(12).SerializeToString())
    plain = load_model(path)
    baked = OptimiseGraph("extended").apply(plain, context(path, tmp_path))
    target = BUILT_IN["onnxruntime"]
    plans = [api.plan(model, target=target).best_offsets for model in (plain, baked)]
    assert plans[0] is not None
    assert plans[1] is not None
    assert plans[1].size <= plans[0].size


def test_operators_with_bodies_count_what_is_alive_inside(tmp_path: Path) -> None:
    """The operators of an If's branches are steps of their own, and no operators of the graph that is cut."""
    path = tmp_path / "if.onnx"
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 16, 16))
    body = [helper.make_node("Relu", ["c"], ["b0"])]
    body += [helper.make_node("Abs", [f"b{k}"], [f"b{k + 1}"]) for k in range(12)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 16, 16)) for name in ("b12", "e")]
    branches = {
        "then_branch": helper.make_graph(body, "then", [], ends[:1]),
        "else_branch": helper.make_graph([helper.make_node("Neg", ["c"], ["e"])], "else", [], ends[1:]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("ReduceMax", ["c"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "zero"], ["go"]),
        helper.make_node("If", ["go"], ["y"], **branches),
    ]
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array(0, np.float32), "zero")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 16, 16))
    graph = helper.make_graph(nodes, "if", [x], [value], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    opened = load_model(path).graph()
    assert find_stages(opened, BUILT_IN["onnxruntime"], max_macs=1.5, threads=()).peak == (
        peak_of(opened, BUILT_IN["onnxruntime"])
    )
