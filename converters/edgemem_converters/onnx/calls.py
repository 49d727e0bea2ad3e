"""A node as a rule in this package sees it: attributes, inputs with known dimensions, and the types it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto, numpy_helper

from edgemem_converters.onnx.preconditions import malformed
from edgemem_converters.onnx.rules import dims_of, onnx_types
from edgemem_converters.onnx.scopes import tensor_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from onnx import AttributeProto, NodeProto, TypeProto

__all__ = ["RuleError", "TypedNode"]

_OPSET = 21  # of the rules of ONNX's own that are applied to nodes that are like its own


class RuleError(Exception):
    """A node does not have what its operator takes. The text says what."""


@dataclass(frozen=True, slots=True)
class TypedNode:
    """One node with inputs of known dimensions.

    Attributes:
        node: its attributes are read, nothing else.
        types: of its inputs; None for an absent one.
        values: of its inputs; None for what is unknown.
        block: channels of a block, where the model has tensors in blocks.
    """

    node: NodeProto
    types: Sequence[TypeProto | None]
    values: Sequence[NDArray[np.generic] | None]
    block: int = 0

    def has(self, position: int) -> bool:
        """Whether there is an input."""
        return position < len(self.types) and self.types[position] is not None

    def dims(self, position: int, rank: int | None = None) -> list[int]:
        """An input's dimensions. Raises RuleError if it is absent, or has another rank than it must have."""
        dims = dims_of(self.types[position]) if self.has(position) else None
        if dims is None or not all(isinstance(d, int) for d in dims):
            raise RuleError(f"input {position} is absent or no tensor of a known size")
        if rank is not None and len(dims) != rank:
            raise RuleError(f"input {position} has rank {len(dims)}, not {rank}")
        return [d for d in dims if isinstance(d, int)]

    def elem(self, position: int) -> int:
        """An input's element type. Raises RuleError if it is absent."""
        made = self.types[position] if self.has(position) else None
        if made is None:
            raise RuleError(f"input {position} is absent")
        return made.tensor_type.elem_type

    def like(self, position: int = 0, dims: Sequence[int] | None = None) -> TypeProto:
        """The type of an input, with other dimensions if they are given."""
        return tensor_type(self.elem(position), self.dims(position) if dims is None else dims)

    def attribute(self, name: str) -> AttributeProto | None:
        """An attribute, or None."""
        return next((a for a in self.node.attribute if a.name == name), None)

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute that is an integer. Raises RuleError if it is absent and has no default."""
        found = self.attribute(name)
        if found is None and default is None:
            raise RuleError(f"it has no attribute {name!r}")
        return found.i if found is not None else default or 0

    def integers(self, name: str) -> list[int]:
        """An attribute that is a list of integers; [] if it is absent."""
        found = self.attribute(name)
        return list(found.ints) if found is not None else []

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the first one. Raises RuleError if there is none."""
        if not -rank <= axis < rank:
            raise RuleError(f"its axis {axis} is not one of {rank}")
        return axis % rank

    def as_standard(
        self,
        op_type: str,
        inputs: Sequence[TypeProto | NDArray[np.generic] | None],
        attributes: Sequence[str] = (),
        **given: AttributeProto,
    ) -> TypeProto:
        """What ONNX's own operator of a type gives for other inputs: its first output.

        Args:
            op_type: the operator.
            inputs: types or values; None for an absent one.
            attributes: names of attributes of this node that it takes over.
            given: more attributes.

        Raises RuleError if the operator does not take them.
        """
        model = ModelProto(ir_version=10)
        model.opset_import.add(domain="", version=_OPSET)
        model.graph.name = "standard"
        node = model.graph.node.add(op_type=op_type)
        for k, one in enumerate(inputs):
            node.input.append("" if one is None else f"i{k}")
            if isinstance(one, np.ndarray):
                model.graph.initializer.append(numpy_helper.from_array(one, f"i{k}"))
            elif one is not None:
                model.graph.input.add(name=f"i{k}").type.CopyFrom(one)
        node.output.append("o")
        model.graph.output.add(name="o")
        node.attribute.extend(a for a in self.node.attribute if a.name in attributes)
        node.attribute.extend(given.values())
        reason = malformed(model)
        (made,), reason = ([None], reason) if reason else onnx_types(model)
        if made is None or reason:
            raise RuleError(reason or f"{op_type} gives no type")
        return made

    def broadcast(self, *shapes: Sequence[int]) -> list[int]:
        """The common shape of several by numpy's rules. Raises RuleError if there is none."""
        made: list[int] = []
        for k in range(max(map(len, shapes), default=0)):
            lengths = {shape[-1 - k] for shape in shapes if k < len(shape)} - {1}
            if len(lengths) > 1:
                raise RuleError(f"its inputs have incompatible dimensions {sorted(lengths)}")
            made.append(lengths.pop() if lengths else 1)
        return made[::-1]

    def product(self, a: Sequence[int], b: Sequence[int]) -> list[int]:
        """The shape of numpy's matmul. Raises RuleError if inner dimensions differ."""
        if not a or not b:
            raise RuleError("its inputs are scalars")
        left, right = ([1, *a] if len(a) == 1 else list(a)), ([*b, 1] if len(b) == 1 else list(b))
        if left[-1] != right[-2]:
            raise RuleError(f"its inner dimensions are {left[-1]} and {right[-2]}")
        made = self.broadcast(left[:-2], right[:-2])
        return [*made, *left[-2:-1][: len(a) - 1], *right[-1:][: len(b) - 1]]
