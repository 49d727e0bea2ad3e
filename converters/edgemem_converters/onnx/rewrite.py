"""Writes a rewritten graph into an ONNX model: its nodes, and the constants that they need.

Weights stay where they are, in the file or beside it, and are shared by all nodes that are made from one node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from onnx import AttributeProto, NodeProto, helper, numpy_helper

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.rewrite import NEW
from edgemem_converters.onnx.functions import has_functions
from edgemem_converters.onnx.parts import value_info
from edgemem_converters.onnx.scopes import scope_of
from edgemem_converters.onnx.weights import with_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import GraphProto, ModelProto, TensorProto

    from edgemem.model.graph import Attribute, Graph, Op
    from edgemem.model.rewrite import Rewrite
    from edgemem_converters.onnx.scopes import ScopeNode

__all__ = ["write_rewrite"]

_OVERRIDABLE: Final = 4  # from this version of the format on initializers that are inputs may be fed
_LEAST_OPSET: Final = 11  # Slice and Pad as they are written here


def write_rewrite(model: ModelProto, graph: Graph, rewrite: Rewrite, folder: Path, *, is_open: bool = False) -> None:
    """Change the model's nodes to those of a rewrite of its graph, and declare the sizes of all their values.

    Args:
        model: the model.
        graph: of it, as `OnnxConverter.graph` gives it.
        rewrite: of that graph.
        folder: where the model's weight files lie.
        is_open: the graph's sizes are some of many, and are not declared.

    Raises UnsupportedError for a model with functions of its own, a new operator other than Slice, Pad and Concat, an
    attribute that cannot be written, and an operator set below 11 where operators are not just repeated.
    """
    if has_functions(model):
        raise UnsupportedError("a model with functions of its own cannot be rewritten; inline them with onnx first")
    nodes = scope_of(model, folder)[0].nodes
    writer = _Writer(model, graph, rewrite.graph, nodes)
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if version < _LEAST_OPSET and not writer.is_repetition(rewrite.sources):
        raise UnsupportedError(
            f"a model of operator set {version} cannot be rewritten; convert it to {_LEAST_OPSET} or later first"
        )
    before = _read_names(model.graph.node)
    made = [writer.node(op, source) for op, source in zip(rewrite.graph.ops, rewrite.sources, strict=True)]
    writer.add_parts(rewrite, folder)
    places = {node.index for node in nodes}
    constants = [node for k, node in enumerate(model.graph.node) if k not in places]
    kept = [NodeProto.FromString(node.SerializeToString()) for node in constants]
    del model.graph.node[:]
    model.graph.node.extend([*kept, *made])
    model.graph.initializer.extend(writer.constants)
    _drop_constants(model.graph, before - _read_names(model.graph.node) - {v.name for v in model.graph.output})
    del model.graph.value_info[:]
    if not is_open:
        _declare(model, rewrite.graph)


def _declare(model: ModelProto, graph: Graph) -> None:
    """Give every value that is dense its size, those of the old graph none."""
    forms = {t.name: (t.dtype, t.shape) for t in graph.tensors if t.kind == "activation"}
    ends = {v.name: v for v in (*model.graph.input, *model.graph.output)}
    for name in ends.keys() & forms.keys():
        ends[name].CopyFrom(value_info(name, forms[name]))
    model.graph.value_info.extend(value_info(n, form) for n, form in forms.items() if n not in ends)


def _values(tensor: TensorProto, folder: Path) -> NDArray[Any]:
    try:
        return numpy_helper.to_array(with_values(tensor, folder))
    except (OSError, ValueError, TypeError, RuntimeError) as e:
        raise ModelError(f"the values of constant {tensor.name!r} cannot be read: {e}") from None


def _read_names(nodes: Iterable[NodeProto]) -> set[str]:
    """What nodes and the graphs inside them read."""
    found = set()
    for node in nodes:
        found.update(node.input)
        for attribute in node.attribute:
            graphs = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
            found.update(v.name for graph in graphs for v in graph.output)
            found.update(name for graph in graphs for name in _read_names(graph.node))
    return found


def _drop_constants(graph: GraphProto, names: AbstractSet[str]) -> None:
    """Leave constants out that were read and are not read any more."""
    gone = names & {t.name for t in graph.initializer}
    _keep(graph.initializer, [t.name not in gone for t in graph.initializer])
    _keep(graph.input, [v.name not in gone for v in graph.input])  # old files name initializers there, too
    _keep(graph.node, [n.op_type != "Constant" or not names >= {*n.output} for n in graph.node])


def _keep(entries: Any, kept: Sequence[bool]) -> None:
    for place in reversed(range(len(kept))):
        if not kept[place]:
            del entries[place]


class _Writer:
    """Makes nodes; `constants` are the initializers that they need besides the model's own."""

    def __init__(self, model: ModelProto, old: Graph, graph: Graph, nodes: Sequence[ScopeNode]) -> None:
        self.constants = []  # type: ignore[var-annotated] # of TensorProto, which has no types
        self._model, self._old, self._graph, self._nodes = model, old, graph, nodes
        self._names = {t.name for t in graph.tensors} | {t.name for t in model.graph.initializer}
        self._names |= {name for node in model.graph.node for name in node.output}
        self._known: dict[bytes, str] = {}  # content -> name

    def node(self, op: Op, source: int) -> NodeProto:
        """The node of an operator."""
        outputs = [self._name(i) for i in op.outputs]
        if source == NEW:
            rule = _NEW.get(op.type)
            if rule is None:
                raise UnsupportedError(f"{op.type} cannot be written into an ONNX model as a new operator")
            return rule(self, op, outputs)
        proto = self._nodes[source].proto
        made: NodeProto = NodeProto.FromString(proto.SerializeToString())
        count = len(made.input)
        for position, index in enumerate(op.inputs[:count]):
            made.input[position] = self._name(index)
        del made.output[:]
        made.output.extend(outputs)
        if outputs != list(self._nodes[source].outputs):
            made.name = op.name
            if not self._is_whole(op, self._old.ops[source]):
                self._change(made, op, self._old.ops[source])
        return made

    def add_parts(self, rewrite: Rewrite, folder: Path) -> None:
        """Add the constants that are parts of others."""
        known = {t.name: t for t in self._model.graph.initializer}
        for node in self._model.graph.node:
            if node.op_type == "Constant":
                known.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
        fed = {i.name for i in self._model.graph.input} if self._model.ir_version >= _OVERRIDABLE else set()
        values: dict[int, NDArray[Any]] = {}
        for index, (axis, begin) in rewrite.parts.items():
            tensor, like = self._graph.tensors[index], rewrite.likes[index]
            if like not in values:
                name = self._old.tensors[like].name
                if name in fed:
                    raise UnsupportedError(f"callers may replace the constant {name!r}, so that it cannot be cut")
                if name not in known:
                    raise UnsupportedError(f"the constant {name!r} is stored in a way that cannot be cut")
                values[like] = _values(known[name], folder)
            cut = (slice(None),) * axis + (slice(begin, begin + tensor.shape[axis]),)
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values[like][cut]), tensor.name))

    def is_repetition(self, sources: Sequence[int]) -> bool:
        """Whether every operator is one of the old graph, or a copy of one."""
        pairs = zip(self._graph.ops, sources, strict=True)
        return all(source != NEW and self._is_whole(op, self._old.ops[source]) for op, source in pairs)

    def input_shape(self, op: Op) -> tuple[int, ...]:
        """The shape of the first input."""
        return self._graph.tensors[op.inputs[0]].shape

    def input_names(self, op: Op) -> list[str]:
        return [self._name(i) for i in op.inputs]

    def constant(self, values: NDArray[np.int64] | NDArray[np.float32]) -> str:
        """The name of an initializer with these values; one for all that are equal."""
        key = values.dtype.str.encode() + repr(values.shape).encode() + values.tobytes()
        if key not in self._known:
            name = f"/edgemem/constant.{len(self._known)}"
            while name in self._names:
                name += "_"
            self._names.add(name)
            self._known[key] = name
            self.constants.append(numpy_helper.from_array(values, name))
        return self._known[key]

    def _is_whole(self, op: Op, source: Op) -> bool:
        """Whether an operator computes all that its source does."""
        here, there = self._graph.tensors, self._old.tensors
        pairs = zip((*op.inputs, *op.outputs), (*source.inputs, *source.outputs), strict=False)
        same = all(a == b or (min(a, b) >= 0 and here[a].shape == there[b].shape) for a, b in pairs)
        return same and len(op.inputs) == len(source.inputs) and op.attributes == source.attributes

    def _name(self, index: int) -> str:
        return self._graph.tensors[index].name if index >= 0 else ""

    def _change(self, node: NodeProto, op: Op, source: Op) -> None:
        """Give a node that computes a part the attributes of its operator."""
        if op.attributes.get("group") != source.attributes.get("group"):
            _drop(node, ("group",))
            node.attribute.append(helper.make_attribute("group", op.attributes["group"]))
        if node.op_type == "Reshape":
            shape = self._graph.tensors[op.outputs[0]].shape
            _drop(node, ("shape", "allowzero"))
            _set_input(node, 1, self.constant(np.array(shape, np.int64)))
        elif "paddings" in op.attributes:
            _drop(node, ("pads", "paddings"))
            _set_input(node, 1, self.constant(_pads(op)))
        elif node.op_type == "Resize":
            given, made = self.input_shape(op), self._graph.tensors[op.outputs[0]].shape
            scales = np.array([m / g for m, g in zip(made, given, strict=True)], np.float32)
            del node.input[3:]
            _set_input(node, 2, self.constant(scales))
        elif op.attributes.get("pads") != source.attributes.get("pads"):  # else `auto_pad` asks for them at every size
            _drop(node, ("pads", "auto_pad"))
            node.attribute.append(helper.make_attribute("pads", list(_numbers(op, "pads"))))


