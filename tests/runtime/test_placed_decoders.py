"""`plan --state`, `fit` and `size` of decoders: what is refused, and what their figures are of."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.cli.main import main
from edgemem.commands import fit as fitting
from edgemem.commands.fit import FitRow, fit
from models.decoder import Sizes, decoder
from tests.decoders import plain_session

if TYPE_CHECKING:
    from pathlib import Path

DIMS = ["--dim", "batch=1", "--dim", "sequence=1", "--dim", "past=63", "--dim", "total=64", "--no-record"]


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(main, [str(a) for a in arguments], terminal_width=80)


def with_elements(model: onnx.ModelProto, kind: int, *, scale: float = 1.0) -> onnx.ModelProto:
    """The model with other elements instead of float32, and weights times `scale`."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            value = numpy_helper.to_array(tensor) * np.float32(scale if len(tensor.dims) == 2 else 1)
            tensor.CopyFrom(numpy_helper.from_array(np.maximum(value, -3e4).astype(dtype), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = kind
    return model


def grouped_half() -> onnx.ModelProto:
    """A decoder of float16 whose heads share keys; without their copies it rounds otherwise in places."""
    sizes = Sizes(layers=2, heads=4, groups=1, width=64, vocabulary=64)
    return with_elements(decoder(sizes=sizes), TensorProto.FLOAT16, scale=0.3)


def test_a_decoder_of_float16_is_placed_and_as_near_to_float32_as_before(tmp_path: Path) -> None:
    """One unit of float16 is more than the logits of a float32 model may differ by."""
    half = grouped_half()
    onnx.save(half, tmp_path / "half.onnx")
    made = run("plan", tmp_path / "half.onnx", "--state", "auto", *DIMS, "-o", tmp_path / "placed.onnx")
    assert made.exit_code == 0, made.output
    exact = onnx.ModelProto.FromString(half.SerializeToString())
    for tensor in exact.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    for value in (*exact.graph.input, *exact.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    sessions = [plain_session(half), plain_session(str(tmp_path / "placed.onnx")), plain_session(exact)]
    states = [edgemem.DecoderState(session, 40) for session in sessions]
    states[1].fill(0xFF)
    rng = np.random.default_rng(1)
    worst = np.zeros(2)
    for count in (5, 1, 1, 9, 1):
        ids = rng.integers(0, 64, (1, count))
        before, after, known = (state.logits(ids).astype(np.float32) for state in states)
        worst = np.maximum(worst, [np.abs(each - known).max() for each in (before, after)])
    assert worst[1] <= 1.5 * worst[0]


def test_a_decoder_that_the_runtime_cannot_open_is_refused_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    model = with_elements(decoder(sizes=Sizes(layers=1)), TensorProto.BFLOAT16)
    onnx.save(model, tmp_path / "brain.onnx")
    made = run("plan", tmp_path / "brain.onnx", "--state", "auto", *DIMS, "-o", tmp_path / "placed.onnx")
    assert made.exit_code == 1
    assert isinstance(made.exception, SystemExit)
    assert "cannot be run to compare it with the changed one: " in made.output
    assert len(made.output.strip().splitlines()) == 1
    assert not (tmp_path / "placed.onnx").exists()


def test_fit_has_no_figures_for_a_file_that_plan_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a difference of rounding large: the sine of many times the logits."""
    model = grouped_half()
    last = next(node for node in model.graph.node if node.output[0] == "logits")
    last.output[0] = "before"
    many = numpy_helper.from_array(np.array(1000, np.float16), "many")
    model.graph.initializer.append(many)
    model.graph.node.append(helper.make_node("Mul", ["before", "many"], ["times"]))
    model.graph.node.append(helper.make_node("Cast", ["times"], ["wide"], to=TensorProto.FLOAT))
    model.graph.node.append(helper.make_node("Sin", ["wide"], ["sine"]))
    model.graph.node.append(helper.make_node("Cast", ["sine"], ["logits"], to=TensorProto.FLOAT16))
    path = tmp_path / "sine.onnx"
    onnx.save(model, path)
    planned = run("plan", path, "--state", "auto", *DIMS, "-o", tmp_path / "placed.onnx")
    seen: list[dict[str, Any]] = []

    def measured(self: Any, row: FitRow) -> dict[str, Any]:
        seen.append(self.states[0])
        return {"loading": 1, "loaded": 1, "peak": row.total, "mode": "", "reason": ""}

    monkeypatch.setattr(fitting._Run, "measured", measured)
    made = fit(path, 10**9, plan=lambda *_: 0, most_context=64, check=False)
    assert made.changed == (planned.exit_code == 0)
    assert all((state["growth"] == "in_place") == made.changed for state in seen)


def test_a_head_size_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    """As onnxruntime-genai's builder writes it: a symbol, whose value is 16."""
    model = decoder("gqa", Sizes(width=16))
    for value in (*model.graph.input, *model.graph.output):
        if len(value.type.tensor_type.shape.dim) == 4:
            value.type.tensor_type.shape.dim[3].dim_param = "kv_cache_dim"
    for node in model.graph.node:
        if node.op_type == "GroupQueryAttention":
            form: list[str | int] = ["batch", "sequence", 64]
            model.graph.value_info.append(helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, form))
    onnx.save(model, tmp_path / "m.onnx")
    dims = [d.replace("past=63", "past=64") for d in DIMS]
    for state in ([], ["--state", "auto"]):
        made = run("plan", tmp_path / "m.onnx", *dims, *state, "--dim", "kv_cache_dim=256", "-o", tmp_path / "p.onnx")
        assert made.exit_code == 1
        assert "has 2 heads of size 256, and GroupQueryAttention takes 2 of size 16; bind its" in made.output
        assert not (tmp_path / "p.onnx").exists()
    assert run("plan", tmp_path / "m.onnx", *dims, "--dim", "kv_cache_dim=16").exit_code == 0


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_size_counts_caches_in_place_once(tmp_path: Path) -> None:
    onnx.save(decoder(sizes=Sizes(heads=8, groups=4, width=64, positions=4096)), tmp_path / "d.onnx")
    assert run("plan", tmp_path / "d.onnx", "--state", "auto", *DIMS, "-o", tmp_path / "p.onnx").exit_code == 0
    caches = 2 * 2 * 4 * 64 * 4 * 2048
    for path, capacity, buffers in (("d.onnx", "past=2047", 2), ("p.onnx", "capacity=2048", 1)):
        sizes = [f"--dim={d}" for d in ("batch=1", "sequence=1", "total=2048", capacity)]
        made = run("size", tmp_path / path, *sizes, "--json")
        assert made.exit_code == 0, made.output
        parts = {p["name"]: p["size"] for p in json.loads(made.stdout)["points"][0]["parts"]}
        outside = sum(size for name, size in parts.items() if name.startswith(("inputs", "outputs", "caches")))
        assert outside == pytest.approx(buffers * caches, rel=0.02)
        assert ("caches, in place" in parts) == (buffers == 1)


_ALL_TOKENS = """
import sys
import numpy as np
import onnxruntime
import edgemem

path, context, chunk, vocabulary = sys.argv[1], *map(int, sys.argv[2:])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
state = edgemem.DecoderState(edgemem.InferenceSession(path, options), context, chunk=chunk)
state.warm_up()
tokens = np.arange(context) * (vocabulary // context)
state.step(tokens)
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_fit_counts_all_of_mapped_weights_and_says_for_whom_it_holds(tmp_path: Path) -> None:
    """Which rows of the table of tokens are read depends on the tokens; a step at most a page apart reads all."""
    vocabulary = 4096
    sizes = Sizes(layers=2, heads=8, groups=4, width=64, vocabulary=vocabulary, positions=2048)
    onnx.save(decoder(sizes=sizes), tmp_path / "d.onnx")
    made = run(
        "plan", tmp_path / "d.onnx", "--state", "auto", *DIMS, "--weights", "mapped", "-o", tmp_path / "mapped.onnx"
    )
    assert made.exit_code == 0, made.output
    answer = json.loads(run("fit", tmp_path / "mapped.onnx", "--budget", "1GiB", "--context", "2048", "--json").stdout)
    best = answer["best"]
    child = subprocess.run(
        [sys.executable, "-c", _ALL_TOKENS, *map(str, (tmp_path / "mapped.onnx", 2048, best["chunk"], vocabulary))],
        check=True,
        capture_output=True,
        text=True,
        env={"EDGEMEM_CACHE": str(tmp_path / "cache"), "PATH": ""},
    )
    assert int(child.stdout) <= answer["measured"] * 1.03  # equal processes differ
    assert answer["holds_for"] == "edgemem.DecoderState on an edgemem.InferenceSession, after warm_up()"
    text = run("fit", tmp_path / "mapped.onnx", "--budget", "1GiB", "--context", "64", "--no-run").output
    assert "The budget holds for edgemem.DecoderState on an edgemem.InferenceSession, after warm_up()." in text
