"""One operator of a .tflite file with all that decides what it computes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError
from edgemem.model.tensor_ops import IDENTITY, Function
from edgemem_converters.tflite.computation.constants import NotExpressibleError, TfliteConstants
from edgemem_converters.tflite.computation.options import OPTIONS
from edgemem_converters.tflite.reader import read_custom_options, read_options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.graph import Attribute, Graph
    from edgemem_converters.tflite.reader import FileModel

__all__ = ["TfliteOperator"]

FLOATS: Final = ("float32", "float16")
_EXACT: Final = (*FLOATS, "int32", "int64", "bool")  # whole numbers count exactly up to 2**24
_QUANTISED: Final = ("int8", "uint8", "int16", "int4", "int2", "uint4")
# The schema's ActivationFunctionType. The float kernels take no other.
_ACTIVATIONS: Final = {
    0: IDENTITY,
    1: Function("relu"),
    2: Function("clip", (-1.0, 1.0)),
    3: Function("clip", (0.0, 6.0)),
}


class TfliteOperator:
    """An operator of the main subgraph. Positions count its inputs, absent optional ones included.

    Attributes:
        type: of the operator.
        shape: of the first output.
        output: the first output.
        outputs: all of them.
        read: the constants that its tensor operations name as inputs so far.
    """

    def __init__(self, file: FileModel, graph: Graph, number: int, values: TfliteConstants) -> None:
        self._file, self._graph, self._values = file, graph, values
        self._op, self._operator = graph.ops[number], file.subgraphs[0].operators[number]
        self.type = self._op.type
        if not self._op.outputs or min(self._op.outputs) < 0:
            raise ModelError("it has no output")
        self.outputs = self._op.outputs
        self.output = self.outputs[0]
        self.shape = graph.tensors[self.output].shape
        self.read: set[int] = set()
        for index in self.outputs:
            self._check(index)

    def has(self, position: int) -> bool:
        """Whether there is an input."""
        return position < len(self._op.inputs) and self._op.inputs[position] >= 0

    def count(self) -> int:
        """How many inputs there are."""
        return len(self._op.inputs)

    def index(self, position: int) -> int:
        """The tensor of an input. Raises ModelError if it is absent."""
        if not self.has(position):
            raise ModelError(f"it has no input {position}")
        return self._op.inputs[position]

    def operand(self, position: int) -> int:
        """The tensor of an input that a tensor operation reads."""
        index = self.index(position)
        self._check(index)
        if self._values.is_known(index):
            self.read.add(index)
        return index

    def floats(self, position: int) -> int:
        """As `operand`, for an operation that whole numbers would need other rules for."""
        dtype = self.dtype(position)
        if dtype not in FLOATS and dtype not in _QUANTISED:
            raise NotExpressibleError(f"{self.type} of {dtype}")
        return self.operand(position)

    def dtype(self, position: int) -> str:
        """Of an input."""
        return self._graph.tensors[self.index(position)].dtype

    @property
    def output_dtype(self) -> str:
        """Of the first output."""
        return self._graph.tensors[self.output].dtype

    def dims(self, position: int) -> tuple[int, ...]:
        """The shape of an input."""
        return self._graph.tensors[self.index(position)].shape

    def output_dims(self, index: int) -> tuple[int, ...]:
        """The shape of a tensor among the outputs."""
        return self._graph.tensors[index].shape

    def option(self, name: str) -> Any:
        """One of the options; its default where the file has none."""
        code, fields = OPTIONS[self.type]
        return read_options(self._file.data, self._operator, code, {name: fields[name]})[name]

    def custom(self) -> bytes:
        """The options of a custom operator."""
        return read_custom_options(self._file.data, self._operator)

    def attribute(self, name: str) -> Attribute | None:
        """One of `edgemem.model.graph.Op.attributes`."""
        return self._op.attributes.get(name)

    def function(self) -> Function:
        """The fused activation."""
        number = self.option("activation")
        if number not in _ACTIVATIONS:
            raise NotExpressibleError(f"{self.type} with fused activation {number}")
        return _ACTIVATIONS[number]

    def constant(self, position: int, what: str) -> NDArray[np.float32]:
        """The value of a constant as float32; `what` it is, for people.

        int8 weights of an operator that writes floats are dequantised, as TFLite's delegate for GPUs does. On a CPU
        LiteRT may round the operator's input to int8, too.
        """
        index = self.index(position)
        if not self._values.is_known(index):
            raise NotExpressibleError(f"{self.type} with {what} that are computed")
        dtype = self._graph.tensors[index].dtype
        if dtype in _QUANTISED and dtype != "int8":
            raise NotExpressibleError(f"{self.type} is quantised; the GPU runs float models")
        return self._values.dequantised(index)

    def whole(self, position: int, what: str) -> tuple[int, ...]:
        """The whole numbers of a constant, one after the other."""
        index = self.index(position)
        if not self._values.is_known(index):
            raise NotExpressibleError(f"{self.type} with {what} that are computed")
        value = self._values.value(index)
        if value.dtype not in (np.int32, np.int64):
            raise NotExpressibleError(f"{self.type} with {what} of {value.dtype}")
        self._values.reserve(value.nbytes)  # many operators may share a long constant
        return tuple(int(v) for v in value.reshape(-1).tolist())

    def axis(self, number: int, rank: int) -> int:
        """An axis from 0 on. Raises ModelError for one that is not there."""
        if not -rank <= number < rank:
            raise ModelError(f"it names axis {number} of {rank}")
        return number % rank

    def contradiction(self) -> ModelError:
        """The error of an operator whose shapes and options do not fit together."""
        return ModelError("its options contradict its shapes")

    def _check(self, index: int) -> None:
        tensor = self._graph.tensors[index]
        if tensor.kind == "opaque":
            raise NotExpressibleError(f"{self.type} with {tensor.note}")
        if tensor.kind == "variable":
            raise NotExpressibleError(f"{self.type} with a variable")
        is_cast = self.type == "CAST" and tensor.dtype in ("int8", "uint8", "int16") and index not in self.outputs
        if tensor.dtype in _QUANTISED and not is_cast:
            raise NotExpressibleError(f"{self.type} is quantised; the GPU runs float models")
        if tensor.dtype not in _EXACT and not is_cast:
            raise NotExpressibleError(f"{self.type} of {tensor.dtype}")
        if not prod(tensor.shape):
            raise NotExpressibleError(f"{self.type} with an empty tensor")
