"""Sparse constants of .tflite files made dense.

A sparse tensor is stored as a tree over its dimensions, which may be split into blocks. Each level of the tree is one
dimension, in the order of `traversal`; dimensions from the tensor's rank on are the insides of blocks. A dense level
has all coordinates below every node; a sparse one lists them: node p has those at `segments[p]` up to (not including)
`segments[p + 1]` of `indices`. The values are the leaves from left to right.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Level", "densify"]

_MOST_LEVELS: Final = 16  # LiteRT has at most 8 dimensions


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A level of the tree: dense with `size` coordinates, or sparse with `segments` and `indices`."""

    size: int = 0
    segments: NDArray[np.int64] | None = None
    indices: NDArray[np.int64] | None = None


def densify(
    values: NDArray[Any],
    shape: Sequence[int],
    traversal: Sequence[int],
    blocks: Sequence[int],
    levels: Sequence[Level],
) -> NDArray[Any]:
    """A dense array from a sparse one.

    Nothing is allocated before it is known that the levels have as many leaves as there are values, so besides the
    result this takes memory in proportion to its arguments. The size of the result is for the caller to limit.

    Args:
        values: the leaves, one-dimensional.
        shape: of the dense tensor.
        traversal: the dimension of each level; those from `len(shape)` on are insides of blocks.
        blocks: for each inside of a block, the dimension that is split.
        levels: one for each entry of `traversal`.

    Returns:
        An array of `shape`, zero where nothing is stored.

    Raises:
        ModelError: these do not describe a tensor of this shape.
        UnsupportedError: more than 16 levels; or three or more blocks of several sizes, traversed in an order that
            LiteRT misreads.
    """
    rank = len(shape)
    if len(levels) > _MOST_LEVELS:
        raise UnsupportedError(f"a sparse tensor with {len(levels)} levels; the limit is {_MOST_LEVELS}")
    if sorted(traversal) != list(range(rank + len(blocks))) or len(levels) != len(traversal):
        raise ModelError("damaged TFLite file: the levels of a sparse tensor are not its dimensions")
    if any(not 0 <= b < rank for b in blocks):
        raise ModelError("damaged TFLite file: a sparse tensor splits a dimension that it does not have")
    if len(set(blocks)) != len(blocks):
        raise ModelError("damaged TFLite file: a sparse tensor splits a dimension twice")
    if min(shape, default=0) < 0:
        raise ModelError("damaged TFLite file: a sparse tensor has negative dimensions")
    leaves = _leaves(levels)
    if leaves != len(values):
        raise ModelError(f"damaged TFLite file: a sparse tensor has {leaves} places for {len(values)} values")
    whole = prod(shape)
    coordinates: dict[int, NDArray[np.int64]] = {}
    count = 1
    for dimension, level in zip(traversal, levels, strict=True):
        if level.segments is None or level.indices is None:
            repeats = np.full(count, level.size, dtype=np.int64)
            here = np.tile(np.arange(level.size, dtype=np.int64), count)
        else:
            repeats = np.diff(level.segments)
            here = level.indices
        coordinates = {d: np.repeat(c, repeats) for d, c in coordinates.items()}
        coordinates[dimension] = here
        count = len(here)
    inside = {dimension: rank + k for k, dimension in enumerate(blocks)}
    size_at = dict(zip(traversal, (level.size for level in levels), strict=True))
    if any(size_at[d] != levels[traversal[d]].size for d in range(rank, len(levels))):
        # LiteRT 2.3 looks block sizes up as if the traversal were its own inverse.
        raise UnsupportedError("a sparse tensor lists blocks of several sizes out of order, which runtimes misread")
    flat = np.zeros(count, dtype=np.int64)
    for dimension, size in enumerate(shape):
        place = coordinates[dimension]
        if dimension in inside:
            place = place * size_at[inside[dimension]] + coordinates[inside[dimension]]
        if count and not 0 <= int(place.min()) <= int(place.max()) < size:
            raise ModelError("damaged TFLite file: a sparse tensor stores values outside its shape")
        flat = flat * size + place
    dense = np.zeros(whole, dtype=values.dtype)
    dense[flat] = values
    return dense.reshape(tuple(shape))


def _leaves(levels: Sequence[Level]) -> int:
    """How many leaves a tree has. Raises ModelError where a level does not fit the one above."""
    count = 1
    for level in levels:
        if level.segments is None or level.indices is None:
            if level.size < 1:
                raise ModelError("damaged TFLite file: a level of a sparse tensor has no places")
            count *= level.size
            continue
        segments = level.segments
        if len(segments) != count + 1 or segments[0] or segments[-1] != len(level.indices):
            raise ModelError("damaged TFLite file: the segments of a sparse tensor do not fit its indices")
        if (np.diff(segments) < 0).any():
            raise ModelError("damaged TFLite file: the segments of a sparse tensor are not in order")
        count = len(level.indices)
    return count
