"""ONNX operators that move elements: reshapes, transposes, slices, paddings, repetitions, concatenations."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model import affine
from edgemem.model.tensor_ops import IDENTITY, Concat, Gather, Unary
from edgemem_converters.onnx.computation.operator import LARGEST, InexpressibleError, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.affine import Border
    from edgemem.model.tensor_ops import AffineMap, TensorOp
    from edgemem_converters.onnx.computation.operator import OnnxOperator, Rule

__all__ = ["MOVES"]

_BORDERS: Final[Mapping[str, Border]] = {"constant": "value", "edge": "edge", "reflect": "reflect"}


def _map(maker: Callable[..., AffineMap], *given: Any, **more: Any) -> AffineMap:
    """What a maker of maps gives. Raises InexpressibleError where it refuses."""
    try:
        return maker(*given, **more)
    except (ModelError, UnsupportedError) as e:
        raise InexpressibleError(f"({e})") from None


def _reshape(call: OnnxOperator) -> list[TensorOp]:
    source, result = call.input(), call.single()
    if call.shape() == call.made():
        return [Unary(function=IDENTITY, input=source, output=result)]
    return [_map(affine.reshape, source, result, call.shape(), call.made())]


def _transpose(call: OnnxOperator) -> list[TensorOp]:
    rank = len(call.shape())
    perm = call.integers("perm") or tuple(reversed(range(rank)))
    return [_map(affine.transpose, call.input(), call.single(), call.shape(), perm)]


def _concat(call: OnnxOperator) -> list[TensorOp]:
    made = call.made()
    axis = call.axis("axis", 1, len(made))
    full = [k for k in range(call.inputs) if prod(call.shape(k))]
    total = 0
    for k in full:
        shape = call.shape(k)
        total += shape[axis] if len(shape) == len(made) else 0
        if shape[:axis] + shape[axis + 1 :] != made[:axis] + made[axis + 1 :]:
            raise InexpressibleError("of shapes that do not fit")
    if total != made[axis]:
        raise InexpressibleError("with an output of another shape than it gives")
    return [Concat(inputs=tuple(call.operand(k) for k in full), output=call.single(), axis=axis)]


def _split(call: OnnxOperator) -> list[TensorOp]:
    shape = call.shape()
    axis = call.axis("axis", 0, len(shape))
    steps: list[TensorOp] = []
    at = 0
    for k, index in enumerate(call.outputs):
        if index < 0:
            raise InexpressibleError("with a part that is no output")
        made = call.shape_of(index)
        begin = [at if d == axis else 0 for d in range(len(shape))]
        if prod(made):
            steps.append(_map(affine.slice_, call.input(), call.output(k), shape, begin, [1] * len(shape), made))
        at += made[axis]
    return steps


def _slice(call: OnnxOperator) -> list[TensorOp]:
    shape, rank = call.shape(), len(call.shape())
    if call.opset < 10:
        starts, axes, steps = call.integers("starts"), call.integers("axes"), None
    else:
        starts, axes = call.numbers(1, "starts"), call.numbers(3, "axes")
        steps = call.numbers(4, "steps")
    starts = starts or ()
    axes = axes if axes is not None else tuple(range(len(starts)))
    steps = steps if steps is not None else (1,) * len(starts)
    if not len(starts) == len(axes) == len(steps):
        raise InexpressibleError("with as many starts as axes and steps only in part")
    begin, step = [0] * rank, [1] * rank
    for start, given, by in zip(starts, axes, steps, strict=True):
        axis = counted(given, rank)
        size = shape[axis]
        first = start + size if start < 0 else start
        begin[axis] = min(max(first, 0), size if by > 0 else size - 1)
        step[axis] = by if call.made()[axis] > 1 else 1
    return [_map(affine.slice_, call.input(), call.single(), shape, begin, step, call.made())]


def _gather(call: OnnxOperator) -> list[TensorOp]:
    """Along an axis: a slice where the elements are in equal steps."""
    shape = call.shape()
    axis = call.axis("axis", 0, len(shape))
    made = (*shape[:axis], *call.shape(1), *shape[axis + 1 :])
    indices = call.numbers(1, "indices") if call.is_constant(1) else None
    places = [index + shape[axis] if index < 0 else index for index in indices or ()]
    step = places[1] - places[0] if len(places) > 1 else 1
    if not places or any(b - a != step for a, b in pairwise(places)):
        return [_gathered(call, prod(shape[:axis]), (shape[axis],), prod(shape[axis + 1 :]), made)]
    begin = [places[0] if k == axis else 0 for k in range(len(shape))]
    taken = [len(places) if k == axis else size for k, size in enumerate(shape)]
    if prod(taken) != prod(call.made()):
        raise InexpressibleError("with an output of another shape than it gives")
    steps = [step if k == axis else 1 for k in range(len(shape))]
    return [_map(affine.slice_, call.input(), call.single(), shape, begin, steps, taken)]


def _gathered(
    call: OnnxOperator, before: int, sizes: tuple[int, ...], after: int, made: tuple[int, ...], *, of_each: bool = False
) -> Gather:
    """Elements of the first input at indices in the second one, in an output of a shape."""
    if made != call.made() or not sizes or not call.is_integer(call.operand(1)):
        raise InexpressibleError("with an output of another shape than it gives")
    values, indices = call.operand(0), call.operand(1)
    return Gather(
        input=values,
        indices=indices,
        output=call.single(),
        before=before,
        sizes=sizes,
        after=after,
        of_each=of_each,
    )


def _gather_nd(call: OnnxOperator) -> list[TensorOp]:
    shape, indices = call.shape(), call.shape(1)
    if call.integer("batch_dims", 0) or not indices or not 0 < indices[-1] <= len(shape):
        raise InexpressibleError("with indices within a batch, or of another rank than its input")
    axes = indices[-1]
    return [_gathered(call, 1, shape[:axes], prod(shape[axes:]), (*indices[:-1], *shape[axes:]))]


def _gather_elements(call: OnnxOperator) -> list[TensorOp]:
    shape, made = call.shape(), call.shape(1)
    axis = call.axis("axis", 0, len(shape))
    if (*made[:axis], *made[axis + 1 :]) != (*shape[:axis], *shape[axis + 1 :]):
        raise InexpressibleError("with indices for a part of its input")
    return [_gathered(call, prod(shape[:axis]), (shape[axis],), prod(shape[axis + 1 :]), made, of_each=True)]


def _pad(call: OnnxOperator) -> list[TensorOp]:
    shape, rank = call.shape(), len(call.shape())
    value = call.number("value", 0.0)
    pads = call.integers("pads") or call.integers("paddings")
    axes = tuple(range(rank))
    if call.opset >= 11:
        pads, value = call.numbers(1, "sizes"), call.scalar(2, "values", 0.0)
        chosen = call.numbers(3, "axes")
        axes = axes if chosen is None else tuple(counted(axis, rank) for axis in chosen)
    mode = call.text("mode", "constant")
    if pads is None or len(pads) != 2 * len(axes) or max(map(abs, pads), default=0) > LARGEST:
        raise InexpressibleError("with paddings of another rank than its input")
    if mode not in _BORDERS or (mode != "constant" and min(pads, default=0) < 0):
        raise InexpressibleError(f"with {'negative paddings, ' if mode in _BORDERS else ''}mode {mode!r}")
    before, after = [0] * rank, [0] * rank
    for k, axis in enumerate(axes):
        before[axis], after[axis] = pads[k], pads[len(axes) + k]
    made = tuple(a + size + b for a, size, b in zip(before, shape, after, strict=True))
    if made != call.made():
        raise InexpressibleError("with an output of another shape than it gives")
    return [_map(affine.pad, call.input(), call.single(), shape, before, made, _BORDERS[mode], value)]


def _tile(call: OnnxOperator) -> list[TensorOp]:
    if call.opset < 6:
        raise InexpressibleError("of operator set 1")
    repeats = call.numbers(1, "repeats")
    if repeats is None or tuple(a * b for a, b in zip(call.shape(), repeats, strict=False)) != call.made():
        raise InexpressibleError("with an output of another shape than it gives")
    return [_map(affine.tile, call.input(), call.single(), call.shape(), repeats)]


def _expand(call: OnnxOperator) -> list[TensorOp]:
    return [_map(affine.expand, call.input(), call.single(), call.shape(), call.made())]


def _depth_to_space(call: OnnxOperator) -> list[TensorOp]:
    mode = call.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise InexpressibleError(f"with mode {mode!r}")
    block = call.integer("blocksize", 0)
    if len(call.shape()) != 4 or not 0 < block <= LARGEST:
        raise InexpressibleError("of a tensor without height and width")
    order: Literal["DCR", "CRD"] = "DCR" if mode == "DCR" else "CRD"
    return [
        _map(affine.depth_to_space, call.input(), call.single(), call.shape(), block, mode=order, channels_first=True)
    ]


def _space_to_depth(call: OnnxOperator) -> list[TensorOp]:
    block = call.integer("blocksize", 0)
    if len(call.shape()) != 4 or not 0 < block <= LARGEST:
        raise InexpressibleError("of a tensor without height and width")
    return [_map(affine.space_to_depth, call.input(), call.single(), call.shape(), block, channels_first=True)]


MOVES: Final[Mapping[str, Rule]] = {
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "GatherElements": _gather_elements,
    "Pad": _pad,
    "Tile": _tile,
    "Expand": _expand,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
