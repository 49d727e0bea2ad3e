"""Real ONNX models in onnxruntime: it computes the sizes that are in the graph, and reads the plan in a file."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from edgemem.formats import Bindings
from edgemem.formats.plan_summary import SUMMARY_KEY
from edgemem.plans import LowerBounds, PlanSet
from edgemem.records.problem import Problem
from edgemem_converters.onnx.model import PLAN_KEY, OnnxConverter
from models.fetch import FetchError, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from edgemem.model.graph import Graph, Op

ort = pytest.importorskip("onnxruntime")

PLANSET = PlanSet(Problem([]), 0, LowerBounds(0, 0), (), ())
PLAN = bytes(range(256)) * 40


@dataclass(frozen=True)
class Case:
    """What makes every size of a model known, and values that its inputs have to have."""

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)


SILERO = {"batch": 1, "sequence": 576}
CASES: dict[str, Case] = {
    "basic_pitch_nmp_onnx": Case({"unk__749": 2}),
    "magika": Case({"unk__214": 3}),
    "rapidocr_det": Case(shapes={"x": (1, 3, 160, 224)}),
    "rapidocr_rec": Case(shapes={"x": (2, 3, 48, 320)}),
    "rapidocr_cls": Case(shapes={"x": (2, 3, 48, 192)}),
    "silero_vad": Case(shapes={"input": (1, 576), "state": (2, 1, 128)}, values={"sr": 16000}),
    "silero_vad_16k_op15": Case(SILERO, values={"sr": 16000}),
    "silero_vad_16k_sequence": Case({"sequence_length": 5}),
    "silero_vad_half": Case(SILERO),
    "silero_vad_op18_ifless": Case(SILERO, values={"sr": 16000}),
    "silero_vad_openvino_16k": Case(),
    "light_bvlc_alexnet": Case(),
    "light_densenet121": Case(),
    "light_inception_v1": Case(),
    "light_inception_v2": Case(),
    "light_resnet50": Case(),
    "light_shufflenet": Case(),
    "light_squeezenet": Case(),
    "light_vgg19": Case(),
    "light_zfnet512": Case(),
}


@pytest.fixture(params=CASES)
def model(request: pytest.FixtureRequest) -> tuple[OnnxConverter, Case]:
    case = CASES[request.param]
    try:
        path = fetch(request.param)
    except FetchError as e:
        pytest.skip(f"{request.param} cannot be fetched: {e}")
    return OnnxConverter.open(path, Bindings(case.dims, case.shapes)), case


def session(data: bytes, prefix: Path | None = None) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(prefix)
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def feeds(graph: Graph, case: Case) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for tensor in (graph.tensors[i] for i in graph.inputs):
        values = np.asarray(case.values.get(tensor.name, rng.random(tensor.shape) * 100))
        made[tensor.name] = np.broadcast_to(values, tensor.shape).astype(tensor.dtype)
    return made


def operators(graph: Graph) -> Iterator[tuple[Graph, Op]]:
    for op in graph.ops:
        for body in op.bodies:
            yield from operators(body)
        yield graph, op


@pytest.mark.full
def test_sizes_are_what_onnxruntime_computes(model: tuple[OnnxConverter, Case], tmp_path: Path) -> None:
    converter, case = model
    graph = converter.graph()
    proto = onnx.ModelProto.FromString(converter.content())
    own = {o.name for o in proto.graph.output}
    inner = [t for i, t in enumerate(graph.tensors) if t.kind == "activation" and i not in graph.inputs]
    proto.graph.output.extend(onnx.ValueInfoProto(name=t.name) for t in inner if t.name not in own)
    run = session(proto.SerializeToString(), tmp_path / "profile")
    names = [o.name for o in run.get_outputs()]
    found = dict(zip(names, run.run(names, feeds(graph, case)), strict=True))
    assert {t.name: (t.dtype, t.shape) for t in inner} == {
        t.name: (str(found[t.name].dtype), found[t.name].shape) for t in inner
    }
    # The profile shows the operators inside bodies too, of the branches that ran.
    kernels = {
        event["name"].removesuffix("_kernel_time"): [
            tuple(shape) for made in event["args"]["output_type_shape"] for shape in made.values()
        ]
        for event in json.loads(Path(run.end_profiling()).read_text(encoding="utf-8"))
        if event["name"].endswith("_kernel_time")
    }
    compared = 0
    for owner, op in operators(graph):
        outputs = [owner.tensors[i] for i in op.outputs if i >= 0]
        if op.name in kernels and all(t.kind != "opaque" for t in outputs):
            assert kernels[op.name] == [t.shape for t in outputs], op.name
            compared += owner is not graph
    assert compared or not any(op.bodies for op in graph.ops)


def test_a_planned_file_is_the_model_with_a_plan_and_its_summary(model: tuple[OnnxConverter, Case]) -> None:
    converter, _ = model
    planned = converter.with_plan(PLAN, PLANSET)
    run = session(planned.content())
    assert base64.b64decode(run.get_modelmeta().custom_metadata_map[PLAN_KEY]) == PLAN
    before, after = (onnx.ModelProto.FromString(m.content()) for m in (converter, planned))
    assert after.metadata_props.pop().key == PLAN_KEY
    assert after.metadata_props.pop().key == SUMMARY_KEY
    assert after == before


@pytest.mark.full
def test_another_order_runs_as_before(model: tuple[OnnxConverter, Case]) -> None:
    converter, case = model
    graph = converter.graph()
    order = random_order(graph)
    ordered = converter.with_order(order)
    assert ordered.graph() == graph.reordered(order)
    onnx.checker.check_model(ordered.content())
    given = feeds(graph, case)
    before, after = (session(m.content()).run(None, given) for m in (converter, ordered))
    assert [a.tobytes() for a in after] == [b.tobytes() for b in before]


def random_order(graph: Graph) -> tuple[int, ...]:
    """A topological order drawn by chance."""
    chance = random.Random(0)
    writer = {t: k for k, op in enumerate(graph.ops) for t in op.outputs if t >= 0}
    waits = {k: {writer[t] for t in op.inputs if t in writer} for k, op in enumerate(graph.ops)}
    readers: dict[int, list[int]] = {k: [] for k in waits}
    for k, before in waits.items():
        for b in before:
            readers[b].append(k)
    ready = [k for k, before in waits.items() if not before]
    order = []
    while ready:
        k = ready.pop(chance.randrange(len(ready)))
        order.append(k)
        for reader in readers[k]:
            waits[reader].discard(k)
            if not waits[reader]:
                ready.append(reader)
    return tuple(order)
