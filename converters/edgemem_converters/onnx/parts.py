"""An ONNX model as models of one node each, which a runtime runs one by one.

Control-flow nodes stay whole; the values that their bodies capture are inputs of the piece.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto, ValueInfoProto, numpy_helper

from edgemem.errors import ModelError
from edgemem.model.dtypes import DTYPE_BITS, byte_size
from edgemem_converters.onnx.functions import has_functions, inlined
from edgemem_converters.onnx.graph import graph_of
from edgemem_converters.onnx.rules import dims_of
from edgemem_converters.onnx.scopes import op_type, scope_of, tensor_type
from edgemem_converters.onnx.shapes import InferredSizes
from edgemem_converters.onnx.weights import dtype_of, with_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import NodeProto

    from edgemem.formats import Form, OpenForm
    from edgemem.model.graph import Graph
    from edgemem_converters.onnx.scopes import Scope, ScopeNode

__all__ = ["ModelParts", "ModelPiece", "elem_type", "value_info"]

# Smaller constants are copied into their piece: they may be sizes, which shape inference needs.
_SHARED_BYTES = 1024
_DATA_DEPENDENT = frozenset(("Compress", "NonMaxSuppression", "NonZero", "StringSplit", "Unique"))
_ELEM_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}


@dataclass(frozen=True, slots=True)
class ModelPiece:
    """One node as a model.

    Attributes:
        name: unique in the model. type: as in `Op.type`.
        inputs: the values it reads that are not constants, without duplicates.
        outputs: the values it writes.
        constant_but_first: whether all its inputs but the first are constants.
        model: the file's bytes.
        shared: constants that are not in the bytes; they are given to the runtime (`ModelParts.constant`).
    """

    name: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constant_but_first: bool
    model: bytes
    shared: tuple[str, ...]


class ModelParts:
    """A model taken apart. Nodes are counted without Constant nodes, as `graph().ops` are.

    Raises ModelError for what is no ONNX model, or is damaged.
    """

    def __init__(self, data: bytes, folder: Path) -> None:
        try:
            model = ModelProto.FromString(data)
        except (DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise ModelError(f"the model is damaged or no ONNX model: {e}") from None
        self._inlined = has_functions(model)
        if self._inlined:
            model = inlined(model, values=True)
        self._model = model
        self._folder = folder
        scope, _ = scope_of(model, folder)
        self._scope = replace(scope, nodes=tuple(replace(node, bodies=()) for node in scope.nodes))
        self._initializers = {t.name: t for t in model.graph.initializer}
        self._constants: dict[str, NodeProto] = {
            n.output[0]: n for n in model.graph.node if n.op_type == "Constant" and n.domain in ("", "ai.onnx")
        }
        self.names = _unique_names(self._scope.nodes, set(_inner_names(scope)))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that a caller feeds."""
        return tuple(self._scope.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the graph's outputs."""
        return self._scope.outputs

    @property
    def node_outputs(self) -> tuple[tuple[str, ...], ...]:
        """What each node writes; "" for an absent output."""
        return tuple(node.outputs for node in self._scope.nodes)

    def refusals(self) -> tuple[str, ...]:
        """Why the model cannot be run in pieces; () if it can as far as the file shows."""
        found = [
            f"the size of {node.outputs[0]!r} depends on the data ({node.proto.op_type})"
            for node in self._scope.nodes
            if op_type(node.proto) in _DATA_DEPENDENT
        ]
        declared = {**self._scope.inputs, **self._scope.declared}
        found += [f"{n!r} is no tensor" for n, t in declared.items() if t.WhichOneof("value") != "tensor_type"]
        found += [f"{s.values.name!r} is a sparse constant" for s in self._model.graph.sparse_initializer]
        written = set().union(*self.node_outputs)
        found += [f"output {n!r} is an input or a constant" for n in self.outputs if n not in written]
        return tuple(found)

    def input_forms(self) -> dict[str, tuple[str, tuple[int | str | None, ...]]]:
        """Dtype and declared shape of every input; symbols by name, None for undeclared dimensions."""
        return {
            name: (dtype_of(made.tensor_type.elem_type), tuple(dims_of(made) or ()))
            for name, made in self._scope.inputs.items()
        }

    @property
    def is_named(self) -> bool:
        """Whether every node of the file has its name in `names` already."""
        nodes = self._scope.nodes
        return not self._inlined and all(n.proto.name == name for n, name in zip(nodes, self.names, strict=True))

    def named(self) -> bytes:
        """The model with every node called by its name in `names`, so that a profile tells them apart."""
        model = ModelProto()
        model.CopyFrom(self._model)
        for node, name in zip(self._scope.nodes, self.names, strict=True):
            model.graph.node[node.index].name = name
        return bytes(model.SerializeToString(deterministic=True))

    def check_order(self, order: tuple[int, ...]) -> None:
        """Raise ModelError unless it is a topological order of the nodes."""
        nodes = self._scope.nodes
        if sorted(order) != list(range(len(nodes))):
            raise ModelError(f"an order is a permutation of the {len(nodes)} operators")
        later = {n for node in nodes for n in node.outputs if n}
        for k in order:
            for name in (*nodes[k].inputs, *nodes[k].captured):
                if name in later:
                    raise ModelError(f"the order runs {nodes[k].label!r} before {name!r} is written")
            later.difference_update(nodes[k].outputs)

    def positions(self, order: Sequence[int]) -> tuple[int, ...]:
        """The nodes of the file in another order: Constant nodes first, then `order`, as positions in the file."""
        nodes = self._scope.nodes
        places = {node.index for node in nodes}
        constants = [k for k in range(len(self._model.graph.node)) if k not in places]
        return (*constants, *(nodes[k].index for k in order))

    def graph(self, forms: Mapping[str, Form]) -> Graph:
        """The graph with control-flow nodes whole. `forms` says what every input and result is."""
        types = {name: tensor_type(elem_type(dtype), shape) for name, (dtype, shape) in forms.items()}
        return graph_of(self._scope, InferredSizes(types, {}))

    def constant(self, name: str) -> NDArray[Any]:
        """The values of an initializer. Raises ModelError if they cannot be read."""
        return numpy_helper.to_array(_complete(self._initializers[name], self._folder))

    def piece(self, number: int, forms: Mapping[str, Form]) -> ModelPiece:
        """A node as a model. `forms` says what it reads and writes."""
        node = self._scope.nodes[number]
        reads = [n for n in dict.fromkeys((*node.inputs, *node.captured)) if n]
        model = ModelProto(ir_version=self._model.ir_version, opset_import=self._model.opset_import)
        graph = model.graph
        graph.name = "piece"
        shared, inputs = [], []
        for name in reads:
            if name in self._constants:
                graph.node.append(self._constants[name])
            elif name in self._initializers:
                if self._add_initializer(model, name):
                    shared.append(name)
            else:
                inputs.append(name)
                graph.input.append(value_info(name, forms[name]))
        graph.node.append(node.proto)
        outputs = tuple(n for n in node.outputs if n)
        graph.output.extend(value_info(n, forms[n]) for n in outputs)
        if any(a.HasField("g") or a.graphs for a in node.proto.attribute):
            # With known sizes, shape inference rejects branches that are never taken at these sizes.
            for info in (*graph.input, *graph.output):
                info.type.tensor_type.ClearField("shape")
        return ModelPiece(
            name=self.names[number],
            type=op_type(node.proto),
            inputs=tuple(inputs),
            outputs=outputs,
            constant_but_first=set(inputs) <= set(node.inputs[:1]),
            model=bytes(model.SerializeToString()),
            shared=tuple(shared),
        )

    def _add_initializer(self, model: ModelProto, name: str) -> bool:
        """Add the initializer, without values that are large enough to share; returns whether they are shared."""
        tensor = self._initializers[name]
        bits = DTYPE_BITS.get(dtype_of(tensor.data_type), 0)
        plain = bits >= 8 and not dtype_of(tensor.data_type).startswith(("float8", "bfloat16"))
        made = model.graph.initializer.add()
        if plain and byte_size(dtype_of(tensor.data_type), _elements(tensor)) >= _SHARED_BYTES:
            made.name, made.data_type = name, tensor.data_type
            made.dims.extend(tensor.dims)
            made.data_location = TensorProto.EXTERNAL
            made.external_data.add(key="location", value="given")
            return True
        made.CopyFrom(_complete(tensor, self._folder))
        return False


def _complete(tensor: TensorProto, folder: Path) -> TensorProto:
    try:
        return with_values(tensor, folder)
    except OSError as e:
        raise ModelError(f"the values of constant {tensor.name!r} cannot be read: {e}") from None


def _inner_names(scope: Scope) -> Iterator[str]:
    """Names of the nodes in bodies, which a profile shows too."""
    for node in scope.nodes:
        for body in node.bodies:
            yield from (inner.proto.name for inner in body.nodes)
            yield from _inner_names(body)


def _unique_names(nodes: tuple[ScopeNode, ...], taken: set[str]) -> tuple[str, ...]:
    names = []
    for number, node in enumerate(nodes):
        name = node.label if node.label not in taken else f"{node.label}~{number}"
        while name in taken:
            name += "~"
        taken.add(name)
        names.append(name)
    return tuple(names)


def value_info(name: str, form: OpenForm) -> ValueInfoProto:
    """A value's dtype and shape as an ONNX message."""
    return ValueInfoProto(name=name, type=tensor_type(elem_type(form[0]), form[1]))


def _elements(tensor: TensorProto) -> int:
    count = 1
    for d in tensor.dims:
        count *= d
    return count


def elem_type(dtype: str) -> int:
    """ONNX's number for a dtype. Raises ValueError for one it does not know."""
    return int(TensorProto.DataType.Value(_ELEM_TYPES.get(dtype, dtype.upper())))
