"""The values of constants of a .tflite file, those that the model decompresses as it starts included."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError
from edgemem_converters.tflite.constant_folding import dense
from edgemem_converters.tflite.objects import MOST, TIMES, read_errors
from edgemem_converters.tflite.schema import load_schema

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem_converters.tflite.reader import FileModel, FileOperator

__all__ = ["NotExpressibleError", "TfliteConstants"]

_DECOMPRESS: Final = ("DEQUANTIZE", "DENSIFY")
_OF_SHAPES: Final = ("SHAPE", "RANK")  # their values are known from the graph

_STORED: Final = (
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "bool",
)


class NotExpressibleError(Exception):
    """Why an operator has no tensor operations, in words for people."""


class TfliteConstants:
    """The values of the main subgraph of a file that are known before it runs: constants, and the sizes of tensors."""

    def __init__(self, file: FileModel, graph: Graph) -> None:
        self._file = file
        self._graph = graph
        self._known: dict[int, NDArray[Any]] = {}
        self._left = TIMES * len(file.data) + MOST
        self._producers: dict[int, FileOperator] = {}
        for op in file.subgraphs[0].operators:
            for index in op.outputs:
                if op.type in (*_OF_SHAPES, *_DECOMPRESS):
                    self._producers.setdefault(index, op)
        self._asked: set[int] = set()
        self._schema: ModuleType | None = None

    def is_known(self, index: int) -> bool:
        """Whether a tensor has the same value in every run."""
        if self._graph.tensors[index].kind == "constant":
            return True
        producer = self._producers.get(index)
        return producer is not None and self._asks_shape(producer)

    def value(self, index: int) -> NDArray[Any]:
        """A known value in its dtype and shape.

        Raises:
            ModelError: its buffer has another size than its shape.
            NotExpressibleError: it is stored in a way that is not read.
            MissingDependencyError: it is sparse or was quantised, and ai-edge-litert is not installed, which has the
                TFLite schema.
        """
        if index not in self._known:
            if index in self._asked:
                raise ModelError("damaged TFLite file: a constant is made of itself")
            self._asked.add(index)
            try:
                self._known[index] = self._value(index)
            finally:
                self._asked.remove(index)
        return self._known[index]

    def float32(self, index: int) -> NDArray[np.float32]:
        """The same as float32. Raises as `value`."""
        value = self.value(index)
        if value.dtype == np.float32:
            return value
        self.reserve(4 * value.size)
        return value.astype(np.float32)

    def dequantised(self, index: int) -> NDArray[np.float32]:
        """The same as float32: int8 weights less their zero points, times their scales. Raises as `value`."""
        counts = self.value(index)
        if counts.dtype != np.int8:
            return self.float32(index)
        self.reserve(4 * counts.size)
        found = self._object(index).quantization
        with read_errors():
            scales, zeros = np.array([*found.scale], np.float32), np.array([*found.zeroPoint], np.float32)
            along = [1] * counts.ndim
            if scales.size != 1:
                along[found.quantizedDimension] = counts.shape[found.quantizedDimension]
            if scales.size != prod(along):
                raise ModelError("damaged TFLite file: weights have another number of scales than of channels")
            scales, zeros = scales.reshape(along), np.broadcast_to(zeros, scales.size).reshape(along)
        with np.errstate(all="ignore"):
            return (counts.astype(np.float32) - zeros) * scales

    def _value(self, index: int) -> NDArray[Any]:
        tensor, shape = self._file.subgraphs[0].tensors[index], self._graph.tensors[index].shape
        producer = self._producers.get(index)
        if tensor.external:
            raise NotExpressibleError("constants in another file")
        stored = self._file.buffers[tensor.buffer].size if tensor.buffer < len(self._file.buffers) else 0
        if producer is None or stored:
            return self._stored(index, shape)
        source = min(producer.inputs[:1], default=-1)
        if source < 0:
            raise ModelError(f"damaged TFLite file: {tensor.name!r} is made of nothing")
        if self._asks_shape(producer):
            dims = self._graph.tensors[source].shape
            asked: NDArray[Any] = np.array(dims if producer.type == "SHAPE" else len(dims), self._dtype(index))
            if asked.shape != shape:
                raise ModelError(f"damaged TFLite file: the shape of a tensor of rank {len(dims)} is {shape}")
            return asked
        if producer.type == "DENSIFY":
            return self._dense(source)
        if self.value(source).dtype not in (np.float16, np.float32, np.int8):
            raise NotExpressibleError("quantised weights; the GPU runs float models")
        return self.dequantised(source)

    def _asks_shape(self, producer: FileOperator) -> bool:
        """Whether an operator asks for the shape of a tensor that has a fixed one."""
        if producer.type not in _OF_SHAPES or not producer.inputs or producer.inputs[0] < 0:
            return False
        return self._graph.tensors[producer.inputs[0]].kind != "opaque"

    def _dtype(self, index: int) -> np.dtype[Any]:
        kind = self._graph.tensors[index].dtype
        if kind not in _STORED:
            raise NotExpressibleError(f"constants of {kind}")
        return np.dtype(kind).newbyteorder("<")

    def _stored(self, index: int, shape: tuple[int, ...]) -> NDArray[Any]:
        tensor = self._file.subgraphs[0].tensors[index]
        data, dtype = self._bytes(index), self._dtype(index)
        if len(data) != dtype.itemsize * prod(shape):
            if self._object(index).sparsity is not None:
                raise NotExpressibleError("sparse weights that no DENSIFY decompresses")
            raise ModelError(f"damaged TFLite file: tensor {tensor.name!r} of {shape} has {len(data)} bytes")
        value: NDArray[Any] = np.frombuffer(data, dtype).reshape(shape)
        return value

    def _bytes(self, index: int) -> memoryview:
        buffer = self._file.buffers[self._file.subgraphs[0].tensors[index].buffer]
        return memoryview(self._file.data)[buffer.start : buffer.start + buffer.size]

    def _dense(self, index: int) -> NDArray[Any]:
        tensor = self._object(index)
        if tensor.sparsity is None:
            return self.value(index)
        with read_errors():
            self.reserve(4 * prod(int(d) for d in tensor.shape))
            return dense(tensor, SimpleNamespace(data=np.frombuffer(self._bytes(index), np.uint8)))

    def _object(self, index: int) -> Any:
        """The tensor as an object of the generated class, which has its sparsity and its quantisation."""
        if self._schema is None:
            self._schema = load_schema(len(self._file.data), "reading", "read")
        with read_errors():
            root = self._schema.Model.GetRootAs(self._file.data, 0)
            return self._schema.TensorT.InitFromObj(root.Subgraphs(0).Tensors(index))

    def reserve(self, size: int) -> bool:
        """Count the bytes of a converted constant before they are allocated; True. Raises ModelError for too many."""
        self._left -= max(size, 0)
        if self._left < 0:
            raise ModelError("damaged TFLite file: its constants overlap so often that they cannot be read")
        return True
