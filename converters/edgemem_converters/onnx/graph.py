"""From the scopes of an ONNX model and the sizes of their values to a Graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from onnx import TensorProto

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.random import is_random
from edgemem_converters.onnx.attributes import attributes_of
from edgemem_converters.onnx.rules import dims_of
from edgemem_converters.onnx.scopes import op_type

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from onnx import TypeProto

    from edgemem.model.graph import TensorKind
    from edgemem_converters.onnx.scopes import Scope, ScopeNode
    from edgemem_converters.onnx.shapes import InferredSizes

__all__ = ["graph_of"]

_DTYPES: dict[int, str] = {
    number: {"FLOAT": "float32", "DOUBLE": "float64"}.get(name, name.lower())
    for name, number in TensorProto.DataType.items()
}
_NOT_DENSE = {
    "sequence_type": "sequence",
    "optional_type": "optional",
    "map_type": "map",
    "sparse_tensor_type": "sparse tensor",
    "opaque_type": "opaque value",
}


def graph_of(scope: Scope, sizes: InferredSizes) -> Graph:
    """The graph of a scope, bodies included; every tensor must be in `sizes`.

    The tensors are sorted by kind, by their distance from the inputs and by name, so that their order does not depend
    on the order of the nodes: a model saved in another order has the same graph, reordered.
    """
    tensors = _tensors(scope, sizes)
    depth = _depths(scope)
    rank = {"constant": 1, "captured": 2}
    tensors.sort(
        key=lambda t: (0 if t.name in scope.inputs else rank.get(t.kind, 3), depth.get(t.name, 0), t.name),
    )
    index = {t.name: k for k, t in enumerate(tensors)} | {"": -1}
    shapes = {t.name: t.shape for t in tensors if t.kind in ("activation", "constant")}
    ops = []
    for node in scope.nodes:
        does = _written_rows(node, sizes, index) or node
        inputs = (*does.inputs, *_besides((*node.inputs, *node.captured), does.inputs))
        op = Op(
            name=node.label,
            type=op_type(does.proto),
            inputs=tuple(index[n] for n in inputs),
            outputs=tuple(index[n] for n in node.outputs),
            bodies=tuple(graph_of(body, sizes) for body in does.bodies),
            ordered=is_random(op_type(does.proto), [bool(n) for n in does.inputs]),
            attributes=attributes_of(does, shapes, scope.constants),
        )
        ops.append(op)
    sources, results = (tuple(index[n] for n in names) for names in (scope.inputs, scope.outputs))
    return Graph(scope.name, tuple(tensors), tuple(ops), sources, results, layout="nchw")


def _written_rows(node: ScopeNode, sizes: InferredSizes, known: Collection[str]) -> ScopeNode | None:
    """The ScatterND that is all that an If does at these sizes; None for anything else.

    `edgemem_converters.onnx.cache` makes such ones. ONNX Runtime has it write into the If's own output, so that the If
    does to memory what this node does.
    """
    taken = [body for body in node.bodies if not sizes.dead.issuperset(body.outputs)]
    if op_type(node.proto) != "If" or len(node.bodies) < 2 or len(taken) != 1 or len(taken[0].nodes) != 1:
        return None
    sole = taken[0].nodes[0]
    is_all = op_type(sole.proto) == "ScatterND" and sole.outputs == taken[0].outputs
    return sole if is_all and all(name in known for name in sole.inputs) else None


def _besides(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """The names that are not among the others."""
    known = set(others)
    return [n for n in names if n not in known]


def _tensors(scope: Scope, sizes: InferredSizes) -> list[Tensor]:
    made = [Tensor(n, _dtype(c.elem_type), c.dims, "constant") for n, c in scope.constants.items()]
    mine = [*scope.inputs, *(n for node in scope.nodes for n in node.outputs if n)]
    made += [_tensor(n, sizes) for n in mine]
    fixed = _computed_once(scope)
    made = [replace(t, kind="constant") if t.name in fixed and t.kind == "activation" else t for t in made]
    own = {t.name for t in made}
    read = [n for node in scope.nodes for n in (*node.inputs, *node.captured) if n]
    outer = dict.fromkeys(n for n in (*read, *scope.outputs) if n not in own)
    return made + [_tensor(n, sizes, captured=True) for n in outer]


def _computed_once(scope: Scope) -> set[str]:
    """Values that depend on constants alone: a runtime folds them when it loads the model.

    Graph outputs are not among them, because the caller needs a place for them.
    """
    known = set(scope.constants)
    for node in scope.nodes:
        kind = op_type(node.proto)
        draws = is_random(kind, [bool(n) for n in node.inputs])
        if not (node.bodies or "::" in kind or draws) and all(n in known for n in node.inputs if n):
            known.update(n for n in node.outputs if n)
    return known.difference(scope.constants, scope.outputs)


def _tensor(name: str, sizes: InferredSizes, *, captured: bool = False) -> Tensor:
    made = sizes.types.get(name)
    if name in sizes.outside:
        return Tensor(name, "", (), "captured" if captured else "opaque", sizes.outside[name])
    assert made is not None
    dtype, note = _described(made)
    dims = tuple(d for d in dims_of(made) or () if isinstance(d, int))
    kind: TensorKind = "captured" if captured else "opaque" if note else "activation"
    return Tensor(name, dtype, dims, kind, note)


def _described(made: TypeProto) -> tuple[str, str]:
    """The dtype, and why it is no dense tensor, or ""."""
    field = made.WhichOneof("value") or ""
    if field == "tensor_type":
        dtype = _dtype(made.tensor_type.elem_type)
        return dtype, "strings, which have no fixed width" if dtype == "string" else ""
    what = _NOT_DENSE.get(field, "value of an unknown type")
    return what, f"a{'n' * (what[0] in 'aeiou')} {what}, not a dense tensor"


def _dtype(elem_type: int) -> str:
    return _DTYPES.get(elem_type, f"type {elem_type}")


def _depths(scope: Scope) -> dict[str, int]:
    """The longest path from the inputs to each value, in operators."""
    depth: dict[str, int] = {}
    for node in scope.nodes:
        here = 1 + max((depth.get(n, 0) for n in (*node.inputs, *node.captured)), default=0)
        depth |= dict.fromkeys(node.outputs, here)
    return depth
