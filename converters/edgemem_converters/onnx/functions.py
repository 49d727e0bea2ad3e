"""The functions that an ONNX model defines, put in place of the nodes that call them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import onnx.inliner
from onnx import AttributeProto, ModelProto

from edgemem.errors import ModelError
from edgemem_converters.onnx.constants import SMALL
from edgemem_converters.onnx.limits import MAX_CALL_DEPTH, MAX_DEPTH, MAX_INLINED_BYTES, exceeds, inlined_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onnx import FunctionProto, GraphProto, NodeProto

_Key: TypeAlias = "tuple[str, str, str]"  # of a function: domain, name, overload

__all__ = ["bodies_of", "drop_values", "has_functions", "inlined"]

_CONTENTS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def has_functions(model: ModelProto) -> bool:
    """Whether nodes call functions that the model defines."""
    return bool(model.functions)


def bodies_of(node: NodeProto) -> Iterator[tuple[GraphProto, str]]:
    """The graphs in a node's attributes, with the name of the attribute."""
    for a in node.attribute:
        if a.type == AttributeProto.GRAPH or a.HasField("g"):
            yield a.g, a.name
        for k, graph in enumerate(a.graphs):
            yield graph, f"{a.name}[{k}]"


def drop_values(model: ModelProto) -> None:
    """Clear the values of large initializers, which planning never looks at."""
    for tensor in model.graph.initializer:
        if prod(tensor.dims) > SMALL:
            for content in _CONTENTS:
                tensor.ClearField(content)


def inlined(model: ModelProto, *, values: bool = False) -> ModelProto:
    """The model with its own functions in place of the calls. Their values' names follow from the file alone.

    Args:
        model: the model; it stays as it is.
        values: whether large initializers keep their values.

    Raises ModelError for functions that call themselves, and for models that become too large.
    """
    _check_expansion(model)
    shell = ModelProto()
    shell.CopyFrom(model)
    if not values:
        drop_values(shell)
    try:
        return onnx.inliner.inline_local_functions(shell)
    except Exception as e:  # noqa: BLE001 - foreign C++ code, which throws what it likes at models without sense
        raise ModelError(f"cannot inline the model's functions: {e}") from None


def _check_expansion(model: ModelProto) -> None:
    """Raise ModelError for functions that call themselves or expand to too many nodes or bytes."""
    functions: dict[_Key, FunctionProto] = {(f.domain, f.name, f.overload): f for f in model.functions}
    sizes: dict[_Key, tuple[int, int]] = {}
    written = _count(model.graph.node) + sum(_count(f.node) for f in model.functions)
    allowed = inlined_nodes(written)

    def expanded(nodes: Iterable[NodeProto], active: tuple[_Key, ...]) -> tuple[int, int]:
        """Nodes, and bytes of calls."""
        total = size = 0
        for node in nodes:
            total += 1
            for body, _ in bodies_of(node):
                inner = expanded(body.node, active)
                total, size = total + inner[0], size + inner[1]
            key = (node.domain, node.op_type, node.overload)
            if key in functions:
                if key in active:
                    raise ModelError(f"function {node.domain}::{node.op_type} calls itself")
                if len(active) == MAX_CALL_DEPTH:
                    raise exceeds("the model's functions call one another too deep", "MAX_CALL_DEPTH")
                if key not in sizes:
                    inner = expanded(functions[key].node, (*active, key))
                    sizes[key] = inner[0], inner[1] + functions[key].ByteSize()
                total, size = total + sizes[key][0], size + sizes[key][1]
            if total > allowed.limit:
                raise exceeds(allowed.what, allowed.name, allowed.limit)
            if size > MAX_INLINED_BYTES:
                raise exceeds("the model's functions expand to too many bytes", "MAX_INLINED_BYTES")
        return total, size

    expanded(model.graph.node, ())


def _count(nodes: Iterable[NodeProto], depth: int = 0) -> int:
    """The nodes, with those in bodies. Raises ModelError for bodies that are too deep."""
    if depth > MAX_DEPTH:
        raise exceeds(f"the model has graphs in graphs, {depth} deep", "MAX_DEPTH")
    return sum(1 + sum(_count(body.node, depth + 1) for body, _ in bodies_of(node)) for node in nodes)
