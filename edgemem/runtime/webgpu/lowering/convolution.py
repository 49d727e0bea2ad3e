"""Convolutions: depthwise ones along rows, all others in blocks of output slices and positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import Convolution, FullyConnected, TransposedConvolution
from edgemem.model.texture_layout import SLICE
from edgemem.runtime.webgpu.dispatch import Dispatch
from edgemem.runtime.webgpu.lowering.blocks import WORKGROUP, Tiling, bias_texels, choose, pack_weights, parts
from edgemem.runtime.webgpu.lowering.matmul import rows_product
from edgemem.runtime.webgpu.lowering.registry import lowers
from edgemem.runtime.webgpu.shaders import grid

if TYPE_CHECKING:
    from edgemem.model.texture_layout import Stored
    from edgemem.runtime.webgpu.lowering.registry import Lowering

__all__ = ["convolution", "depthwise", "tiled", "transposed_convolution"]

_FEW: Final = 8  # positions
_WIDEST_ROW: Final = 24  # texels of the input that a thread of a depthwise convolution keeps

_WINDOW: Final = """fn window(corner: vec3<i32>, ky: i32, kx: i32, slice: i32) -> vec4<f32> {{
    let y = corner.y + ky * p.own.dilation_height;
    let x = corner.z + kx * p.own.dilation_width;
{check}    return {load}(corner.x, y, x, slice);
}}"""
_CHECK: Final = """    if (y < 0 || y >= p.input_0.height || x < 0 || x >= p.input_0.width) {
        return vec4<f32>();
    }
