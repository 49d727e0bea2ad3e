"""Shrunk models in their runtimes: memory as predicted, outputs as promised, in dirty memory on random inputs."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import edgemem
from edgemem.cli.main import main
from edgemem.errors import BudgetExceededError, PassError
from edgemem.formats import Foldable, Model, load_model
from edgemem.runtime.litert.package import op_resolvers
from edgemem.runtime.tflm.execution import execute, input_values
from edgemem.shrinking.candidate import CandidateLimits
from edgemem.shrinking.search import Search
from models.build import build
from models.fetch import fetch
from models.tflite_networks import mobilenet_v2
from tests.tflite_models import up16

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


def command(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small.tflite"
    path.write_bytes(mobilenet_v2(alpha=0.35, size=96, int8=True, classes=10))
    return path


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mobilenet.onnx"
    onnx.save(build("mobilenet_v2", size="small"), path)
    return path


def _micro(content: bytes, sets: Sequence[Sequence[NDArray[Any]]], outputs: int) -> tuple[list[bytes], int, int]:
    run = execute(content, sets[0], outputs=outputs, then=sets[1:], fill=0xA5)
    return [value.tobytes() for each in run.each for value in each], run.head, run.tail


@pytest.mark.parametrize("kernels", [pytest.param(None, marks=pytest.mark.full), "tflm-reference"])
def test_micro_takes_what_was_said_to_the_byte(small: Path, kernels: str | None, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    out = tmp_path / "out.tflite"
    made = edgemem.shrink(small, kernels=kernels)
    made.save(out)
    original = load_model(small)
    graph = original.graph()
    sets = [input_values(graph, seed=seed) for seed in range(11, 15)]
    before = _micro(original.content(), sets, len(graph.outputs))
    after = _micro(out.read_bytes(), sets, len(graph.outputs))
    assert after[0] == before[0]
    check = made.chosen.tail_check
    assert check is not None
    assert after[1:] == (made.chosen.arena, check.measured)
    assert check.measured == pytest.approx(check.predicted, rel=0.01)
    assert made.chosen.tail < check.measured
    assert sum(after[1:]) < sum(before[1:])
    assert made.chosen.outputs == "identical"


@pytest.mark.full
@pytest.mark.parametrize("name", ["mww_okay_nabu", "mp_iris_landmark", "mp_face_detection_short"])
def test_real_tflite_models(name: str, tmp_path: Path) -> None:
    """The head is the plan's to the byte, and the tail near what was predicted before the runtime was asked."""
    pytest.importorskip("tflite_micro")
    path, out = fetch(name), tmp_path / "out.tflite"
    found = Search(path, CandidateLimits()).found(runs=False)
    assert found.best is not None
    made = edgemem.shrink(path, steps=found.best.text)
    made.save(out)
    assert made.chosen.is_measured
    best = made.planset.best_offsets
    assert best is not None
    assert made.chosen.arena == up16(best.size) <= found.best.arena
    assert made.chosen.tail == found.best.tail
    assert made.chosen.tail_check is not None
    assert made.chosen.tail_check.is_near
    plain = load_model(path)
    model = plain.folded() if isinstance(plain, Foldable) else plain
    graph = model.graph()
    sets = [input_values(graph, seed=seed) for seed in range(3)]
    assert _micro(out.read_bytes(), sets, len(graph.outputs))[0] == _micro(model.content(), sets, len(graph.outputs))[0]


