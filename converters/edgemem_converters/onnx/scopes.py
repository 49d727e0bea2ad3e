"""The contents of an ONNX model: nodes, constants and the graphs inside nodes, every value under a unique name.

In ONNX two branches may use the same name for different values. Here a value of the main graph keeps its name, and one
of a body keeps its name unless an earlier value has it; then the path of its body is put before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx.inliner
from onnx import AttributeProto, ModelProto, TensorProto, TypeProto, numpy_helper

from edgemem.errors import ModelError
from edgemem_converters.onnx.external import location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import FunctionProto, GraphProto, NodeProto

__all__ = ["SMALL", "Constant", "Node", "Scope", "has_functions", "op_type", "scope_of", "tensor_type"]

SMALL = 4096  # elements: what can be a shape or a list of axes; larger constants' values are never looked at
_MAX_NODES = 1_000_000  # after the model's own functions are inlined
_MAX_DEPTH = 100  # of functions that call functions

# A Constant node's attribute -> the element type, and the field the value is in.
_VALUE_ATTRIBUTES = {
    "value_float": (TensorProto.FLOAT, "f"),
    "value_floats": (TensorProto.FLOAT, "floats"),
    "value_int": (TensorProto.INT64, "i"),
    "value_ints": (TensorProto.INT64, "ints"),
    "value_string": (TensorProto.STRING, "s"),
    "value_strings": (TensorProto.STRING, "strings"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """An initializer or the output of a Constant node: its element type, dimensions, and values if they are few."""

    elem_type: int
    dims: tuple[int, ...]
    values: NDArray[np.generic] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One node. `inputs` and `outputs` are unique names, "" for an absent one.

    Attributes:
        proto: as it stands in the (inlined) model.
        index: its place in `graph.node`.
        label: its name, or its first output's, or its type and place; for messages.
        captured: unique names of outer values that its bodies read, in the order of the reads.
        bodies: the graphs in its attributes, in the order of the attributes.
    """

    proto: NodeProto
    index: int
    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]
    bodies: tuple[Scope, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One graph: the main one, or a body with the name of the attribute it stands in.

    Attributes:
        inputs: values that the caller feeds, with their declared types; initializers are constants even if they are
            inputs too.
        outputs: unique names.
        declared: the types that the file declares for inner values and outputs.
        constants: initializers and Constant nodes' outputs.
        nodes: all but the Constant nodes, in the order of the file.
    """

    name: str
    inputs: Mapping[str, TypeProto]
    outputs: tuple[str, ...]
    declared: Mapping[str, TypeProto]
    constants: Mapping[str, Constant]
    nodes: tuple[Node, ...]


def op_type(node: NodeProto) -> str:
    """The operator's type, with its domain before it unless that is ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def tensor_type(elem_type: int, dims: Iterable[int | str | None] | None) -> TypeProto:
    """A tensor's type; None for an unknown dimension, or for unknown dimensions altogether."""
    made = TypeProto()
    made.tensor_type.elem_type = elem_type
    if dims is not None:
        made.tensor_type.shape.SetInParent()
        for d in dims:
            dim = made.tensor_type.shape.dim.add()
            if isinstance(d, int):
                dim.dim_value = d
            elif d is not None:
                dim.dim_param = d
    return made


def has_functions(model: ModelProto) -> bool:
    """Whether nodes call functions that the model defines."""
    return bool(model.functions)


def scope_of(model: ModelProto, folder: Path) -> tuple[Scope, ModelProto]:
    """The main graph, and the model it is taken from: the same one, or with its own functions inlined.

    Small external constants are read from `folder` if they are there. Raises ModelError for nodes out of order, names
    written twice or never, damaged constants and functions that call themselves.
    """
    texts: list[object] = [o.domain for o in model.opset_import]
    for f in model.functions:
        texts += (f.domain, f.name, f.overload, *(o.domain for o in f.opset_import))
    _check_text(texts)
    if has_functions(model):
        model = _inlined(model)
    return _Reader(folder).scope(model.graph, model.graph.name, {}, ())[0], model


@dataclass(slots=True)
class _Reader:
    folder: Path
    taken: set[str] = field(default_factory=set)

    def scope(
        self, graph: GraphProto, name: str, outer: Mapping[str, str], path: tuple[str, ...]
    ) -> tuple[Scope, tuple[str, ...]]:
        """A graph and the outer values it reads. `outer` maps the names visible there to unique ones."""
        _check_text(_texts(graph))
        local: dict[str, str] = {}
        where = f"graph {'/'.join(path)!r}" if path else "the graph"
        constants = {t.name: self._tensor(t) for t in graph.initializer}
        constants |= {
            s.values.name: Constant(s.values.data_type, _dims(s.dims, where)) for s in graph.sparse_initializer
        }
        inputs = [i for i in graph.input if i.name not in constants]
        nodes = []
        for index, node in enumerate(graph.node):
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
                if len(node.output) != 1:
                    raise ModelError(f"{where}: node {index}, a Constant, has {len(node.output)} outputs")
                constants[node.output[0]] = self._constant(node)
            else:
                nodes.append((index, node))
        written = [*(i.name for i in inputs), *(t.name for t in graph.initializer)]
        written += [s.values.name for s in graph.sparse_initializer]
        written += [n for node in graph.node for n in node.output if n]
        prefix = "/".join((*path, "")) if path else ""
        for original in written:
            if original in local or not original:
                raise ModelError(f"{where}: {f'{original!r} is written twice' if original else 'a value has no name'}")
            local[original] = self._unique(original, prefix)
        mine = set(local.values())
        captured: dict[str, None] = {}
        visible = {n: local[n] for n in (*(i.name for i in inputs), *constants)}

        def resolve(original: str, reader: str) -> str:
            if original in visible:
                return visible[original]
            if original in local:
                raise ModelError(f"{where}: {reader} reads {original!r} before it is written; sort the nodes first")
            if original not in outer:
                raise ModelError(f"{where}: {reader} reads {original!r}, which nothing writes")
            captured[outer[original]] = None
            return outer[original]

        made = []
        for index, node in nodes:
            kind = op_type(node)
            label = node.name or next(filter(None, node.output), f"{kind}_{index}")
            ins = tuple(resolve(n, f"{kind} {label!r}") if n else "" for n in node.input)
            inner: dict[str, None] = {}
            bodies = []
            for body, attribute in _bodies(node):
                scope, taken = self.scope(body, attribute, {**outer, **visible}, (*path, label, attribute))
                bodies.append(scope)
                inner |= dict.fromkeys(taken)
            captured |= dict.fromkeys(n for n in inner if n not in mine)
            outs = tuple(local[n] if n else "" for n in node.output)
            visible |= {n: local[n] for n in node.output if n}
            made.append(Node(node, index, label, ins, outs, tuple(inner), tuple(bodies)))
        outputs = tuple(resolve(o.name, "an output") for o in graph.output)
        declared = {
            local[v.name]: v.type for v in (*graph.output, *graph.value_info) if v.name in local and v.HasField("type")
        }
        scope = Scope(
            name,
            {local[i.name]: i.type for i in inputs},
            outputs,
            declared,
            {local[n]: c for n, c in constants.items()},
            tuple(made),
        )
        return scope, tuple(captured)

    def _unique(self, name: str, prefix: str) -> str:
        unique = name
        count = 1
        while unique in self.taken:
            unique = f"{prefix}{name}" if count == 1 else f"{prefix}{name}~{count}"
            count += 1
        self.taken.add(unique)
        return unique

    def _constant(self, node: NodeProto) -> Constant:
        for a in node.attribute:
            if a.name == "value" and a.HasField("t"):
                return self._tensor(a.t)
            if a.name == "sparse_value":
                return Constant(a.sparse_tensor.values.data_type, _dims(a.sparse_tensor.dims, f"{node.output[0]!r}"))
            if a.name in _VALUE_ATTRIBUTES:
                elem_type, where = _VALUE_ATTRIBUTES[a.name]
                values = getattr(a, where)
                dims = (len(values),) if a.name.endswith("s") else ()
                if elem_type == TensorProto.STRING or prod(dims) > SMALL:
                    return Constant(elem_type, dims)
                dtype = np.float32 if elem_type == TensorProto.FLOAT else np.int64
                return Constant(elem_type, dims, np.array(values, dtype=dtype))
        raise ModelError(f"Constant {node.output[0]!r} has no value")

    def _tensor(self, tensor: TensorProto) -> Constant:
        dims = _dims(tensor.dims, f"constant {tensor.name!r}")
        small = prod(dims) <= SMALL and tensor.data_type in _FOLDABLE_TYPES
        if tensor.data_location == TensorProto.EXTERNAL and not (self.folder / location(tensor)).is_file():
            small = False
        values: NDArray[np.generic] | None = None
        if small:
            try:
                values = numpy_helper.to_array(tensor, str(self.folder))
            except (ValueError, TypeError, OSError, RuntimeError, onnx.checker.ValidationError) as e:
                raise ModelError(f"constant {tensor.name!r} is damaged: {e}") from None
        return Constant(tensor.data_type, dims, values)


_FOLDABLE_TYPES = frozenset(
    (
        *(TensorProto.BOOL, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE),
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    )
)


def _dims(dims: Iterable[int], what: str) -> tuple[int, ...]:
    made = tuple(dims)
    if any(d < 0 for d in made):
        raise ModelError(f"{what} has a negative dimension: {made}")
    return made


def _check_text(texts: Iterable[object]) -> None:
    """Raise ModelError for names that are no UTF-8: protobuf returns them as bytes."""
    if bad := next((t for t in texts if not isinstance(t, str)), None):
        raise ModelError(f"the file is damaged: the name {bad!r} is no UTF-8")


def _texts(graph: GraphProto) -> list[object]:
    texts: list[object] = [graph.name]
    for node in graph.node:
        texts += (node.name, node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute))
    texts += (t.name for t in graph.initializer)
    texts += (s.values.name for s in graph.sparse_initializer)
    for value in (*graph.input, *graph.output, *graph.value_info):
        texts += (value.name, *(d.dim_param for d in value.type.tensor_type.shape.dim))
    return texts


