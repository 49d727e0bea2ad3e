"""Which tensors may lie inside others, because an operator only cuts them out or puts them together.

    CONCATENATION                          SLICE, SPLIT
    inputs   [ a )[ b )[ c )               input    [             )
             |    |    |                               |    |
    output   [              )              output      [    )

Where all that stands before the cut dimension is 1, a piece is a run of bytes of the whole. The operator then copies
bytes onto themselves, and the two tensors are one value as far as they meet. Read by planner and proof alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.model.dtypes import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Graph, Op, Tensor

__all__ = ["CONCATENATIONS", "SLICES", "Slot", "find_slots"]

CONCATENATIONS: Final = frozenset(("CONCATENATION", "Concat"))
SLICES: Final = frozenset(("SLICE", "Slice"))
# Where the input that is split stands.
_SPLITS: Final[Mapping[str, int]] = {"SPLIT": 1, "SPLIT_V": 0, "Split": 0}


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor that may lie inside another.

    Attributes:
        piece: index of the tensor.
        whole: index of the one that it may lie in.
        delta: bytes from the start of the whole to the start of the piece.
    """

    piece: int
    whole: int
    delta: int


def find_slots(graph: Graph, op: Op) -> tuple[Slot, ...]:
    """The slots of an operator's inputs in its output, or of its outputs in its input, in their order.

    Args:
        graph: the graph that the operator is in.
        op: the operator. A concatenation needs `axis` among its attributes, a slice `begin` and `size`, a split `axis`.

    Returns:
        Slots of activations in activations, none of them empty. () for any other operator, and wherever the pieces
        are not runs of whole bytes. An input that is read twice has no slot.
    """
    if op.bodies or not op.inputs or not op.outputs or op.outputs[0] < 0:
        return ()
    if op.type in CONCATENATIONS:
        return _concatenated(graph, op)
    if op.type in SLICES:
        return _sliced(graph, op)
    if op.type in _SPLITS and len(op.inputs) > _SPLITS[op.type]:
        return _split(graph, op, op.inputs[_SPLITS[op.type]])
    return ()


def _concatenated(graph: Graph, op: Op) -> tuple[Slot, ...]:
    if not _has_place(graph.tensors[op.outputs[0]]):
        return ()
    deltas = _run(graph, op, op.outputs[0], op.inputs)
    places = zip(op.inputs, deltas, strict=False)
    return tuple(
        Slot(index, op.outputs[0], delta)
        for index, delta in places
        if op.inputs.count(index) == 1 and _has_place(graph.tensors[index])
    )


def _split(graph: Graph, op: Op, whole: int) -> tuple[Slot, ...]:
    if whole < 0 or op.inputs.count(whole) > 1 or not _has_place(graph.tensors[whole]):
        return ()
    places = zip(op.outputs, _run(graph, op, whole, op.outputs), strict=False)
    return tuple(Slot(index, whole, delta) for index, delta in places if _has_place(graph.tensors[index]))


def _run(graph: Graph, op: Op, whole: int, pieces: Sequence[int]) -> tuple[int, ...]:
    """Where each of the pieces begins in the whole, in bytes; () if they are not the whole cut into runs of bytes."""
    axis, into = op.attributes.get("axis"), graph.tensors[whole]
    rank = len(into.shape)
    if not isinstance(axis, int) or not 0 <= axis < rank or min(pieces) < 0:
        return ()
    width, tensors = _width(into), [graph.tensors[index] for index in pieces]
    if not width or prod(into.shape[:axis]) != 1:
        return ()
    deltas, at = [], 0
    for tensor in tensors:
        shape = tensor.shape
        if tensor.dtype != into.dtype or len(shape) != rank:
            return ()
        if shape[:axis] != into.shape[:axis] or shape[axis + 1 :] != into.shape[axis + 1 :]:
            return ()
        deltas.append(at)
        at += prod(shape) * width
    return tuple(deltas) if at == into.size else ()


def _sliced(graph: Graph, op: Op) -> tuple[Slot, ...]:
    whole, piece = op.inputs[0], op.outputs[0]
    if whole < 0:
        return ()
    given, made = graph.tensors[whole], graph.tensors[piece]
    begin, size, rank = op.attributes.get("begin"), op.attributes.get("size"), len(given.shape)
    if not isinstance(begin, tuple) or not isinstance(size, tuple) or len(begin) != rank or size != made.shape:
        return ()
    if len(size) != rank or given.dtype != made.dtype or not (_has_place(given) and _has_place(made)):
        return ()
    if any(b < 0 or b + s > d for b, s, d in zip(begin, size, given.shape, strict=True)):
        return ()
    cut = next((k for k in range(rank) if size[k] != 1), rank)  # what stands before it is 1; what follows must be whole
    if size[cut + 1 :] != given.shape[cut + 1 :]:
        return ()
    width = _width(given)
    start = sum(b * prod(given.shape[k + 1 :]) for k, b in enumerate(begin))
    return (Slot(piece, whole, start * width),) if width else ()


def _width(tensor: Tensor) -> int:
    """Bytes of an element; 0 if it is not whole bytes."""
    bits = DTYPE_BITS.get(tensor.dtype, 0)
    return 0 if bits % 8 else bits // 8


def _has_place(tensor: Tensor) -> bool:
    return tensor.kind == "activation" and prod(tensor.shape) > 0
