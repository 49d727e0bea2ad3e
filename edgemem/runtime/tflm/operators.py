"""Which graphs TensorFlow Lite Micro prepares, and what it computes wrongly whatever the plan, told without running it.

The tables are those of the Python package tflite-micro: the operators in its resolver, and the element types that its
kernels take. Read in tflite-micro 90b983c2 (python/tflite_micro/python_ops_resolver.cc, tensorflow/lite/micro/kernels).
A graph that they allow may be refused all the same, for other reasons; one that they refuse is refused.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.formats.claims import Refusal
from edgemem.model.resource_variables import all_operators, variable_of
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from edgemem.model.graph import Graph, Op

__all__ = ["TYPES", "micro_graph_refusal", "resolver_calls", "wrong_by_itself"]

# Operator -> element types of the tensor that decides which kernel runs; no types: whatever has a size.
_ROWS: Final = """
    : ASSIGN_VARIABLE BROADCAST_ARGS BROADCAST_TO CALL_ONCE IF READ_VARIABLE RESHAPE SHAPE SQUEEZE VAR_HANDLE WHILE
    : CIRCULAR_BUFFER SignalDelay SignalEnergy SignalFftAutoScale SignalFilterBank SignalFilterBankLog
    : SignalFilterBankSpectralSubtraction SignalFilterBankSquareRoot SignalFramer SignalIrfft SignalOverlapAdd
    : SignalPCAN SignalRfft SignalStacker SignalWindow TFLM_DECODE TFLite_Detection_PostProcess
    float32: CEIL EXP FLOOR FLOOR_DIV FLOOR_MOD L2_POOL_2D ROUND
    bool: LOGICAL_AND LOGICAL_NOT LOGICAL_OR
    float32 int8: ADD_N BATCH_TO_SPACE_ND DEPTH_TO_SPACE ELU HARD_SWISH L2_NORMALIZATION LOG_SOFTMAX NEG
    float32 int8: SPACE_TO_BATCH_ND SPACE_TO_DEPTH
    float32 int8 int16: ABS AVERAGE_POOL_2D BATCH_MATMUL CONV_2D COS DEPTHWISE_CONV_2D FULLY_CONNECTED LEAKY_RELU LOG
    float32 int8 int16: LOGISTIC MAX_POOL_2D PRELU RELU RELU6 RSQRT SIN SOFTMAX SQRT SQUARE SVDF TANH TRANSPOSE
    float32 int8 int16: TRANSPOSE_CONV UNIDIRECTIONAL_SEQUENCE_LSTM
    float32 int8 int32: ARG_MAX ARG_MIN CUMSUM DIV EMBEDDING_LOOKUP GATHER GATHER_ND RESIZE_BILINEAR
    float32 int8 int16 int32: ADD EXPAND_DIMS MUL PAD PADV2 RESIZE_NEAREST_NEIGHBOR SPLIT SPLIT_V SQUARED_DIFFERENCE SUB
    float32 int8 int16 int32: UNPACK
    bool float32 int8 int16 int32: MEAN REDUCE_ALL REDUCE_MAX REDUCE_MIN SELECT_V2 STRIDED_SLICE SUM
    float32 int8 int16 int32 int64: DYNAMIC_UPDATE_SLICE FILL MAXIMUM MINIMUM MIRROR_PAD PACK ZEROS_LIKE
    bool float32 int8 int16 int32 int64: CONCATENATION EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL NOT_EQUAL SLICE
    bool float32 int8 uint8 int16 int32 int64: REVERSE_V2
    bool float32 int8 int16 int32 uint32: CAST
    int8 uint8 int16: DEQUANTIZE
    float32 int8 uint8 int16 int32: QUANTIZE
"""
TYPES: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(types.split())
    for types, names in (row.split(":") for row in _ROWS.strip().splitlines())
    for name in names.split()
}
# The kernel follows the type of the result where the first input is an axis, a condition, a shape or indices.
_BY_OUTPUT: Final = frozenset({"EMBEDDING_LOOKUP", "FILL", "SELECT_V2", "SPLIT", "TRANSPOSE_CONV"})
_STORED: Final = frozenset({"DENSIFY", "DEQUANTIZE"})  # `shrink --steps fold` stores what they make of constants

# Operator -> the inputs from whose values the size of its result follows.
_SIZES: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("RESHAPE", "BROADCAST_TO", "PAD", "PADV2", "MIRROR_PAD", "SPLIT_V"), (1,)),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), (1,)),
    **dict.fromkeys(("FILL", "TRANSPOSE_CONV"), (0,)),
    **dict.fromkeys(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "STRIDED_SLICE"), (1, 2)),
    "SLICE": (2,),
}
_OF_SHAPES: Final = frozenset({"SHAPE", "RANK", "ZEROS_LIKE"})  # their results depend on sizes alone


# Kernels that loop over the images of their input, and over the elements of their input, whatever their result's shape.
_BY_IMAGE: Final = frozenset({"AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D"})
_BY_ELEMENT: Final = frozenset(
    (
        *("ABS", "CAST", "CEIL", "COS", "DEQUANTIZE", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LEAKY_RELU", "LOG"),
        *("LOGISTIC", "NEG", "QUANTIZE", "RELU", "RELU6", "ROUND", "RSQRT", "SIN", "SOFTMAX", "SQRT", "SQUARE", "TANH"),
    )
)

# Where the method of MicroMutableOpResolver is not called after the operator.
_ADDED_AS: Final[Mapping[str, str]] = {
    "AVERAGE_POOL_2D": "AveragePool2D",
    "BATCH_MATMUL": "BatchMatMul",
    "CONV_2D": "Conv2D",
    "CUMSUM": "CumSum",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
    "L2_POOL_2D": "L2Pool2D",
    "MAX_POOL_2D": "MaxPool2D",
    "PADV2": "PadV2",
    "TFLM_DECODE": "Decode",
    "TFLite_Detection_PostProcess": "DetectionPostprocess",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
}


def resolver_calls(graph: Graph) -> dict[str, str]:
    """The method of `MicroMutableOpResolver` that adds an operator, by the operator's type; "" where it has none."""

    def method(kind: str) -> str:
        if kind not in TYPES:
            return ""
        words = (
            "".join(word.capitalize() for word in kind.split("_")) if kind.isupper() else kind.removeprefix("Signal")
        )
        return f"Add{_ADDED_AS.get(kind, words)}"

    return {op.type: method(op.type) for _, op in all_operators(graph)}