@pytest.mark.full
@pytest.mark.parametrize("share", [0.75, 0.4])
def test_sessions_take_what_was_said_to_the_byte(network: Path, share: float, tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    out = tmp_path / "out.onnx"
    whole = edgemem.shrink(network, steps="").chosen.memory
    made = edgemem.shrink(network, budget=int(whole * share))
    made.save(out)
    assert made.chosen.memory <= whole * share
    assert made.chosen.is_measured
    assert made.chosen.latency is not None
    default = ort.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    form = default.get_inputs()[0]
    with edgemem.InferenceSession(str(out), cache=False, poison=True) as session:
        for seed in range(4):
            feeds = {form.name: np.random.default_rng(seed).standard_normal(form.shape).astype(np.float32)}
            for here, there in zip(session.run(None, feeds), default.run(None, feeds), strict=True):
                assert np.abs(here - there).max() <= 1e-5 * np.abs(there).max()
        assert session.memory_report.planned == made.chosen.memory


@pytest.mark.full
def test_identical_means_every_bit(network: Path) -> None:
    """Of the level that the file was made at: on some processors a default session arranges its sums otherwise."""
    pytest.importorskip("onnxruntime")
    made = edgemem.shrink(network, outputs="identical", max_macs=1.02)
    assert made.chosen.outputs.endswith(("identical", "and not from those of level extended"))


@pytest.mark.full
def test_the_command_says_what_the_library_does(network: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    out, again = tmp_path / "out.onnx", tmp_path / "again.onnx"
    budget = edgemem.shrink(network, steps="").chosen.memory // 2
    done = command("shrink", network, "--budget", budget, "-o", out)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("fits: ")
    told = json.loads(command("shrink", network, "--budget", budget, "--json").output)
    assert told["best"]["memory"] <= budget
    done = command("shrink", network, "--steps", told["best"]["steps"], "-o", again)
    assert done.exit_code == 0, done.output
    plans = [edgemem.load(path).plan() for path in (out, again)]  # type: ignore[union-attr]
    assert None not in plans
    assert command("verify", "--run", again).exit_code == 0


def test_a_failing_plan_ends_with_what_fits(small: Path) -> None:
    done = command("plan", small, "--budget", "100KiB")
    assert done.exit_code == 3
    assert f"edgemem shrink {small} --budget 102400" in done.output
    lines = done.output.splitlines()
    assert any(line.startswith(("fits: ", "does not fit: ")) for line in lines)
    assert not any("--steps stream=" in line for line in lines)  # none was tried


@pytest.mark.exhaustive
def test_what_fits_nowhere_names_what_is_in_the_way(network: Path) -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(BudgetExceededError, match=r"operator '.*' \(.*\) alone needs"):
        edgemem.shrink(network, budget=256)
    done = command("shrink", network, "--budget", "256B")
    assert done.exit_code == 3
    assert done.output.startswith("does not fit: ")


def test_a_pass_that_computes_something_else_is_caught(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stripes whose model has other weights: inputs and outputs look the same, and the runtime tells."""
    pytest.importorskip("tflite_micro")
    from edgemem.passes.streaming.stream_pass import StreamOperators

    other = tmp_path / "other.tflite"
    other.write_bytes(mobilenet_v2(alpha=0.35, size=96, int8=True, classes=10, seed=5))

    def lie(_self: StreamOperators, _model: Model, _context: object) -> Model:
        return load_model(other)

    monkeypatch.setattr(StreamOperators, "apply", lie)
    with pytest.raises(PassError, match="outputs in TensorFlow Lite Micro differ"):
        edgemem.shrink(small, steps="stream=0:5:2")


@pytest.mark.exhaustive
def test_a_shrunk_tflite_file_is_where_the_next_shrink_starts(small: Path, tmp_path: Path) -> None:
    """It takes no more than it took, keeps its outputs, and says what was done and what else would help."""
    pytest.importorskip("tflite_micro")
    once, twice = tmp_path / "once.tflite", tmp_path / "twice.tflite"
    first = edgemem.shrink(small, steps="stream=0:2:2+3:5:5")
    first.save(once)
    told = json.loads(command("shrink", once, "--json").output)
    (note,) = told["shrunk"]
    assert note["steps"] == "stream=0:2:2+3:5:5"
    assert note["memory"] == first.chosen.memory
    assert note["memory"] < note["memory_before"] <= edgemem.shrink(small, steps="").chosen.memory
    assert told["best"]["memory"] <= first.chosen.memory
    done = command("shrink", once, "-o", twice)
    assert done.exit_code == 0, done.output
    assert "shrink made this model with --steps stream=0:2:2+3:5:5" in done.output
    graph = load_model(small).graph()
    sets = [input_values(graph, seed=seed) for seed in range(3)]
    before, after = (_micro(path.read_bytes(), sets, len(graph.outputs)) for path in (small, twice))
    assert after[0] == before[0]
    assert after[1:] == (told["best"]["arena"], told["best"]["tail_here"])
    done = command("shrink", once, "--budget", first.chosen.memory // 2, "--target", "tflm")
    assert done.exit_code == 3
    assert "This model was made by shrink: shrink the model that it was made from" in done.output


@pytest.mark.full
def test_a_shrunk_onnx_file_is_where_the_next_shrink_starts(network: Path, tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    once, twice = tmp_path / "once.onnx", tmp_path / "twice.onnx"
    whole = edgemem.shrink(network, steps="").chosen.memory
    first = edgemem.shrink(network, steps="optimize=extended,tile=3:5:3x1")
    first.save(once)
    second = edgemem.shrink(once, outputs="close")
    second.save(twice)
    assert second.chosen.memory <= first.chosen.memory < whole
    assert [o.memory for o in second.found.notes] == [first.chosen.memory]
    assert f"onnxruntime {ort.__version__}" in command("show", twice).output
    assert [line.split(":")[0] for line in command("show", twice).output.splitlines() if line.startswith("made")] == [
        "made by shrink --steps optimize=extended,tile=3",
        *[f"made by shrink --steps {second.chosen.text}".split(":")[0]] * bool(second.chosen.text),
    ]
    assert command("verify", "--run", twice).exit_code == 0
    default = ort.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    form = default.get_inputs()[0]
    feeds = {form.name: np.random.default_rng(3).standard_normal(form.shape).astype(np.float32)}
    with edgemem.InferenceSession(str(twice), cache=False, poison=True) as session:
        for here, there in zip(session.run(None, feeds), default.run(None, feeds), strict=True):
            assert np.abs(here - there).max() <= 1e-5 * np.abs(there).max()
        assert session.memory_report.planned == second.chosen.memory


def _attention(path: Path) -> None:
    """Scores that Softmax writes over its input: a session takes half of what the plan of the graph counts."""
    rng = np.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal((16, 256)).astype(np.float32), "w")]
    weights.append(onnx.numpy_helper.from_array(rng.standard_normal((256, 4)).astype(np.float32), "v"))
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["scores"], name="scores"),
        onnx.helper.make_node("Softmax", ["scores"], ["shares"], name="shares"),
        onnx.helper.make_node("MatMul", ["shares", "v"], ["y"], name="y"),
    ]
    ends = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [256, k]) for n, k in (("x", 16), ("y", 4))]
    graph = onnx.helper.make_graph(nodes, "attention", ends[:1], ends[1:], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def test_a_model_that_a_session_runs_in_less_than_its_plan_stays_as_it_is(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "attention.onnx"
    _attention(path)
    needs = 256 * 256 * 4
    made = edgemem.shrink(path, budget=needs * 3 // 2)
    assert needs <= made.chosen.memory < needs * 3 // 2
    assert not made.chosen.steps
    assert edgemem.shrink(path).chosen.memory <= made.chosen.memory


@pytest.mark.full
def test_each_step_says_what_it_did(small: Path) -> None:
    """The lower bounds begin with that of the model, end with that of the chosen one, and stand in notebooks, too."""
    pytest.importorskip("tflite_micro")
    made = edgemem.shrink(small, steps="order,stream=0:5:4")
    names = [effect.step for effect in made.steps]
    assert names == made.chosen.text.split(",")
    assert up16(made.steps[0].before) == edgemem.shrink(small, steps="").chosen.memory
    assert all(a.after == b.before for a, b in pairwise(made.steps))
    assert made.steps[-1].after <= made.chosen.memory < made.steps[0].before
    assert "\n" not in repr(made)
    assert f"{made.steps[-1].after:,}" in made._repr_html_()


@pytest.mark.exhaustive
def test_litert_takes_what_shrink_says(tmp_path: Path) -> None:
    """Where TensorFlow Lite Micro needs more than a budget that LiteRT's arena meets."""
    pytest.importorskip("ai_edge_litert")
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    path.write_bytes(mobilenet_v2(alpha=0.35, size=96, int8=False, classes=10))
    made = edgemem.shrink(path, target="litert")
    made.save(out)
    given = np.random.default_rng(7).standard_normal((1, 96, 96, 3)).astype(np.float32)
    outputs, arenas = [], []
    for model in (path, out):
        kernels = op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES
        one = edgemem.Interpreter(str(model), experimental_op_resolver_type=kernels)
        one.allocate_tensors()
        one.set_tensor(one.get_input_details()[0]["index"], given)
        one.invoke()
        outputs.append(one.get_tensor(one.get_output_details()[0]["index"]))
        arenas.append(one.memory.reserved)
    assert arenas[1] == made.chosen.memory < arenas[0]
    assert one.memory.is_kept
    assert outputs[0].tobytes() == outputs[1].tobytes()
