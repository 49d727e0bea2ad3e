"""Plans whose results overlap inputs, or lie inside other tensors, in the runtimes: who runs them, and who refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

from edgemem import api, planfile, verify
from edgemem.commands.run_tflite import run, runtime_of
from edgemem.commands.size import size_of
from edgemem.commands.verify_run import verify_run
from edgemem.commands.verify_run_tflite import verify_run_tflite
from edgemem.errors import InvalidPlanError, RuntimeBindError
from edgemem.formats import load
from edgemem.formats.offline_allocation import micro_offsets, micro_refusal
from edgemem.model.overlap import distance
from edgemem.model.profiles import PROFILES, VERSIONS
from edgemem.passes.streaming.stream import StripeStage, stream
from edgemem.planning.micro_offsets import plan_of_offsets
from edgemem.proof import prove, verify_planset
from edgemem.records.problem import Problem
from edgemem.runtime.executors import LITERT, TFLM, kernels_refusal, where_it_runs
from edgemem.runtime.tflm import execution as tflm
from edgemem.runtime.tflm.file_plan import file_plan
from edgemem.runtime.tflm.size import size_of as micro_size_of
from edgemem.strategy.bounds import lower_bounds
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.test_cli_tflite import edgemem
from tests.runtime.test_interpreter import small

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet

pytest.importorskip("ai_edge_litert")
needs_tflm = pytest.mark.skipif(not tflm.is_installed(), reason="tflite-micro is not installed")
STAGES = (StripeStage(0, 5, 4), StripeStage(6, 12, 3))


@cache
def model(*, streamed: bool = False) -> TfliteConverter:
    from models.build import build_tflite

    data = build_tflite("mobilenet_v2_tflite", size=48, alpha=0.35, int8=True, classes=10)
    made = TfliteConverter.from_bytes(data)
    return made.rewritten(stream(made.graph(), STAGES, 64)) if streamed else made


@cache
def planned(kernels: str, target: str = "tflm", *, streamed: bool = False, slots: bool = True) -> PlanSet:
    rules = replace(BUILT_IN[target], kernels=kernels, slots=slots)
    return api.plan(model(streamed=streamed), strategy="offsets/search", effort="fast", target=rules)


def written(folder: Path, planset: PlanSet, *, streamed: bool = False, offsets_only: bool = False) -> Path:
    path = folder / "m.tflite"
    api.save(model(streamed=streamed), planset, path, offsets_only=offsets_only)
    return path


def opened(path: Path) -> TfliteConverter:
    return TfliteConverter.from_bytes(path.read_bytes())


def test_a_plan_for_one_profile_is_refused_for_a_runtime_of_another(tmp_path: Path) -> None:
    planset = planned("tflm-reference")
    file = opened(written(tmp_path, planset))
    assert file_plan(file).planset is not None
    for other in ("cmsis-nn-dsp", "cmsis-nn-mve", "esp-nn", "none"):
        found = file_plan(file, other)
        assert found.planset is None
        assert found.refusal is not None
        assert f"--kernels {other}" in found.refusal.remedy
        assert "tflm-reference" in found.refusal.why
        with pytest.raises(InvalidPlanError):
            prove(planset, model().graph(), kernels=other)
    assert kernels_refusal(planset, "esp-nn") is not None
    assert TFLM.refuse_plan(planset) is None
    assert micro_refusal(planset) is None


def test_a_plan_is_run_where_its_distances_hold_too(tmp_path: Path) -> None:
    """CMSIS-NN's distances are those of the reference kernels, or greater."""
    planset = planned("cmsis-nn-dsp")
    assert TFLM.refuse_plan(planset) is not None
    path = written(tmp_path, planset)
    assert file_plan(opened(path)).planset is not None
    assert runtime_of((planset,), offsets=True) == "tflm"
    graph = model().graph()
    assert where_it_runs((planset,), ".tflite", graph).startswith(
        "runs as planned in TensorFlow Lite Micro built with the kernels of tflm-reference (tflite-micro 90b983c2b3f1) "
        "and in TensorFlow Lite Micro built with the kernels of cmsis-nn-dsp (CMSIS-NN 99f736a63036 or 4ab83cc3cc98 in "
        "tflite-micro 90b983c2b3f1); "
    )


