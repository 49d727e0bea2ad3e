"""Plans for a range of sizes, run by the executors of ONNX models."""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import parser

import edgemem
from edgemem.cli.main import main
from edgemem.commands.verify_run import verify_run
from edgemem.errors import ModelError, RuntimeBindError
from edgemem.formats import Bindings
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.file import plans_in
from edgemem.runtime.onnxruntime.recording import embed, record_over
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.onnxruntime.split_model import split_model
from tests.onnx_sessions import options, plain, same

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

pytest.importorskip("onnxruntime")

ATTENTION = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[batch, 1, 64] x, float[batch, past, 64] old) => (float[batch, 1, 64] y, float[batch, total, 64] new)
{
  new = Concat <axis = 1> (old, x)
  keys = Relu (new)
  turned = Transpose <perm = [0, 2, 1]> (keys)
  scores = MatMul (x, turned)
  weights = Softmax (scores)
  y = MatMul (weights, keys)
}
"""
RANGES = {"batch": "1..4", "past": "0..40", "total": "past+1"}


def feeds(batch: int, past: int, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((batch, 1, 64)).astype(np.float32),
        "old": rng.standard_normal((batch, past, 64)).astype(np.float32),
    }


def run(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "attention.onnx"
    onnx.save(parser.parse_model(ATTENTION), path)
    return path


@pytest.fixture
def planned(model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "planned.onnx"
    edgemem.save(model, edgemem.plan(model, dims=RANGES), path)
    return path


def test_every_size_in_the_range_runs_in_the_arena(model: Path, planned: Path) -> None:
    reference = plain(model, "NONE")
    arena = BoundNodes(split_model(planned)).report.planned
    for batch, past in ((4, 40), (1, 0), (2, 17), (3, 1), (1, 40), (4, 3), (2, 2)):
        given = feeds(batch, past, seed=batch + past)
        nodes = BoundNodes(split_model(planned, feeds=given), poison=0xCD)
        assert same(list(nodes.run(given).values()), reference.run(None, given)), (batch, past)
        assert nodes.report.planned == nodes.report.reserved == arena


def test_sizes_outside_of_the_range_are_refused(planned: Path) -> None:
    given = feeds(5, 3)
    with pytest.raises(RuntimeBindError, match=r"for other sizes than batch=5 \(it holds for .*batch=1\.\.4"):
        split_model(planned, feeds=given)
    given["x"] = given["x"][:3]
    given["old"] = given["old"][:2]
    with pytest.raises(RuntimeBindError, match="the inputs are fed with 3 and 2 for 'batch'"):
        split_model(planned, feeds=given)


def test_a_session_at_one_size_of_the_range(planned: Path) -> None:
    done = run(
        "run", planned, "--executor", "io-binding", "--compare", "--poison", "--dim", "past=7", "--dim", "batch=2"
    )
    assert done.exit_code == 0, done.output
    assert "outputs identical to a plain run" in done.output
    assert "new: float32 2x8x64" in done.output
    done = run("run", planned, "--executor", "io-binding", "--dim", "past=41")
    assert done.exit_code == 1
    assert "for other sizes than past=41 (it holds for batch=1..4, past=0..40, total=past+1)" in done.output


def test_verify_runs_the_ends_and_the_middle(planned: Path) -> None:
    nodes, _ = verify_run(planned)
    assert nodes.report is not None, nodes.refusal
    assert not nodes.violations
    assert nodes.note == "at batch=4 past=40, at batch=1 past=0, at batch=2 past=20"
    nodes, _ = verify_run(planned, feeds(3, 9))
    assert nodes.report is not None, nodes.refusal
    assert nodes.note == ""


@pytest.mark.full
def test_one_recorded_plan_serves_every_size(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "recorded.onnx"
    ranges = [f for name, made in RANGES.items() for f in ("--dim", f"{name}={made}")]
    done = run("plan", model, *ranges, "--record", "-o", path)
    assert done.exit_code == 0, done.output
    assert done.output.count("recorded arena") == 1
    (recording,) = [p for p in plans_in(path.read_bytes()) if p.recording is not None]
    assert recording.recording is not None
    fingerprint = recording.recording.fingerprint
    assert {n: shape for n, _, shape in fingerprint.signature.inputs}["old"] == (4, 40, 64)
    assert fingerprint.options["intra_threads"] == os.cpu_count(), "as a session has by default"
    reference = plain(model)
    with InferenceSession(path, options(), cache=False, record="never", poison=True) as session:
        for runs, (batch, past) in enumerate(product((4, 1, 3), (40, 0, 7, 33)), 1):
            given = feeds(batch, past, seed=runs)
            assert same(session.run(None, given), reference.run(None, given))
            assert session.memory.replayed == runs, session.memory.reason
        assert session.memory_report.origin is not None
        assert session.memory_report.origin.source == "file"
    done = run("verify", "--run", path)
    assert done.exit_code == 0, done.output
    assert "replay: ran" in done.output
    assert "also at batch=1 past=0, at batch=2 past=20" in done.output
    assert "outside of the plan" not in done.output


def test_sizes_with_other_numbers_of_requests(tmp_path: Path) -> None:
    """A loop asks for memory in every round, and goes round as often as the input is long."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 32] x) => (float[1, 32] y)
    <bool go = {1}, int64 first = {0}>
    {
      shape = Shape (x)
      rounds = Gather (shape, first)
      start = ReduceSum <keepdims = 1> (x)
      wide = Expand (start, size)
      y = Loop (rounds, go, wide) <body = b (int64 i, bool c, float[1, 32] v) => (bool d, float[1, 32] w) {
        d = Identity (c)
        e = Exp (v)
        w = Tanh (e)
      }>
    }
    """
    parsed = parser.parse_model(text)
    parsed.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 32]), "size"))
    path = tmp_path / "loop.onnx"
    onnx.save(parsed, path)
    plans = record_over(path, Bindings.of({"n": "1..5"}))
    embed(path, plans, path)
    assert not edgemem.verify(path)
    reference = plain(path)
    with InferenceSession(path, options(), cache=False, record="never", poison=True) as session:
        for runs, length in enumerate((5, 1, 3, 4, 2, 5, 1), 1):
            given = {"x": np.full((length, 32), 0.25, np.float32)}
            assert same(session.run(None, given), reference.run(None, given))
            assert session.memory.replayed == runs, session.memory.reason


def test_sizes_with_plans_of_their_own(tmp_path: Path) -> None:
    """Short inputs take another branch than long ones, with more requests: two plans, each with names of kernels."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 64] x) => (float[n, 64] y) <int64 first = {0}, int64 few = {3}>
    {
      shape = Shape (x)
      rows = Gather (shape, first)
      many = Greater (rows, few)
      y = If (many) <
        then_branch = t () => (float[n, 64] z) { a = Exp (x)  b = Transpose (a)  c = MatMul (a, b)  z = MatMul (c, a) },
        else_branch = e () => (float[n, 64] u) { d = Concat <axis = 0> (x, x)  f = Concat <axis = 0> (d, d)
          h = Concat <axis = 0> (f, f)  i = ReduceSum <keepdims = 1> (h)  j = Exp (x)  u = Add (j, i) }
      >
    }
    """
    path = tmp_path / "branches.onnx"
    onnx.save(parser.parse_model(text), path)
    plans = record_over(path, Bindings.of({"n": "1..300"}))
    assert len(plans) == 2
    for plan in plans:
        assert any("Exp" in record.name for record in plan.problem.records)
    embed(path, plans, path)
    assert not edgemem.verify(path)


@pytest.mark.full
def test_what_cannot_be_recorded_over_a_range(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.onnx"
    ranges = [f for name, made in RANGES.items() for f in ("--dim", f"{name}={made}")]
    np.save(tmp_path / "x.npy", feeds(5, 3)["x"])
    done = run("plan", model, *ranges, "--record", "-o", path, "--input", f"x={tmp_path / 'x.npy'}")
    assert done.exit_code == 1
    assert "outside of what the plan is for: batch=5 is not in 1..4" in done.output
    assert not path.exists()
    table = tmp_path / "table.onnx"
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n] x) => (float[1] y) <float[4] t = {1, 2, 3, 4}, int64[1] one = {1}>
    { n = Shape (x)  k = Sub (n, one)  y = Gather (t, k) }
    """
    onnx.save(parser.parse_model(text), table)
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot run .*table\.onnx at n=7: "):
        record_over(table, Bindings.of({"n": "1..7"}))
    simple = tmp_path / "simple.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { a = Exp (x)  y = Tanh (a) }'
    onnx.save(parser.parse_model(text), simple)
    assert run("plan", simple, "--dim", "n=0", "-o", path).exit_code == 0
    path.unlink()
    done = run("plan", simple, "--dim", "n=0", "--record", "-o", path)
    assert done.exit_code == 1
    assert "asks for no memory at these sizes" in done.output
    assert not path.exists()
    assert run("plan", simple, "--dim", "n=0..9", "--record", "-o", path).exit_code == 0
