"""ONNX files: damaged bytes, fields of protobuf messages, and models that no exporter writes."""

from __future__ import annotations

import atexit
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx import AttributeProto, ModelProto, parser

from edgemem.errors import EdgememError, ModelError, PlanFileError, UnknownShapeError, UnsupportedError
from edgemem.formats import Bindings, onnx_editor
from edgemem.planfile.protobuf import fields
from edgemem.planning.model_plan import plan_graph
from edgemem.plans import LowerBounds, PlanSet, Settings
from edgemem.records.lifetime import lifetimes
from edgemem.records.problem import Problem
from edgemem.runtime.onnxruntime.baked_file import baked_note
from edgemem.runtime.onnxruntime.file import model_digest, plans_in
from edgemem.schedule.order import find_order
from edgemem.shrinking.note import ShrinkNote, decode_notes, encode_notes
from edgemem.targets import BUILT_IN
from edgemem_converters.onnx.model import OnnxConverter
from tests.fuzz.cases import Target
from tests.fuzz.mutation import INTERESTING, mutate_bytes, mutate_text, reread

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["BINDINGS", "MODELS", "TARGET", "change", "use"]

PLANSET = PlanSet(Problem([]), 0, LowerBounds(0, 0), (), ())
MODELS = [
    parser.parse_model(text)
    for text in (
        """<ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[N, 4] x) => (float[A, B] y) <float[1, 4] w = {1, 2, 3, 4}> {
          a = Mul (x, w)  n = Shape (x)  r = Reshape (x, n)  i = NonZero (r)
          y = If (c) <then_branch = t () => (float[C] o) { o = Add (x, w) },
                      else_branch = e () => (float[D] o) { o = Exp (x) }>
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        g (float[N, 3] x, int64[2] s) => (float[A, B] last, float[C, D, E] all) <float[3] w = {1, 2, 3}> {
          trips = Constant <value_int = 6> ()  yes = Constant <value = bool {1}> ()  z = mine.f (x)
          last, all = Loop (trips, yes, z) <
            body = b (int64 i, bool go, float[P, Q] v) => (bool k, float[R, S] u, float[T, U] o)
            { k = Identity (go)  u = Exp (v)  o = Softmax <axis = 1> (v) }>
          p, q = Split <axis = 1> (x, s)  l = LayerNormalization <axis = 1> (x, w)
        }
        <domain: "mine", opset_import: ["" : 17]> f (v) => (w) { h = Add (v, v)  w = Transpose <perm = [0, 1]> (h) }""",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] h, float[N, 3, 4] x, seq(float[2]) q) => (float[A] last, float[B, C] all, float[2] e) {
          last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = b (float[4] s, float[2, 4] v) => (float[4] t, float[2, 4] o)
            { t = Identity (s)  o = Mul (v, s) }> (h, x)
          m = SequenceMap (q) <body = d (float[2] f) => (float[2] j) { j = Relu (f) }>
          zero = Constant <value_int = 0> ()  e = SequenceAt (m, zero)
          two = Constant <value_ints = [2]> ()  c = ConstantOfShape (two)  d = Dropout (x)
        }""",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 3, 8, 8] x) => (float y) <int64[4] s = {4, 3, 3, 3}, int64[1] d = {1}, int64 z = {0}, int64 n = {2},
                                                 float[2] h = {0, 1}> {
          w = ConstantOfShape (s)  c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
          m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)  e = Einsum <equation = "abcd,abcd->ab"> (m, m)
          p = Constant <value_ints = [0, 0, 0, 0, 0, 0, 1, 1]> ()  q = Pad (m, p)
          f = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()  u = Resize (m, , f)
          i = Constant <value_ints = [0, 1]> ()  g = Gather <axis = 1> (m, i)
          j = Constant <value_int = 9> ()  r = Range (z, j, n)  b = Constant <value_ints = [4]> ()  v = Slice (r, d, b)
          k, l = TopK (e, d)  t = Tile (e, i)  o = OneHot (i, j, h)  y = ReduceSum <keepdims = 0> (g)
        }""",
    )
]
BINDINGS = [Bindings({"N": 2, "i.1": 8}), Bindings({"N": 2, "p.1": 1, "q.1": 2}), Bindings({"N": 2}), Bindings()]
EXTREMES = (0, 1, -1, 2, 3, -2, 65, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63))
OPERATORS = sorted(s.name for s in onnx.defs.get_all_schemas() if s.domain == "")
_TARGETS = [BUILT_IN[name] for name in ("generic", "onnxruntime", "gpu-buffer")]
_MOST_OPERATORS = 200  # of a graph that is planned
_MOST_ORDERED = 30
_MOST_ALONE = 5  # that are written as models of one operator
_NOTE = b'{"level": "all", "onnxruntime": "1", "machine": "x", "dims": {"N": 1}}'
_SHRUNK = encode_notes((ShrinkNote("order", "generic", 1, 2, 1.0, 3, 4, 1.5, "identical", "onnxruntime 1", "0.1.0"),))