"""


@lowers(Convolution)
def convolution(op: Convolution, context: Lowering) -> list[Dispatch]:
    """A convolution of any kind."""
    _check(op, context)
    outs, _, width, per_group = op.weights.shape
    if op.groups == outs and per_group == 1 and width <= _WIDEST_ROW:
        return depthwise(op, context)
    source, result = context.stored(op.input), context.stored(op.output)
    if _is_whole(op, source, result):
        rows = op.weights.transpose(0, 3, 1, 2) if source.channels_first else op.weights
        return rows_product(
            FullyConnected(
                input=op.input, output=op.output, weights=rows.reshape(outs, -1), bias=op.bias, function=op.function
            ),
            context,
        )
    positions = result.batch * result.height * result.width
    return tiled(op, context, choose(positions, outs, per_group, op.groups, context.busy))


def tiled(op: Convolution, context: Lowering, tiling: Tiling) -> list[Dispatch]:
    """The convolution with a tiling; several dispatches where the weights are too large for one binding."""
    source, result = context.stored(op.input), context.stored(op.output)
    outs, height, width, per_group = op.weights.shape
    packed = pack_weights(op.weights, op.groups, tiling.block)
    bias = bias_texels(op.bias, outs, packed.shape[0], tiling.block)
    check = _CHECK if _is_padded(op, source, result) else ""
    window = _WINDOW.format(check=check, load=_load(source))
    positions = result.batch * result.height * result.width
    return [
        Dispatch(
            kernel="convolution",
            inputs=_inputs(op),
            output=op.output,
            workgroups=grid(tiling.workgroups(positions, end - first), 1),
            own=(
                height,
                width,
                *op.stride,
                *op.dilation,
                *op.pads,
                packed.shape[3],
                per_group,
                # a number that no channel reaches where there is one group: every block reads from slice 0 on
                outs // op.groups if op.groups > 1 else bias.size,
                first,
                end - first,
                tiling.lanes,
            ),
            defines=(
                ("REPEAT", tiling.repeat),
                ("BLOCK", tiling.block),
                ("window", window),
                ("residual", _residual(op)),
            ),
            weights=(packed[first:end], bias[first:end]),
            function=op.function,
            in_place=_in_place(op),
        )
        for first, end in parts(packed.shape[0], packed[:1].nbytes)
    ]


def depthwise(op: Convolution, context: Lowering, repeat: int = 8) -> list[Dispatch]:
    """A convolution of each channel with its own window: up to `repeat` positions of a row for each thread."""
    result = context.stored(op.output)
    channels, height, width, _ = op.weights.shape
    stride, dilation = op.stride[1], op.dilation[1]
    if stride > 1 and dilation > 1:
        repeat = 1
    hop = stride if dilation == 1 else 1  # kept texels from one position of the thread to its next
    if hop > 1:
        repeat = min(repeat, 4)  # more would keep too many texels
    while repeat > 1 and ((repeat - 1) * hop + width > _WIDEST_ROW or result.width <= (repeat // 2) * dilation):
        repeat //= 2
    apart = dilation if stride == 1 else 1
    columns = -(-result.width // (repeat * apart)) * apart
    packed = np.zeros((height, width, result.slices * SLICE), np.float32)
    packed[..., :channels] = op.weights[..., 0].transpose(1, 2, 0)
    by_slice = packed.reshape(height, width, result.slices, SLICE).transpose(2, 0, 1, 3)
    return [
        Dispatch(
            kernel="depthwise",
            inputs=_inputs(op),
            output=op.output,
            workgroups=grid(columns * result.batch * result.height * result.slices, WORKGROUP),
            own=(height, op.stride[0], stride, op.dilation[0], *op.pads, columns),
            defines=(
                ("REPEAT", repeat),
                ("APART", apart),
                ("WIDTH", width),
                ("KEPT", (repeat - 1) * hop + width),
                ("HOP", hop),
                ("STEP", dilation),
                ("residual", _residual(op)),
            ),
            weights=(np.ascontiguousarray(by_slice), bias_texels(op.bias, channels, result.slices, 1)),
            function=op.function,
            in_place=_in_place(op),
        )
    ]


@lowers(TransposedConvolution)
def transposed_convolution(op: TransposedConvolution, context: Lowering) -> list[Dispatch]:
    """The transpose of a convolution: each thread sums what falls on two positions, a stride apart."""
    _check(op, context)
    source, result = context.stored(op.input), context.stored(op.output)
    outs, height, width, per_group = op.weights.shape
    positions = result.height * result.width
    block = choose(positions, outs, per_group, op.groups, context.busy, repeats=(2,), blocks=(2, 1)).block
    packed = pack_weights(op.weights, op.groups, block)
    bias = bias_texels(op.bias, outs, packed.shape[0], block)
    columns = -(-result.width // (2 * op.stride[1])) * op.stride[1]
    return [
        Dispatch(
            kernel="transposed",
            inputs=(op.input,),
            output=op.output,
            workgroups=grid(columns * result.batch * result.height * (end - first), WORKGROUP),
            own=(
                height,
                width,
                *op.stride,
                *op.dilation,
                *op.pads,
                packed.shape[3],
                per_group,
                outs // op.groups if op.groups > 1 else bias.size,
                first,
                end - first,
                columns,
            ),
            defines=(
                ("BLOCK", block),
                ("fetch", _FETCH.format(load=_load(source))),
            ),
            weights=(packed[first:end], bias[first:end]),
            function=op.function,
        )
        for first, end in parts(packed.shape[0], packed[:1].nbytes)
    ]


_FETCH: Final = """fn fetch(b: i32, y: i32, x: i32, slice: i32) -> vec4<f32> {{
    if (x < 0 || x >= p.input_0.width) {{
        return vec4<f32>();
    }}
    return {load}(b, y, x, slice);
}}"""


def _check(op: Convolution | TransposedConvolution, context: Lowering) -> None:
    """Raise UnsupportedError unless weights, groups and channels fit together."""
    ins, outs = context.stored(op.input).channels, context.stored(op.output).channels
    fits = op.weights.ndim == 4 and op.groups >= 1 and outs % op.groups == 0 and min(*op.stride, *op.dilation) >= 1
    if not fits or op.weights.shape[0] != outs or op.weights.shape[3] * op.groups != ins:
        shape = " x ".join(str(n) for n in op.weights.shape)
        raise UnsupportedError(
            f"a convolution of {ins} channels to {outs} in {op.groups} groups with weights {shape}: they do not fit"
        )


def _is_padded(op: Convolution, source: Stored, result: Stored) -> bool:
    """Whether some window reaches beyond the input."""
    _, height, width, _ = op.weights.shape
    ends = (
        (result.height - 1) * op.stride[0] + (height - 1) * op.dilation[0] - op.pads[0],
        (result.width - 1) * op.stride[1] + (width - 1) * op.dilation[1] - op.pads[1],
    )
    return op.pads != (0, 0) or ends[0] >= source.height or ends[1] >= source.width


def _is_whole(op: Convolution, source: Stored, result: Stored) -> bool:
    """Whether there is one window for each batch, of the whole input: few positions, each of many elements."""
    whole = op.weights.shape[1:3] == (source.height, source.width) and result.height * result.width == 1
    return whole and not _is_padded(op, source, result) and op.groups == 1 and op.added < 0 and result.batch <= _FEW


def _load(source: Stored) -> str:
    """What loads four channels to be summed: unused ones must not count, and may hold NaN."""
    return "clean_0" if source.channels % SLICE else "load_0"


def _inputs(op: Convolution) -> tuple[int, ...]:
    return (op.input,) if op.added < 0 else (op.input, op.added)


def _in_place(op: Convolution) -> tuple[int, ...]:
    return () if op.added in (-1, op.input) else (1,)


def _residual(op: Convolution) -> str:
    value = "vec4<f32>()" if op.added < 0 else "load_1(b, y, x, slice)"
    return f"fn residual(b: i32, y: i32, x: i32, slice: i32) -> vec4<f32> {{ return {value}; }}"
