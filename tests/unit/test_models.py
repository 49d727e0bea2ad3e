"""The reference networks: the paper's sizes, valid ONNX that runs, the same bytes every time."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from models import build as command
from models.build import build, describe, names, records, records_csv
from models.graphs import small_world
from models.net import same_padding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from models.net import Record

ROOT = Path(__file__).parents[2]
MIB = 1 << 20

# Pisarchyk & Lee 2020, Tables 1 and 2: naive, bound of shared objects, bound of offsets, in MiB; and the digest of
# records that were written down from the networks' descriptions without this code, as lines of first_op,last_op,size.
PAPER = {
    "mobilenet_v1": ("19.248", "4.594", "4.594", "befc3a2886a77161"),
    "mobilenet_v2": ("26.313", "6.604", "5.742", "4031a81eaefce8c1"),
    "deeplab_v3": ("48.642", "6.105", "4.320", "275810dc5082b993"),
    "posenet": ("28.556", "6.347", "6.271", "747a36e663788888"),
}
STATIC = tuple(n for n in names() if n != "dynamic")


def figures(rows: list[Record]) -> tuple[int, int, int]:
    """Naive size, sum of positional maxima, largest breadth: bytes."""
    profiles = [
        sorted((size for _, first, last, size in rows if first <= op <= last), reverse=True)
        for op in range(max(r[2] for r in rows) + 1)
    ]
    ranks = max(map(len, profiles))
    maxima = [max(p[rank] for p in profiles if rank < len(p)) for rank in range(ranks)]
    return sum(r[3] for r in rows), sum(maxima), max(map(sum, profiles))


def feeds(model: onnx.ModelProto, *, symbols: dict[str, int] | None = None, seed: int = 1) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    values: dict[str, NDArray[Any]] = {}
    sizes = {"N": 3, "T": 5} | (symbols or {})
    for info in model.graph.input:
        shape = [d.dim_value or sizes[d.dim_param] for d in info.type.tensor_type.shape.dim]
        match info.type.tensor_type.elem_type:
            case TensorProto.INT64:
                values[info.name] = rng.integers(0, 512, shape)
            case TensorProto.BOOL:
                values[info.name] = np.array(True)
            case _:
                values[info.name] = rng.standard_normal(shape).astype(np.float32)
    return values


def run(model: onnx.ModelProto, values: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[NDArray[Any]] = session.run(None, values)
    return outputs


@pytest.mark.parametrize("name", PAPER)
def test_sizes_are_the_papers(name: str) -> None:
    # DeepLab and PoseNet were adjusted until these met; MobileNet v1 and v2 met at once.
    for got, expected in zip(figures(records(name)), PAPER[name][:3], strict=True):
        assert f"{got / MIB:.3f}" == expected


@pytest.mark.parametrize("name", PAPER)
def test_records_equal_those_that_were_collected_apart(name: str) -> None:
    lines = "".join(f"{first},{last},{size}\n" for _, first, last, size in records(name))
    assert hashlib.sha256(lines.encode()).hexdigest()[:16] == PAPER[name][3]


def test_inception_is_as_near_as_the_known_rules_come() -> None:
    assert [f"{v / MIB:.3f}" for v in figures(records("inception_v3"))] == ["53.999", "8.954", "7.913"]


@pytest.mark.parametrize("batch", [1, "N"])
@pytest.mark.parametrize("name", names())
def test_small_model_is_valid(name: str, batch: int | str) -> None:
    model = build(name, size="small", batch=batch)
    assert len(model.SerializeToString()) < 2_000_000
    assert (model.ir_version, [(o.domain, o.version) for o in model.opset_import]) == (8, [("", 17)])
    onnx.checker.check_model(model, full_check=True)
    symbols = {d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim} - {""}
    assert symbols == ({"N"} if batch == "N" else set()) | ({"T"} if name == "dynamic" else set())


@pytest.mark.parametrize("name", names())
def test_tensors_have_the_shapes_of_the_description(name: str) -> None:
    net = describe(name, size="small", batch="N")
    tensors = [t for layer in net.layers for t in layer.outputs]
    model = net.model()
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=t.name) for t in tensors)
    sizes = {"N": 2, "T": 5, "2*T": 10}
    for tensor, got in zip(tensors, run(model, feeds(model, symbols=sizes)), strict=True):
        assert got.shape == tuple(d if isinstance(d, int) else sizes[d] for d in tensor.shape), tensor.name


@pytest.mark.parametrize("name", names())
def test_small_model_runs_and_its_answer_depends_on_the_input(name: str) -> None:
    model = build(name, size="small", batch="N")
    first, second = run(model, feeds(model)), run(model, feeds(model, seed=2))
    for a, b in zip(first, second, strict=True):
        assert a.dtype == np.float32
        assert len(a) == 3
        assert np.isfinite(a).all()
        assert np.isfinite(b).all()
        assert 1e-4 < np.abs(a).max() < 1e3
        assert np.abs(a - b).max() > 1e-5
        # The rows of a batch are different inputs too.
        assert np.abs(a[0] - a[1]).max() > 1e-5


@pytest.mark.parametrize("name", names())
def test_open_batch_gives_what_the_fixed_batch_gives(name: str) -> None:
    fixed, opened = build(name, size="small", batch=2), build(name, size="small", batch="N")
    values = feeds(opened, symbols={"N": 2})
    for a, b in zip(run(fixed, values), run(opened, values), strict=True):
        # Known shapes let the runtime fuse differently: equal up to rounding.
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", STATIC)
def test_records_are_the_lifetimes_of_the_onnx_graph(name: str) -> None:
    """From the nodes alone: who makes each layer's tensor and who reads it last, subgraphs included."""
    net = describe(name, size="small")
    tensors = {t.name for layer in net.layers for t in layer.outputs}
    position = 0
    made: dict[str, int] = {}
    last: dict[str, int] = {}
    for node in net.model().graph.node:
        for read in _reads(node):
            if read in tensors:
                last[read] = position
        wrote = [o for o in node.output if o in tensors]
        made.update((o, position) for o in wrote)
        position += bool(wrote)
    outputs = {t.name for t in net.outputs}
    expected = [(t, made[t], last.get(t, made[t])) for t in made if t not in outputs]
    assert [r[:3] for r in net.records()] == expected


