"""The tail of TensorFlow Lite Micro's arena, predicted from a graph: what lives as long as the interpreter.

The sizes are those of the structures in a 64-bit build; on a 32-bit microcontroller the tail is smaller. Every tensor
has a `TfLiteEvalTensor` and every operator a node. As an operator is prepared, its options are copied out of the file,
and its kernel allocates a structure of its own; convolutions also allocate a multiplier and a shift for every output
channel, so that each further convolution costs memory by its channels. Kernels' structures are aligned to 16 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.records.sizes import padded, tensor_bytes
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.model.graph import Graph, Op

__all__ = ["TENSOR", "operator_bytes", "predicted_tail"]

TENSOR: Final = 24  # bytes of a TfLiteEvalTensor
_NODE: Final = 64
_ALIGNMENT: Final = 16
_INTERPRETER: Final = 496  # the allocator, the planner and the lists of subgraphs, whatever the model
_END: Final = 64  # of an input or output of the graph: its TfLiteTensor
_QUANTISED: Final = 32  # of a quantised input or output, besides
_POINTER: Final = 8
_WORKSPACE: Final = 8  # the handle of a piece of workspace
_RESOURCE: Final = 32  # of a variable that operators read and assign, besides its bytes

# Bytes of an operator's options, and of its kernel's structure.
_STRUCTURES: Final[Mapping[str, tuple[int, int]]] = {
    "ABS": (0, 16),
    "ADD": (8, 60),
    "ARG_MAX": (4, 0),
    "ARG_MIN": (4, 0),
    "ASSIGN_VARIABLE": (0, 4),
    "AVERAGE_POOL_2D": (40, 32),
    "BATCH_MATMUL": (4, 64),
    "CALL_ONCE": (4, 8),
    "CAST": (8, 0),
    "CEIL": (0, 0),
    "CONCATENATION": (8, 80),
    "CONV_2D": (28, 80),
    "COS": (0, 0),
    "DEPTHWISE_CONV_2D": (28, 80),
    "DEQUANTIZE": (0, 32),
    "DIV": (4, 32),
    "ELU": (0, 256),
    "EQUAL": (0, 28),
    "EXP": (0, 0),
    "EXPAND_DIMS": (0, 0),
    "FLOOR": (0, 0),
    "FULLY_CONNECTED": (16, 80),
    "GATHER": (8, 0),
    "GREATER": (0, 28),
    "GREATER_EQUAL": (0, 28),
    "HARD_SWISH": (0, 20),
    "L2_NORMALIZATION": (4, 16),
    "LEAKY_RELU": (4, 24),
    "LESS": (0, 28),
    "LESS_EQUAL": (0, 28),
    "LOG": (0, 0),
    "LOGISTIC": (0, 16),
    "LOG_SOFTMAX": (0, 32),
    "MAXIMUM": (0, 0),
    "MAX_POOL_2D": (40, 32),
    "MEAN": (1, 48),
    "MINIMUM": (0, 0),
    "MIRROR_PAD": (4, 24),
    "MUL": (4, 36),
    "NEG": (0, 0),
    "NOT_EQUAL": (0, 28),
    "PACK": (8, 0),
    "PAD": (0, 56),
    "PADV2": (0, 56),
    "PRELU": (0, 28),
    "QUANTIZE": (0, 28),
    "READ_VARIABLE": (0, 0),
    "REDUCE_MAX": (1, 48),
    "REDUCE_MIN": (1, 48),
    "RELU": (0, 48),
    "RELU6": (0, 8),
    "RESHAPE": (36, 0),
    "RESIZE_BILINEAR": (4, 0),
    "RESIZE_NEAREST_NEIGHBOR": (4, 0),
    "ROUND": (0, 0),
    "RSQRT": (0, 16),
    "SELECT_V2": (0, 16),
    "SHAPE": (4, 0),
    "SIN": (0, 0),
    "SLICE": (0, 0),
    "SOFTMAX": (4, 80),
    "SPACE_TO_DEPTH": (4, 0),
    "SPLIT": (4, 0),
    "SPLIT_V": (4, 0),
    "SQRT": (0, 0),
    "SQUARE": (0, 0),
    "SQUARED_DIFFERENCE": (0, 48),
    "SQUEEZE": (36, 0),
    "STRIDED_SLICE": (24, 96),
    "SUB": (8, 52),
    "SUM": (1, 48),
    "SVDF": (12, 80),
    "TANH": (0, 16),
    "TRANSPOSE": (0, 0),
    "TRANSPOSE_CONV": (20, 104),
    "UNPACK": (8, 0),
    "VAR_HANDLE": (16, 4),
    "WHILE": (8, 16),
}
_UNKNOWN: Final = (16, 32)  # for operators that are not listed
# Where the output channels are among the dimensions of the weights.
_CHANNELS: Final[Mapping[str, int]] = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 0}
# How many pieces of workspace a kernel asks for, and one more where its input is quantised.
_PIECES: Final[Mapping[str, tuple[int, int]]] = {
    "MEAN": (2, 1),
    "SUM": (2, 1),
    "REDUCE_MAX": (2, 0),
    "REDUCE_MIN": (2, 0),
    "TRANSPOSE_CONV": (0, 1),
    "SVDF": (1, 0),
}
_INTEGERS: Final = frozenset(("int8", "uint8", "int16"))


def predicted_tail(graph: Graph) -> int:
    """Bytes of the tail for the graph of a .tflite file, bodies included, in a 64-bit build.

    In a rewritten graph (`edgemem.model.rewrite`) the constants that tell a SLICE or a PAD what to do are not among the
    tensors; each is counted once, as it will be in the file.
    """
    total = _INTERPRETER + _of_ends(graph, graph.inputs) + _of_ends(graph, graph.outputs)
    return padded(total + _of_subgraph(graph) + TENSOR * _left_out(graph), _ALIGNMENT)


def operator_bytes(graph: Graph, op: Op) -> int:
    """What one more operator of this kind adds to the tail, in bytes, without its tensors.

    Args:
        graph: which the operator's tensors are in; the tensor of weights must be among them.
        op: the operator.
    """
    options, structure = _STRUCTURES.get(op.type, _UNKNOWN)
    total = _NODE + options + padded(structure, _ALIGNMENT)
    axis = _CHANNELS.get(op.type)
    if axis is not None and len(op.inputs) > 1 and op.inputs[1] >= 0:
        shape = graph.tensors[op.inputs[1]].shape
        total += 2 * padded(4 * shape[axis], _ALIGNMENT) if axis < len(shape) else 0
    if op.type == "READ_VARIABLE" and op.outputs:
        total += _RESOURCE + padded(tensor_bytes(graph.tensors[op.outputs[0]], BUILT_IN["tflm"], "nhwc"), _ALIGNMENT)
    pieces, more = _PIECES.get(op.type, (0, 0))
    first = graph.tensors[op.inputs[0]].dtype if op.inputs and op.inputs[0] >= 0 else ""
    return total + _WORKSPACE * (pieces + (more if first in _INTEGERS else 0))


def _of_subgraph(graph: Graph) -> int:
    total = TENSOR * len(graph.tensors) + sum(operator_bytes(graph, op) for op in graph.ops)
    for tensor in graph.tensors:
        if tensor.kind == "variable":
            total += padded(tensor_bytes(tensor, BUILT_IN["tflm"], "nhwc"), _ALIGNMENT)
    return total + sum(_of_subgraph(body) for op in graph.ops for body in op.bodies)


def _left_out(graph: Graph) -> int:
    """How many constants a rewritten graph does not have among its tensors."""
    needed = {"SLICE": ("begin", "size"), "PAD": ("paddings",)}
    values = {
        (op.attributes.get(name), name == "paddings")
        for op in graph.ops
        if len(op.inputs) == 1
        for name in needed.get(op.type, ())
    }
    return len(values)


def _of_ends(graph: Graph, ends: tuple[int, ...]) -> int:
    """Of the inputs or the outputs of the graph: a list of pointers, and a tensor for each."""
    quantised = sum(graph.tensors[i].dtype in _INTEGERS for i in ends)
    return padded(_POINTER * len(ends), _ALIGNMENT) + _END * len(ends) + _QUANTISED * quantised
