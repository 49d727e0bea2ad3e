"""The options that say what an operator of a .tflite file computes, by the numbers of the schema."""

from __future__ import annotations

from typing import Final

__all__ = ["OPTIONS"]

_STRIDES: Final = {"padding": (0, "<b", 0), "stride_w": (1, "<i", 0), "stride_h": (2, "<i", 0)}
_POOL: Final = {**_STRIDES, "filter_w": (3, "<i", 0), "filter_h": (4, "<i", 0), "activation": (5, "<b", 0)}
_ACTIVATION: Final = {"activation": (0, "<b", 0)}
_BLOCK: Final = {"block": (0, "<i", 0)}

# Operator -> the type of its options, and field, layout and default of each.
OPTIONS: Final[dict[str, tuple[int, dict[str, tuple[int, str, float]]]]] = {
    "ADD": (11, {**_ACTIVATION}),
    "AVERAGE_POOL_2D": (5, {**_POOL}),
    "BATCH_MATMUL": (101, {"adj_x": (0, "<B", 0), "adj_y": (1, "<B", 0)}),
    "CONCATENATION": (10, {"axis": (0, "<i", 0), "activation": (1, "<b", 0)}),
    "CONV_2D": (1, {**_STRIDES, "activation": (3, "<b", 0)}),
    "DEPTHWISE_CONV_2D": (2, {**_STRIDES, "activation": (4, "<b", 0)}),
    "DEPTH_TO_SPACE": (94, {**_BLOCK}),
    "DIV": (29, {**_ACTIVATION}),
    "FULLY_CONNECTED": (8, {**_ACTIVATION, "format": (1, "<b", 0)}),
    "GATHER": (23, {"axis": (0, "<i", 0), "batch_dims": (1, "<i", 0)}),
    "GELU": (116, {"approximate": (0, "<B", 0)}),
    "L2_NORMALIZATION": (12, {**_ACTIVATION}),
    "LEAKY_RELU": (75, {"alpha": (0, "<f", 0.0)}),
    "LOCAL_RESPONSE_NORMALIZATION": (
        13,
        {"radius": (0, "<i", 0), "bias": (1, "<f", 0.0), "alpha": (2, "<f", 0.0), "beta": (3, "<f", 0.0)},
    ),
    "MAX_POOL_2D": (5, {**_POOL}),
    "MIRROR_PAD": (77, {"mode": (0, "<b", 0)}),
    "MUL": (21, {**_ACTIVATION}),
    "PACK": (59, {"axis": (1, "<i", 0)}),
    "RESIZE_BILINEAR": (15, {"align_corners": (2, "<B", 0), "half_pixel_centers": (3, "<B", 0)}),
    "RESIZE_NEAREST_NEIGHBOR": (74, {"align_corners": (0, "<B", 0), "half_pixel_centers": (1, "<B", 0)}),
    "SOFTMAX": (9, {"beta": (0, "<f", 0.0)}),
    "SPACE_TO_DEPTH": (19, {**_BLOCK}),
    "STRIDED_SLICE": (
        32,
        {
            "begin_mask": (0, "<i", 0),
            "end_mask": (1, "<i", 0),
            "ellipsis_mask": (2, "<i", 0),
            "new_axis_mask": (3, "<i", 0),
            "shrink_axis_mask": (4, "<i", 0),
            "offset": (5, "<B", 0),
        },
    ),
    "SUB": (28, {**_ACTIVATION}),
    "TRANSPOSE_CONV": (49, {**_STRIDES, "activation": (3, "<b", 0)}),
    "UNPACK": (64, {"axis": (1, "<i", 0)}),
}
