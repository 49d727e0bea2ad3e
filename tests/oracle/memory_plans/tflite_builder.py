"""Builds small .tflite files with the schema's own objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracle.memory_plans.tflite_file import schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["File", "Graph"]

_OPTIONS = {"RESHAPE": "Reshape", "CONCATENATION": "Concatenation", "SOFTMAX": "Softmax", "CAST": "Cast"}
_OPTIONS |= {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "MEAN": "Reducer", "TRANSPOSE": "Transpose"}
_OPTIONS |= {"FULLY_CONNECTED": "FullyConnected", "WHILE": "While", "IF": "If", "CALL_ONCE": "CallOnce", "CALL": "Call"}
_OPTIONS |= {"VAR_HANDLE": "VarHandle", "SPLIT": "Split", "CONV_2D": "Conv2D", "BATCH_MATMUL": "BatchMatMul"}
_OPTIONS |= {"SQUEEZE": "Squeeze", "LEAKY_RELU": "LeakyRelu", "LESS": "Less", "PAD": "Pad", "SVDF": "SVDF"}


@dataclass(eq=False)
class Graph:
    """A subgraph in the making. Tensors are numbers."""

    file: File
    name: str
    tensors: list[Any] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(
        self,
        dtype: str,
        shape: Sequence[int],
        data: NDArray[Any] | None = None,
        *,
        name: str = "",
        variable: bool = False,
    ) -> int:
        s = schema()
        made = s.TensorT()
        made.name = (name or f"{self.name}{len(self.tensors)}").encode()
        made.shape, made.type = list(shape), getattr(s.TensorType, dtype.upper())
        made.buffer = 0 if data is None else self.file.buffer(data.tobytes())
        made.isVariable = variable
        self.tensors.append(made)
        return len(self.tensors) - 1

    def form(self, index: int) -> tuple[str, tuple[int, ...]]:
        """Dtype and shape of a tensor."""
        tensor = self.tensors[index]
        return self.file.dtypes[tensor.type], tuple(tensor.shape)

    def call(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> None:
        s = schema()
        made = s.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = self.file.code(kind), list(inputs), list(outputs)
        if kind in _OPTIONS:
            made.builtinOptions = getattr(s, f"{_OPTIONS[kind]}OptionsT")()
            made.builtinOptionsType = getattr(s.BuiltinOptions, f"{_OPTIONS[kind]}Options")
            for key, value in options.items():
                setattr(made.builtinOptions, key, value)
        self.operators.append(made)


@dataclass(eq=False)
class File:
    """A model in the making; the first graph is the main one."""

    graphs: list[Graph] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    buffers: list[bytes] = field(default_factory=lambda: [b""])

    def __post_init__(self) -> None:
        names: Mapping[str, Any] = vars(schema().TensorType)
        self.dtypes = {number: name.lower() for name, number in names.items() if isinstance(number, int)}

    def graph(self, name: str) -> Graph:
        self.graphs.append(Graph(self, name))
        return self.graphs[-1]

    def code(self, kind: str) -> int:
        if kind not in self.codes:
            self.codes.append(kind)
        return self.codes.index(kind)

    def buffer(self, content: bytes) -> int:
        self.buffers.append(content)
        return len(self.buffers) - 1

    def content(self) -> bytes:
        """The file."""
        import flatbuffers

        s = schema()
        model = s.ModelT()
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [], [], []
        for kind in self.codes:
            code = s.OperatorCodeT()
            code.builtinCode = getattr(s.BuiltinOperator, kind)
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
            model.operatorCodes.append(code)
        for content in self.buffers:
            buffer = s.BufferT()
            buffer.data = np.frombuffer(content, np.uint8) if content else None
            model.buffers.append(buffer)
        for graph in self.graphs:
            made = s.SubGraphT()
            made.name, made.tensors, made.operators = graph.name.encode(), graph.tensors, graph.operators
            made.inputs, made.outputs = graph.inputs, graph.outputs
            model.subgraphs.append(made)
        builder = flatbuffers.Builder(4096)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
