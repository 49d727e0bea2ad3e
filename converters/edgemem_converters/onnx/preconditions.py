"""Whether onnx's rule for an operator can be applied to a node, checked before its C++ code sees the node.

Rules do not check everything that they rely on. Given other nodes, they crash, never end or take all memory. The checks
for single operators here were found by calling all rules with random nodes (tests/fuzz/onnx_operators.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from onnx import checker, defs

from edgemem_converters.onnx.limits import MAX_RANK
from edgemem_converters.onnx.rules import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx import ModelProto, NodeProto

__all__ = ["malformed"]

# Operators with inputs that list an entry for each dimension, or axes -> the positions of these inputs. All other
# inputs are data, of any length.
_LISTS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "MaxUnpool": (2,),
    "Reshape": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}

_TERM = rb"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?"
_EQUATION = re.compile(_TERM + rb"(?:," + _TERM + rb")*(?:->" + _TERM + rb")?")


def malformed(model: ModelProto) -> str:
    """Why a rule cannot be applied to the node of a model of one node, or "".

    Rules do not check that tensors have the declared length, that required inputs are present and that axes are in
    range, and they make a symbol for each entry of an unknown shape.
    """
    node = model.graph.node[0]
    context = checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {o.domain: o.version for o in model.opset_import}
    try:
        checker.check_node(node, context)
    except Exception as e:  # noqa: BLE001 - foreign C++ code, which throws what it likes at nodes without sense
        return first_line(e)
    if any(a.name == "axis" and abs(a.i) > MAX_RANK for a in node.attribute):
        return "its axis is beyond any rank"
    default = node.domain in ("", "ai.onnx")
    if default and any(_length(model, node, k) > MAX_RANK for k in _LISTS.get(node.op_type, ())):
        return "it takes a list that is longer than any rank"
    if default and node.op_type in _CHECKS and (reason := _CHECKS[node.op_type](node, _ranks(model))):
        return reason
    known = {v.name for v in (*model.graph.input, *model.graph.initializer)}
    version = next((o.version for o in model.opset_import if o.domain == node.domain), 1)
    try:
        schema = defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return ""
    for name, formal in zip(node.input, schema.inputs, strict=False):
        if name not in known and formal.option == defs.OpSchema.FormalParameterOption.Single:
            return f"its input {formal.name!r} is absent or unknown"
    return ""


def _length(model: ModelProto, node: NodeProto, position: int) -> int:
    """The length of the input at a position if it is a list whose entries are unknown, otherwise 0."""
    name = node.input[position] if position < len(node.input) else ""
    found = (i.type.tensor_type.shape.dim for i in model.graph.input if name and i.name == name)
    return next((dims[0].dim_value for dims in found if len(dims) == 1), 0)


def _ranks(model: ModelProto) -> dict[str, int]:
    """The ranks of the inputs that have one."""
    ranks = {t.name: len(t.dims) for t in model.graph.initializer}
    for value in model.graph.input:
        if value.type.tensor_type.HasField("shape"):
            ranks[value.name] = len(value.type.tensor_type.shape.dim)
    return ranks


def _ints(node: NodeProto) -> dict[str, int]:
    return {a.name: a.i for a in node.attribute}


def _wrong_einsum(node: NodeProto, _ranks: Mapping[str, int]) -> str:
    """Some equations with other characters than these are read without end."""
    text = next((a.s for a in node.attribute if a.name == "equation"), b"")
    equation = text.replace(b" ", b"")
    if not _EQUATION.fullmatch(equation):
        return f"{text[:40]!r} is no equation"
    if len(equation.split(b"->")[0].split(b",")) != len(node.input):
        return f"its equation {text[:40]!r} has another number of terms than it has inputs"
    return ""


def _wrong_gather_nd(node: NodeProto, ranks: Mapping[str, int]) -> str:
    """A negative batch_dims makes the rule read before the first dimension."""
    batch = _ints(node).get("batch_dims", 0)
    if not 0 <= batch <= min((ranks[n] for n in node.input if n in ranks), default=MAX_RANK):
        return f"its batch_dims, {batch}, are not those of its inputs"
    return ""


def _wrong_split(node: NodeProto, _ranks: Mapping[str, int]) -> str:
    """The rule makes num_outputs lengths, and reads one for each output."""
    count = _ints(node).get("num_outputs", len(node.output))
    return "" if count == len(node.output) else f"its num_outputs is {count}, and it has {len(node.output)} outputs"


_CHECKS: dict[str, Callable[[NodeProto, Mapping[str, int]], str]] = {
    "Einsum": _wrong_einsum,
    "GatherND": _wrong_gather_nd,
    "Split": _wrong_split,
}
