"""One operator of an ONNX graph as the rules see it that turn it into tensor operations."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from onnx import AttributeProto

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from onnx import NodeProto

    from edgemem.model.graph import Graph, Op
    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.onnx.computation.constants import OnnxConstants

__all__ = ["LARGEST", "InexpressibleError", "OnnxOperator", "Rule", "as_floats", "counted"]

LARGEST: Final = 2**24  # of an attribute that counts elements, and of integers: up to it floats have all of them
_WRAPPING: Final = frozenset(("int8", "int16", "uint8", "uint16", "uint32", "uint64"))
_INTEGERS: Final = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
_NUMBERS: Final = _INTEGERS | {"float16", "bfloat16", "float32", "float64", "bool"}


class InexpressibleError(Exception):
    """An operator that tensor operations do not express. The text says why, to stand after the operator's type."""


class OnnxOperator:
    """An operator with its attributes, tensors and constants."""

    def __init__(
        self, graph: Graph, op: Op, node: NodeProto, values: OnnxConstants, opset: int, read: frozenset[int]
    ) -> None:
        """Of a graph.

        Args:
            graph: tensors are named by their indices in it.
            op: the operator in it.
            node: the same in the file.
            values: of constants.
            opset: the version of ONNX's own operators.
            read: the tensors that operators or callers read.
        """
        self.opset = opset
        self.constants: list[int] = []  # tensors that were asked for as operands
        self._graph, self._op, self._values, self._read = graph, op, values, read
        self._attributes = {a.name: a for a in node.attribute}

    # Tensors.

    def has(self, position: int) -> bool:
        """Whether there is an input."""
        return position < len(self._op.inputs) and self._op.inputs[position] >= 0

    @property
    def inputs(self) -> int:
        """How many inputs it has."""
        return len(self._op.inputs)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The tensors that it writes; -1 for an absent one."""
        return self._op.outputs

    def input(self, position: int = 0) -> int:
        """The tensor of an input, which must not be a constant."""
        if self.is_constant(position):
            raise InexpressibleError(f"with a constant as input {position}")
        return self.operand(position)

    def operand(self, position: int) -> int:
        """The tensor of an input, which may be a constant."""
        if not self.has(position):
            raise InexpressibleError(f"without input {position}")
        index = self._op.inputs[position]
        self._check(index)
        if self.is_constant(position):
            value = self._values.value(self._graph.tensors[index].name)
            if value is None:
                raise InexpressibleError(
                    f"with input {position} that is computed from constants in a way that is not known here"
                )
            if value.dtype.kind in "iu" and np.any(np.abs(value.astype(np.float64)) > LARGEST):
                raise InexpressibleError(f"with integers beyond {LARGEST:,}, which 32-bit floats round")
            self.constants.append(index)
        return index

    def is_constant(self, position: int) -> bool:
        """Whether there is an input whose value is known."""
        if not self.has(position):
            return False
        tensor = self._graph.tensors[self._op.inputs[position]]
        return tensor.kind == "constant" or self._values.is_known(tensor.name)

    def output(self, position: int = 0) -> int:
        """The tensor of an output."""
        if position >= len(self.outputs) or self.outputs[position] < 0:
            raise InexpressibleError(f"without output {position}")
        self._check(self.outputs[position])
        return self.outputs[position]

    def single(self) -> int:
        """The tensor of its first output, which must be the only one that is read."""
        if any(index in self._read for index in self.outputs[1:]):
            raise InexpressibleError("with more than one output")
        return self.output()

    def shape(self, position: int = 0) -> tuple[int, ...]:
        """Of an input."""
        return self.shape_of(self._op.inputs[position]) if self.has(position) else ()

    def shape_of(self, index: int) -> tuple[int, ...]:
        """Of a tensor."""
        return self._graph.tensors[index].shape

    def made(self, position: int = 0) -> tuple[int, ...]:
        """The shape of an output."""
        return self.shape_of(self.output(position))

    def dtype(self, index: int) -> str:
        """Of a tensor."""
        return self._graph.tensors[index].dtype

    def is_integer(self, index: int) -> bool:
        """Whether a tensor holds integers."""
        return self.dtype(index) in _INTEGERS

    def wraps(self, index: int) -> bool:
        """Whether sums and products in a tensor's type leave its range with small numbers already."""
        return self.dtype(index) in _WRAPPING

    def _check(self, index: int) -> None:
        tensor = self._graph.tensors[index]
        if tensor.kind == "opaque":
            raise InexpressibleError(f"of {tensor.name!r}: {tensor.note or 'no tensor'}")
        if tensor.dtype not in _NUMBERS:
            raise InexpressibleError(f"of {tensor.dtype or 'unknown'} numbers")
        if not prod(tensor.shape):
            raise InexpressibleError("of tensors without elements")

    # Constants.

    def value(self, position: int, what: str) -> NDArray[np.generic] | None:
        """A constant input in its own dtype; None if it is absent. `what` it holds is for messages."""
        if not self.has(position):
            return None
        made = self._values.value(self._graph.tensors[self._op.inputs[position]].name)
        if made is None:
            raise InexpressibleError(f"with {what} that are computed")
        return made

    def weights(self, position: int, what: str) -> NDArray[np.float32] | None:
        """A constant input as 32-bit floats, or None if it is absent; the model's own values where they are such."""
        made = self.value(position, what)
        return None if made is None else as_floats(made)

    def numbers(self, position: int, what: str) -> tuple[int, ...] | None:
        """The integers in a constant input; None if it is absent."""
        made = self.value(position, what)
        if made is None:
            return None
        if made.dtype.kind not in "iu" or made.size > LARGEST:
            raise InexpressibleError(f"with {what} that are no integers")
        return tuple(int(v) for v in made.reshape(-1).tolist())

    def scalar(self, position: int, what: str, default: float) -> float:
        """The only number in a constant input, or the default if it is absent."""
        made = self.value(position, what)
        if made is None or not made.size:
            return default
        if made.size != 1 or made.dtype.kind not in "biuf":
            raise InexpressibleError(f"with {what} that are no single number")
        return float(made.reshape(-1)[0])

    # Attributes. One of another type than it should have counts as absent.

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        found = self._attributes.get(name)
        return int(found.i) if found is not None and found.type == AttributeProto.INT else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers; None if it is absent."""
        found = self._attributes.get(name)
        return tuple(found.ints) if found is not None and found.type == AttributeProto.INTS else None

    def number(self, name: str, default: float) -> float:
        """An attribute that is a float."""
        found = self._attributes.get(name)
        return float(found.f) if found is not None and found.type == AttributeProto.FLOAT else default

    def floats(self, name: str) -> tuple[float, ...] | None:
        """An attribute that is a list of floats; None if it is absent."""
        found = self._attributes.get(name)
        return tuple(found.floats) if found is not None and found.type == AttributeProto.FLOATS else None

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        found = self._attributes.get(name)
        if found is None or found.type != AttributeProto.STRING:
            return default
        return bytes(found.s).decode(errors="replace") or default

    def axis(self, name: str, default: int, rank: int) -> int:
        """An attribute that is an axis, counted from the first one."""
        return counted(self.integer(name, default), rank)

    def axes(self, position: int) -> tuple[int, ...] | None:
        """Axes in an attribute, or in a constant input at this position; None if there are neither."""
        found = self.integers("axes")
        return found if found is not None else self.numbers(position, "axes")


def counted(axis: int, rank: int) -> int:
    """An axis counted from the first one."""
    if not -rank <= axis < rank:
        raise InexpressibleError(f"along axis {axis} of {rank}")
    return axis % rank


def as_floats(values: NDArray[np.generic]) -> NDArray[np.float32]:
    """As 32-bit floats; no copy if they are such."""
    if values.dtype == np.float32:
        return values.view(np.ndarray)
    with np.errstate(all="ignore"):
        return values.astype(np.float32)


Rule: TypeAlias = "Callable[[OnnxOperator], Sequence[TensorOp]]"
