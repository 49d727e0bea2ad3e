"""Pools: a thread computes four channels of one position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.model.tensor_ops import Pool
from edgemem.runtime.webgpu.lowering.registry import each_texel, lowers

if TYPE_CHECKING:
    from edgemem.runtime.webgpu.dispatch import Dispatch
    from edgemem.runtime.webgpu.lowering.registry import Lowering

__all__ = ["pool"]


@lowers(Pool)
def pool(op: Pool, context: Lowering) -> list[Dispatch]:
    """The largest number or the mean under a window."""
    source = context.stored(op.input)
    top, left, bottom, right = op.pads
    own = (
        *op.kernel,
        *op.stride,
        *op.dilation,
        top,
        left,
        source.height + top + bottom,
        source.width + left + right,
        int(op.counts_padding),
        int(op.kind == "max"),
    )
    return [each_texel("pool", (op.input,), op.output, context, own=own, function=op.function)]
