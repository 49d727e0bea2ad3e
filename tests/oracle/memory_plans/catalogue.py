"""Plans of the reference networks and of real models, against the checker."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

import edgemem
from edgemem.errors import EdgememError
from edgemem.formats import Bindings, open_bytes
from models.build import build, names
from models.fetch import FetchError, catalogue, fetch
from tests.oracle.memory_plans.campaign import Case, compare, litert_case
from tests.oracle.memory_plans.checker import Checker
from tests.oracle.memory_plans.mutations import mutated
from tests.oracle.memory_plans.onnx_file import read_onnx
from tests.oracle.memory_plans.tflite_file import read_tflite

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.oracle.memory_plans.campaign import Tally

__all__ = ["catalogue_names", "check_model"]

_TARGETS = ("generic", "onnxruntime", "tflm", "gpu-buffer", "gpu-texture", "litert")
_STRATEGIES = ("offsets/greedy_by_size", "offsets/greedy_by_breadth", "shared_objects/greedy_by_size")
# Of which models what has to be said, because their sizes are open.
_SILERO = {"batch": 1, "sequence": 512}
_DIMS: Mapping[str, Mapping[str, int]] = {
    "basic_pitch_nmp_onnx": {"unk__749": 1},
    "magika": {"unk__214": 1},
    "silero_vad_16k_op15": _SILERO,
    "silero_vad_16k_sequence": {"sequence_length": 10},
    "silero_vad_half": _SILERO,
    "silero_vad_op18_ifless": _SILERO,
}
_SHAPES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "rapidocr_cls": {"x": (1, 3, 320, 320)},
    "rapidocr_det": {"x": (1, 3, 320, 320)},
    "rapidocr_rec": {"x": (1, 3, 48, 320)},
    "silero_vad": {"input": (1, 576), "state": (2, 1, 128)},
}
# Branches that fail at these sizes: in this one samples are 8 kHz, and a piece is half as long.
_UNREACHED = {"silero_vad": "If_0_else_branch"}


@dataclass(slots=True)
class _Source:
    data: bytes
    suffix: str
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def catalogue_names() -> list[str]:
    """Of all models: those that are built here, and real ones."""
    return [*names(), *sorted(catalogue())]


def _source(name: str) -> _Source:
    if name in names():
        model = build(name, size="small", batch=1)
        dims = {d.dim_param: 5 for i in model.graph.input for d in i.type.tensor_type.shape.dim if d.dim_param}
        return _Source(model.SerializeToString(), ".onnx", dims)
    path: Path = fetch(name)
    return _Source(path.read_bytes(), path.suffix, _DIMS.get(name, {}), _SHAPES.get(name, {}))


def check_model(name: str, tally: Tally, *, mutations: int = 0) -> None:
    """Honest plans of a model for every target that there is for it, and changes of them."""
    try:
        source = _source(name)
    except FetchError as e:
        tally.not_planned[str(e)[:60]] += 1
        return
    rng = Random(name)
    try:
        cases = {"": _case(name, source)}
    except EdgememError as e:
        tally.not_planned[f"{name}: {str(e)[:60]}"] += 1
        return
    tally.graphs["models"] += 1
    for target in _TARGETS:
        if (target == "litert") > (source.suffix == ".tflite"):
            continue
        try:
            if target == "litert" and target not in cases:
                cases[target] = litert_case(name, source.data)
            case = cases.get(target, cases[""])
            planset = edgemem.plan(case.graph, target=target, strategy=_STRATEGIES)
        except EdgememError as e:
            tally.not_planned[f"{name} for {target}: {str(e)[:60]}"] += 1
            continue
        wrongs = case.checker.wrongs(planset)
        accepted = not edgemem.verify(planset, case.graph)
        tally.honest["wrong" if wrongs else "right" if accepted else "refused"] += 1
        if wrongs or not accepted:
            tally.findings.append(f"{name} for {target}: {wrongs[0] if wrongs else 'refused'}")
            continue
        for _ in range(mutations):
            made = mutated(rng, planset, case.checker.program)
            if made is None:
                continue
            compare(case, *made, tally)


def _case(name: str, source: _Source) -> Case:
    if source.suffix == ".tflite":
        graph = open_bytes(source.data, ".tflite").graph()
        return Case(name, "tflite", graph, Checker(read_tflite(source.data)))
    model = onnx.load_from_string(source.data)
    constants = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    shapes: dict[str, tuple[int, ...]] = {}
    for info in inputs:
        dims = info.type.tensor_type.shape.dim
        given = source.shapes.get(info.name) or tuple(source.dims.get(d.dim_param, d.dim_value) for d in dims)
        shapes[info.name] = given
        for dim, size in zip(dims, given, strict=True):
            dim.dim_value = size
    forms = _forms_of_a_run(model, shapes)
    program = read_onnx(model.SerializeToString(), shapes=forms)
    if name in _UNREACHED:
        failing = frozenset(n for n in program.values if n.startswith(_UNREACHED[name]))
        program = replace(program, unreached=program.unreached | failing)
    bindings = Bindings(dict(source.dims), dict(source.shapes))
    return Case(name, "onnx", open_bytes(source.data, ".onnx", bindings).graph(), Checker(program))


def _forms_of_a_run(
    model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of every value of the main graph, as ONNX Runtime computes it."""
    import onnxruntime

    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    made = [n for node in shown.graph.node for n in node.output if n]
    shown.graph.output.extend(onnx.ValueInfoProto(name=n) for n in made)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {}
    for info in session.get_inputs():
        kind = info.type.removeprefix("tensor(").removesuffix(")")
        dtype, shape = np.dtype({"float": "float32", "double": "float64"}.get(kind, kind)), shapes[info.name]
        feeds[info.name] = rng.standard_normal(shape).astype(dtype) if dtype.kind == "f" else np.ones(shape, dtype)
        if info.name == "sr":  # a sampling rate
            feeds[info.name] = np.full(shape, 16000, dtype)
    try:
        values = session.run(made, feeds)
    except Exception:  # noqa: BLE001 -- ONNX Runtime's own; what is not known then is not judged
        return {}
    return {n: (str(v.dtype), v.shape) for n, v in zip(made, values, strict=True) if isinstance(v, np.ndarray)}