def micro_graph_refusal(graph: Graph) -> Refusal | None:
    """Why TensorFlow Lite Micro does not run a graph right, as far as the tables tell; None if nothing is known.

    Args:
        graph: of a .tflite file.
    """
    refused = [(op, why) for g, op in all_operators(graph) if (why := _unprepared(g, op))]
    if refused:
        names = join_names(dict.fromkeys(why for _, why in refused), most=3)
        return Refusal(
            f"it has no kernel for {names}",
            "shrink --steps fold" if all(op.type in _STORED for op, _ in refused) else "",
        )
    wrong = wrong_by_itself(graph)
    return Refusal(wrong, "") if wrong else None


def wrong_by_itself(graph: Graph) -> str:
    """What TensorFlow Lite Micro computes wrongly with any plan and without one; "" if nothing is known.

    It takes all sizes from the file, and so a tensor whose size depends on the data has the wrong one. A variable that
    nothing assigns has no memory, and what reads it leaves its result unwritten.
    """
    assigned = {variable_of(g, op) for g, op in all_operators(graph) if op.type == "ASSIGN_VARIABLE"}
    for g, op in all_operators(graph):
        if op.type == "READ_VARIABLE" and variable_of(g, op) not in assigned and "" not in assigned:
            return f"it leaves the result of {op.name} unwritten: nothing assigns the variable that it reads"
    for g, op in all_operators(graph):
        why = _impossible_shape(g, op)
        if why:
            return why
    tensor = next(_sized_by_data(graph, {i for i in graph.inputs if graph.tensors[i].kind == "activation"}), None)
    if tensor is not None:
        return f"it takes all sizes from the file, and that of {tensor!r} depends on the data"
    return ""


def _unprepared(graph: Graph, op: Op) -> str:
    """The operator, with its type where that is the reason, if TensorFlow Lite Micro does not prepare it; else ""."""
    types = TYPES.get(op.type)
    if types is None:
        return op.type
    ends = op.outputs if op.type in _BY_OUTPUT else op.inputs
    if not types or not ends or ends[0] < 0:
        return ""
    dtype = graph.tensors[ends[0]].dtype
    return "" if dtype in types else f"{op.type} of {dtype}"


def _sized_by_data(graph: Graph, by_data: Iterable[int]) -> Iterator[str]:
    """Results whose size follows from the values of inputs and variables. `by_data`: the tensors that are given so."""
    known = set(by_data)
    for op in graph.ops:
        is_sized = any(i in known for k in _SIZES.get(op.type, ()) for i in op.inputs[k : k + 1])
        if is_sized and op.outputs and op.outputs[0] >= 0 and not _is_one(graph, op):
            yield graph.tensors[op.outputs[0]].name
        for body in op.bodies:
            given = op.inputs[len(op.inputs) - len(body.inputs) :]  # IF's condition is no input of its bodies
            yield from _sized_by_data(body, {b for a, b in zip(given, body.inputs, strict=False) if a in known})
        if op.type == "READ_VARIABLE" or (op.type not in _OF_SHAPES and not known.isdisjoint(op.inputs)):
            known.update(i for i in op.outputs if i >= 0)


def _impossible_shape(graph: Graph, op: Op) -> str:
    """Why the shape that the file has for a result cannot be what the operator makes; "" if nothing is known.

    TensorFlow Lite Micro believes the file: a kernel writes outside its result, or leaves out what should be there.
    """
    ends = [*op.inputs[:1], *op.outputs[:1]]
    if len(ends) < 2 or min(ends) < 0:
        return ""
    read, made = (graph.tensors[index] for index in ends)
    given, sizes = (prod(tensor.shape) for tensor in (read, made))
    is_less = op.type == "SPACE_TO_BATCH_ND" and sizes < given
    is_more = op.type == "BATCH_TO_SPACE_ND" and sizes > given
    is_apart = op.type in _BY_IMAGE and read.shape[:1] != made.shape[:1]
    is_other = op.type in _BY_ELEMENT and sizes != given
    if not (is_less or is_more or is_apart or is_other):
        return ""
    return (
        f"the file gives {made.name!r} the shape {list(made.shape)}, which {op.type} does not make of "
        f"{list(read.shape)}: convert the model again, with a batch of 1"
    )


def _is_one(graph: Graph, op: Op) -> bool:
    """Whether a strided slice drops an axis: it takes one element there, wherever that lies."""
    if op.type != "STRIDED_SLICE":
        return False
    return len(graph.tensors[op.outputs[0]].shape) < len(graph.tensors[op.inputs[0]].shape)
