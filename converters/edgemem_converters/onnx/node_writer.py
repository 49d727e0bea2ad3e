"""Nodes and constants that are added to a graph, under names that it has not yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import NodeProto, TensorProto, helper

if TYPE_CHECKING:
    from onnx import GraphProto

__all__ = ["NodeWriter"]


class NodeWriter:
    """Makes nodes for a graph, and puts constants into it.

    Args:
        graph: that gets the constants. The caller puts the nodes where they belong.
        prefix: of the names of new values.
    """

    def __init__(self, graph: GraphProto, prefix: str) -> None:
        self._graph, self._prefix = graph, prefix
        self._taken = {v.name for v in (*graph.input, *graph.output, *graph.initializer)}
        self._taken |= {name for node in graph.node for name in (*node.input, *node.output, node.name)}
        self._constants: dict[tuple[int, ...], str] = {}
        self._count = 0

    def name(self, name: str) -> str:
        """The name, or one like it that is not in the graph yet."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def node(self, nodes: list[NodeProto], kind: str, *inputs: str, **attributes: int) -> str:
        """Append a node with one new output; the output."""
        self._count += 1
        output = self.name(f"{self._prefix}/{kind}_{self._count}")
        nodes.append(self.named(kind, list(inputs), [output], **attributes))
        return output

    def named(self, kind: str, inputs: list[str], outputs: list[str], **attributes: int) -> NodeProto:
        """A node with outputs that have names already."""
        node = helper.make_node(kind, inputs, outputs, name=self.name(f"{outputs[0]}/{kind}"))
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        return node

    def shape(self, nodes: list[NodeProto], name: str) -> str:
        """The shape of a value."""
        return self.node(nodes, "Shape", name)

    def scalar(self, nodes: list[NodeProto], name: str) -> str:
        """The one element of a value [1]."""
        return self.node(nodes, "Squeeze", name, self.constant(0))

    def range(self, begin: int, end: int) -> tuple[str, str]:
        """The bounds of a Slice along the first axis."""
        return self.constant(begin), self.constant(end)

    def constant(self, *values: int) -> str:
        """An int64 constant [n]."""
        return self._initializer(values, [len(values)])

    def constant_scalar(self, value: int) -> str:
        """An int64 constant without dimensions."""
        return self._initializer((value,), [])

    def _initializer(self, values: tuple[int, ...], dims: list[int]) -> str:
        key = (len(dims), *values)
        if key not in self._constants:
            name = self.name(f"{self._prefix}/constant_{len(self._constants)}")
            self._graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, dims, list(values)))
            self._constants[key] = name
        return self._constants[key]
