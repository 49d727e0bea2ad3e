"""One shrunk file for a range of sizes: at every size the outputs are right, and a session keeps the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import helper, numpy_helper, parser

import edgemem
from edgemem.cli.main import main
from edgemem.errors import ModelError, TilingError, UnsupportedError
from edgemem.formats import Bindings, load_model
from edgemem.runtime.onnxruntime.file_recording import add_recording
from models.tflite_networks import mobilenet_v2
from tests.bench.serving.encoder import VOCABULARY, encoder
from tests.runtime.test_ranges import ATTENTION, RANGES
from tests.runtime.test_ranges import feeds as attention_feeds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet
    from edgemem.shrinking.result import Shrunk

    Feeds = Mapping[str, NDArray[Any]]

ort = pytest.importorskip("onnxruntime")

TILES = "optimize=extended,tile=0:3:2x2"
CLOSE = 2e-6  # of the largest element: sums of 216 float32 in another order


def command(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolutions of large images; batch and height are open."""
    path = tmp_path_factory.mktemp("models") / "network.onnx"
    rng = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for k, (given, made) in enumerate(((3, 24), (24, 24), (24, 8))):
        values = rng.standard_normal((made, given, 3, 3)) / np.sqrt(given * 9)
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"w{k}"))
        nodes.append(helper.make_node("Conv", [last, f"w{k}"], [f"c{k}"], name=f"conv{k}", pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [last := f"r{k}"], name=f"relu{k}"))
    nodes.append(helper.make_node("MaxPool", [last], ["y"], name="pool", kernel_shape=[2, 2], strides=[2, 2]))
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3, "height", 48])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 8, "half", 24])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def image(batch: int, height: int) -> Feeds:
    rng = np.random.default_rng(100 * batch + height)
    return {"x": rng.standard_normal((batch, 3, height, 48)).astype(np.float32)}


def check(original: Path, made: Shrunk, out: Path, requests: Iterable[Feeds], *, within: float = CLOSE) -> None:
    """Runs of a file in a session with memory full of dirt, against the default session of the original."""
    made.save(out)
    plain = ort.InferenceSession(str(original), providers=["CPUExecutionProvider"])
    with edgemem.InferenceSession(str(out), cache=False, record="never", poison=True) as session:
        for runs, feeds in enumerate(requests, 1):
            for here, there in zip(session.run(None, feeds), plain.run(None, feeds), strict=True):
                assert here.shape == there.shape
                assert np.abs(here - there).max() <= within * np.abs(there).max()
            memory = session.memory
            assert memory.replayed == runs, memory.reason
            assert memory.arena <= made.chosen.memory
            assert memory.misses <= len(plain.get_outputs()), "nothing but results is on the heap"


