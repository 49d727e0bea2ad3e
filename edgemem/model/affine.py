"""Makers of `AffineMap`: operators that only move elements, as affine maps of indices.

Each maker takes the tensor that is read, the one that is written, and shapes; it merges dimensions as far as they move
together, so that a map has as few as possible. All of them raise ModelError where shapes and arguments contradict each
other, or where an element would be read from outside of the input, and UnsupportedError where more than `MOST_DIMS`
dimensions remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, Literal

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.tensor_ops import AffineMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "MOST_DIMS",
    "Border",
    "batch_to_space",
    "depth_to_space",
    "expand",
    "pad",
    "reshape",
    "slice_",
    "space_to_batch",
    "space_to_depth",
    "tile",
    "transpose",
]

MOST_DIMS: Final = 6  # output dimensions, and input dimensions, of a map
Border = Literal["value", "edge", "reflect", "symmetric"]


def reshape(source: int, result: int, in_shape: Sequence[int], out_shape: Sequence[int]) -> AffineMap:
    """The same elements in the same order."""
    if prod(in_shape) != prod(out_shape):
        raise ModelError(f"shape {tuple(in_shape)} cannot be read as {tuple(out_shape)}: other numbers of elements")
    return _map(source, result, [_Dim(d, (i,)) for i, d in enumerate(in_shape)], in_shape)


def transpose(source: int, result: int, shape: Sequence[int], perm: Sequence[int]) -> AffineMap:
    """Axis `perm[i]` of the input becomes axis i of the output, as NumPy's transpose."""
    if sorted(perm) != list(range(len(shape))):
        raise ModelError(f"{tuple(perm)} is no permutation of the {len(shape)} axes of shape {tuple(shape)}")
    return _map(source, result, [_Dim(shape[p], (p,)) for p in perm], shape)


def slice_(
    source: int, result: int, shape: Sequence[int], begin: Sequence[int], step: Sequence[int], out_shape: Sequence[int]
) -> AffineMap:
    """Element `begin + i * step` of each axis for i below the output's size; steps may be negative."""
    _same_rank(shape, begin, step, out_shape)
    dims = [_Dim(d, (i,), (s,)) for i, (d, s) in enumerate(zip(out_shape, step, strict=True))]
    return _map(source, result, dims, shape, offset=begin)


def pad(
    source: int,
    result: int,
    shape: Sequence[int],
    before: Sequence[int],
    out_shape: Sequence[int],
    border: Border = "value",
    value: float = 0.0,
) -> AffineMap:
    """`before` elements in front of each axis, and so many behind as the output has room for.

    Either may be negative: elements are cut off. `border` and `value` are those of `AffineMap`.
    """
    _same_rank(shape, before, out_shape)
    for size, front, total in zip(shape, before, out_shape, strict=True):
        most = {"value": total, "edge": total, "reflect": size - 1, "symmetric": size}[border]
        if (border != "value" and size < 1) or max(front, total - size - front) > max(most, 0):
            raise ModelError(f"an axis of {size} elements cannot be padded with {border} by {front} to {total}")
    dims = [_Dim(d, (i,)) for i, d in enumerate(out_shape)]
    return _map(source, result, dims, shape, offset=[-b for b in before], border=border, value=value, inside=False)


def tile(source: int, result: int, shape: Sequence[int], repeats: Sequence[int]) -> AffineMap:
    """The input so many times behind itself along each axis, as NumPy's tile of as many repeats as axes."""
    _same_rank(shape, repeats)
    if min(repeats, default=1) < 0:
        raise ModelError(f"a tensor cannot be repeated {tuple(repeats)} times")
    dims = []
    for axis, (size, times) in enumerate(zip(shape, repeats, strict=True)):
        if size == 1 or times == 1:
            dims.append(_Dim(size * times, (axis,), (int(size > 1),)))
        else:
            dims.append(_Dim(size * times, (axis,), (0,), split=max(size, 1), remainders=(1,)))
    return _map(source, result, dims, shape)


