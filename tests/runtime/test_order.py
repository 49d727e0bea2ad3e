"""Baked files: kernels run in the order of the file, and the results are those of ONNX Runtime at that level."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import onnx
import pytest

import edgemem
from edgemem.errors import ModelError, PlanFileError, RuntimeBindError
from edgemem.runtime.onnxruntime.baked_file import (
    BAKED_KEY,
    LEVELS,
    Baked,
    bake,
    baked_note,
    session_options_for,
)
from edgemem.runtime.onnxruntime.baking import bake_sized
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.profile import kernels_run
from edgemem.runtime.onnxruntime.split_model import split_model
from tests.runtime.networks import DIMS, NETWORKS, equal, feeds_of, small

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ort = pytest.importorskip("onnxruntime")


def quiet() -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return options


def noted(note: str) -> bytes:
    """A model with a note."""
    model = onnx.ModelProto()
    model.metadata_props.add(key=BAKED_KEY, value=note)
    return bytes(model.SerializeToString())


def run(path: Path, feeds: dict[str, NDArray[Any]], options: Any) -> list[NDArray[Any]]:
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    results: list[NDArray[Any]] = session.run(None, feeds)
    return results


def kernel_order(path: Path, feeds: dict[str, NDArray[Any]]) -> list[str]:
    """The nodes of the main graph as their kernels ran."""
    names = {n.name for n in onnx.load(path).graph.node}
    ran = kernels_run(path, [feeds], session_options_for(path.read_bytes(), quiet()))
    return [k.node for k in ran if k.node in names]


def file_order(path: Path) -> list[str]:
    return [n.name for n in onnx.load(path).graph.node if n.op_type != "Constant"]


def random_order(path: Path, seed: int) -> tuple[int, ...]:
    """A random topological order of a file's nodes."""
    nodes = [n for n in onnx.load(path).graph.node if n.op_type != "Constant"]
    writer = {name: k for k, n in enumerate(nodes) for name in n.output}
    waits = [{writer[name] for name in n.input if name in writer} for n in nodes]
    for number, n in enumerate(nodes):  # what bodies capture
        for attribute in n.attribute:
            text = attribute.g.SerializeToString()
            waits[number] |= {k for name, k in writer.items() if name and name.encode() in text and k < number}
    rng = random.Random(seed)
    order: list[int] = []
    while len(order) < len(nodes):
        ready = [k for k in range(len(nodes)) if k not in order and waits[k] <= set(order)]
        order.append(rng.choice(ready))
    return tuple(order)


@pytest.mark.full
@pytest.mark.parametrize("level", ["extended", "all"])
@pytest.mark.parametrize("name", ["randwire", "nas_cell", "inception_v3", "transformer"])
def test_random_orders_hold(name: str, level: str, tmp_path: Path) -> None:
    path, baked = small(name, tmp_path), tmp_path / "baked.onnx"
    feeds = feeds_of(path)
    options = quiet()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    expected = run(path, feeds, options)
    bake(path, baked, level)
    orders = set()
    for seed in range(3):
        shuffled = tmp_path / f"{seed}.onnx"
        note = bake(baked, shuffled, order=random_order(baked, seed))
        assert note.level == level
        orders.add(tuple(file_order(shuffled)))
        assert kernel_order(shuffled, feeds) == file_order(shuffled)
        assert equal(run(shuffled, feeds, session_options_for(shuffled.read_bytes(), quiet())), expected)
    assert len(orders) == 3


@pytest.mark.full
@pytest.mark.parametrize("level", ["none", "extended", "all"])
@pytest.mark.parametrize("name", NETWORKS)
def test_baked_networks_run_in_the_order_of_the_file(name: str, level: str, tmp_path: Path) -> None:
    path, baked = small(name, tmp_path), tmp_path / "baked.onnx"
    dims = DIMS.get(name, {})
    note = bake(path, baked, level, dims=dims)
    assert baked_note(baked) == note == baked_note(baked.read_bytes())
    feeds = feeds_of(path, dims=dims)
    assert kernel_order(baked, feeds) == file_order(baked)
    options = quiet()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    for symbol, value in dims.items():
        options.add_free_dimension_override_by_name(symbol, value)
    assert equal(run(baked, feeds, session_options_for(baked.read_bytes(), quiet())), run(path, feeds, options))