def _set_input(node: NodeProto, position: int, name: str) -> None:
    while len(node.input) <= position:
        node.input.append("")
    node.input[position] = name


def _drop(node: NodeProto, names: Sequence[str]) -> None:
    kept = [AttributeProto.FromString(a.SerializeToString()) for a in node.attribute if a.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)


def _numbers(op: Op, name: str) -> tuple[int, ...]:
    value: Attribute | None = op.attributes.get(name)
    if not isinstance(value, tuple):
        raise UnsupportedError(f"{op.type} {op.name!r} cannot be written: its {name} are unknown")
    return value


def _pads(op: Op) -> NDArray[np.int64]:
    """All that is put before, then all that is put behind."""
    paddings = _numbers(op, "paddings")
    return np.array([*paddings[::2], *paddings[1::2]], np.int64)


def _slice(writer: _Writer, op: Op, outputs: list[str]) -> NodeProto:
    begin, size, whole = _numbers(op, "begin"), _numbers(op, "size"), writer.input_shape(op)
    axes = [k for k in range(len(whole)) if size[k] != whole[k]]
    starts = np.array([begin[k] for k in axes], np.int64)
    ends = np.array([begin[k] + size[k] for k in axes], np.int64)
    names = [writer.constant(values) for values in (starts, ends, np.array(axes, np.int64))]
    return helper.make_node("Slice", [*writer.input_names(op), *names], outputs, name=op.name)


def _pad(writer: _Writer, op: Op, outputs: list[str]) -> NodeProto:
    inputs = [*writer.input_names(op), writer.constant(_pads(op))]
    return helper.make_node("Pad", inputs, outputs, name=op.name, mode="constant")


def _concat(writer: _Writer, op: Op, outputs: list[str]) -> NodeProto:
    axis = op.attributes.get("axis")
    if not isinstance(axis, int):
        raise UnsupportedError(f"Concat {op.name!r} cannot be written: its axis is unknown")
    return helper.make_node("Concat", writer.input_names(op), outputs, name=op.name, axis=axis)


_NEW: Final[dict[str, Callable[[_Writer, Op, list[str]], NodeProto]]] = {
    "Slice": _slice,
    "Pad": _pad,
    "Concat": _concat,
}