def expand(source: int, result: int, shape: Sequence[int], out_shape: Sequence[int]) -> AffineMap:
    """Axes of size 1, and axes in front that are missing, repeated: NumPy's broadcast."""
    missing = len(out_shape) - len(shape)
    full = (1,) * missing + tuple(shape)
    if missing < 0 or any(a not in (1, b) for a, b in zip(full, out_shape, strict=True)):
        raise ModelError(f"shape {tuple(shape)} cannot be broadcast to {tuple(out_shape)}")
    dims = [_Dim(b, (i,), (int(a > 1),)) for i, (a, b) in enumerate(zip(full, out_shape, strict=True))]
    return _map(source, result, dims, full)


def depth_to_space(
    source: int,
    result: int,
    shape: Sequence[int],
    block: int,
    *,
    mode: Literal["DCR", "CRD"] = "DCR",
    channels_first: bool = False,
) -> AffineMap:
    """Blocks of channels become blocks of height and width (a pixel shuffle).

    Args:
        source: the tensor that is read.
        result: the tensor that is written.
        shape: of the input: [batch, channels, height, width], or [batch, height, width, channels].
        block: elements along height and width of a block.
        mode: whether the channels of the input count blocks first (`DCR`, as TFLite) or channels of the output (`CRD`).
        channels_first: which of the shapes.
    """
    batch, height, width, channels = _four(shape, channels_first=channels_first)
    if block < 1 or channels % (block * block):
        raise ModelError(f"{channels} channels cannot be divided into blocks of {block} by {block}")
    kept = channels // (block * block)
    by_channel = (1, block * kept, kept) if mode == "DCR" else (block * block, block, 1)
    n, c, y, x = (0, 1, 2, 3) if channels_first else (0, 3, 1, 2)
    depth, row, column = (
        _Dim(size, (c,), (step,)) for size, step in zip((kept, block, block), by_channel, strict=True)
    )
    rows, columns = (_Dim(height, (y,)), row), (_Dim(width, (x,)), column)
    dims = [_Dim(batch, (n,)), *((depth, *rows, *columns) if channels_first else (*rows, *columns, depth))]
    return _map(source, result, dims, shape)


