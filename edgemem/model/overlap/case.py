"""One operator as the rules see it: shapes, element sizes and parameters, without a graph around it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from edgemem.model.dtypes import DTYPE_BITS

if TYPE_CHECKING:
    from edgemem.model.graph import Attribute, Graph, Op, Tensor

__all__ = ["Case", "OperandShape", "Shape", "case_of"]

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperandShape:
    """A tensor of an operator.

    Attributes:
        shape: its dimensions.
        dtype: a key of DTYPE_BITS.
        width: bytes of an element.
    """

    shape: Shape
    dtype: str
    width: int

    @property
    def count(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * self.width


@dataclass(frozen=True, slots=True)
class Case:
    """An operator that reads one of its inputs at one position, and has one output.

    All that a distance depends on, so that equal cases have equal distances.

    Attributes:
        type: of the operator.
        position: of the input.
        inputs: all inputs; None for an absent one, and for one whose elements are no whole bytes.
        output: the output.
        parameters: the operator's attributes, by key.
    """

    type: str
    position: int
    inputs: tuple[OperandShape | None, ...]
    output: OperandShape
    parameters: tuple[tuple[str, Attribute], ...]

    @property
    def input(self) -> OperandShape:
        """The input in question. Raises ValueError if it is absent."""
        value = self.inputs[self.position]
        if value is None:
            raise ValueError("an absent input has no distance")
        return value

    def numbers(self, key: str, count: int) -> Shape | None:
        """A parameter that is `count` integers; None if the operator has no such parameter."""
        value = dict(self.parameters).get(key)
        return value if isinstance(value, tuple) and len(value) == count else None

    def number(self, key: str) -> int | None:
        """A parameter that is one integer; None if the operator has no such parameter."""
        value = dict(self.parameters).get(key)
        return value if isinstance(value, int) else None


def case_of(graph: Graph, op: Op, position: int) -> Case | None:
    """The operator with its input at `position`; None if nothing is known about the pair.

    That is so for an absent input, several outputs, bodies, empty tensors and elements that are no whole bytes.
    """
    if len(op.outputs) != 1 or op.outputs[0] < 0 or op.bodies:
        return None
    if not 0 <= position < len(op.inputs) or op.inputs[position] < 0:
        return None
    output = _value(graph.tensors[op.outputs[0]])
    inputs = tuple(_value(graph.tensors[index]) if index >= 0 else None for index in op.inputs)
    read = inputs[position]
    if output is None or read is None or not output.count or not read.count:
        return None
    return Case(op.type, position, inputs, output, tuple(sorted(op.attributes.items())))


def _value(tensor: Tensor) -> OperandShape | None:
    bits = 0 if tensor.kind == "opaque" else DTYPE_BITS.get(tensor.dtype, 0)
    return OperandShape(tensor.shape, tensor.dtype, bits // 8) if bits and bits % 8 == 0 else None
