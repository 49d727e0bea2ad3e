"""Small .tflite files made by hand, so that tests need neither a converter nor a runtime to have them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import flatbuffers

from edgemem_converters.tflite.names import CUSTOM, DTYPES, OPERATOR_CODES

IF, WHILE, VAR_HANDLE = 92, 93, 111  # types of builtin options
ADD_OPTIONS = (11, (0,))


@dataclass
class T:
    name: str = ""
    dtype: str = "float32"
    shape: tuple[int, ...] | None = (1, 4)
    data: bytes | None = None
    behind: bytes | None = None  # data behind the flatbuffer
    variable: bool = False
    signature: tuple[int, ...] = ()
    scales: int = 0  # of 1, with a zero point of 0 each
    has_zero_points: bool = True


@dataclass
class O:  # noqa: E742 -- one letter each, as the models read like tables
    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: tuple[int, tuple[int, ...]] | None = None  # type of the options, their int32 fields
    shared_name: str = ""
    custom_options: bytes = b""


@dataclass
class S:
    tensors: list[T]
    ops: list[O]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = "main"


@dataclass
class M:
    subgraphs: list[S]
    metadata: dict[str, bytes] = field(default_factory=dict)
    version: int = 3
    unused: tuple[str, ...] = ()  # types that the file lists and no operator has


def build(model: M) -> bytes:
    b = flatbuffers.Builder(1024)
    types = list(dict.fromkeys((*(op.type for s in model.subgraphs for op in s.ops), *model.unused)))
    data: list[bytes] = [b""]
    behind: list[tuple[int, bytes]] = []
    tensor_buffers: dict[int, int] = {}
    for t in (t for s in model.subgraphs for t in s.tensors):
        if t.data is not None or t.behind is not None:
            tensor_buffers[id(t)] = len(data)
            if t.behind is not None:
                behind.append((len(data), t.behind))
            data.append(t.data or b"")
    meta = []
    for name, content in model.metadata.items():
        meta.append((name, len(data)))
        data.append(content)

    def table(fields: list[tuple[int, str, int]]) -> int:
        b.StartObject(max((f[0] for f in fields), default=0) + 1)
        for slot, kind, value in fields:
            if kind == "ref":
                b.PrependUOffsetTRelativeSlot(slot, value, 0)
            else:
                getattr(b, f"Prepend{kind}")(value)
                b.Slot(slot)
        return int(b.EndObject())

    def ints(values: tuple[int, ...]) -> int:
        b.StartVector(4, len(values), 4)
        for v in reversed(values):
            b.PrependInt32(v)
        return int(b.EndVector())

    def quantisation(t: T) -> int:
        b.StartVector(8, t.scales, 8)
        for _ in range(t.scales):
            b.PrependInt64(0)
        zeros = b.EndVector()
        b.StartVector(4, t.scales, 4)
        for _ in range(t.scales):
            b.PrependFloat32(1.0)
        return table([(2, "ref", b.EndVector()), *([(3, "ref", zeros)] if t.has_zero_points else [])])

    def refs(values: list[int]) -> int:
        b.StartVector(4, len(values), 4)
        for v in reversed(values):
            b.PrependUOffsetTRelative(v)
        return int(b.EndVector())

    def blob(content: bytes) -> int:
        b.StartVector(1, len(content), 16)
        b.head -= len(content)
        b.Bytes[b.head : b.head + len(content)] = content
        return int(b.EndVector())

    # Offsets behind the flatbuffer are known once it is built; until then a mark stands in their place.
    outside = dict(behind)
    buffers, marks = [], {}
    for i, content in enumerate(data):
        if i in outside:
            mark = (0x5EED << 40) + i
            marks[i] = mark
            buffers.append(table([(1, "Uint64", mark), (2, "Uint64", len(outside[i]))]))
        else:
            vector = blob(content) if content else 0
            buffers.append(table([(0, "ref", vector)] if vector else []))
    subgraphs = []
    for s in model.subgraphs:
        tensors = []
        for t in s.tensors:
            label = b.CreateString(t.name) if t.name else 0
            shape = ints(t.shape) if t.shape is not None else 0
            signature = ints(t.signature) if t.signature else 0
            scales = quantisation(t) if t.scales else 0
            fields = [(1, "Int8", DTYPES.index(t.dtype)), (2, "Uint32", tensor_buffers.get(id(t), 0))]
            fields += [(4, "ref", scales)] if scales else []
            fields += [(0, "ref", shape)] if shape else []
            fields += [(3, "ref", label)] if label else []
            fields += [(5, "Bool", True)] if t.variable else []
            fields += [(7, "ref", signature)] if signature else []
            tensors.append(table(fields))
        ops = []
        for op in s.ops:
            inputs, outputs = ints(op.inputs), ints(op.outputs)
            fields = [(0, "Uint32", types.index(op.type)), (1, "ref", inputs), (2, "ref", outputs)]
            if op.shared_name:
                container, shared = b.CreateString("c"), b.CreateString(op.shared_name)
                options = table([(0, "ref", container), (1, "ref", shared)])
                fields += [(3, "Uint8", VAR_HANDLE), (4, "ref", options)]
            elif op.options is not None:
                kind, values = op.options
                options = table([(i, "Int32", v) for i, v in enumerate(values)])
                fields += [(3, "Uint8", kind), (4, "ref", options)]
            if op.custom_options:
                fields.append((5, "ref", blob(op.custom_options)))
            ops.append(table(fields))
        label = b.CreateString(s.name)
        vectors = [refs(tensors), ints(s.inputs), ints(s.outputs), refs(ops)]
        subgraphs.append(table([*((i, "ref", v) for i, v in enumerate(vectors)), (4, "ref", label)]))
    codes = []
    for op_type in types:
        code = OPERATOR_CODES.get(op_type, int(op_type[8:]) if op_type.startswith("BUILTIN_") else CUSTOM)
        custom = b.CreateString(op_type) if code == CUSTOM else 0
        fields = [(0, "Int8", min(code, 127)), (3, "Int32", code), (2, "Int32", 1)]
        codes.append(table([*fields, *([(1, "ref", custom)] if custom else [])]))
    metadata = []
    for name, index in meta:
        label = b.CreateString(name)
        metadata.append(table([(0, "ref", label), (1, "Uint32", index)]))
    fields = [(0, "Uint32", model.version), (1, "ref", refs(codes)), (2, "ref", refs(subgraphs))]
    fields += [(4, "ref", refs(buffers))] + ([(6, "ref", refs(metadata))] if metadata else [])
    b.Finish(table(fields), b"TFL3")
    out = bytes(b.Output())
    for i, content in behind:
        out += bytes(-len(out) % 16)
        placeholder = marks[i].to_bytes(8, "little")
        assert out.count(placeholder) == 1
        out = out.replace(placeholder, len(out).to_bytes(8, "little")) + content
    return out


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def up16(size: int) -> int:
    """A size in whole units of the alignment of TensorFlow Lite Micro's arena."""
    return -(-size // 16) * 16
