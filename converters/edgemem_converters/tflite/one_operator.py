"""Writes .tflite files of one operator, for probes of runtimes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import flatbuffers
import numpy as np

from edgemem.errors import MissingDependencyError, UnsupportedError
from edgemem_converters.tflite.names import DTYPES, OPERATOR_CODES
from edgemem_converters.tflite.offsets import OFFLINE

if TYPE_CHECKING:
    from edgemem.formats import OneOperator, OperandValue

__all__ = ["write_operator"]

_SCHEMA: Final = "ai_edge_litert.schema_py_generated"
_IDENTIFIER: Final = b"TFL3"
_VERSION: Final = 3
_OLDEST_CODE: Final = 127  # operators from here on have their code in another field

# Operator -> the table of its options.
_OPTIONS: Final = {
    **dict.fromkeys(("MAX_POOL_2D", "AVERAGE_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimumOptions"),
    "ADD": "AddOptions",
    "CONCATENATION": "ConcatenationOptions",
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "MEAN": "ReducerOptions",
    "MUL": "MulOptions",
    "PAD": "PadOptions",
    "RESHAPE": "ReshapeOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "SLICE": "SliceOptions",
    "SOFTMAX": "SoftmaxOptions",
    "SUB": "SubOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
}


def write_operator(operator: OneOperator, places: tuple[int, ...]) -> bytes:
    """A file of one operator.

    Args:
        operator: what to write.
        places: offsets in bytes for TensorFlow Lite Micro, of the inputs without data and the output, in this order.

    Raises MissingDependencyError without ai-edge-litert, which has the schema, and UnsupportedError for options of an
    operator that has none.
    """
    try:
        schema: Any = import_module(_SCHEMA)
    except ImportError:
        raise MissingDependencyError("ai-edge-litert", purpose="writing .tflite files") from None
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.description, model.buffers = _VERSION, "one operator", [schema.BufferT()]
    values = [*dict.fromkeys(operator.inputs), operator.output]
    graph.name, graph.tensors = "main", [_tensor(schema, model, value, k) for k, value in enumerate(values)]
    op = schema.OperatorT()
    op.opcodeIndex, last = 0, len(values) - 1
    op.inputs = np.array([values.index(value) for value in operator.inputs], np.int32)
    op.outputs = graph.outputs = np.array([last], np.int32)
    graph.inputs = np.array([k for k in range(last) if values[k].data is None], np.int32)
    _set_options(schema, op, operator)
    graph.operators, model.subgraphs = [op], [graph]
    code = schema.OperatorCodeT()
    code.builtinCode, code.version = OPERATOR_CODES[operator.type], 1
    code.deprecatedBuiltinCode = min(code.builtinCode, _OLDEST_CODE)
    model.operatorCodes = [code]
    offsets = np.full(3 + len(values), -1, "<i4")
    offsets[:3] = 1, 0, len(values)
    offsets[3 + np.array([*graph.inputs, last])] = places
    entry = schema.MetadataT()
    entry.name, entry.buffer = OFFLINE, _buffer(schema, model, offsets.tobytes())
    model.metadata = [entry]
    builder = flatbuffers.Builder(1 << 12)
    builder.Finish(model.Pack(builder), _IDENTIFIER)
    return bytes(builder.Output())


def _tensor(schema: Any, model: Any, value: OperandValue, number: int) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape = f"t{number}", np.array(value.shape, np.int32)
    tensor.type = DTYPES.index(value.dtype)
    tensor.buffer = 0 if value.data is None else _buffer(schema, model, value.data)
    if value.scales:
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = np.array(value.scales, np.float32)
        tensor.quantization.zeroPoint = np.full(len(value.scales), value.zero_point, np.int64)
        tensor.quantization.quantizedDimension = value.axis
    return tensor


def _buffer(schema: Any, model: Any, data: bytes) -> int:
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(data, np.uint8)
    model.buffers.append(buffer)
    return len(model.buffers) - 1


def _set_options(schema: Any, op: Any, operator: OneOperator) -> None:
    name = _OPTIONS.get(operator.type)
    if name is None:
        if operator.options:
            raise UnsupportedError(f"{operator.type} is written without options; leave out {list(operator.options)}")
        return
    op.builtinOptionsType = getattr(schema.BuiltinOptions, name)
    op.builtinOptions = getattr(schema, f"{name}T")()
    for key, value in operator.options.items():
        setattr(op.builtinOptions, key, value)
