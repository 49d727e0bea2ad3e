"""The sizes of TensorFlow Lite Micro's structures in its arena, in the builds whose tail is predicted.

The structures were read in tflite-micro 90b983c2b3f1, and their sizes in programs of GCC 12 for Arm (32 bits) and
x86-64, on 2026-11-26. Xtensa and 32-bit RISC-V have the layout of Arm. Where the compiler gives enumerations one byte,
as GCC does for Arm without an operating system, a few structures are smaller.

The kernels are the reference ones, or those of CMSIS-NN or ESP-NN, which add to some structures; esp-tflite-micro
99f49e1498b0 has the same ones otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edgemem.records.micro_custom import CUSTOM
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.targets import Target

__all__ = ["INSTALLED", "MicroBuild", "build_of", "options_alignment", "structures_of"]


@dataclass(frozen=True, slots=True)
class MicroBuild:
    """Bytes of the structures that do not depend on the operator.

    Attributes:
        pointer: a pointer, and a piece of workspace, which is kept as one.
        interpreter: allocators, their planner, and what makes room for operators' options.
        subgraph: of the list of subgraphs.
        tensor: a `TfLiteEvalTensor`.
        node: an operator without its options and its kernel's structure.
        end: of an input or output of the graph: its `TfLiteTensor`.
        quantised: of a quantised input or output, besides.
        resource: a variable that operators read and assign, without its bytes.
        variables: the list of these variables, without them.
        options: of `interpreter`, what makes room for operators' options, which comes after the variables.
        is_package: whether it is the one in the Python package tflite-micro.
        kernels: the kernel profile; `none` for the reference kernels.
    """

    pointer: int
    interpreter: int
    subgraph: int
    tensor: int
    node: int
    end: int
    quantised: int
    resource: int
    variables: int
    options: int
    is_package: bool = False
    kernels: str = "none"


_DEVICE: Final = MicroBuild(4, 124, 8, 12, 32, 40, 20, 20, 12, 8)
# Of the Python package tflite-micro, which has 64-bit pointers, records allocations and can decompress weights.
INSTALLED: Final = MicroBuild(8, 464, 24, 24, 64, 64, 32, 40, 16, 16, is_package=True)
_DEVICE_64: Final = MicroBuild(8, 232, 16, 24, 64, 64, 32, 40, 16, 16)

# Bytes of an operator's options, and of its kernel's structure, with 32-bit pointers.
_STRUCTURES: Final[Mapping[str, tuple[int, int]]] = {
    "ABS": (0, 28),
    "ADD": (8, 60),
    "ADD_N": (0, 40),
    "ARG_MAX": (4, 0),
    "ARG_MIN": (4, 0),
    "ASSIGN_VARIABLE": (0, 0),
    "AVERAGE_POOL_2D": (40, 32),
    "BATCH_MATMUL": (3, 16),
    "BATCH_TO_SPACE_ND": (0, 0),
    "BROADCAST_ARGS": (0, 0),
    "BROADCAST_TO": (0, 0),
    "CALL_ONCE": (4, 8),
    "CAST": (8, 0),
    "CEIL": (0, 0),
    "CONCATENATION": (8, 24),
    "CONV_2D": (28, 56),
    "COS": (0, 0),
    "CUMSUM": (2, 36),
    "DEPTHWISE_CONV_2D": (28, 56),
    "DEPTH_TO_SPACE": (4, 0),
    "DEQUANTIZE": (0, 32),
    "DIV": (4, 28),
    "DYNAMIC_UPDATE_SLICE": (0, 0),
    "ELU": (0, 256),
    "EMBEDDING_LOOKUP": (0, 8),
    "EQUAL": (0, 32),
    "EXP": (0, 0),
    "EXPAND_DIMS": (0, 0),
    "FILL": (0, 0),
    "FLOOR": (0, 0),
    "FLOOR_DIV": (0, 0),
    "FLOOR_MOD": (0, 0),
    "FULLY_CONNECTED": (16, 48),
    "GATHER": (8, 0),
    "GATHER_ND": (0, 0),
    "GREATER": (0, 32),
    "GREATER_EQUAL": (0, 32),
    "HARD_SWISH": (0, 20),
    "IF": (8, 8),
    "L2_NORMALIZATION": (4, 4),
    "L2_POOL_2D": (40, 32),
    "LEAKY_RELU": (4, 24),
    "LESS": (0, 32),
    "LESS_EQUAL": (0, 32),
    "LOG": (0, 0),
    "LOGICAL_AND": (0, 0),
    "LOGICAL_NOT": (0, 0),
    "LOGICAL_OR": (0, 0),
    "LOGISTIC": (0, 16),
    "LOG_SOFTMAX": (0, 28),
    "MAXIMUM": (0, 0),
    "MAX_POOL_2D": (40, 32),
    "MEAN": (1, 44),
    "MINIMUM": (0, 0),
    "MIRROR_PAD": (4, 20),
    "MUL": (4, 36),
    "NEG": (0, 0),
    "NOT_EQUAL": (0, 32),
    "PACK": (8, 0),
    "PAD": (0, 56),
    "PADV2": (0, 56),
    "PRELU": (0, 28),
    "QUANTIZE": (0, 32),
    "READ_VARIABLE": (0, 0),
    "REDUCE_ALL": (1, 44),
    "REDUCE_MAX": (1, 44),
    "REDUCE_MIN": (1, 44),
    "RELU": (0, 28),
    "RELU6": (0, 8),
    "RESHAPE": (36, 0),
    "RESIZE_BILINEAR": (2, 0),
    "RESIZE_NEAREST_NEIGHBOR": (2, 0),
    "REVERSE_V2": (0, 0),
    "ROUND": (0, 0),
    "RSQRT": (0, 28),
    "SELECT_V2": (0, 1),
    "SHAPE": (4, 0),
    "SIN": (0, 0),
    "SLICE": (0, 0),
    "SOFTMAX": (4, 56),
    "SPACE_TO_BATCH_ND": (0, 4),
    "SPACE_TO_DEPTH": (4, 0),
    "SPLIT": (4, 0),
    "SPLIT_V": (4, 0),
    "SQRT": (0, 0),
    "SQUARE": (0, 0),
    "SQUARED_DIFFERENCE": (0, 112),
    "SQUEEZE": (36, 0),
    "STRIDED_SLICE": (24, 84),
    "SUB": (8, 52),
    "SUM": (1, 44),
    "SVDF": (12, 36),
    "TANH": (0, 16),
    "TRANSPOSE": (0, 0),
    "TRANSPOSE_CONV": (20, 72),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (16, 688),
    "UNPACK": (8, 0),
    "VAR_HANDLE": (8, 4),
    "WHILE": (8, 8),
    "ZEROS_LIKE": (0, 0),
}
# With 64-bit pointers, where that is more.
_WIDE: Final[Mapping[str, tuple[int, int]]] = {
    "BATCH_MATMUL": (3, 32),
    "CONCATENATION": (8, 40),
    "CONV_2D": (28, 72),
    "DEPTHWISE_CONV_2D": (28, 72),
    "EMBEDDING_LOOKUP": (0, 16),
    "FULLY_CONNECTED": (16, 64),
    "LOG_SOFTMAX": (0, 40),
    "SOFTMAX": (4, 80),
    "TRANSPOSE_CONV": (20, 80),
    "VAR_HANDLE": (16, 4),
}
# The same in the package: its kernels can decompress weights. Its release (0.dev20261023) is later than the sources: as
# its own record of allocations tells, the options of FULLY_CONNECTED take 32 bytes there, at multiples of 8.
_DECOMPRESSING: Final[Mapping[str, tuple[int, int]]] = {
    "ASSIGN_VARIABLE": (0, 4),
    "CONCATENATION": (8, 80),
    "CONV_2D": (28, 80),
    "DEPTHWISE_CONV_2D": (28, 80),
    "FULLY_CONNECTED": (32, 72),
    "TRANSPOSE_CONV": (20, 88),
}
# What kernels of a library add to these structures, such as the number of their workspace, with 32-bit pointers.
_ADDED: Final[Mapping[str, Mapping[str, int]]] = {
    "cmsis-nn": {
        **dict.fromkeys(
            ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "SVDF", "TRANSPOSE_CONV"), 4
        ),
        "ADD": 4,
        "BATCH_MATMUL": 20,
        "FULLY_CONNECTED": 24,
        "SOFTMAX": 8,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": 220,
    },
    "esp-nn": {"CONV_2D": 4, "DEPTHWISE_CONV_2D": 4, "SOFTMAX": 4},
}
_DOUBLES: Final = "SOFTMAX"  # aligned to 8 bytes
_INT: Final = 4
_UNKNOWN: Final = (16, 32)  # for operators that are not listed


def build_of(target: Target) -> MicroBuild:
    """The build on the device that a target describes."""
    device = _DEVICE if target.pointer_bytes == _DEVICE.pointer else _DEVICE_64
    return replace(device, kernels=target.kernels)


def options_alignment(kind: str, build: MicroBuild) -> int:
    """The alignment in bytes of the options of operators of a kind."""
    if kind == "VAR_HANDLE" or (kind == "FULLY_CONNECTED" and build.is_package):
        return build.pointer
    return 4 if structures_of(kind, build)[0] % 4 == 0 else 1


def structures_of(kind: str, build: MicroBuild) -> tuple[int, int]:
    """Bytes of the options of operators of a kind, such as `ADD`, and of their kernel's structure."""
    found = _STRUCTURES.get(kind, (0, _UNKNOWN[1]) if kind in CUSTOM else _UNKNOWN)
    if build.pointer > _DEVICE.pointer:
        found = _WIDE.get(kind, found)
    if build.is_package:
        found = _DECOMPRESSING.get(kind, found)
    for library, added in _ADDED.items():
        if build.kernels.startswith(library) and kind in added:
            return found[0], padded(found[1] + added[kind], 8 if kind == _DOUBLES else build.pointer)
    return found
