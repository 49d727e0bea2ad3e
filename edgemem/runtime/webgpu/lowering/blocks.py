"""How the work of a convolution is cut: positions and slices of a thread, weights in the order they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.model.texture_layout import SLICE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["WORKGROUP", "Tiling", "bias_texels", "choose", "pack_weights", "parts", "reading"]

WORKGROUP: Final = 64
_MOST_BYTES: Final = 1 << 27  # of weights in one binding, that every WebGPU device has


@dataclass(frozen=True, slots=True)
class Tiling:
    """What a thread computes.

    Attributes:
        lanes: threads of a workgroup along the positions; the others stand along the blocks of slices.
        repeat: positions of a thread.
        block: output slices of a thread.
    """

    lanes: int
    repeat: int
    block: int

    def workgroups(self, positions: int, blocks: int) -> int:
        """Workgroups for so many positions and blocks of slices."""
        return -(-positions // (self.lanes * self.repeat)) * -(-blocks // (WORKGROUP // self.lanes))


def reading(outs: int, per_group: int, groups: int, block: int) -> tuple[tuple[int, ...], int]:
    """The first input slice that each block of `block` output slices reads, and how many the widest one reads.

    Args:
        outs: output channels.
        per_group: input channels of a group.
        groups: of the convolution.
        block: output slices of a block.
    """
    of_group = outs // groups
    step = block * SLICE
    starts = range(0, outs, step)
    firsts = tuple(o // of_group * per_group // SLICE for o in starts)
    lasts = [((min(o + step, outs) - 1) // of_group + 1) * per_group - 1 for o in starts]
    return firsts, max(last // SLICE - first + 1 for first, last in zip(firsts, lasts, strict=True))


def choose(
    positions: int,
    outs: int,
    per_group: int,
    groups: int,
    busy: int,
    *,
    repeats: tuple[int, ...] = (4, 2, 1),
    blocks: tuple[int, ...] = (4, 2, 1),
) -> Tiling:
    """The tiling with the least work, loads counted as measured on software drivers, without idle workgroups.

    Fewer workgroups than `busy` count as if they were so many: the GPU waits for the largest anyway.
    """

    def cost(tiling: Tiling) -> float:
        firsts, slices = reading(outs, per_group, groups, tiling.block)
        count = tiling.workgroups(positions, len(firsts))
        work = 2 * tiling.repeat + 4 * tiling.block + tiling.block * tiling.repeat
        return max(count, busy) * slices * work

    # Of equal ones the first: lanes of few positions read fewer different weights at a time.
    return min((Tiling(n, r, b) for n in (16, 8, 4, 2, 1) for r in repeats for b in blocks), key=cost)


def pack_weights(weights: NDArray[np.float32], groups: int, block: int) -> NDArray[np.float32]:
    """Weights [blocks, kernel height, kernel width, slices, block, 4 inputs, 4 outputs] of [O, KH, KW, I / groups].

    A block has weights for all the input slices that `reading` gives; what no group has is 0.
    """
    outs, height, width, per_group = weights.shape
    firsts, slices = reading(outs, per_group, groups, block)
    of_group, step = outs // groups, block * SLICE
    packed = np.zeros((len(firsts), step, height, width, slices * SLICE), np.float32)
    if groups == 1:
        packed.reshape(-1, *packed.shape[2:])[:outs, ..., :per_group] = weights
    else:
        for out in range(outs):
            at = out // of_group * per_group - firsts[out // step] * SLICE
            packed[out // step, out % step, :, :, at : at + per_group] = weights[out]
    cut = packed.reshape(len(firsts), block, SLICE, height, width, slices, SLICE)
    return np.ascontiguousarray(cut.transpose(0, 3, 4, 5, 1, 6, 2))


def bias_texels(bias: NDArray[np.float32] | None, channels: int, blocks: int, block: int) -> NDArray[np.float32]:
    """The bias [blocks, block, 4], 0 where there is none."""
    texels = np.zeros(blocks * block * SLICE, np.float32)
    if bias is not None:
        texels[:channels] = bias
    return texels.reshape(blocks, block, SLICE)


def parts(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges (first, end) of `count` blocks of weights, of `size` bytes each, that fit one binding."""
    most = max(1, _MOST_BYTES // size)
    for first in range(0, count, most):
        yield first, min(first + most, count)