def _reads(node: onnx.NodeProto) -> set[str]:
    names_read = set(node.input)
    for attribute in node.attribute:
        for inner in attribute.g.node:
            names_read |= _reads(inner)
        names_read |= {o.name for o in attribute.g.output}
    return names_read


@pytest.mark.parametrize("name", names())
def test_same_arguments_same_bytes(name: str) -> None:
    one, two, other = (build(name, size="small", seed=s).SerializeToString(deterministic=True) for s in (3, 3, 4))
    assert one == two
    assert one != other


def test_both_branches_and_the_loop_do_their_work() -> None:
    model = build("branches", batch=2)
    values = feeds(model)
    weights = {w.name: onnx.numpy_helper.to_array(w).astype(np.float64) for w in model.graph.initializer}
    x = values["x"].astype(np.float64)
    trunk = np.tanh(x @ weights["trunk.weight"] + weights["trunk.bias"])
    gate = np.maximum(trunk @ weights["gate.weight"] + weights["gate.bias"], 0)
    for flag in (True, False):
        state = gate @ weights["captured.weight"] + trunk if flag else 1 / (1 + np.exp(-trunk))
        history = []
        for _ in range(3):
            state = np.tanh(state + trunk) if flag else np.maximum(state + trunk, gate)
            history.append(state)
        (got,) = run(model, values | {"flag": np.array(flag)})
        np.testing.assert_allclose(got, state + np.mean(history, axis=0), rtol=1e-4, atol=1e-5)


def test_captured_tensors_live_until_the_loop() -> None:
    spans = {name: (first, last) for name, first, last, _ in records("branches")}
    loop = next(k for k, layer in enumerate(describe("branches").layers) if layer.outputs[0].name == "final")
    assert spans["trunk"] == (0, loop)
    assert spans["gate"] == (1, loop)