def use(path: Path, bindings: Bindings) -> str:
    """All that is done with a file; "read", or the name of the error that came of it."""
    try:
        _use(path, bindings)
    except EdgememError as e:
        return type(e).__name__
    return "read"


def _use(path: Path, bindings: Bindings) -> None:
    model = OnnxConverter.open(path, bindings)
    model.plan()
    assert model.with_plan(b"plan", PLANSET).plan() == b"plan"
    graph = model.graph()
    for target in _TARGETS:
        lifetimes(graph, target)
    model.with_order(tuple(range(len(graph.ops))))
    if len(graph.ops) <= _MOST_ORDERED:
        model.with_order(find_order(graph, _TARGETS[0]).order)
    if len(graph.ops) <= _MOST_OPERATORS:
        plan_graph(graph, _TARGETS[0], Settings(("greedy_by_size",)))
        model.program()
    for number in range(min(len(graph.ops), _MOST_ALONE)):
        with suppress(UnsupportedError):
            model.operator_model(number)


def _run(data: bytes) -> None:
    path = _PLACE / "model.onnx"
    path.write_bytes(data)
    _as_sessions_read(data)
    dims: dict[str, int] = {}
    for left in (2, 1, 0):  # values may be unknown that depend on others
        try:
            _use(path, Bindings(dims))
            break
        except UnknownShapeError as e:
            if not left or not e.symbols:
                raise
            dims = dims | dict.fromkeys(e.symbols, 2)
    parts = onnx_editor().parts(data, _PLACE)
    parts.refusals()
    parts.named()
    parts.input_forms()


def _as_sessions_read(data: bytes) -> None:
    model_digest(data, _PLACE)
    with suppress(ModelError, PlanFileError):
        baked_note(data)
    with suppress(ModelError, PlanFileError):
        decode_notes(onnx_editor().metadata(data, "edgemem.shrunk") or b"")
    with suppress(PlanFileError):
        plans_in(data)


def change(model: ModelProto, chance: random.Random) -> None:
    """Make one thing in the model other than it should be."""
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    nodes += [n for node in model.graph.node for a in node.attribute for n in a.g.node]
    if not nodes or not model.graph.input:
        return
    node = chance.choice(nodes)
    types = [v.type.tensor_type for v in model.graph.input]
    kind = chance.randrange(13)
    if kind == 0:
        node.op_type = chance.choice(OPERATORS)
    elif kind == 1 and node.attribute:
        attribute = chance.choice(node.attribute)
        attribute.i = chance.choice(EXTREMES)
        if attribute.ints:
            attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(EXTREMES)
    elif kind == 2 and node.attribute:
        del node.attribute[chance.randrange(len(node.attribute))]
    elif kind == 3 and node.input:
        names = [n for other in nodes for n in other.output]
        node.input[chance.randrange(len(node.input))] = chance.choice(("", *names))
    elif kind == 4 and node.input:
        del node.input[-1]
    elif kind == 5:
        node.input.append(chance.choice(model.graph.input).name)
    elif kind == 6:
        for dim in chance.choice(types).shape.dim[:1]:
            dim.dim_value = chance.choice(EXTREMES)
    elif kind == 7:
        chance.choice(types).elem_type = chance.randrange(28)
    else:
        _change_more(model, node, kind, chance)