def test_offsets_for_a_device_are_written_and_not_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a computer whose tflite-micro has the kernels of CMSIS-NN."""
    planset = planned("tflm-reference")
    for module in ("edgemem.runtime.executors", "edgemem.runtime.tflm.size"):
        monkeypatch.setattr(f"{module}.MICRO_KERNELS", "cmsis-nn-dsp")
    monkeypatch.setattr(file_plan, "__defaults__", ("cmsis-nn-dsp",))
    path = written(tmp_path, planset)
    assert opened(path).offline() == micro_offsets(planset)
    line = where_it_runs((planset,), ".tflite", model().graph())
    built = "built with the kernels of tflm-reference (tflite-micro 90b983c2b3f1)"
    assert line.startswith(f"runs as planned in TensorFlow Lite Micro {built}; ")
    for attempt in (lambda: run(path, runtime="tflm"), lambda: verify_run_tflite(path)):
        with pytest.raises(RuntimeBindError, match="overlap inputs as far as the kernels of tflm-reference allow"):
            attempt()
    with pytest.raises(RuntimeBindError, match="use edgemem shrink --kernels cmsis-nn-dsp"):
        micro_size_of(opened(path), measure=False, kernels="cmsis-nn-dsp")
    assert micro_size_of(opened(path), measure=False, kernels=None).planned == len(micro_offsets(planset))


def test_who_refuses_overlaps() -> None:
    overlapping = planned("tflm-reference", "litert")
    refusal = LITERT.refuse_plan(overlapping)
    assert refusal is not None
    assert refusal.remedy == "shrink --kernels none"
    assert LITERT.refuse_plan(planned("none", "litert")) is None
    assert kernels_refusal(overlapping) == refusal
    assert kernels_refusal(overlapping, "tflm-reference") is None


@pytest.mark.full
@needs_tflm
@pytest.mark.parametrize("kernels", ["tflm-reference", "cmsis-nn-dsp", "esp-nn", "none"])
def test_streamed_models_compute_the_same_in_tensorflow_lite_micro(tmp_path: Path, kernels: str) -> None:
    planset = planned(kernels, streamed=True)
    assert planset.problem.within is not None
    path = written(tmp_path, planset, streamed=True)
    micro, litert = verify_run_tflite(path)
    assert micro.violations == ()
    assert micro.report is not None
    assert litert.refusal
    best = planset.best_offsets
    assert best is not None
    assert size_of(path).activations == -(-best.size // 16) * 16


@pytest.mark.full
@needs_tflm
def test_the_first_operator_that_differs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernels are others than the proof believes."""
    planset = planned("tflm-reference")
    graph, best = model().graph(), planset.best_offsets
    assert best is not None
    number = 8
    op = graph.ops[number]
    place = {name: k for k, record in enumerate(planset.problem.records) for name in record.tensors}
    i, j = (place[graph.tensors[index].name] for index in (op.inputs[0], op.outputs[0]))
    rows = planset.problem.overlap
    assert rows is not None
    right = [tuple(row) for row in rows.tolist() if tuple(row[:2]) != (i, j)]
    problem = Problem(planset.problem.records, alignment=16, overlap=[*right, (i, j, -64)])
    offsets = best.offsets.copy()
    offsets[[i, j]] = np.array([0, 64]) + -(-best.size // 16) * 16
    size = int((offsets + problem.size).max())
    bounds = lower_bounds(problem)
    plan = replace(best, offsets=offsets, size=size, search=None, optimal=size == bounds.offsets)
    wrong = replace(planset, problem=problem, bounds=bounds, offsets=(plan,), shared_objects=())
    with pytest.raises(InvalidPlanError):
        prove(wrong, graph)
    monkeypatch.setattr(
        "edgemem.proof.permissions.distance",
        lambda profile, g, o, position: -64 if o.outputs == op.outputs else distance(profile, g, o, position),
    )
    # As it is larger than what TensorFlow Lite Micro takes by itself, `save` would leave it away.
    path = tmp_path / "m.tflite"
    path.write_bytes(model().with_plan(planfile.encode(wrong), wrong).content())
    (micro, _) = verify_run_tflite(path)
    assert len(micro.violations) == 1
    assert f"the first operator that computes something else is {op.name} ({op.type})" in micro.violations[0].message


@pytest.mark.full
@needs_tflm
@pytest.mark.parametrize("streamed", [False, True])
def test_offsets_without_a_plan_are_proved_with_the_overlaps_that_they_use(tmp_path: Path, *, streamed: bool) -> None:
    planset = planned("tflm-reference", streamed=streamed)
    path = written(tmp_path, planset, streamed=streamed, offsets_only=True)
    graph = model(streamed=streamed).graph()
    unnamed = verify(path)
    assert "`edgemem verify --overlap tflm-reference`" in unnamed[0].message
    assert verify(path, kernels="tflm-reference") == ()
    assert verify(path, kernels="esp-nn")
    bare = plan_of_offsets(graph, opened(path).offline(), "tflm-reference")
    assert verify_planset(bare, graph) == ()
    assert bare.target is not None
    assert bare.kernels == "tflm-reference (tflite-micro 90b983c2b3f1)"
    assert (bare.target.kernels, bare.target.slots) == ("tflm-reference", streamed)
    micro, _ = verify_run_tflite(path)
    assert micro.violations == ()
    # One unit too close, the offsets are refused.
    offsets = micro_offsets(planset)
    op = next(o for o in graph.ops if o.type == "CONV_2D" and distance("tflm-reference", graph, o, 0) is not None)
    made, read = graph.tensors[op.outputs[0]].name, graph.tensors[op.inputs[0]].name
    least = distance("tflm-reference", graph, op, 0)
    assert least is not None
    close = offsets | {made: 1 << 24, read: (1 << 24) + -(-least // 16) * 16 - 16}
    assert verify_planset(plan_of_offsets(graph, close, "tflm-reference"), graph)


def test_slices_and_pieces_lie_in_their_slots_in_onnx_runtime_node_by_node(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,8,16,16] x) => (float[1,8,16,16] y) <int64[1] b={0}, int64[1] m={4}, int64[1] e={8}, int64[1] a={1}> {
      p = Exp (x)  s = Slice (p, b, m, a)  t = Slice (p, m, e, a)  u = Softmax <axis = 2> (s)
      v = Softmax <axis = 2> (t)  w = Concat <axis = 1> (u, v)  y = Softmax (w)
    }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    source = load(tmp_path / "m.onnx")
    sizes = {}
    for slots in (False, True):
        planset = api.plan(source, target=replace(BUILT_IN["generic"], slots=slots))
        best = planset.best_offsets
        assert best is not None
        sizes[slots] = best.size
        api.save(tmp_path / "m.onnx", planset, tmp_path / "planned.onnx")
        bound, _ = verify_run(tmp_path / "planned.onnx")
        assert bound.violations == ()
        assert bound.report is not None
    assert sizes[True] < sizes[False]
    assert planset.problem.within is not None
    assert len(planset.problem.within) == 4
    overlapping = replace(planset, target=replace(BUILT_IN["generic"], slots=True, kernels="tflm-reference"))
    api.save(tmp_path / "m.onnx", overlapping, tmp_path / "planned.onnx")
    with pytest.raises(RuntimeBindError, match="overlap inputs as far as the kernels of tflm-reference allow"):
        verify_run(tmp_path / "planned.onnx")


@pytest.mark.full
@pytest.mark.parametrize("profile", PROFILES[1:])
def test_every_output_names_the_version_of_the_kernels(profile: str, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(small(64))
    made = str(tmp_path / "planned.tflite")
    said = {"shrink": edgemem("shrink", tmp_path / "m.tflite", "--kernels", profile, "-o", made).output}
    for form in ("json", "c-header"):
        said[form] = edgemem("export", made, "-f", form).output
    for name in ("show", "verify"):
        said[name] = edgemem(name, made).output
    said["verify --json"] = edgemem("verify", "--json", made).output
    for name, text in said.items():
        assert profile in text, name
        assert VERSIONS[profile] in _flat(text), name
    kernels = json.loads(said["json"])["model"]["kernels"]
    assert kernels == {"profile": profile, "version": VERSIONS[profile]}
    entries = json.loads(said["verify --json"])["plans"]
    assert {entry["kernels"] for entry in entries} == {f"{profile} ({VERSIONS[profile]})"}


def test_a_plan_of_another_version_of_the_kernels_says_so(tmp_path: Path) -> None:
    """It keeps the version that it was made for; the proof is for the version whose sources were read."""
    file = TfliteConverter.from_bytes(small(64))
    rules = replace(BUILT_IN["tflm"], kernels="cmsis-nn-dsp")
    planset = api.plan(file, target=rules)
    said = {}
    for versions in ({}, {"kernels": "CMSIS-NN 1.0"}, planset.versions):
        path = tmp_path / "m.tflite"
        other = replace(planset, versions=versions)
        api.save(file, other, path)
        said[versions.get("kernels", "")] = edgemem("verify", path).output
    known = VERSIONS["cmsis-nn-dsp"]
    assert f"the plan does not name: it is proved for {known}" in _flat(said[""])
    assert f"CMSIS-NN 1.0, which the plan names: it is proved for {known}" in _flat(said["CMSIS-NN 1.0"])
    assert "it is proved for" not in said[known]


def _flat(text: str) -> str:
    return " ".join(text.split())
