"""`measure` tells what ONNX Runtime's arena took and what a plan takes, each from processes of their own."""

from __future__ import annotations

import itertools
import json
import platform
import re
import sys
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto
from onnx import helper as make

import edgemem
from edgemem.cli.main import main
from edgemem.cli.measured_view import show_measured
from edgemem.commands.measure import CONFIGURATIONS, MeasureRow, measure
from edgemem.commands.process_parts import ARENA, UNKNOWN, MemoryPart
from edgemem.errors import ModelError, UnknownShapeError
from edgemem.formats import Bindings
from edgemem.runtime.onnxruntime.file_recording import add_recording
from models.build import build
from tests.runtime.networks import feeds_of, small

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")

FLOAT = 4


def chain(path: Path, widths: list[int], *, domain: str = "") -> Path:
    """Matrix products one after the other, so that no result can take its input's place; weights are numbers."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for k, (rows, columns) in enumerate(itertools.pairwise(widths)):
        weights.append(onnx.numpy_helper.from_array(rng.random((rows, columns), np.float32), f"w{k}"))
        nodes.append(make.make_node("MatMul", [f"t{k}", f"w{k}"], [f"t{k + 1}"], domain=domain))
    ends = [make.make_tensor_value_info(f"t{k}", TensorProto.FLOAT, [64, widths[k]]) for k in (0, len(widths) - 1)]
    graph = make.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    opsets = [make.make_opsetid("", 17), *([make.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(make.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.mark.full
def test_a_chain_whose_memory_is_known(tmp_path: Path) -> None:
    """Sizes are whole pages of ONNX Runtime's 256 bytes; two neighbours of the chain are alive at a time."""
    widths = [16, 512, 256, 1024, 8]
    default, tuned, bound = measure(
        chain(tmp_path / "chain.onnx", widths), repeats=2, rounds=1, configurations=("default", "tuned", "edgemem")
    )
    inner = [64 * w * FLOAT for w in widths[1:-1]]
    output = 64 * widths[-1] * FLOAT
    needed = max(a + b for a, b in itertools.pairwise(inner))
    assert (default.outputs, tuned.outputs, bound.outputs) == (output,) * 3
    assert bound.planned == bound.bound == needed
    assert bound.activation == needed, "the output lies where an inner tensor is dead"
    assert tuned.activation is not None
    assert default.activation is not None
    # Exact regions are not given back, but one may serve a smaller request: at least the need, at most everything.
    assert needed <= tuned.activation <= sum(inner) + output
    assert default.activation >= tuned.activation
    assert (default.exact, tuned.exact, bound.exact) == (None, True, True)
    assert default.latency_ratio is None
    for row in (default, tuned, bound):
        assert row.unavailable == row.note == ""
        assert row.latency_ms is not None
        assert row.latency_ms > 0
        assert row.first_ms is not None
        assert row.p99_ms is not None
        assert row.p99_ms >= row.latency_ms
        if row.parts:  # Linux tells it
            assert row.resident is not None
            assert row.anonymous is not None
            assert sum(part.size for part in row.parts) == row.resident
            assert 0 < row.anonymous < row.resident


@pytest.mark.exhaustive
def test_mobilenet_v2(tmp_path: Path) -> None:
    path = tmp_path / "mobilenet_v2.onnx"
    onnx.save(build("mobilenet_v2"), path)
    rows = measure(path, repeats=1, rounds=1)
    assert [r.configuration for r in rows] == list(CONFIGURATIONS)
    default, tuned, trimmed, no_arena, recording, edgemem = rows
    assert no_arena.activation is None
    assert all(row.exact and not row.note for row in (tuned, trimmed, no_arena))
    assert trimmed.activation == tuned.activation
    if default.resident is not None and platform.libc_ver()[0] == "glibc":
        assert trimmed.resident is not None
        assert trimmed.resident < 0.9 * default.resident
    assert recording.plan.endswith("made now")
    assert edgemem.plan.endswith("from the cache")
    assert default.activation is not None
    assert tuned.activation is not None
    for row in (recording, edgemem):
        assert row.unavailable == ""
        assert row.exact
        assert row.activation is not None
        assert row.activation <= 0.55 * default.activation
        assert row.activation <= tuned.activation


@pytest.mark.full
def test_given_values_and_sizes(tmp_path: Path) -> None:
    path = small("dynamic", tmp_path)
    (row,) = measure(path, bindings=Bindings({"T": 6}), repeats=1, rounds=1, configurations=["edgemem"])
    (same,) = measure(path, feeds_of(path, dims={"T": 6}), repeats=1, rounds=1, configurations=["edgemem"])
    # A session whose dimension is bound folds more than one whose inputs have the size: the plans may differ.
    assert (row.planned, same.planned) == (row.bound, same.bound)
    assert row.outputs == same.outputs == (6 * 8 + 8) * FLOAT
    with pytest.raises(UnknownShapeError, match="--dim T=VALUE"):
        measure(path)


@pytest.mark.full
def test_several_requests_are_served_in_turn(tmp_path: Path) -> None:
    path = small("dynamic", tmp_path)
    requests = [feeds_of(path, dims={"T": size}) for size in (3, 7, 5)]
    default, edgemem = measure(path, requests, repeats=1, rounds=1, configurations=("default", "edgemem"))
    assert default.outputs == edgemem.outputs == (7 * 8 + 8) * FLOAT
    assert edgemem.exact


