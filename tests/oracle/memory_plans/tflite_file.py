"""Reads .tflite models with the schema's own Python module, and the offsets that TensorFlow Lite Micro obeys."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import numpy as np

from tests.oracle.memory_plans.program import Block, Call, Program, Value

__all__ = [
    "OFFLINE",
    "offline_offsets",
    "patched_offsets",
    "read_tflite",
    "schema",
    "tables_of",
    "with_operators_exchanged",
]

OFFLINE = "OfflineMemoryAllocation"
_FOLDED = ("DEQUANTIZE", "DENSIFY")
_NOT_DENSE = ("string", "resource", "variant")


def schema() -> Any:
    """The module that the schema's compiler made; raises ImportError where neither runtime is installed."""
    try:
        from ai_edge_litert import schema_py_generated as module
    except ImportError:
        from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as module
    return module


def tables_of(data: bytes) -> Any:
    """The file as the schema's objects."""
    return schema().ModelT.InitFromObj(schema().Model.GetRootAs(data, 0))


def read_tflite(data: bytes) -> Program:
    """The program of a file, with every tensor's place in it."""
    return _Reader(tables_of(data)).program()


def offline_offsets(data: bytes) -> dict[tuple[int, int], int] | None:
    """The offset of every tensor (subgraph, index) in bytes, -1 where the runtime chooses; None without any."""
    model = tables_of(data)
    for entry in model.metadata or ():
        if (entry.name or b"").decode() == OFFLINE:
            numbers = np.frombuffer(bytes(model.buffers[entry.buffer].data), np.int32).tolist()
            places = [(s, t) for s, g in enumerate(model.subgraphs) for t in range(len(g.tensors))]
            return dict(zip(places, numbers[3:], strict=True))
    return None


def patched_offsets(data: bytes, changes: dict[int, int]) -> bytes:
    """The file with other offsets: position among all tensors -> bytes. Nothing else changes."""
    model = tables_of(data)
    entry = next(e for e in model.metadata if e.name.decode() == OFFLINE)
    content = bytes(model.buffers[entry.buffer].data)
    at = data.index(content)
    assert data.find(content, at + 1) < 0
    out = bytearray(data)
    for position, offset in changes.items():
        out[at + 12 + 4 * position : at + 16 + 4 * position] = int(offset).to_bytes(4, "little", signed=True)
    return bytes(out)


def with_operators_exchanged(data: bytes, a: int, b: int) -> bytes:
    """The file with two operators of its main graph exchanged."""
    import flatbuffers

    model = tables_of(data)
    operators = model.subgraphs[0].operators
    operators[a], operators[b] = operators[b], operators[a]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _names(of: type) -> dict[int, str]:
    return {number: name for name, number in vars(of).items() if isinstance(number, int)}


class _Reader:
    def __init__(self, model: Any) -> None:
        self.model = model
        self.operators, self.dtypes = _names(schema().BuiltinOperator), _names(schema().TensorType)
        self.values: dict[str, Value] = {}

    def program(self) -> Program:
        return Program("tflite", self.block(0, ""), self.values)

    def block(self, number: int, path: str) -> Block:
        graph = self.model.subgraphs[number]
        names = self.names(number, path)
        roles = self.roles(graph)
        for i, (name, tensor) in enumerate(zip(names, graph.tensors, strict=True)):
            self.values[name] = Value(name, self.dtype(tensor), _shape(tensor), roles[i], (number, i))
        names.append("")
        calls = []
        for i, op in enumerate(_some(graph.operators)):
            kind = self.kind(op)
            bodies = tuple(self.block(b, f"{path}{kind}_{i}.{k}/") for k, b in enumerate(_bodies(op)))
            reads, writes = (tuple(names[t] for t in _some(ends)) for ends in (op.inputs, op.outputs))
            calls.append(Call(f"{kind}_{i}", kind, reads, writes, bodies))
        inputs, outputs = (tuple(names[t] for t in _some(ends)) for ends in (graph.inputs, graph.outputs))
        return Block((graph.name or b"").decode(), inputs, outputs, tuple(calls))

    def names(self, number: int, path: str) -> list[str]:
        labels = [(t.name or b"").decode() for t in self.model.subgraphs[number].tensors]
        often = Counter(labels)
        names: list[str] = []
        for i, label in enumerate(labels):
            name = f"{path}{label}"
            if not label or often[label] > 1 or name in self.values or name in names:
                name = f"{name}#{i}"
            while name in self.values or name in names:
                name += "'"
            names.append(name)
        return names

    def roles(self, graph: Any) -> list[Any]:
        roles: list[Any] = ["activation"] * len(graph.tensors)
        written = {int(t) for op in _some(graph.operators) for t in _some(op.outputs)} | set(
            map(int, _some(graph.inputs))
        )
        for i, tensor in enumerate(graph.tensors):
            buffer = self.model.buffers[tensor.buffer]
            filled = (buffer.data is not None and len(buffer.data)) or buffer.size
            if self.dtype(tensor) in _NOT_DENSE:
                roles[i] = "opaque"
            elif tensor.isVariable:
                roles[i] = "variable"
            elif filled or (i not in written and not prod(_shape(tensor))):
                roles[i] = "constant"
        for op in _some(graph.operators):
            sources = [int(t) for t in _some(op.inputs) if t >= 0]
            for t in _some(op.outputs):
                folded = self.kind(op) in _FOLDED and sources and roles[sources[0]] == "constant"
                if t >= 0 and roles[t] == "activation" and folded:
                    roles[t] = "constant"
                elif t >= 0 and roles[t] == "activation" and self.kind(op) in ("WHERE", "UNIQUE"):
                    roles[t] = "opaque"
        return roles

    def kind(self, op: Any) -> str:
        code = self.model.operatorCodes[op.opcodeIndex]
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        return self.operators.get(number, f"BUILTIN_{number}") if number != 32 else (code.customCode or b"").decode()

    def dtype(self, tensor: Any) -> str:
        return self.dtypes[tensor.type].lower().replace("float8_", "float8")


def _bodies(op: Any) -> list[int]:
    options = op.builtinOptions
    fields = ("thenSubgraphIndex", "elseSubgraphIndex", "condSubgraphIndex", "bodySubgraphIndex", "initSubgraphIndex")
    found = [getattr(options, f) for f in fields if hasattr(options, f)]
    return found + ([options.subgraph] if type(options).__name__ == "CallOptionsT" else [])


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(d) for d in _some(tensor.shape))


def _some(vector: Any) -> Any:
    """A vector of the schema, empty where it is absent."""
    return () if vector is None else vector
