"""Numbers made comparable: by mean and variance along axes, by length, or by neighbouring channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.model.tensor_ops import LocalResponse, Normalization
from edgemem.model.texture_layout import stored
from edgemem.runtime.webgpu.dispatch import Dispatch
from edgemem.runtime.webgpu.lowering.lines import Lines, share
from edgemem.runtime.webgpu.lowering.registry import each_texel, lowers
from edgemem.runtime.webgpu.packing import pack
from edgemem.runtime.webgpu.shaders import grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.texture_layout import Stored
    from edgemem.runtime.webgpu.lowering.registry import Lowering

__all__ = ["local_response", "normalization"]


@lowers(Normalization)
def normalization(op: Normalization, context: Lowering) -> list[Dispatch]:
    """Mean and variance, or the length, along axes, and a scale and a shift."""
    shape = context.shape(op.input)
    axes = {a % len(shape) for a in op.axes}
    if not axes and not op.is_l2:
        return [_scaled(op, context)]
    lines = Lines.along(shape, context.stored(op.input), axes)
    together = share(lines.groups, lines.steps)
    weights, form = _weights(op, shape, context)
    return [
        Dispatch(
            kernel="normalization",
            inputs=(op.input,),
            output=op.output,
            workgroups=grid(lines.groups * together),
            own=(
                lines.steps,
                lines.positions,
                lines.groups,
                lines.elements,
                op.epsilon,
                form.batch,
                form.height,
                form.width,
            ),
            defines=(
                ("SHARE", together),
                ("CHANNELS", int(lines.has_channels)),
                ("IS_LENGTH", int(op.is_l2)),
                ("spot", lines.spot()),
            ),
            function=op.function,
            weights=(weights,),
        )
    ]


def _scaled(op: Normalization, context: Lowering) -> Dispatch:
    """A scale and a shift alone."""
    weights, form = _weights(op, context.shape(op.input), context)
    own = form.batch, form.height, form.width
    return each_texel(
        "scale", (op.input,), op.output, context, own=own, function=op.function, weights=(weights,), in_place=(0,)
    )


def _weights(op: Normalization, shape: tuple[int, ...], context: Lowering) -> tuple[NDArray[np.float32], Stored]:
    """Scale and shift in turn as texels, with all channels, and their dimensions."""
    full = context.stored(op.input)
    scale = np.ones((1,) * len(shape), np.float32) if op.scale is None else op.scale
    shift = np.zeros((1,) * len(shape), np.float32) if op.shift is None else op.shift
    dims = list(np.broadcast_shapes(scale.shape, shift.shape))
    dims = [1] * (len(shape) - len(dims)) + dims
    parts = Lines.along(shape, full, ()).parts
    if len(shape) > 4 and any(d > 1 for d, part in zip(dims, parts, strict=True) if part == "height"):
        dims = [n if part == "height" else d for n, d, part in zip(shape, dims, parts, strict=True)]
    dims = [n if part == "channels" else d for n, d, part in zip(shape, dims, parts, strict=True)]
    form = stored(dims, context.layout)
    both = [pack(np.broadcast_to(values, dims), form) for values in (scale, shift)]
    return np.stack(both, axis=4), form


@lowers(LocalResponse)
def local_response(op: LocalResponse, context: Lowering) -> list[Dispatch]:
    """Division by the sum of squares over neighbouring channels."""
    channels = context.stored(op.input).channels
    own = min(op.before, channels), min(op.after, channels), op.alpha, op.beta, op.bias
    return [each_texel("local_response", (op.input,), op.output, context, own=own)]
