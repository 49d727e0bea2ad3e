"""Combining the types of values: of two branches, of a loop's turns, of slices and stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem_converters.onnx.rules import dims_of
from edgemem_converters.onnx.scopes import tensor_type

if TYPE_CHECKING:
    from onnx import TypeProto

__all__ = ["at", "common", "merged", "sliced", "stacked", "widened"]


def merged(a: TypeProto | None, b: TypeProto | None) -> TypeProto | None:
    """One type from two types of the same value; where both have a dimension, that of the first is taken."""
    if a is None or a.WhichOneof("value") is None:
        return b
    left, right = dims_of(a), dims_of(b)
    if right is None or not a.HasField("tensor_type"):
        return a
    elem_type = a.tensor_type.elem_type or (b.tensor_type.elem_type if b is not None else 0)
    if left is None or len(left) != len(right):
        return tensor_type(elem_type, right if left is None else left)
    dims = [x if isinstance(x, int) or not isinstance(y, int) else y for x, y in zip(left, right, strict=True)]
    return tensor_type(elem_type, dims)


def common(a: TypeProto | None, b: TypeProto | None) -> TypeProto | None:
    """The common type of both values: a dimension in which they differ is unknown."""
    if a is None or b is None or a == b:
        return a if b is not None else None
    if not (a.HasField("tensor_type") and b.HasField("tensor_type")):
        return a if a.WhichOneof("value") == b.WhichOneof("value") else None
    left, right = dims_of(a), dims_of(b)
    if left is None or right is None or len(left) != len(right):
        return tensor_type(a.tensor_type.elem_type, None)
    return tensor_type(a.tensor_type.elem_type, [x if x == y else None for x, y in zip(left, right, strict=True)])


def widened(before: TypeProto | None, after: TypeProto | None) -> TypeProto | None:
    """A loop-carried type after one more turn: a dimension that changes becomes unknown, and stays so."""
    left, right = dims_of(before), dims_of(after)
    if before is None or left is None or right is None:
        return before
    if len(left) != len(right):
        return tensor_type(before.tensor_type.elem_type, None)
    return tensor_type(before.tensor_type.elem_type, [x if x == y else None for x, y in zip(left, right, strict=True)])


def at(made: TypeProto | None, axis: int) -> int | None:
    """A tensor's length along an axis, if known."""
    dims = dims_of(made)
    if dims is None or not -len(dims) <= axis < len(dims):
        return None
    size = dims[axis]
    return size if isinstance(size, int) else None


def sliced(made: TypeProto | None, axis: int) -> TypeProto | None:
    """The part of a sequence that a scan's body gets at each iteration."""
    dims = dims_of(made)
    if made is None or dims is None or not -len(dims) <= axis < len(dims):
        return None
    del dims[axis]
    return tensor_type(made.tensor_type.elem_type, dims)


def stacked(made: TypeProto | None, turns: int | None, axis: int) -> TypeProto | None:
    """The results of all iterations, concatenated along a new axis."""
    dims = dims_of(made)
    if made is None or dims is None or not -len(dims) - 1 <= axis <= len(dims):
        return None
    dims.insert(axis if axis >= 0 else axis + len(dims) + 1, turns)
    return tensor_type(made.tensor_type.elem_type, dims)