@pytest.mark.full
def test_a_budget_holds_at_every_size_of_the_batch(network: Path, tmp_path: Path) -> None:
    dims: dict[str, int | str] = {"batch": "1..4", "height": 40}
    whole = edgemem.shrink(network, dims=dims, steps="").chosen.memory
    made = edgemem.shrink(network, dims=dims, budget=whole // 2, outputs="close")
    assert "tile" in made.chosen.text
    assert made.chosen.is_measured
    assert made.chosen.memory <= whole // 2
    out = tmp_path / "out.onnx"
    check(network, made, out, [image(batch, 40) for batch in (4, 1, 2, 3, 4)])
    assert command("verify", "--run", out).exit_code == 0
    said = command("show", out).output
    assert "Planned for batch=1..4" in said
    assert f"made by shrink --steps {made.chosen.text}" in said


def test_tiles_of_a_graph_whose_batch_is_open(network: Path, tmp_path: Path) -> None:
    """The file says that the batch is open, for every tensor; tiles at `extended` keep every bit of that level."""
    dims: dict[str, int | str] = {"batch": "1..5", "height": 40}
    made = edgemem.shrink(network, dims=dims, steps=TILES, outputs="identical")
    out = tmp_path / "out.onnx"
    check(network, made, out, [image(batch, 40) for batch in (1, 2, 3, 4, 5)])
    graph = onnx.load(out).graph
    shapes = {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.value_info}
    shapes |= {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.input}
    written = {name for node in graph.node for name in node.output} - {"y"}
    assert written <= shapes.keys()
    assert {shape[0] for shape in shapes.values()} == {"batch"}
    assert all(isinstance(d, int) for shape in shapes.values() for d in shape[1:])
    assert out.stat().st_size < 2 * network.stat().st_size + 40_000


def test_tiles_are_left_out_where_rows_have_a_range(network: Path, tmp_path: Path) -> None:
    dims: dict[str, int | str] = {"batch": 2, "height": "16..40"}
    with pytest.raises(TilingError, match=r"conv0.*rows or columns follow a dimension that has a range"):
        edgemem.shrink(network, dims=dims, steps=TILES)
    out = tmp_path / "out.onnx"
    ranges = [f"--dim={name}={value}" for name, value in dims.items()]
    done = command("shrink", network, *ranges, "--close", "-o", out)
    assert done.exit_code == 0, done.output
    assert "for all sizes of height=16..40 in one file" in done.output
    assert "left out: conv0 cannot be computed in parts" in done.output
    made = edgemem.shrink(network, dims=dims, outputs="close")
    assert "tile" not in made.chosen.text
    check(network, made, out, [image(2, height) for height in (40, 16, 17, 23, 28, 38)])


def sentences(batch: int, sequence: int) -> Feeds:
    return {"ids": np.random.default_rng(100 * batch + sequence).integers(0, VOCABULARY, (batch, sequence))}


@pytest.mark.exhaustive
def test_heads_of_attention_run_in_parts_for_any_number_of_sentences_and_words(tmp_path: Path) -> None:
    path, out = encoder(tmp_path / "encoder.onnx", layers=1, width=32), tmp_path / "out.onnx"
    found = edgemem.shrink(path, dims={"batch": "1..2", "sequence": 160}).chosen.text
    assert "split=11:13:2/1" in found
    dims: dict[str, int | str] = {"batch": "1..3", "sequence": "1..160"}
    whole = edgemem.shrink(path, dims=dims, steps="optimize=extended").chosen.memory
    made = edgemem.shrink(path, dims=dims, steps=found)
    assert made.chosen.memory < whole * 3 // 4
    check(
        path, made, out, [sentences(*sizes) for sizes in ((3, 160), (1, 1), (2, 160), (1, 7), (3, 1), (3, 33), (2, 95))]
    )


@pytest.mark.parametrize(
    ("stage", "why"),
    [("11:13:2/0", "what is cut along axis 0 follows a range"), ("11:15:2/2", "sizes that a part of Reshape has")],
)
def test_parts_that_other_sizes_do_not_have_are_refused(tmp_path: Path, stage: str, why: str) -> None:
    path = encoder(tmp_path / "encoder.onnx", layers=1, width=32)
    dims: dict[str, int | str] = {"batch": "2..4", "sequence": "2..32"}
    with pytest.raises(TilingError, match=why):
        edgemem.shrink(path, dims=dims, steps=f"optimize=extended,split={stage}")


def test_a_part_of_a_convolution_pads_as_each_size_asks_for(tmp_path: Path) -> None:
    """With strides, the padding of `SAME_UPPER` is another one at odd sizes than at even ones."""
    path, out = tmp_path / "same.onnx", tmp_path / "out.onnx"
    values = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", auto_pad="SAME_UPPER", strides=[2, 2]),
        helper.make_node("Sigmoid", ["c"], ["y"], name="sigmoid"),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, "height", 48])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 8, "half", 24])
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(values, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    dims: dict[str, int | str] = {"height": "8..16"}
    made = edgemem.shrink(path, dims=dims, steps="optimize=basic,split=0:1:2/1", outputs="close")
    check(path, made, out, [image(1, height) for height in range(16, 7, -1)])


@pytest.mark.full
def test_several_ranges_and_sums(tmp_path: Path) -> None:
    path, out = tmp_path / "attention.onnx", tmp_path / "out.onnx"
    onnx.save(parser.parse_model(ATTENTION), path)
    whole = edgemem.shrink(path, dims=RANGES, steps="").chosen.memory
    made = edgemem.shrink(path, dims=RANGES)
    assert made.chosen.memory <= whole
    sizes = [(4, 40), (1, 0), (2, 17), (3, 1), (1, 40), (4, 3), (2, 2)]
    check(path, made, out, [attention_feeds(batch, past, seed=past) for batch, past in sizes])
    again = edgemem.shrink(path, dims={**RANGES, "batch": 3})
    check(path, again, out, [attention_feeds(3, past, seed=past) for past in (40, 0, 1, 11, 39)])


def test_a_size_that_leaves_the_plan_refuses_the_range(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording of the smallest size alone stands for a model whose requests depend on sizes between the ends."""

    def lie(planned: Path, feeds: Feeds | None, *, bindings: Bindings) -> tuple[PlanSet, ...]:
        return add_recording(planned, feeds, bindings=Bindings({**bindings.dims, "batch": 1}))

    monkeypatch.setattr("edgemem.shrinking.trial.add_recording", lie)
    with pytest.raises(
        UnsupportedError, match=r"a run at batch=3 leaves the plan of the range .*; give a smaller range"
    ):
        edgemem.shrink(network, dims={"batch": "1..3", "height": 16}, steps="optimize=extended")


def test_formats_without_symbols_say_so(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(mobilenet_v2(alpha=0.3, size=32, int8=True, classes=2))
    with pytest.raises(ModelError, match="TFLite has no symbolic dimensions"):
        edgemem.shrink(path, dims={"batch": "1..8"})
    done = command("shrink", path, "--dim", "batch=1..8")
    assert done.exit_code == 1
    assert "--input-shape" in done.output


@pytest.mark.full
def test_a_second_shrink_over_the_range(network: Path, tmp_path: Path) -> None:
    dims: dict[str, int | str] = {"batch": "1..3", "height": 40}
    once, twice = tmp_path / "once.onnx", tmp_path / "twice.onnx"
    first = edgemem.shrink(network, dims=dims, steps=TILES, outputs="close")
    first.save(once)
    assert load_model(once).plan() is not None
    second = edgemem.shrink(once, dims={"batch": "1..3"}, outputs="close")
    assert second.chosen.memory <= first.chosen.memory
    assert [note.steps for note in second.found.notes] == [TILES]
    check(network, second, twice, [image(batch, 40) for batch in (3, 1, 2)])


def test_the_command_that_is_named_has_the_range(network: Path, tmp_path: Path) -> None:
    made = edgemem.shrink(network, dims={"batch": "1..3", "height": 16}, steps="optimize=extended", outputs="close")
    command_line = made.command.split()
    assert command_line[3:7] == ["--dim", "height=16", "--dim", "batch=1..3"]
    out = tmp_path / "out.onnx"
    assert command(*command_line[1:], "--close", "-o", out).exit_code == 0
    assert load_model(out).plan() is not None
    done = command("plan", network, "--dim", "batch=1..3", "--dim", "height=16", "--budget", "64KiB")
    assert done.exit_code == 3
    assert f"edgemem shrink {network} --dim height=16 --dim batch=1..3 --budget 65536" in done.output
    assert any(line.startswith(("fits: ", "does not fit: ")) for line in done.output.splitlines())