def test_shapes_are_taken_first_and_the_file_says_so(tmp_path: Path) -> None:
    """With sizes left open the graph computes them: Shape runs as early as it can, wherever it was put."""
    path, baked = small("dynamic", tmp_path), tmp_path / "baked.onnx"
    bake(path, baked, "basic")
    assert any(n.op_type == "Shape" for n in onnx.load(baked).graph.node)
    feeds = feeds_of(path, dims=DIMS["dynamic"])
    for seed in range(3):
        bake(baked, tmp_path / "shuffled.onnx", order=random_order(baked, seed))
        assert kernel_order(tmp_path / "shuffled.onnx", feeds) == file_order(tmp_path / "shuffled.onnx")


def test_the_io_binding_executor_keeps_a_baked_order(tmp_path: Path) -> None:
    path, baked = small("randwire", tmp_path), tmp_path / "baked.onnx"
    bake(path, baked, "extended")
    bake(baked, baked, order=random_order(baked, 7))
    feeds = feeds_of(path)
    sized = tmp_path / "sized.onnx"
    bake_sized(baked, sized, "none")
    planset = edgemem.plan(sized)
    found = BoundNodes(split_model(sized, planset), poison=0xFF).run(feeds)
    assert equal(list(found.values()), run(baked, feeds, session_options_for(baked.read_bytes(), quiet())))
    assert list(planset.steps) == file_order(baked)


def test_a_baked_model_can_be_planned(tmp_path: Path) -> None:
    path, baked = small("resnet18", tmp_path), tmp_path / "baked.onnx"
    bake(path, baked, "basic")
    planned = tmp_path / "planned.onnx"
    edgemem.save(baked, edgemem.plan(baked, strategy="offsets/greedy_by_size"), planned)
    assert not edgemem.verify(planned)
    assert baked_note(planned) == baked_note(baked)
    bake(planned, planned, order=random_order(planned, 1))
    with pytest.raises(PlanFileError, match="carries no plan"):
        edgemem.verify(planned)


def test_weights_in_other_files_come_along(tmp_path: Path) -> None:
    model = onnx.load(small("resnet18", tmp_path))
    path, baked = tmp_path / "external.onnx", tmp_path / "elsewhere" / "baked.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=100)
    baked.parent.mkdir()
    bake(path, baked, "extended")
    (tmp_path / "weights.bin").unlink()
    feeds = feeds_of(tmp_path / "resnet18.onnx")
    options = quiet()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    found = run(baked, feeds, session_options_for(baked.read_bytes(), quiet()))
    assert equal(found, run(tmp_path / "resnet18.onnx", feeds, options))


def test_options_of_a_model_that_is_not_baked_stay(tmp_path: Path) -> None:
    options = quiet()
    before = options.graph_optimization_level
    assert session_options_for(small("unet", tmp_path).read_bytes(), options) is options
    assert options.graph_optimization_level == before
    assert options.execution_order == ort.ExecutionOrder.DEFAULT


def test_what_is_refused(tmp_path: Path) -> None:
    path, baked = small("unet", tmp_path), tmp_path / "baked.onnx"
    with pytest.raises(ModelError, match="no optimisation level"):
        bake(path, baked, "most")
    with pytest.raises(ModelError, match="a permutation"):
        bake(path, baked, order=[0])
    with pytest.raises(ModelError, match=r"before .* is written"):
        bake(path, baked, "none", order=list(reversed(range(54))))
    assert not baked.exists()
    with pytest.raises(PlanFileError, match="damaged"):
        baked_note(noted("{}"))
    with pytest.raises(PlanFileError, match="damaged"):
        baked_note(noted('{"level": "most", "onnxruntime": "1", "processor": "", "dims": {}}'))
    other = '{"level": "all", "onnxruntime": "0.1", "machine": "pdp11", "dims": {}}'
    assert baked_note(noted(other)) == Baked("all", "0.1", "pdp11", {})  # as older versions wrote it
    with pytest.raises(
        RuntimeBindError, match=r"optimised for onnxruntime 0\.1, and this is .*; for pdp11, and this is"
    ):
        session_options_for(noted(other))