def _bodies(node: NodeProto) -> Iterator[tuple[GraphProto, str]]:
    for a in node.attribute:
        if a.type == AttributeProto.GRAPH or a.HasField("g"):
            yield a.g, a.name
        for k, graph in enumerate(a.graphs):
            yield graph, f"{a.name}[{k}]"


def _inlined(model: ModelProto) -> ModelProto:
    """The model with its own functions in place of the calls. Their values' names follow from the file alone."""
    _check_expansion(model)
    shell = ModelProto()
    shell.CopyFrom(model)
    for tensor in shell.graph.initializer:
        if prod(tensor.dims) > SMALL:  # its values are never looked at
            for content in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(content)
    try:
        return onnx.inliner.inline_local_functions(shell)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as e:
        raise ModelError(f"cannot inline the model's functions: {e}") from None


def _check_expansion(model: ModelProto) -> None:
    """Raise ModelError for functions that call themselves or expand to too many nodes."""
    functions: dict[tuple[str, str, str], FunctionProto] = {(f.domain, f.name, f.overload): f for f in model.functions}
    sizes: dict[tuple[str, str, str], int] = {}

    def count(nodes: Iterable[NodeProto], active: tuple[tuple[str, str, str], ...]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            total += 1 + sum(count(body.node, active) for body, _ in _bodies(node))
            if key in functions:
                if key in active:
                    raise ModelError(f"function {node.domain}::{node.op_type} calls itself")
                if len(active) == _MAX_DEPTH:
                    raise ModelError(f"the model's functions call each other more than {_MAX_DEPTH} deep")
                if key not in sizes:
                    sizes[key] = count(functions[key].node, (*active, key))
                total += sizes[key]
            if total > _MAX_NODES:
                raise ModelError(f"the model's functions expand to more than {_MAX_NODES} nodes")
        return total

    count(model.graph.node, ())
