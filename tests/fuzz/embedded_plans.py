"""Plans in models and beside them, as `show`, `export`, `verify` and an executor of the graph read them.

A case is the bytes of a plan file. They are put into the ONNX model and the TFLite model that the seeds are plans of,
and into a file of their own.
"""

from __future__ import annotations

import atexit
import base64
import struct
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx import parser

import edgemem
from edgemem.errors import EdgememError
from edgemem.model.profiles import PROFILES
from edgemem.planfile import decode_all, encode, encode_all
from edgemem.planning.model_plan import plan_model
from edgemem.planning.verification import verdict_of
from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.report.export import export
from edgemem.targets import BUILT_IN
from edgemem_converters.onnx.model import OnnxConverter
from edgemem_converters.tflite.model import TfliteConverter
from edgemem_converters.tflite.writer import write
from tests.fuzz.cases import Target
from tests.fuzz.mutation import edge, mutate_bytes, reread
from tests.fuzz.plan_files import change_planset, resealed
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from edgemem.formats import Model
    from edgemem.plans import PlanSet

__all__ = ["TARGET"]

_NETWORK = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 4] x) => (float[1, 4] y) { a = Exp (x)  b = Neg (a)  c = Add (a, b)  d = Relu (c)  y = Mul (d, b) }""")
_TENSORS = [T("x"), T("a"), T("b"), T("c"), T("d"), T("y")]
_OPERATORS = [
    *(O("EXP", (0,), (1,)), O("NEG", (1,), (2,)), O("ADD", (1, 2), (3,), ADD_OPTIONS)),
    *(O("RELU", (3,), (4,)), O("MUL", (4, 2), (5,), (21, (0,)))),
]
_LITE = build(M([S(_TENSORS, _OPERATORS, (0,), (5,))]))
_FORMS = ("json", "csv", "c-header", "svg", "tflm-bufferplan")  # the last one needs a graph


def _models() -> tuple[Model, Model]:
    return OnnxConverter.from_bytes(_NETWORK.SerializeToString()), TfliteConverter.from_bytes(_LITE)


def _files(data: bytes) -> tuple[Path, ...]:
    """The plan by itself and in both models, without the checks of those that write plans."""
    model = onnx.ModelProto()
    model.CopyFrom(_NETWORK)
    model.metadata_props.add(key="edgemem.plan", value=base64.b64encode(data).decode())
    offsets = data[-4 * len(_TENSORS) :]
    entries = {"edgemem.plan": data}
    if len(offsets) == 4 * len(_TENSORS) and data[-1] & 1:
        entries["OfflineMemoryAllocation"] = struct.pack("<3i", 1, 0, len(_TENSORS)) + offsets
    contents = {
        "plan.edgemem": data,
        "model.onnx": model.SerializeToString(),
        "model.tflite": write(_LITE, entries),
    }
    for name, content in contents.items():
        (_PLACE / name).write_bytes(content)
    return tuple(_PLACE / name for name in contents)


def _run(data: bytes) -> None:
    alone, *planned = _files(data)
    faults: list[EdgememError] = []
    for path in (alone, *planned):  # each of the files is looked at; the plan is of one of the models at most
        try:
            _use(path, *planned)
        except EdgememError as e:
            faults.append(e)
    if len(faults) > 1:
        raise faults[-1]


def _use(path: Path, *models: Path) -> None:
    verdict = verdict_of(path)
    planset, model = verdict.planset, verdict.model
    if model is None:
        for other in models:
            edgemem.verify(planset, other)
    graph = None if model is None else model.graph()
    if planset.recording is None:
        proved = prove(planset, graph)
        for form in _FORMS if graph is not None else _FORMS[:-1]:
            export(proved, form, graph=graph)


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if chance.random() < 0.15:
        return resealed(data[:16] + mutate_bytes(chance, data[16:], [other[16:] for other in others[:50]], 2))

    def changed() -> bytes:
        plansets = list(decode_all(data))
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(len(plansets))
            plansets[at] = _changed(plansets[at], chance)
        return encode_all(plansets)

    return reread(changed, resealed(mutate_bytes(chance, data, others)))


def _changed(planset: PlanSet, chance: random.Random) -> PlanSet:
    kind = chance.randrange(8)
    if kind < 4:
        return change_planset(planset, chance)
    if kind == 4:
        return replace(planset, steps=planset.steps[: chance.randrange(9)], order=chance.choice((None, (1, 0), (0,))))
    if kind == 5:
        names = ("x", "a", "y", "nothing", "", "\x1b[2J", "é" * 400)
        return replace(planset, unplanned=tuple((chance.choice(names), "why") for _ in range(chance.randrange(4))))
    if kind == 6:
        shapes = {chance.choice("xay"): tuple(edge(chance) for _ in range(chance.randrange(4)))}
        return replace(planset, dims={"N": edge(chance)}, input_shapes=shapes)
    rules = chance.choice([*BUILT_IN.values()])
    pins = {chance.choice("xaby"): edge(chance)} if chance.random() < 0.5 else {}
    changed = replace(rules, pins=pins, states={"x": "y"} if chance.random() < 0.3 else {})
    changed = replace(changed, kernels=chance.choice(PROFILES), slots=chance.random() < 0.5)
    return replace(planset, target=changed)


def _seeds() -> list[bytes]:
    made = []
    for model, names in zip(_models(), (("generic", "onnxruntime", "gpu-texture"), ("litert", "tflm")), strict=True):
        for name in names:
            rules = BUILT_IN[name] if name != "litert" else BUILT_IN["gpu-buffer"]
            made.append(encode(plan_model(model, rules, Settings(("greedy_by_size", "greedy_by_size_improved")))))
    return made


_FOLDER = tempfile.TemporaryDirectory(prefix="edgemem-fuzz-embedded-")
atexit.register(_FOLDER.cleanup)
_PLACE = Path(_FOLDER.name)

TARGET = Target(_run, _seeds, _mutate)
