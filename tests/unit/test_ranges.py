"""Dimensions with a range of values: plans that hold for all sizes in it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import parser, shape_inference

import edgemem
from edgemem import planfile
from edgemem.cli.main import main
from edgemem.errors import ModelError, PlanFileError, UnsupportedError
from edgemem.formats import Bindings, load_model
from edgemem.model.ranges import Range, Sum, in_ranges, parse_dimension, points_of, resolve
from edgemem.passes.fold_pass import FoldConstants
from edgemem.passes.protocol import PassContext, apply_pass
from edgemem.planfile import decode, encode
from edgemem.planning.verification import verdict_of
from edgemem.plans import OffsetPlan
from edgemem.targets import BUILT_IN
from tests.plansets import small

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.formats import Model
    from edgemem.model.ranges import Dimension
    from edgemem.plans import PlanSet

ATTENTION = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[batch, 1, 8] x, float[batch, past, 8] old) => (float[batch, 1, 8] y, float[batch, total, 8] new)
{
  new = Concat <axis = 1> (old, x)
  keys = Relu (new)
  turned = Transpose <perm = [0, 2, 1]> (keys)
  scores = MatMul (x, turned)
  half = Mul (scores, scores)
  weights = Softmax (half)
  y = MatMul (weights, keys)
}
"""
# `filled` shrinks as n grows.
SHRINKING = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n] x) => (float y)
<int64[1] ten = {10}>
{
  shape = Shape (x)
  left = Sub (ten, shape)
  filled = ConstantOfShape (left)
  more = Exp (filled)
  a = Exp (x)
  sum_a = ReduceSum <keepdims = 0> (a)
  sum_b = ReduceSum <keepdims = 0> (more)
  y = Add (sum_a, sum_b)
}
"""
# At m = 1 `a` is as large as `s`, which may then be written over it; at m = 0 it is not.
SAME_SIZE_AT_THE_END = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 1] x, float[1, m] z) => (float[4, m] y)
{
  a = Softmax (x)
  b = Softmax (z)
  s = Add (a, b)
  y = Softmax (s)
}
"""