def _change_more(model: ModelProto, node: onnx.NodeProto, kind: int, chance: random.Random) -> None:
    tensors = [*model.graph.initializer, *(a.t for a in node.attribute if a.HasField("t"))]
    if kind == 8 and tensors:
        tensor = chance.choice(tensors)
        if chance.random() < 0.3:
            tensor.dims.append(chance.choice(EXTREMES))
        elif tensor.dims:
            tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(EXTREMES)
        if chance.random() < 0.3:
            tensor.data_type = chance.randrange(30)
        if chance.random() < 0.2:
            tensor.raw_data = chance.randbytes(chance.randrange(40))
        if chance.random() < 0.2:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            name = chance.choice(("w", "..", "/dev/zero", ".", "a\0b", "w" * 300))
            numbers = {key: str(chance.choice(INTERESTING)) for key in ("offset", "length")}
            for key, value in {"location": name, **numbers}.items():
                tensor.external_data.add(key=key, value=value)
    elif kind == 9:
        node.attribute.append(
            AttributeProto(name=chance.choice(("axis", "axes", "perm", "value", "to", "equation", "body")))
        )
        node.attribute[-1].i = chance.choice(EXTREMES)
        node.attribute[-1].type = chance.randrange(15)
    elif kind == 10:
        model.opset_import[0].version = chance.choice((*range(30), *EXTREMES))
    elif kind == 11:
        copied = model.graph.node.add()
        copied.CopyFrom(node)
        for k in range(len(copied.output)):
            copied.output[k] = f"{copied.output[k]}{len(model.graph.node)}"
    elif kind == 12:
        key = chance.choice(("edgemem.plan", "edgemem.trace", "edgemem.baked", "edgemem.shrunk"))
        known = _SHRUNK if key == "edgemem.shrunk" else _NOTE
        note = mutate_text(chance, known, (), ('"level"', "all", "[]", "{}", "null", "1", "dims", "-1", "NaN"))
        model.metadata_props.add(key=key, value=note.decode("utf-8", "replace"))


def _fields_changed(chance: random.Random, data: bytes) -> bytes:
    """A field at some depth removed, repeated, or with other bytes in it; the lengths around it stay right or not."""
    begin, end = 0, len(data)
    for _ in range(chance.randint(1, 6)):
        try:
            inner = [f for f in fields(data, begin, end) if f.wire == 2]
        except EdgememError:
            break
        if not inner:
            break
        field = chance.choice(inner)
        begin, end = field.body, field.end
    piece = mutate_bytes(chance, data[begin:end], ())
    return data[:begin] + (piece[: end - begin] if chance.random() < 0.8 else piece) + data[end:]


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    kind = chance.random()
    if kind < 0.1:
        return mutate_bytes(chance, data, others)
    if kind < 0.25:
        return _fields_changed(chance, data)

    def changed() -> bytes:
        model = ModelProto.FromString(data)
        for _ in range(chance.choice((1, 1, 2, 4))):
            change(model, chance)
        return bytes(model.SerializeToString())

    return reread(changed, mutate_bytes(chance, data, others))


_FOLDER = tempfile.TemporaryDirectory(prefix="edgemem-fuzz-onnx-")
atexit.register(_FOLDER.cleanup)
_PLACE = Path(_FOLDER.name)

TARGET = Target(_run, lambda: [model.SerializeToString() for model in MODELS], _mutate)
