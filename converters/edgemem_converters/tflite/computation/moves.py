"""Operators of .tflite files that only move elements, or put tensors together."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.model import affine
from edgemem.model.tensor_ops import Concat
from edgemem_converters.tflite.computation.constants import NotExpressibleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.tflite.computation.operator import TfliteOperator

__all__ = ["MOVES"]


def _reshape(case: TfliteOperator) -> tuple[TensorOp, ...]:
    return (affine.reshape(case.operand(0), case.output, case.dims(0), case.shape),)


def _transpose(case: TfliteOperator) -> tuple[TensorOp, ...]:
    perm, shape = case.whole(1, "axes"), case.dims(0)
    made = affine.transpose(case.operand(0), case.output, shape, [case.axis(p, len(shape)) for p in perm])
    if tuple(shape[p] for p in perm) != case.shape:
        raise case.contradiction()
    return (made,)


def _slice(case: TfliteOperator) -> tuple[TensorOp, ...]:
    begin, shape = case.whole(1, "begins"), case.dims(0)
    return (affine.slice_(case.operand(0), case.output, shape, begin, [1] * len(shape), case.shape),)


def _strided_slice(case: TfliteOperator) -> tuple[TensorOp, ...]:
    shape = case.dims(0)
    begin, end, step = (case.whole(k, "begins and ends") for k in (1, 2, 3))
    if not len(begin) == len(end) == len(step) or 0 in step:
        raise case.contradiction()
    masks = {name: case.option(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    starts: list[int] = []
    steps: list[int] = []
    sizes: list[int] = []
    full = len(shape)
    for i in range(len(begin)):
        on = {name: bool(mask >> i & 1) for name, mask in masks.items()}
        at = len(starts)
        if on["ellipsis"]:
            others = sum(1 for k in range(i + 1, len(begin)) if not masks["new_axis"] >> k & 1)
            kept = range(at, max(full - others, at))
            starts += [0] * len(kept)
            steps += [1] * len(kept)
            sizes += [shape[axis] for axis in kept]
        elif not on["new_axis"]:
            if at >= full:
                raise case.contradiction()
            last = end[i] + begin[i] if case.option("offset") else end[i]
            if on["shrink_axis"]:
                first = 0 if on["begin"] else begin[i]
                starts.append(first + shape[at] if first < 0 else first)
                steps.append(1)
                sizes.append(1)
            else:
                ends = None if on["begin"] else begin[i], None if on["end"] else last
                reach = range(shape[at])[slice(*ends, step[i])]
                starts.append(reach.start)
                steps.append(step[i])
                sizes.append(len(reach))
    starts += [0] * (full - len(starts))
    steps += [1] * (full - len(steps))
    sizes += shape[len(sizes) :]
    if prod(sizes) != prod(case.shape):
        raise case.contradiction()
    return (affine.slice_(case.operand(0), case.output, shape, starts, steps, sizes),)


def _split(value: int, axis_at: int, case: TfliteOperator) -> tuple[TensorOp, ...]:
    """Parts of the input along an axis; `value` and `axis_at` are the positions of both."""
    shape = case.dims(value)
    axis = case.axis(_single(case, case.whole(axis_at, "an axis")), len(shape))
    parts, begin = [], 0
    for index in case.outputs:
        size = case.output_dims(index)
        if len(size) != len(shape) or size[:axis] + size[axis + 1 :] != shape[:axis] + shape[axis + 1 :]:
            raise case.contradiction()
        parts.append(_part(case.operand(value), index, shape, axis, begin, size[axis]))
        begin += size[axis]
    return tuple(parts)


def _unpack(case: TfliteOperator) -> tuple[TensorOp, ...]:
    shape = case.dims(0)
    axis = case.axis(case.option("axis"), len(shape))
    if any(case.output_dims(i) != shape[:axis] + shape[axis + 1 :] for i in case.outputs):
        raise case.contradiction()
    return tuple(_part(case.operand(0), index, shape, axis, k, 1) for k, index in enumerate(case.outputs))


def _part(source: int, result: int, shape: Sequence[int], axis: int, begin: int, size: int) -> TensorOp:
    begins, sizes = [0] * len(shape), list(shape)
    begins[axis], sizes[axis] = begin, size
    return affine.slice_(source, result, shape, begins, [1] * len(shape), sizes)


def _gather(case: TfliteOperator) -> tuple[TensorOp, ...]:
    """Of elements at equal distances."""
    shape, numbers = case.dims(0), case.whole(1, "indices")
    axis = case.axis(case.option("axis"), len(shape))
    if case.option("batch_dims"):
        raise NotExpressibleError("GATHER with batch dimensions")
    steps = {b - a for a, b in pairwise(numbers)}
    if len(steps) > 1:
        raise NotExpressibleError("GATHER of indices at unequal distances")
    begins, step, sizes = [0] * len(shape), [1] * len(shape), list(shape)
    begins[axis], step[axis], sizes[axis] = numbers[0], steps.pop() if steps else 1, len(numbers)
    if shape[:axis] + case.dims(1) + shape[axis + 1 :] != case.shape:
        raise case.contradiction()
    return (affine.slice_(case.operand(0), case.output, shape, begins, step, sizes),)


def _reverse(case: TfliteOperator) -> tuple[TensorOp, ...]:
    shape = case.dims(0)
    axes = {case.axis(a, len(shape)) for a in case.whole(1, "axes")}
    begin = [d - 1 if a in axes else 0 for a, d in enumerate(shape)]
    step = [-1 if a in axes else 1 for a in range(len(shape))]
    return (affine.slice_(case.operand(0), case.output, shape, begin, step, case.shape),)


def _pad(case: TfliteOperator) -> tuple[TensorOp, ...]:
    before = _before(case)
    value = 0.0
    if case.type == "PADV2":
        filling = case.constant(2, "values")
        if filling.size != 1:
            raise case.contradiction()
        value = float(filling.reshape(-1)[0])
    return (affine.pad(case.operand(0), case.output, case.dims(0), before, case.shape, "value", value),)


def _mirror_pad(case: TfliteOperator) -> tuple[TensorOp, ...]:
    border: affine.Border = "symmetric" if case.option("mode") else "reflect"
    return (affine.pad(case.operand(0), case.output, case.dims(0), _before(case), case.shape, border),)


def _before(case: TfliteOperator) -> tuple[int, ...]:
    paddings, shape = case.whole(1, "paddings"), case.dims(0)
    if len(paddings) != 2 * len(shape) or min(paddings, default=0) < 0:
        raise case.contradiction()
    if tuple(d + a + b for d, a, b in zip(shape, paddings[::2], paddings[1::2], strict=True)) != case.shape:
        raise case.contradiction()
    return paddings[::2]


def _tile(case: TfliteOperator) -> tuple[TensorOp, ...]:
    shape = case.dims(0)
    if len(shape) != len(case.shape) or any(b % a for a, b in zip(shape, case.shape, strict=True)):
        raise case.contradiction()
    repeats = [b // a for a, b in zip(shape, case.shape, strict=True)]
    return (affine.tile(case.operand(0), case.output, shape, repeats),)


def _broadcast_to(case: TfliteOperator) -> tuple[TensorOp, ...]:
    return (affine.expand(case.operand(0), case.output, case.dims(0), case.shape),)


def _depth_to_space(case: TfliteOperator) -> tuple[TensorOp, ...]:
    made = affine.depth_to_space(case.operand(0), case.output, case.dims(0), case.option("block"))
    block = case.option("block")
    n, h, w, c = case.dims(0)
    return _of_shape(case, (n, h * block, w * block, c // block**2), made)


def _space_to_depth(case: TfliteOperator) -> tuple[TensorOp, ...]:
    block = case.option("block")
    made = affine.space_to_depth(case.operand(0), case.output, case.dims(0), block)
    n, h, w, c = case.dims(0)
    return _of_shape(case, (n, h // block, w // block, c * block**2), made)


def _of_shape(case: TfliteOperator, shape: tuple[int, ...], made: TensorOp) -> tuple[TensorOp, ...]:
    if shape != case.shape:
        raise case.contradiction()
    return (made,)


def _blocks(maker: Callable[..., TensorOp], case: TfliteOperator) -> tuple[TensorOp, ...]:
    block, ends = case.whole(1, "blocks"), case.whole(2, "crops and paddings")
    if len(ends) != 2 * len(block):
        raise case.contradiction()
    return (maker(case.operand(0), case.output, case.dims(0), block, ends[::2], case.shape),)


def _concatenation(case: TfliteOperator) -> tuple[TensorOp, ...]:
    axis = case.axis(case.option("axis"), len(case.shape))
    shapes = [case.dims(k) for k in range(case.count())]
    rest = case.shape[:axis] + case.shape[axis + 1 :]
    if any(len(s) != len(case.shape) or s[:axis] + s[axis + 1 :] != rest for s in shapes):
        raise case.contradiction()
    if sum(s[axis] for s in shapes) != case.shape[axis]:
        raise case.contradiction()
    # LiteRT leaves empty tensors out.
    inputs = tuple(case.operand(k) for k, s in enumerate(shapes) if prod(s))
    return (Concat(inputs=inputs, output=case.output, axis=axis, function=case.function()),)


def _pack(case: TfliteOperator) -> tuple[TensorOp, ...]:
    axis = case.axis(case.option("axis"), len(case.shape))
    rest = case.shape[:axis] + case.shape[axis + 1 :]
    if case.count() != case.shape[axis] or any(case.dims(k) != rest for k in range(case.count())):
        raise case.contradiction()
    if case.count() == 1:
        return _reshape(case)
    return (Concat(inputs=tuple(case.operand(k) for k in range(case.count())), output=case.output, axis=axis),)


def _single(case: TfliteOperator, numbers: Sequence[int]) -> int:
    if len(numbers) != 1:
        raise case.contradiction()
    return numbers[0]


MOVES: Final[Mapping[str, Callable[[TfliteOperator], tuple[TensorOp, ...]]]] = {
    "BATCH_TO_SPACE_ND": partial(_blocks, affine.batch_to_space),
    "BROADCAST_TO": _broadcast_to,
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": _depth_to_space,
    "EXPAND_DIMS": _reshape,
    "GATHER": _gather,
    "MIRROR_PAD": _mirror_pad,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "RESHAPE": _reshape,
    "REVERSE_V2": _reverse,
    "SLICE": _slice,
    "SPACE_TO_BATCH_ND": partial(_blocks, affine.space_to_batch),
    "SPACE_TO_DEPTH": _space_to_depth,
    "SPLIT": partial(_split, 1, 0),
    "SPLIT_V": partial(_split, 0, 2),
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _strided_slice,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
