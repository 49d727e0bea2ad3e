"""Convolutions along one axis, whose texels hold four neighbours of one channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import LineConvolution
from edgemem.model.texture_layout import SLICE
from edgemem.runtime.webgpu.lowering.blocks import bias_texels
from edgemem.runtime.webgpu.lowering.registry import each_texel, lowers

if TYPE_CHECKING:
    from edgemem.runtime.webgpu.dispatch import Dispatch
    from edgemem.runtime.webgpu.lowering.registry import Lowering

__all__ = ["line_convolution"]


@lowers(LineConvolution)
def line_convolution(op: LineConvolution, context: Lowering) -> list[Dispatch]:
    """One dispatch for the whole output."""
    outs, kernel, per_group = op.weights.shape
    shapes = context.shape(op.input), context.shape(op.output)
    if (
        [len(s) for s in shapes] != [3, 3]
        or outs % op.groups
        or [s[1] for s in shapes] != [per_group * op.groups, outs]
    ):
        raise UnsupportedError(
            f"a convolution of {shapes[0]} to {shapes[1]} with weights {op.weights.shape}: they do not fit"
        )
    slices = -(-per_group // SLICE)
    packed = np.zeros((outs, kernel, slices * SLICE), np.float32)
    packed[..., :per_group] = op.weights
    return [
        each_texel(
            "line_convolution",
            (op.input,),
            op.output,
            context,
            own=(kernel, op.stride, op.dilation, op.pad, per_group, outs // op.groups, slices),
            weights=(packed, bias_texels(op.bias, outs, -(-outs // SLICE), 1)),
            function=op.function,
        )
    ]