def saved(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def run(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def sizes_at(path: Path, **dims: int) -> dict[str, int]:
    """Bytes of every float tensor by onnx's own shape inference with these dimensions written into the inputs."""
    model = onnx.load(path)
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = dims[dim.dim_param]
    del model.graph.output[:]
    inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    return {v.name: 4 * prod(d.dim_value for d in v.type.tensor_type.shape.dim) for v in inferred.value_info}


def assert_fits(planset: PlanSet, sizes: dict[str, int]) -> None:
    """No tensor is larger than its record, and records that are alive together lie apart."""
    plan = planset.best_offsets
    assert isinstance(plan, OffsetPlan)
    for record in planset.problem.records:
        for name in record.tensors:
            assert sizes[name] <= int(np.prod(record.size)), name
    rows = list(zip(planset.problem.records, plan.offsets.tolist(), strict=True))
    for (a, at_a), (b, at_b) in product(rows, rows):
        if a is not b and max(a.first_op, b.first_op) <= min(a.last_op, b.last_op):
            assert at_a + int(np.prod(a.size)) <= at_b or at_b + int(np.prod(b.size)) <= at_a


def test_what_a_dimension_may_be() -> None:
    assert parse_dimension("8") == 8
    assert parse_dimension("0..2047") == Range(0, 2047)
    assert parse_dimension("3..3") == 3
    assert parse_dimension("past+sequence+1") == Sum(("past", "sequence"), 1)
    for text in ("", "a", "8..1", "1..", "-1..3", "1..2..3", "+1", "a+", "1+2", "1" * 5000):
        with pytest.raises(ModelError):
            parse_dimension(text)


def test_values_of_all_dimensions() -> None:
    ranges: dict[str, Dimension] = {"past": Range(0, 9), "total": Sum(("past", "new"), 1), "all": Sum(("total",), 1)}
    assert resolve({"new": 2}, ranges, {}) == {"new": 2, "past": 9, "total": 12, "all": 13}
    assert resolve({"new": 2}, ranges, {"past": 3}) == {"new": 2, "past": 3, "total": 6, "all": 7}
    with pytest.raises(ModelError, match=r"'total' is past\+new\+1, and nothing says how large new is"):
        resolve({}, ranges, {})
    with pytest.raises(ModelError, match="nothing says how large"):
        resolve({}, {"a": Sum(("b",), 1), "b": Sum(("a",), 1)}, {})
    dims = resolve({"new": 2}, ranges, {})
    assert in_ranges({"past": 3, "total": 6}, dims, ranges) == ""
    assert in_ranges({"past": 10}, dims, ranges) == "past=10 is not in 0..9"
    assert in_ranges({"new": 3}, dims, ranges) == "new=3 is not 2"
    assert in_ranges({"past": 3, "total": 7}, dims, ranges) == "total=7 is not past+new+1, which is 6"


def test_all_values_of_small_ranges_and_some_of_large_ones() -> None:
    ranges: dict[str, Dimension] = {"a": Range(1, 3), "b": Range(0, 4), "c": Sum(("a", "b"))}
    points = points_of({}, ranges, 15)
    assert len(points.values) == points.total
    assert {(p["a"], p["b"], p["c"]) for p in points.values} == {(a, b, a + b) for a in range(1, 4) for b in range(5)}
    assert points.values[0] == {"a": 3, "b": 4, "c": 7}
    some = points_of({}, {"a": Range(1, 1000), "b": Range(0, 10**9)}, 15)
    assert len(some.values) < some.total
    assert some.total == 1000 * (10**9 + 1)
    assert some.values[0] == {"a": 1000, "b": 10**9}
    assert len(some.values) < 200
    corners = {(a, b) for a in (1, 1000) for b in (0, 10**9)}
    assert corners <= {(p["a"], p["b"]) for p in some.values}


@pytest.mark.full
def test_a_plan_holds_for_every_size_of_its_range(tmp_path: Path) -> None:
    path = saved(tmp_path, ATTENTION)
    planset = edgemem.plan(path, dims={"batch": "1..3", "past": "0..20", "total": "past+1"})
    assert planset.dims == {"batch": 3, "past": 20, "total": 21}
    assert planset.ranges == {"batch": Range(1, 3), "past": Range(0, 20), "total": Sum(("past",), 1)}
    assert planset.best_offsets is not None
    for batch, past in product(range(1, 4), range(21)):
        assert_fits(planset, sizes_at(path, batch=batch, past=past, total=past + 1))
        alone = edgemem.plan(path, dims={"batch": batch, "past": past, "total": past + 1})
        assert alone.best_offsets is not None
        assert alone.best_offsets.size <= planset.best_offsets.size
    edgemem.save(path, planset, path)
    verdict = verdict_of(path)
    assert not verdict.violations
    assert str(verdict.range) == "proved for every value, 63 in all"


@pytest.mark.full
def test_what_was_looked_at_is_said(tmp_path: Path) -> None:
    path, planned = saved(tmp_path, ATTENTION), tmp_path / "planned.onnx"
    done = run("plan", path, "--dim", "batch=1..8", "--dim", "past=0..2047", "--dim", "total=past+1", "-o", planned)
    assert done.exit_code == 0, done.output
    assert "Planned for batch=1..8, past=0..2047, total=past+1" in done.output
    assert "Planned for batch=1..8" in run("show", planned).output
    told = run("verify", planned)
    assert told.exit_code == 0, told.output
    assert "of 16,384 values, the ends among them" in " ".join(told.output.split())
    few = run("plan", path, "--dim", "batch=1..4", "--dim", "past=2", "--dim", "total=3", "-o", planned)
    assert few.exit_code == 0, few.output
    assert "proved for every value, 4 in all" in " ".join(run("verify", planned).output.split())


def test_a_tensor_that_shrinks_has_room_for_the_largest(tmp_path: Path) -> None:
    path = saved(tmp_path, SHRINKING)
    planset = edgemem.plan(path, dims={"n": "1..9"})
    sizes = {name: int(np.prod(r.size)) for r in planset.problem.records for name in r.tensors}
    assert sizes["filled"] == sizes["more"] == 4 * 9, "its size at n = 1"
    assert sizes["a"] == 4 * 9
    at_the_end = edgemem.plan(path, dims={"n": 9})
    assert {int(np.prod(r.size)) for r in at_the_end.problem.records if "filled" in r.tensors} == {4}


def test_a_tensor_without_a_place_at_the_largest_size_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, SHRINKING)
    with pytest.raises(UnsupportedError, match=r"no plan holds over the whole range: .*at n=9: 'filled' has no place"):
        edgemem.plan(path, dims={"n": "1..10"})
    path = saved(tmp_path, SHRINKING.replace("Sub (ten, shape)", "Sub (shape, ten)"))
    with pytest.raises(ModelError, match="the model does not take n=9, which is in the range: "):
        edgemem.plan(path, dims={"n": "9..12"})


def test_memory_is_shared_only_where_it_may_be_at_every_size(tmp_path: Path) -> None:
    path = saved(tmp_path, SAME_SIZE_AT_THE_END)
    shared = edgemem.plan(path, dims={"m": 1})
    assert ("a", "s") in [r.tensors for r in shared.problem.records]
    planset = edgemem.plan(path, dims={"m": "0..1"})
    assert ("a",) in [r.tensors for r in planset.problem.records]
    edgemem.save(path, planset, path)
    assert not edgemem.verify(path)


def test_a_plan_for_less_than_its_range_is_found(tmp_path: Path) -> None:
    path = saved(tmp_path, SHRINKING)
    planset = replace(edgemem.plan(path, dims={"n": 9}), ranges={"n": Range(1, 9)})
    edgemem.save(path, planset, path)
    violations = edgemem.verify(path)
    assert violations
    assert "at n=8: 'filled' needs 8, its record has 4" in str(violations[0])


def test_ranges_survive_a_file(tmp_path: Path) -> None:
    made = replace(small(), dims={"a": 8, "b": 9}, ranges={"a": Range(1, 8), "b": Sum(("a",), 1)})
    assert decode(encode(made)).ranges == made.ranges
    assert decode(encode(small())).ranges == {}
    planfile.save(made, tmp_path / "p.edgemem")
    assert planfile.load(tmp_path / "p.edgemem").ranges == made.ranges
    wrong: list[dict[str, Dimension]] = [{"a": Range(1, 9)}, {"c": Range(1, 2)}, {"b": Sum(("c",), 1)}]
    wrong.append({"b": Sum(("b",), 1)})
    for ranges in wrong:
        with pytest.raises(PlanFileError):
            encode(replace(made, ranges=ranges))


def test_formats_and_targets_without_ranges(tmp_path: Path) -> None:
    path = saved(tmp_path, ATTENTION)
    ranges = ("--dim", "batch=1..8", "--dim", "past=0..3", "--dim", "total=past+1")
    done = run("plan", path, *ranges, "-t", "gpu-texture")
    assert done.exit_code == 1
    assert "give numbers instead of ranges" in done.output
    done = run("shrink", path, *ranges, "-t", "gpu-texture")
    assert done.exit_code == 1
    assert "give numbers instead of ranges" in done.output
    done = run("plan", path, "--dim", "batch=8..1")
    assert done.exit_code == 2
    assert "a range LOW..HIGH" in done.output


def test_a_pass_that_forgets_ranges_is_refused(tmp_path: Path) -> None:
    class Forgetful(FoldConstants):
        suffixes: ClassVar[frozenset[str]] = frozenset({".onnx"})

        def apply(self, model: Model, context: PassContext) -> Model:
            return load_model(context.path, Bindings(model.bindings.dims))

    path = saved(tmp_path, ATTENTION)
    bindings = Bindings.of({"batch": "1..8", "past": 3, "total": "past+1"})
    context = PassContext(path, tmp_path, bindings, BUILT_IN["generic"])
    with pytest.raises(ModelError, match="fold gives a model of one size"):
        apply_pass(Forgetful(), load_model(path, bindings), context)


def test_bindings_of_texts() -> None:
    bindings = Bindings.of({"a": 2, "b": "0..3", "c": "a+b"}, {"x": [1, 2]})
    assert bindings.dims == {"a": 2, "b": 3, "c": 5}
    assert bindings.input_shapes == {"x": (1, 2)}
    assert bindings.ranges == {"b": Range(0, 3), "c": Sum(("a", "b"))}
