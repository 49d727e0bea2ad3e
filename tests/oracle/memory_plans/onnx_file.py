"""Reads ONNX models with the onnx package alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx
import onnx.inliner
from onnx import AttributeProto, TensorProto, shape_inference

from tests.oracle.memory_plans.program import BITS, Block, Call, Program, Unknown, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["read_onnx", "reordered_onnx"]

_RENAMED = {"float": "float32", "double": "float64"}
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def read_onnx(
    source: bytes | Path,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[str, tuple[int, ...]]] | None = None,
) -> Program:
    """The program of a model.

    Args:
        source: the file.
        dims: values of symbolic dimensions of the inputs.
        shapes: dtype and shape of values that shape inference does not find, from a run.
    """
    model = onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(str(source))
    for info in (*model.graph.input, *model.graph.output):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in (dims or {}):
                dim.dim_value = (dims or {})[dim.dim_param]
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    model = shape_inference.infer_shapes(model, data_prop=True)
    reader = _Reader(dict(shapes or {}))
    main, _ = reader.block(model.graph, model.graph.name, {}, ())
    return Program("onnx", main, reader.values, frozenset(reader.unreached))


def reordered_onnx(data: bytes, a: int, b: int) -> bytes:
    """The file with two nodes of its main graph exchanged."""
    model = onnx.load_from_string(data)
    nodes = list(model.graph.node)
    nodes[a], nodes[b] = nodes[b], nodes[a]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return bytes(model.SerializeToString())


def _kind(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def _dtype(number: int) -> str:
    name = str(TensorProto.DataType.Name(number)).lower()
    return _RENAMED.get(name, name)


def _bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    for a in node.attribute:
        if a.type == AttributeProto.GRAPH:
            yield a.name, a.g
        elif a.type == AttributeProto.GRAPHS:
            yield from ((f"{a.name}[{k}]", g) for k, g in enumerate(a.graphs))


@dataclass(slots=True)
class _Reader:
    known: dict[str, tuple[str, tuple[int, ...]]]
    values: dict[str, Value] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    trips: dict[str, int] = field(default_factory=dict)  # constant integers that may be trip counts
    unreached: set[str] = field(default_factory=set)
    foreseen: set[str] = field(default_factory=set)  # values that depend on constants and shapes alone

    def block(
        self, graph: onnx.GraphProto, name: str, outer: Mapping[str, str], path: tuple[str, ...]
    ) -> tuple[Block, list[str]]:
        """A graph, and the names around it that it reads. `outer` maps visible names to unique ones."""
        constants = {t.name: (_dtype(t.data_type), tuple(t.dims)) for t in graph.initializer}
        for tensor in graph.initializer:
            if tensor.data_type == TensorProto.INT64 and not tensor.dims:
                self.trips[tensor.name] = int(onnx.numpy_helper.to_array(tensor))
        constants |= {s.values.name: (_dtype(s.values.data_type), tuple(s.dims)) for s in graph.sparse_initializer}
        nodes = []
        for index, node in enumerate(graph.node):
            if _kind(node) == "Constant":
                constants[node.output[0]] = _constant(node)
            else:
                nodes.append((index, node))
        inputs = [i.name for i in graph.input if i.name not in constants]
        written = [*inputs, *(t.name for t in graph.initializer), *(s.values.name for s in graph.sparse_initializer)]
        written += [n for node in graph.node for n in node.output if n]
        mine = {n: self._unique(n, path) for n in written}
        seen = {**outer, **mine}
        types = {v.name: v.type for v in (*graph.value_info, *graph.output, *graph.input)}
        for n in written:
            self._add(mine[n], types.get(n), constants.get(n), self.known.get(n))
        fixed = set(constants)
        foreseen = self.foreseen
        foreseen.update(mine[n] for n in constants)
        read: list[str] = []
        calls = []
        for index, node in nodes:
            kind = _kind(node)
            label = node.name or next(filter(None, node.output), f"{kind}_{index}")
            reads = tuple(seen[n] if n else "" for n in node.input)
            writes = tuple(mine[n] if n else "" for n in node.output)
            made = [self.block(g, a, seen, (*path, label, a)) for a, g in _bodies(node)]
            captured = tuple(dict.fromkeys(n for _, names in made for n in names))
            rows = next((a.i for a in node.attribute if kind == "Scan" and a.name == "num_scan_inputs"), 0)
            calls.append(Call(label, kind, reads, writes, tuple(b for b, _ in made), captured, rows))
            read += [n for n in (*reads, *captured) if n]
            if kind == "Loop" and node.input[0] in self.trips:
                self._scan_sizes(self.trips[node.input[0]], calls[-1])
                if self.trips[node.input[0]] < 1:
                    self._never_runs(calls[-1].bodies[0])
            elif kind == "If" and reads[0] in foreseen:  # which branch is taken is known before any run
                for body in calls[-1].bodies:
                    self._never_runs(body)
            if not made and "::" not in kind and kind not in _RANDOM and all(n in fixed for n in node.input if n):
                fixed.update(n for n in node.output if n)
            if kind in ("Shape", "Size") or (
                "::" not in kind and kind not in _RANDOM and foreseen.issuperset(filter(None, (*reads, *captured)))
            ):
                foreseen.update(filter(None, writes))
        outputs = tuple(seen[o.name] for o in graph.output)
        for n in fixed.difference(constants, (o.name for o in graph.output)):
            value = self.values[mine[n]]
            if value.role == "activation":
                self.values[mine[n]] = Value(value.name, value.dtype, value.shape, "constant")
        own = set(mine.values())
        block = Block(name, tuple(mine[n] for n in inputs), outputs, tuple(calls))
        return block, [n for n in dict.fromkeys((*read, *outputs)) if n not in own]

    def _unique(self, name: str, path: tuple[str, ...]) -> str:
        prefix = "/".join((*path, "")) if path else ""
        unique, count = name, 1
        while unique in self.names:
            unique = f"{prefix}{name}" if count == 1 else f"{prefix}{name}~{count}"
            count += 1
        self.names.add(unique)
        return unique

    def _add(
        self,
        name: str,
        declared: onnx.TypeProto | None,
        constant: tuple[str, tuple[int, ...]] | None,
        known: tuple[str, tuple[int, ...]] | None,
    ) -> None:
        if constant is not None:
            self.values[name] = Value(name, *constant, "constant")
            return
        dtype, dims = "", None
        if declared is not None and declared.HasField("tensor_type"):
            dtype = _dtype(declared.tensor_type.elem_type)
            if declared.tensor_type.HasField("shape"):
                dims = [d.dim_value if d.HasField("dim_value") else -1 for d in declared.tensor_type.shape.dim]
        if known is not None and (dims is None or -1 in dims):
            dtype, dims = known[0], list(known[1])
        if dims is None or -1 in dims or dtype not in BITS:
            self.values[name] = Value(name, dtype, tuple(dims or ()), "opaque")
        else:
            self.values[name] = Value(name, dtype, tuple(dims))

    def _scan_sizes(self, turns: int, call: Call) -> None:
        """Results that a Loop collects have one row a turn, as many as it says if nothing else ends it."""
        carried = len(call.bodies[0].inputs) - 2
        for name, row in zip(call.writes[carried:], call.bodies[0].outputs[1 + carried :], strict=True):
            value = self.values[row]
            if name and self.values[name].role == "opaque" and value.role != "opaque":
                self.values[name] = Value(name, value.dtype, (turns, *value.shape))

    def _never_runs(self, block: Block) -> None:
        """Notes the values of a body that perhaps no run gets to: a plan may leave them out."""
        self.unreached.update((*block.inputs, *(n for call in block.calls for n in call.writes if n)))
        for call in block.calls:
            for body in call.bodies:
                self._never_runs(body)


def _constant(node: onnx.NodeProto) -> tuple[str, tuple[int, ...]]:
    (a,) = node.attribute
    if a.name == "value":
        return _dtype(a.t.data_type), tuple(a.t.dims)
    if a.name in ("value_float", "value_int"):
        return a.name.replace("value_", "").replace("float", "float32").replace("int", "int64"), ()
    if a.name == "value_floats":
        return "float32", (len(a.floats),)
    if a.name == "value_ints":
        return "int64", (len(a.ints),)
    raise Unknown(f"a Constant of {a.name}")
