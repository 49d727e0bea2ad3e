"""Which kernel each library of kernels runs for an operator, and the least safe distance that follows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tests.oracle.kernel_dispatch import cmsis_convolution, cmsis_others, reference, reference_moves
from tests.oracle.kernel_dispatch.cmsis_convolution import Core
from tests.oracle.kernel_dispatch.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.oracle.kernel_dispatch.case import Case

    Kernel = Callable[[Case, Trace], None]

UNARY: Final = (
    *(
        "RELU",
        "RELU6",
        "LOGISTIC",
        "TANH",
        "FLOOR",
        "CEIL",
        "ROUND",
        "EXP",
        "NEG",
        "SIN",
        "COS",
        "LOG",
        "SQRT",
        "RSQRT",
    ),
    *("SQUARE", "ABS", "LOGICAL_NOT", "LEAKY_RELU", "ELU", "HARD_SWISH", "QUANTIZE", "DEQUANTIZE"),
)
BINARY: Final = (
    *("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "LOGICAL_AND", "LOGICAL_OR", "PRELU"),
)

_REFERENCE: Final[Mapping[str, Kernel]] = {
    "CONV_2D": reference.convolution,
    "DEPTHWISE_CONV_2D": reference.depthwise,
    "AVERAGE_POOL_2D": reference.pool,
    "MAX_POOL_2D": reference.pool,
    "FULLY_CONNECTED": reference.fully_connected,
    "PAD": reference_moves.pad,
    "PADV2": reference_moves.pad,
    "SLICE": reference_moves.cut,
    "CONCATENATION": reference_moves.concatenate,
    "RESIZE_BILINEAR": reference_moves.resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": reference_moves.resize_nearest,
    "SOFTMAX": reference.softmax,
    "MEAN": reference.mean,
    "RESHAPE": reference_moves.reshape,
    "SQUEEZE": reference_moves.reshape,
    "TRANSPOSE": reference_moves.transpose,
    "STRIDED_SLICE": reference_moves.strided_slice,
    **dict.fromkeys(UNARY, reference.elementwise),
    **dict.fromkeys(BINARY, reference.binary),
}

_CMSIS: Final = {
    "CONV_2D": cmsis_convolution.convolution,
    "DEPTHWISE_CONV_2D": cmsis_others.depthwise,
    "AVERAGE_POOL_2D": cmsis_others.average_pool,
    "MAX_POOL_2D": cmsis_others.maximum_pool,
    "ADD": cmsis_others.binary,
    "MUL": cmsis_others.binary,
    "FULLY_CONNECTED": cmsis_others.fully_connected,
    "MAXIMUM": cmsis_others.maximum,
    "MINIMUM": cmsis_others.maximum,
    "SOFTMAX": cmsis_others.softmax,
    "PAD": cmsis_others.pad,
    "PADV2": cmsis_others.pad,
}

# Operators whose kernels tflite-micro replaces, and the dtypes for which the replacement is no reference kernel:
# micro/kernels/cmsis_nn/*.cc here, and espressif/esp-tflite-micro's micro/kernels/esp_nn/*.cc at commit 99f49e1.
# Those without a model above have none here either.
_WINDOWS: Final = ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D")
_CMSIS_REPLACED: Final = {
    **dict.fromkeys((*_WINDOWS, "ADD", "MUL", "FULLY_CONNECTED", "SOFTMAX"), ("int8", "int16")),
    **dict.fromkeys(("PAD", "PADV2", "MAXIMUM", "MINIMUM", "TRANSPOSE"), ("int8",)),
}
_ESP_REPLACED: Final = dict.fromkeys((*_WINDOWS, "ADD", "MUL", "FULLY_CONNECTED", "SOFTMAX"), ("int8",))


def traces(profile: str, case: Case) -> list[Trace]:
    """What the kernels of a profile do, one trace for each compiler that takes other branches; [] without a model."""
    found = []
    for kernel in _kernels(profile, case):
        trace = Trace(case.read_size, case.made_size, case.widths)
        kernel(case, trace)
        found.append(trace)
    return found


def least_distance(profile: str, case: Case) -> int | None:
    """The least safe distance whatever the compiler; None without a model."""
    return max((trace.least() for trace in traces(profile, case)), default=None)


def _kernels(profile: str, case: Case) -> list[Kernel]:
    reference_kernel = _REFERENCE.get(case.type)
    if profile in ("cmsis-nn-dsp", "cmsis-nn-mve") and case.dtype in _CMSIS_REPLACED.get(case.type, ()):
        kernel = _CMSIS.get(case.type)
        if kernel is None:
            return []
        has_helium = profile == "cmsis-nn-mve"
        cores = (Core(has_helium, "gnu"), Core(has_helium, "armclang"))
        return [partial(kernel, core=core) for core in cores]
    if profile.startswith("esp-nn") and case.dtype in _ESP_REPLACED.get(case.type, ()):
        return []
    return [reference_kernel] if reference_kernel else []