def test_records_scale_with_the_batch() -> None:
    for name in STATIC:
        one, four = records(name, size="small"), records(name, size="small", batch=4)
        assert [r[3] * 4 for r in one] == [r[3] for r in four]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation"), [(224, 3, 2, 1), (257, 3, 2, 1), (33, 3, 1, 4), (5, 1, 1, 1)]
)
def test_same_padding_fits(size: int, kernel: int, stride: int, dilation: int) -> None:
    out, before, after = same_padding(size, kernel, stride, dilation)
    assert out == -(-size // stride)
    assert (size + before + after - (kernel - 1) * dilation - 1) // stride + 1 == out
    assert 0 <= after - before <= 1


@pytest.mark.parametrize("seed", range(5))
def test_small_world_keeps_its_links_and_depends_on_the_seed(seed: int) -> None:
    before = small_world(32, 4, 0.75, seed=(seed, 0))
    assert sum(map(len, before)) == 32 * 4 // 2
    assert all(source < node for node, sources in enumerate(before) for source in sources)
    assert all(len(set(sources)) == len(sources) for sources in before)
    assert before != small_world(32, 4, 0.75, seed=(seed + 1, 0))
    ring = small_world(32, 4, 0.0, seed=(seed, 0))
    assert ring[31] == [0, 1, 29, 30]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"name": "alexnet"}, "no network 'alexnet'"),
        ({"name": "unet", "size": "huge"}, "small or full"),
        ({"name": "unet", "batch": 0}, "below 1"),
        ({"name": "unet", "batch": "2 images"}, "neither a number nor"),
        ({"name": "unet", "batch": "N"}, "symbol N"),
        ({"name": "dynamic"}, "symbol T"),
    ],
)
def test_records_refuse(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        records(**arguments)


@pytest.mark.full
@pytest.mark.parametrize("how", ["script", "module"])
def test_command_line_writes_what_the_functions_return(how: str, tmp_path: Path) -> None:
    start = [str(ROOT / "models" / "build.py")] if how == "script" else ["-m", "models.build"]
    for options, name in (["--records"], "out.csv"), ([], "deeper/out.onnx"):
        command_line = [sys.executable, *start, "blazeface", "-o", str(tmp_path / name), "--size", "small", *options]
        where = tmp_path if how == "script" else ROOT
        done = subprocess.run(command_line, cwd=where, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert str(tmp_path / name) in done.stdout
    assert (tmp_path / "out.csv").read_text() == records_csv(records("blazeface", size="small"))
    expected = build("blazeface", size="small").SerializeToString(deterministic=True)
    assert (tmp_path / "deeper" / "out.onnx").read_bytes() == expected
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["deeper", "out.csv", "out.onnx"]


def test_command_line_builds_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["all", "-o", str(tmp_path), "--size", "small", "--batch", "N"]) == 0
    assert {p.name for p in tmp_path.iterdir()} == {f"{n}.onnx" for n in names()}
    assert command.main(["all", "-o", str(tmp_path), "--records"]) == 0
    assert {p.name for p in tmp_path.glob("*.csv")} == {f"{n}.csv" for n in STATIC}
    assert (tmp_path / "unet.csv").read_text().splitlines()[0] == "tensor,first_op,last_op,size"
    assert command.main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[-len(names()) - len(command.TFLITE) :]]
    assert listed == [*names(), *command.TFLITE]


@pytest.mark.parametrize(
    "arguments",
    [
        ["unet"],
        ["nothing", "-o", "x"],
        ["unet", "-o", "x", "--batch", "0"],
        ["unet", "-o", "x", "--int8"],
        ["unet", "-o", "x", "--size", "96"],
        ["mobilenet_v2_tflite", "-o", "x", "--records"],
        ["mobilenet_v2_tflite", "-o", "x", "--size", "8"],
        [],
    ],
)
def test_command_line_explains_and_writes_nothing(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.main(arguments) == 2
    assert capsys.readouterr().err.startswith("build.py: ")
    assert not list(tmp_path.iterdir())
