"""A digest of what a graph computes, whatever its intermediate results are called and in which order its nodes stand.

ONNX Runtime gives what it inserts into a graph other names, and runs free branches in another order, each time. Here
every value is named by the node that makes it and by what that reads, and so on up to inputs and constants; equal
digests mean that the same operators read the same values.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from onnx import AttributeProto, ModelProto

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.message import Message  # type: ignore[import-untyped]
    from onnx import GraphProto, NodeProto, TensorProto

__all__ = ["computation_digest"]


def computation_digest(model: ModelProto) -> str:
    """The digest of a model. Constants in other files count by where they lie there, not by their bytes.

    Raises ModelError for a node that reads what no node before it makes.
    """
    if model.training_info:
        raise ModelError("the model holds a training step")
    opsets = sorted({(opset.domain, opset.version) for opset in model.opset_import})
    functions = [_encoded(function) for function in model.functions]
    return _digest("model", model.ir_version, opsets, functions, _graph(model.graph, {}))


def _graph(graph: GraphProto, outer: Mapping[str, str]) -> str:
    values = dict(outer)
    constants = {tensor.name: _constant(tensor) for tensor in graph.initializer}
    values |= constants
    inputs = [(value.name, _encoded(value.type), constants.get(value.name, "")) for value in graph.input]
    values |= {entry[0]: _digest("input", *entry) for entry in inputs}
    sparse = sorted(_encoded(tensor) for tensor in graph.sparse_initializer)
    values |= {tensor.values.name: _digest("sparse", _encoded(tensor)) for tensor in graph.sparse_initializer}
    nodes = []
    for node in graph.node:
        made = _node(node, values)
        nodes.append(made)
        values |= {name: _digest("result", made, k) for k, name in enumerate(node.output) if name}
    outputs = [(value.name, _encoded(value.type), _value(value.name, values)) for value in graph.output]
    declared = sorted((values.get(value.name, value.name), _encoded(value.type)) for value in graph.value_info)
    quantized = sorted(_encoded(annotation) for annotation in graph.quantization_annotation)
    return _digest("graph", inputs, sorted(constants.values()), sparse, sorted(nodes), outputs, declared, quantized)


def _node(node: NodeProto, values: Mapping[str, str]) -> str:
    given = [_value(name, values) for name in node.input]
    attributes = sorted((attribute.name, _attribute(attribute, values)) for attribute in node.attribute)
    used = [bool(name) for name in node.output]
    return _digest("node", node.domain, node.op_type, node.overload, attributes, given, used)


def _attribute(attribute: AttributeProto, values: Mapping[str, str]) -> str:
    if attribute.type == AttributeProto.GRAPH:
        return _graph(attribute.g, values)
    if attribute.type == AttributeProto.GRAPHS:
        return _digest("graphs", *(_graph(graph, values) for graph in attribute.graphs))
    return _encoded(attribute)


def _constant(tensor: TensorProto) -> str:
    plain = type(tensor)()
    plain.CopyFrom(tensor)
    plain.name = ""
    del plain.external_data[:]
    places = sorted((entry.key, entry.value) for entry in tensor.external_data)
    return _digest("constant", _encoded(plain), places)


def _value(name: str, values: Mapping[str, str]) -> str:
    if not name:
        return ""
    if name not in values:
        raise ModelError(f"nothing before makes {name!r}")
    return values[name]


def _encoded(message: Message) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()


def _digest(kind: str, *parts: Iterable[object] | object) -> str:
    return hashlib.sha256(repr((kind, parts)).encode()).hexdigest()