@pytest.mark.full
def test_drawn_sizes_are_the_same_for_every_configuration(tmp_path: Path) -> None:
    path = small("dynamic", tmp_path)
    default, recording, edgemem = measure(
        path, vary={"T": (2, 9)}, repeats=5, rounds=1, configurations=("default", "recording", "edgemem")
    )
    assert default.outputs == recording.outputs == edgemem.outputs
    assert recording.exact
    assert edgemem.exact
    with pytest.raises(ModelError, match="no input has the dimension 'N'; those with a name are: T"):
        measure(path, vary={"N": (1, 2)})
    with pytest.raises(ModelError, match="give either"):
        measure(path, feeds_of(path, dims={"T": 3}), vary={"T": (1, 2)})


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc")
def test_of_many_requests_one_is_in_memory(tmp_path: Path) -> None:
    """11 requests of 6 to 8 MiB leave the process where one of 8 MiB does."""
    x = make.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 1 << 18])
    y = make.make_tensor_value_info("y", TensorProto.FLOAT, ["rows"])
    node = make.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)
    path = tmp_path / "mean.onnx"
    graph = make.make_graph([node], "mean", [x], [y])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    one, many = (
        measure(path, vary={"rows": rows}, repeats=8, rounds=1, configurations=["default"])[0]
        for rows in ((8, 8), (6, 8))
    )
    for row in (one, many):
        assert [part.size for part in row.parts if part.name == "inputs"] == [8 << 20]
    assert many.resident == pytest.approx(one.resident, abs=3 << 20)
    assert many.peak == pytest.approx(one.peak, abs=3 << 20)


@pytest.mark.full
def test_a_shape_reaches_plain_sessions_and_ours(tmp_path: Path) -> None:
    path = small("dynamic", tmp_path)
    ((name, shape),) = ((entry.name, entry.type.tensor_type.shape) for entry in onnx.load(path).graph.input)
    sizes = tuple(d.dim_value or 6 for d in shape.dim)
    given = Bindings(input_shapes={name: sizes})
    for row in measure(path, bindings=given, repeats=1, rounds=1, configurations=("default", "edgemem")):
        assert row.unavailable == ""
        assert row.outputs == (6 * 8 + 8) * FLOAT


@pytest.mark.full
def test_what_fails_is_a_row_that_says_why(tmp_path: Path) -> None:
    path = chain(tmp_path / "chain.onnx", [4, 4], domain="unknown.example")
    done = CliRunner().invoke(main, ["measure", str(path), "--rounds", "1", "--json"])
    assert done.exit_code == 1
    for row in json.loads(done.stdout):
        assert "unknown.example" in row["unavailable"]
        assert row["activation"] is row["latency_ms"] is row["exact"] is None
    (slow,) = measure(small("unet", tmp_path), rounds=1, timeout_s=0.001, configurations=["default"])
    assert "longer than 0.001 s" in slow.unavailable


def test_wrong_calls(tmp_path: Path) -> None:
    path = small("unet", tmp_path)
    with pytest.raises(ModelError, match="no configuration 'fast'"):
        measure(path, configurations=["fast"])
    with pytest.raises(ModelError, match="at least one"):
        measure(path, repeats=0)
    with pytest.raises(ModelError, match="no file"):
        measure(tmp_path / "none.onnx")


@pytest.mark.full
def test_the_plans_of_the_file_are_measured(tmp_path: Path) -> None:
    path = small("resnet18", tmp_path)
    edgemem.save(path, edgemem.plan(path, strategy="offsets/naive"), path)
    add_recording(path)
    (session,) = measure(path, repeats=1, rounds=1, configurations=("edgemem",))
    assert session.note == ""
    assert session.plan.endswith("from the file")
    assert session.outputs is not None
    assert session.activation == (session.planned or 0) + session.outputs


@pytest.mark.full
def test_times_are_compared_by_runs_that_alternate(tmp_path: Path) -> None:
    path = chain(tmp_path / "chain.onnx", [16, 64, 8])
    default, tuned = measure(path, repeats=4, rounds=2, configurations=("default", "tuned"))
    ratio = tuned.latency_ratio
    assert ratio is not None
    assert 0 < ratio.low <= ratio.median <= ratio.high
    assert default.latency_ratio is None
    (alone,) = measure(path, repeats=2, rounds=1, configurations=("tuned",))
    assert alone.latency_ratio is None
    assert alone.latency_ms is not None


@pytest.mark.exhaustive
def test_the_command_prints_intervals_of_processor_time(tmp_path: Path) -> None:
    path = chain(tmp_path / "chain.onnx", [16, 64, 8])
    arguments = ["measure", str(path), "--repeats", "6", "--rounds", "1"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    table = done.stdout[done.stdout.index("\ncpu ms ") :].split("\n\n")[0].splitlines()[3:]
    assert [re.search(r"\d\.\d\d-\d+\.\d\dx +yes$", line) is not None for line in table] == [True] * 5
    rows = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert [sorted(row["latency_ratio"] or ()) for row in rows] == [[], *[["high", "low", "median"]] * 5]


def test_a_part_of_no_known_size_is_not_zero(capsys: pytest.CaptureFixture[str]) -> None:
    """Without counters in the profile, as in ONNX Runtime 1.23, the arena is in the rest."""
    parts = (MemoryPart("libraries", 1 << 20, "measured here"), MemoryPart(ARENA, 0, UNKNOWN))
    row = MeasureRow("default", "", resident=2 << 20, parts=(*parts, MemoryPart("rest", 1 << 20, "what is left")))
    show_measured([row])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"{ARENA} -" in lines
    assert "libraries 1.0" in lines
