"""The libraries of kernels, and what is known of the loops in each: one rule an operator.

A rule takes a Case and returns a distance in bytes, or None where input and output must be disjoint. An operator that
a library has no rule for is disjoint. The versions whose sources were read are `edgemem.model.profiles.VERSIONS`.
CMSIS-NN and esp-nn replace some kernels of tflite-micro, and only for some types; the reference kernels run for all
others. Each rule's docstring has the table of what is sent where. For esp-nn, with esp-tflite-micro's kernels/esp_nn:

    operator            int8                                        float32
    ADD                 add.cc:135 esp_nn_add_elementwise_s8        add.cc:51, 59: the reference kernel
    MUL                 mul.cc:70 esp_nn_mul_elementwise_s8         mul.cc:108: the reference kernel
    CONV_2D             conv.cc:256 esp_nn_conv_s8                  conv.cc:300: the reference kernel
    DEPTHWISE_CONV_2D   depthwise_conv.cc:140                       depthwise_conv.cc:318: the reference kernel
                        esp_nn_depthwise_conv_s8
    FULLY_CONNECTED     fully_connected.cc:178, 225                 fully_connected.cc:122: the reference kernel
                        esp_nn_fully_connected_per_ch_s8, _s8
    AVERAGE_POOL_2D     pooling.cc:69, 80 esp_nn_avg_pool_s8        pooling.cc:165: the reference kernel
    MAX_POOL_2D         pooling.cc:124, 135 esp_nn_max_pool_s8      pooling.cc:204: the reference kernel

None of the int8 ones was analysed: they differ between chips, partly in assembly. Nothing is claimed for int16 and
int32 there, which the reference kernels compute, either. esp-nn has RELU, RELU6, HARD_SWISH and LOGISTIC for int8 as
well, which esp-tflite-micro does not call yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from edgemem.model.overlap.cmsis_nn import conv_dsp, conv_mve, depthwise_dsp, depthwise_mve
from edgemem.model.overlap.copies import concatenate, pad, pad_rows, slice_elements
from edgemem.model.overlap.elementwise import conversion, elementwise
from edgemem.model.overlap.kernels import (
    conv,
    depthwise,
    fully_connected,
    pool,
    pool_in_place,
    resize_bilinear,
    resize_nearest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.overlap.case import Case

__all__ = ["RULES", "Rule"]

Rule: TypeAlias = "Callable[[Case], int | None]"


def _first(rule: Rule) -> Rule:
    """The rule holds for the first input alone: the others are weights, or are broadcast."""
    return lambda case: None if case.position else rule(case)


def _int8(rule: Rule | None, otherwise: Rule) -> Rule:
    """The library has a kernel of its own for int8, of which nothing is known without a rule.

    `otherwise` is for float32, which the reference kernel computes.
    """

    def chosen(case: Case) -> int | None:
        if case.input.dtype == "float32":
            return otherwise(case)
        return rule(case) if rule is not None and case.input.dtype == "int8" else None

    return chosen


# elementwise.cc, activations.cc, logistic.cc, tanh.cc, ...: one loop over all elements.
_UNARY: Final = (
    *("RELU", "RELU6", "LOGISTIC", "TANH", "LEAKY_RELU", "HARD_SWISH", "ELU", "PRELU"),
    *("ABS", "SIN", "COS", "LOG", "SQRT", "RSQRT", "SQUARE", "LOGICAL_NOT", "NEG", "EXP", "CEIL", "FLOOR", "ROUND"),
)
# reference/{add,mul,sub,div,...}.h: one loop; broadcast_loop.h: nested loops in the order of the output.
_BINARY: Final = (
    *("ADD", "MUL", "SUB", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"),
    *("LOGICAL_AND", "LOGICAL_OR"),  # logical_common.cc with reference/binary_function.h: the same two
)

_REFERENCE: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_UNARY, _first(elementwise)),
    **dict.fromkeys(_BINARY, elementwise),
    "QUANTIZE": _first(conversion),  # reference/{quantize,requantize}.h: one loop over all elements
    "DEQUANTIZE": _first(conversion),  # reference/dequantize.h: one loop over all elements
    "CONV_2D": _first(conv),  # reference/conv.h: pixels in order; the window is read for each output channel
    "DEPTHWISE_CONV_2D": _first(depthwise),  # reference/depthwiseconv_float.h: pixels, then channels in order
    "AVERAGE_POOL_2D": _first(pool),  # reference/pooling.h: pixels, then channels in order
    "MAX_POOL_2D": _first(pool),  # reference/pooling.h: the same
    "FULLY_CONNECTED": _first(fully_connected),  # reference/fully_connected.h: a row is read for each output channel
    "RESIZE_BILINEAR": _first(resize_bilinear),  # reference/resize_bilinear.h: pixels, then channels in order
    "RESIZE_NEAREST_NEIGHBOR": _first(resize_nearest),  # reference/resize_nearest_neighbor.h: one memcpy a pixel
    "PAD": pad,  # reference/pad.h: output elements in order
    "PADV2": pad,
    "SLICE": slice_elements,  # reference/slice.h: output elements in order
    "CONCATENATION": concatenate,  # reference/concatenation.h: one memcpy for each outer index and input
}

# tflite-micro/kernels/cmsis_nn has kernels of its own for the operators below; the others are the reference's.
_CMSIS: Final[Mapping[str, Rule]] = {
    **_REFERENCE,
    "ADD": _int8(elementwise, elementwise),  # arm_elementwise_add_s8.c: four elements are read, then written
    "MUL": _int8(elementwise, elementwise),  # arm_elementwise_mul_s8.c: the same
    "MAXIMUM": _int8(None, elementwise),  # arm_maximum_s8.c: not analysed
    "MINIMUM": _int8(None, elementwise),
    "AVERAGE_POOL_2D": _int8(_first(pool), _first(pool)),  # arm_avgpool_s8.c: a pixel or 16 channels, then written
    "MAX_POOL_2D": _int8(_first(pool_in_place), _first(pool)),  # arm_max_pool_s8.c: the maximum grows in the output
    "FULLY_CONNECTED": _int8(None, _first(fully_connected)),  # output channels are the outer loop
    "PAD": _int8(pad_rows, pad),  # arm_pad_s8.c: one memcpy a row
    "PADV2": _int8(pad_rows, pad),
    "CONV_2D": _int8(_first(conv_dsp), _first(conv)),
    "DEPTHWISE_CONV_2D": _int8(_first(depthwise_dsp), _first(depthwise)),
}

_CMSIS_MVE: Final[Mapping[str, Rule]] = {
    **_CMSIS,
    "CONV_2D": _int8(_first(conv_mve), _first(conv)),
    "DEPTHWISE_CONV_2D": _int8(_first(depthwise_mve), _first(depthwise)),
}

# esp-nn replaces these for int8, with assembly on some chips.
_ESP: Final[Mapping[str, Rule]] = {
    **_REFERENCE,
    **{
        name: _int8(None, _REFERENCE[name])
        for name in (
            *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "AVERAGE_POOL_2D", "MAX_POOL_2D"),
            *("ADD", "MUL", "RELU", "RELU6", "HARD_SWISH", "LOGISTIC"),
        )
    },
}

RULES: Final[Mapping[str, Mapping[str, Rule]]] = {
    "tflm-reference": _REFERENCE,
    "cmsis-nn-dsp": _CMSIS,
    "cmsis-nn-mve": _CMSIS_MVE,
    **dict.fromkeys(("esp-nn", "esp-nn-esp32s3", "esp-nn-esp32p4"), _ESP),
}
