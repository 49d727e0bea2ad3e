"""What TFLite GPU's memory manager gives for known records, as its own tests publish it.

Source: tensorflow/tensorflow, tensorflow/lite/delegates/gpu/common/memory_management_test.cc (37 assignments) and
memory_management/internal_test.cc (4 vectors of positional maxima). Only the figures are taken.
TFLite GPU's BHWC shapes (four dimensions) are compared for equality only, so they are bytes here: equal shapes, equal
sizes, and different shapes, different sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from edgemem.records.problem import Size

Record: TypeAlias = tuple[int, int, Size]  # first_op, last_op, size

EMPTY: tuple[Record, ...] = ()
ONE: tuple[Record, ...] = ((0, 1, 16),)
CHAIN: tuple[Record, ...] = ((0, 1, 16), (1, 2, 8), (2, 3, 64), (3, 4, 32), (4, 5, 8))
COMPLEX: tuple[Record, ...] = (
    (0, 1, 32),
    (1, 4, 32),
    (2, 5, 8),
    (3, 5, 16),
    (4, 5, 8),
    (5, 7, 64),
    (6, 8, 8),
    (7, 8, 8),
    (8, 9, 16),
)
_SPANS = ((0, 1), (1, 2), (2, 4), (3, 5), (4, 5), (5, 7), (6, 8), (7, 8), (8, 9))


def _over(*sizes: Size) -> tuple[Record, ...]:
    return tuple((first, last, size) for (first, last), size in zip(_SPANS, sizes, strict=True))


# One number for each of the shapes 1x1x2x8, 1x1x1x16, 1x1x8x2, 1x16x1x1 and 16x1x1x1.
BHWC = _over(1, 1, 2, 1, 3, 1, 4, 5, 2)
UINT2 = _over((2, 8), (2, 8), (1, 12), (2, 8), (8, 2), (2, 8), (1, 8), (2, 8), (4, 1))
UINT3 = _over((1, 2, 8), (4, 3, 2), (1, 1, 1), (2, 4, 1), (2, 2, 2), (8, 1, 2), (1, 2, 1), (1, 1, 1), (2, 2, 2))


@dataclass(frozen=True, slots=True)
class ObjectsCase:
    """`strategy` is edgemem's name; TFLite GPU calls its Greedy by Size Improved GREEDY_BY_SIZE."""

    name: str
    strategy: str
    records: tuple[Record, ...]
    object_ids: tuple[int, ...]
    object_sizes: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class OffsetsCase:
    name: str
    records: tuple[Record, ...]
    alignment: int
    offsets: tuple[int, ...]
    total: int


def _naive(name: str, records: tuple[Record, ...]) -> ObjectsCase:
    return ObjectsCase(name, "naive", records, tuple(range(len(records))), tuple(size for _, _, size in records))


_SIX = ("naive", "equality", "min_cost_flow", "greedy_in_order", "greedy_by_breadth", "greedy_by_size_improved")

OBJECTS: tuple[ObjectsCase, ...] = (
    *(ObjectsCase("empty", strategy, EMPTY, (), ()) for strategy in _SIX),
    *(ObjectsCase("one", strategy, ONE, (0,), (16,)) for strategy in _SIX),
    _naive("chain", CHAIN),
    ObjectsCase("chain", "equality", CHAIN, (0, 1, 2, 3, 1), (16, 8, 64, 32)),
    ObjectsCase("chain", "min_cost_flow", CHAIN, (0, 1, 0, 1, 0), (64, 32)),
    ObjectsCase("chain", "greedy_in_order", CHAIN, (0, 1, 0, 1, 0), (64, 32)),
    ObjectsCase("chain", "greedy_by_breadth", CHAIN, (0, 1, 0, 1, 0), (64, 32)),
    ObjectsCase("chain", "greedy_by_size_improved", CHAIN, (0, 1, 0, 1, 0), (64, 32)),
    _naive("complex", COMPLEX),
    ObjectsCase("complex", "equality", COMPLEX, (0, 1, 2, 3, 4, 5, 4, 2, 3), (32, 32, 8, 16, 8, 64)),
    ObjectsCase("complex", "min_cost_flow", COMPLEX, (0, 1, 2, 0, 3, 1, 3, 2, 0), (32, 64, 8, 8)),
    ObjectsCase("complex", "greedy_in_order", COMPLEX, (0, 1, 0, 2, 3, 1, 3, 2, 0), (32, 64, 16, 8)),
    ObjectsCase("complex", "greedy_by_breadth", COMPLEX, (0, 4, 2, 1, 3, 0, 2, 3, 1), (64, 16, 8, 8, 32)),
    ObjectsCase("complex", "greedy_by_size_improved", COMPLEX, (1, 0, 2, 1, 3, 0, 1, 2, 0), (64, 32, 8, 8)),
    _naive("bhwc", BHWC),
    ObjectsCase("bhwc", "equality", BHWC, (0, 1, 2, 1, 3, 0, 4, 5, 2), (1, 1, 2, 3, 4, 5)),
    _naive("uint2", UINT2),
    ObjectsCase(
        "uint2",
        "equality",
        UINT2,
        (0, 1, 2, 0, 3, 1, 4, 0, 5),
        ((2, 8), (2, 8), (1, 12), (8, 2), (1, 8), (4, 1)),
    ),
    ObjectsCase("uint2", "greedy_in_order", UINT2, (0, 1, 2, 0, 3, 1, 2, 0, 3), ((2, 8), (2, 8), (1, 12), (8, 2))),
    _naive("uint3", UINT3),
    ObjectsCase(
        "uint3",
        "equality",
        UINT3,
        (0, 1, 2, 3, 4, 5, 6, 2, 4),
        ((1, 2, 8), (4, 3, 2), (1, 1, 1), (2, 4, 1), (2, 2, 2), (8, 1, 2), (1, 2, 1)),
    ),
    ObjectsCase(
        "uint3",
        "greedy_in_order",
        UINT3,
        (0, 1, 0, 2, 1, 3, 2, 0, 1),
        ((1, 2, 8), (4, 3, 2), (2, 4, 1), (8, 1, 2)),
    ),
)

# All by GREEDY_BY_SIZE.
OFFSETS: tuple[OffsetsCase, ...] = (
    OffsetsCase("empty", EMPTY, 1, (), 0),
    OffsetsCase("one", ONE, 1, (0,), 16),
    OffsetsCase("chain", CHAIN, 1, (0, 64, 0, 64, 0), 96),
    OffsetsCase("complex", COMPLEX, 1, (0, 32, 80, 64, 88, 0, 64, 72, 0), 96),
    OffsetsCase("chain aligned", CHAIN, 128, (0, 128, 0, 128, 0), 160),
)

POSITIONAL_MAXIMA: tuple[tuple[tuple[Record, ...], tuple[int, ...]], ...] = (
    (EMPTY, ()),
    (ONE, (16,)),
    (CHAIN, (64, 32)),
    (COMPLEX, (64, 32, 8, 8)),
)
