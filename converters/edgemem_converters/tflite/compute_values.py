"""The values of constants of a .tflite file, those that the model decompresses as it starts included."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError
from edgemem_converters.tflite.fold import dense
from edgemem_converters.tflite.names import DTYPES
from edgemem_converters.tflite.objects import MOST, TIMES, read_errors
from edgemem_converters.tflite.schema import load_schema

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem_converters.tflite.reader import FileModel

__all__ = ["NotExpressibleError", "Values"]

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


class Values:
    """The constants of the main subgraph of a file."""

    def __init__(self, file: FileModel, graph: Graph) -> None:
        self._file = file
        self._graph = graph
        self._known: dict[int, NDArray[Any]] = {}
        self._left = TIMES * len(file.data) + MOST
        self._producers = {i: op for op in file.subgraphs[0].operators for i in op.outputs}
        self._schema: ModuleType | None = None

    def value(self, index: int) -> NDArray[Any]:
        """A constant in its dtype and shape.

        Raises:
            ModelError: its buffer has another size than its shape.
            NotExpressibleError: it is stored in a way that is not read.
            MissingDependencyError: it is sparse, and ai-edge-litert, which has the TFLite schema, is not installed.
        """
        if index not in self._known:
            self._known[index] = self._value(index)
        return self._known[index]

    def float32(self, index: int) -> NDArray[np.float32]:
        """The same as float32. Raises as `value`."""
        value = self.value(index)
        if value.dtype == np.float32:
            return value
        self._reserve(4 * value.size)
        return value.astype(np.float32)

    def _value(self, index: int) -> NDArray[Any]:
        tensor, shape = self._file.subgraphs[0].tensors[index], self._graph.tensors[index].shape
        producer = self._producers.get(index)
        if tensor.external:
            raise NotExpressibleError("constants in another file")
        stored = self._file.buffers[tensor.buffer].size if tensor.buffer < len(self._file.buffers) else 0
        if producer is None or stored:
            return self._stored(index, shape)
        source = producer.inputs[0]  # the graph counts it as a constant because this one is
        if producer.type == "DENSIFY":
            return self._dense(source)
        value = self.value(source)
        if value.dtype not in (np.float16, np.float32):
            raise NotExpressibleError("quantised weights; the GPU runs float models")
        return value.astype(np.float32) if self._reserve(4 * value.size) else value

    def _stored(self, index: int, shape: tuple[int, ...]) -> NDArray[Any]:
        tensor = self._file.subgraphs[0].tensors[index]
        kind = DTYPES[tensor.type] if 0 <= tensor.type < len(DTYPES) else f"type {tensor.type}"
        if kind not in _STORED:
            raise NotExpressibleError(f"constants of {kind}")
        data, dtype = self._bytes(index), np.dtype(kind).newbyteorder("<")
        if len(data) != dtype.itemsize * prod(shape):
            if self._sparse(index).sparsity is not None:
                raise NotExpressibleError("sparse weights that no DENSIFY decompresses")
            raise ModelError(f"damaged TFLite file: tensor {tensor.name!r} of {shape} has {len(data)} bytes")
        value: NDArray[Any] = np.frombuffer(data, dtype).reshape(shape)
        return value

    def _bytes(self, index: int) -> memoryview:
        buffer = self._file.buffers[self._file.subgraphs[0].tensors[index].buffer]
        return memoryview(self._file.data)[buffer.start : buffer.start + buffer.size]

    def _dense(self, index: int) -> NDArray[Any]:
        tensor = self._sparse(index)
        if tensor.sparsity is None:
            return self.value(index)
        with read_errors():
            self._reserve(4 * prod(int(d) for d in tensor.shape))
            return dense(tensor, SimpleNamespace(data=np.frombuffer(self._bytes(index), np.uint8)))

    def _sparse(self, index: int) -> Any:
        """The tensor as an object of the generated class, which has its sparsity."""
        if self._schema is None:
            self._schema = load_schema(len(self._file.data), "reading", "read")
        with read_errors():
            root = self._schema.Model.GetRootAs(self._file.data, 0)
            return self._schema.TensorT.InitFromObj(root.Subgraphs(0).Tensors(index))

    def _reserve(self, size: int) -> bool:
        """Count the bytes of a converted constant before they are allocated."""
        self._left -= max(size, 0)
        if self._left < 0:
            raise ModelError("damaged TFLite file: its constants overlap so often that they cannot be read")
        return True
