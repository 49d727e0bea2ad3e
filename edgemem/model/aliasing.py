"""Which operators may share memory between an input and their output: one table, read by lifetime and by verify.

A *view* has the input's bytes for output: both names stand for one value. An *in-place* operator may write its
output over an input that dies there, because it reads each element before it writes the same one and never looks
back. Both need equal byte sizes. Operators that make two passes (Gelu, Softmax, normalisations) are not in the table.
An *update* writes rows into a state that keeps its place from run to run: the rest of the output is the input's bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RULES", "AliasRules", "rules_of"]


@dataclass(frozen=True, slots=True)
class AliasRules:
    """A set of rules.

    Attributes:
        views: operator types whose first output is their first input under another name or shape.
        in_place: operator type -> positions of the inputs that its first output may overwrite, in preference order.
        views_of_outputs: a view may be of a graph output, too.
        sole_reader: only the first input that no other operator reads, earlier or later, is considered for being
            overwritten, and nothing else may read the memory that it is a view of.
        over: bytes that an input must exceed to be overwritten.
        same_storage: tensors are kept in slices of four channels (`edgemem.model.texture_layout`). A view is one only
            where both tensors have each element at the same place, and an input is overwritten only by a result of
            its shape, whatever the dtypes.
        updates: operator type -> pairs (input, output) of positions: where the two are one state, the operator writes
            only what changes, and leaves the rest as it is.
    """

    views: frozenset[str] = frozenset()
    in_place: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    views_of_outputs: bool = False
    sole_reader: bool = False
    over: int = 0
    same_storage: bool = False
    updates: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


_ONNX_VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity")
_TFLITE_VIEWS = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST")

_UNARY = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Celu", "Clip", "Cos"),
    *("Cosh", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log", "Neg", "Not", "PRelu", "Reciprocal"),
    *("Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
    *("ThresholdedRelu", "Dropout"),
    *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "LEAKY_RELU", "LOG", "LOGICAL_NOT", "LOGISTIC", "NEG", "PRELU"),
    *("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE", "TANH"),
)
_BINARY = (
    *("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Mul", "Or", "Pow", "Sub", "Xor"),
    *("ADD", "DIV", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB"),
)

# Views in TensorFlow Lite Micro. Its planner gives every tensor memory of its own, and offsets in a file may give two
# the same: RESHAPE then copies nothing, and the others copy each byte onto itself. Whether any other operator may write
# over its input is up to the library of kernels.
_MICRO_VIEWS = frozenset(_TFLITE_VIEWS) - {"BITCAST"}  # there is no kernel for it

# Functions of one element, or of two with one tensor of the result's shape, that kernels for GPUs compute in one pass.
_GPU_UNARY = (
    *("Gelu", "com.microsoft::Gelu", "HardSwish", "Mish", "Swish", "com.microsoft::QuickGelu"),
    *("CAST", "GELU", "HARD_SWISH", "SIGN"),
)
_GPU_BINARY = (
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    *("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL", "POW"),
)
_GPU_VIEWS = frozenset((*_ONNX_VIEWS, *_TFLITE_VIEWS)) - {"BITCAST"}  # the same bits are not the same number

# Kernels of ONNX Runtime that write new rows into a cache when it is bound as input and output (measured with 1.31.1).
_UPDATES: Mapping[str, tuple[tuple[int, int], ...]] = {
    "ScatterND": ((0, 0),),
    "TensorScatter": ((0, 0),),
    "com.microsoft::GroupQueryAttention": ((3, 1), (4, 2)),
}

RULES: Mapping[str, AliasRules] = {
    "none": AliasRules(),
    "elementwise": AliasRules(
        views=frozenset((*_ONNX_VIEWS, *_TFLITE_VIEWS)),
        in_place={**dict.fromkeys(_UNARY, (0,)), **dict.fromkeys(_BINARY, (0, 1))},
        updates=_UPDATES,
    ),
    "gpu": AliasRules(
        views=_GPU_VIEWS,
        in_place={**dict.fromkeys((*_UNARY, *_GPU_UNARY), (0,)), **dict.fromkeys((*_BINARY, *_GPU_BINARY), (0, 1))},
        same_storage=True,
    ),
    "gpu-views": AliasRules(views=_GPU_VIEWS, same_storage=True),
    "tflm": AliasRules(views=_MICRO_VIEWS),
    # The operators that LiteRT's own arena planner runs in place; their kernels support it. Deviation: LiteRT 2.3
    # counts the readers of an input and of the tensor that owns its memory, but not of views between them, so after
    # two RESHAPEs in a row it overwrites values that are read later and gives wrong results. edgemem keeps them.
    "litert": AliasRules(
        views=frozenset(_TFLITE_VIEWS),
        in_place={
            **dict.fromkeys(("ADD", "SUB", "MUL", "DIV"), (0, 1)),
            "SOFTMAX": (0,),
            "DYNAMIC_UPDATE_SLICE": (0,),
        },
        views_of_outputs=True,
        sole_reader=True,
        over=4,
    ),
}

_MICRO_IN_PLACE = replace(RULES["tflm"], in_place=RULES["elementwise"].in_place)


def rules_of(aliasing: str, kernels: str) -> AliasRules:
    """The rules of a target with these `aliasing` and `kernels`.

    With a kernel profile, TensorFlow Lite Micro's operators that work element by element may write over an input as far
    as the profile's distance (`edgemem.model.overlap`) permits it; whoever asks looks at the distance, too.
    """
    return _MICRO_IN_PLACE if aliasing == "tflm" and kernels != "none" else RULES[aliasing]