def space_to_depth(
    source: int, result: int, shape: Sequence[int], block: int, *, channels_first: bool = False
) -> AffineMap:
    """Blocks of height and width become blocks of channels: `depth_to_space` (`DCR`) undone. `shape`: of the input."""
    batch, height, width, channels = _four(shape, channels_first=channels_first)
    if block < 1 or height % block or width % block:
        raise ModelError(f"{height} by {width} elements cannot be divided into blocks of {block} by {block}")
    n, c, y, x = (0, 1, 2, 3) if channels_first else (0, 3, 1, 2)
    depth = [_Dim(block, (y,)), _Dim(block, (x,)), _Dim(channels, (c,))]
    plane = [_Dim(height // block, (y,), (block,)), _Dim(width // block, (x,), (block,))]
    dims = [_Dim(batch, (n,)), *(depth + plane if channels_first else plane + depth)]
    return _map(source, result, dims, shape)


def batch_to_space(
    source: int, result: int, shape: Sequence[int], block: Sequence[int], crops: Sequence[int], out_shape: Sequence[int]
) -> AffineMap:
    """Blocks of the batch become blocks of the axes behind it, which are cropped afterwards.

    Args:
        source: the tensor that is read.
        result: the tensor that is written.
        shape: of the input: [batch * blocks, axes of blocks..., other axes...].
        block: elements of a block along each axis of blocks.
        crops: elements cut off at the front of each axis of blocks.
        out_shape: of the output; what it lacks is cut off at the end.
    """
    batch = _blocks(shape[0] if shape else 0, out_shape[0] if out_shape else 0, block, crops, shape, out_shape)
    dims, steps = [_Dim(batch, (0,))], _steps(block, batch)
    for axis, (size, step, crop) in enumerate(zip(block, steps, crops, strict=True), 1):
        if crop < 0 or crop + out_shape[axis] > shape[axis] * size:
            raise ModelError(f"axis {axis} of shape {tuple(out_shape)} is more than blocks and crops make")
        dims.append(_Dim(out_shape[axis], (axis, 0), (1, 0), shift=crop, split=size, remainders=(0, step)))
    dims += [_Dim(size, (axis,)) for axis, size in _rest(shape, out_shape, block)]
    return _map(source, result, dims, shape)


def space_to_batch(
    source: int, result: int, shape: Sequence[int], block: Sequence[int], pads: Sequence[int], out_shape: Sequence[int]
) -> AffineMap:
    """Blocks of the axes behind the batch, padded with zeros, become blocks of the batch.

    Args:
        source: the tensor that is read.
        result: the tensor that is written.
        shape: of the input: [batch, axes of blocks..., other axes...].
        block: elements of a block along each axis of blocks.
        pads: zeros in front of each axis of blocks.
        out_shape: of the output; what it has more than the input are zeros behind it.
    """
    batch = _blocks(out_shape[0] if out_shape else 0, shape[0] if shape else 0, block, pads, shape, out_shape)
    dims = [_Dim(size, (axis,)) for axis, size in enumerate(block, 1)]
    dims.append(_Dim(batch, (0,)))
    dims += [_Dim(out_shape[axis], (axis,), (size,)) for axis, size in enumerate(block, 1)]
    dims += [_Dim(size, (axis,)) for axis, size in _rest(shape, out_shape, block)]
    offset = [0, *(-p for p in pads), *(0 for _ in shape[1 + len(block) :])]
    return _map(source, result, dims, shape, offset=offset, inside=False)


@dataclass(frozen=True, slots=True)
class _Dim:
    """An output dimension: what it adds to the indices of the input axes it moves along."""

    size: int
    axes: tuple[int, ...]
    quotients: tuple[int, ...] = (1,)
    shift: int = 0
    split: int = 1
    remainders: tuple[int, ...] = (0, 0)


@dataclass(slots=True)
class _Column:
    """An output dimension with a coefficient for each input dimension, while a map is simplified."""

    size: int
    shift: int
    split: int
    quotients: list[int]
    remainders: list[int]

    @property
    def is_plain(self) -> bool:
        return self.split == 1 and not self.shift

    def span(self, k: int) -> tuple[int, int]:
        """The least and the largest number that it adds to input index k."""
        first, last = self.shift // self.split, (self.shift + self.size - 1) // self.split
        rest = (self.shift, self.shift + self.size - 1) if last == 0 else (0, self.split - 1)
        ends = [self.quotients[k] * first, self.quotients[k] * last], [self.remainders[k] * r for r in rest]
        return sum(min(e) for e in ends), sum(max(e) for e in ends)


def _map(
    source: int,
    result: int,
    dims: Iterable[_Dim],
    in_shape: Sequence[int],
    *,
    offset: Sequence[int] | None = None,
    border: Border = "value",
    value: float = 0.0,
    inside: bool = True,
) -> AffineMap:
    """The map of these dimensions, simplified; `inside`: a map that reads beyond the input is an error."""
    columns = []
    for dim in dims:
        column = _Column(dim.size, dim.shift, dim.split, [0] * len(in_shape), [0] * len(in_shape))
        for axis, quotient, remainder in zip(dim.axes, dim.quotients, dim.remainders, strict=False):
            column.quotients[axis], column.remainders[axis] = quotient, remainder
        columns.append(column)
    sizes, starts = list(in_shape), list(offset) if offset is not None else [0] * len(in_shape)
    if all(column.size for column in columns):
        if inside and not all(_is_inside(columns, sizes, starts, k) for k in range(len(sizes))):
            raise ModelError(f"elements outside of shape {tuple(in_shape)} are read")
        columns = _without_ones(columns, starts)
        _merge_inputs(columns, sizes, starts, border)
        columns = _merged_outputs(columns)
    if max(len(columns), len(sizes)) > MOST_DIMS:
        raise UnsupportedError(f"elements are moved along more than {MOST_DIMS} dimensions")
    return AffineMap(
        input=source,
        output=result,
        out_dims=tuple(c.size for c in columns) or (1,),
        shift=tuple(c.shift for c in columns) or (0,),
        split=tuple(c.split for c in columns) or (1,),
        in_dims=tuple(sizes) or (1,),
        offset=tuple(starts) or (0,),
        quotients=tuple(tuple(c.quotients[k] for c in columns) or (0,) for k in range(len(sizes))) or ((0,),),
        remainders=tuple(tuple(c.remainders[k] for c in columns) or (0,) for k in range(len(sizes))) or ((0,),),
        border=border,
        value=value,
    )


def _is_inside(columns: Sequence[_Column], sizes: Sequence[int], starts: Sequence[int], k: int) -> bool:
    spans = [column.span(k) for column in columns]
    return starts[k] + sum(s[0] for s in spans) >= 0 and starts[k] + sum(s[1] for s in spans) < sizes[k]


def _without_ones(columns: Sequence[_Column], starts: list[int]) -> list[_Column]:
    """The columns without those of size 1, which always add the same."""
    for column in columns:
        if column.size == 1:
            for k in range(len(starts)):
                starts[k] += column.span(k)[0] if column.split == 1 else _one(column, k)
    return [column for column in columns if column.size != 1]


def _one(column: _Column, k: int) -> int:
    quotient, remainder = divmod(column.shift, column.split)
    return column.quotients[k] * quotient + column.remainders[k] * remainder


def _merge_inputs(columns: Sequence[_Column], sizes: list[int], starts: list[int], border: Border) -> None:
    """Count neighbouring input dimensions as one where no border is between them."""
    k = len(sizes) - 2
    while k >= 0:
        inside = _is_inside(columns, sizes, starts, k + 1)
        if inside and (border == "value" or _is_inside(columns, sizes, starts, k)):
            size = sizes.pop(k + 1)
            sizes[k] *= size
            starts[k] = starts[k] * size + starts.pop(k + 1)
            for column in columns:
                for numbers in (column.quotients, column.remainders):
                    numbers[k] = numbers[k] * size + numbers.pop(k + 1)
        k -= 1


def _merged_outputs(columns: Sequence[_Column]) -> list[_Column]:
    """Neighbouring output dimensions as one where every index moves on from one to the next in equal steps."""
    merged: list[_Column] = []
    for column in columns:
        last = merged[-1] if merged else None
        if last and last.is_plain and column.is_plain and last.quotients == [q * column.size for q in column.quotients]:
            merged[-1] = _Column(last.size * column.size, 0, 1, column.quotients, column.remainders)
        else:
            merged.append(column)
    return merged


def _same_rank(*shapes: Sequence[int]) -> None:
    if len({len(shape) for shape in shapes}) > 1:
        raise ModelError(f"shapes and arguments of other ranks: {', '.join(str(tuple(s)) for s in shapes)}")


def _four(shape: Sequence[int], *, channels_first: bool) -> tuple[int, int, int, int]:
    """Batch, height, width and channels of a shape."""
    if len(shape) != 4:
        raise ModelError(f"shape {tuple(shape)} has no height and width")
    n, a, b, c = shape
    return (n, b, c, a) if channels_first else (n, a, b, c)


def _blocks(
    many: int, few: int, block: Sequence[int], ends: Sequence[int], shape: Sequence[int], out_shape: Sequence[int]
) -> int:
    """The batch without blocks, checked against the batch with them."""
    _same_rank(shape, out_shape)
    _same_rank(block, ends)
    if len(block) >= len(shape) or min((*block, 1)) < 1 or few * prod(block) != many or min((*ends, 0)) < 0:
        raise ModelError(f"blocks of {tuple(block)} do not make shape {tuple(out_shape)} of {tuple(shape)}")
    return few


def _steps(block: Sequence[int], batch: int) -> list[int]:
    """Entries of the batch from one block to the next, along each axis of blocks."""
    return [prod(block[axis + 1 :]) * batch for axis in range(len(block))]


def _rest(shape: Sequence[int], out_shape: Sequence[int], block: Sequence[int]) -> list[tuple[int, int]]:
    """The axes behind those of blocks, with their sizes, which stay."""
    rest = list(enumerate(out_shape))[1 + len(block) :]
    if any(shape[axis] != size for axis, size in rest):
        raise ModelError(f"blocks of {tuple(block)} do not make shape {tuple(out_shape)} of {tuple(shape)}")
    return rest
