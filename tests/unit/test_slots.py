from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.slots import Slot, find_slots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Attribute


def one(
    kind: str,
    given: Sequence[tuple[int, ...]],
    made: Sequence[tuple[int, ...]],
    attributes: Mapping[str, Attribute],
    dtype: str = "float32",
) -> tuple[Graph, Op]:
    names = [*(f"x{k}" for k in range(len(given))), *(f"y{k}" for k in range(len(made)))]
    tensors = tuple(Tensor(name, dtype, shape) for name, shape in zip(names, (*given, *made), strict=True))
    inputs, outputs = tuple(range(len(given))), tuple(range(len(given), len(tensors)))
    op = Op("op", kind, inputs, outputs, attributes=attributes)
    return Graph("g", tensors, (op,), inputs, outputs), op


ROWS = {"begin": (0, 3, 0, 0), "size": (1, 2, 4, 5)}


@pytest.mark.parametrize("kind", ["SLICE", "Slice"])
def test_a_slice_of_rows_lies_in_its_input(kind: str) -> None:
    assert find_slots(*one(kind, [(1, 8, 4, 5)], [(1, 2, 4, 5)], ROWS)) == (Slot(1, 0, 3 * 4 * 5 * 4),)


def test_a_slice_of_one_row_may_be_cut_further() -> None:
    case = one("SLICE", [(1, 8, 4, 5)], [(1, 1, 2, 5)], {"begin": (0, 3, 1, 0), "size": (1, 1, 2, 5)})
    assert find_slots(*case) == (Slot(1, 0, (3 * 4 + 1) * 5 * 4),)


def test_a_slice_of_columns_is_no_run_of_bytes() -> None:
    case = one("SLICE", [(1, 8, 4, 5)], [(1, 2, 3, 5)], {"begin": (0, 0, 1, 0), "size": (1, 2, 3, 5)})
    assert find_slots(*case) == ()


@pytest.mark.parametrize("kind", ["CONCATENATION", "Concat"])
def test_pieces_lie_in_their_concatenation(kind: str) -> None:
    case = one(kind, [(1, 2, 4), (1, 3, 4), (1, 1, 4)], [(1, 6, 4)], {"axis": 1})
    assert find_slots(*case) == (Slot(0, 3, 0), Slot(1, 3, 32), Slot(2, 3, 80))


def test_constants_and_what_is_read_twice_have_no_slot() -> None:
    graph, op = one("CONCATENATION", [(1, 2), (1, 2), (1, 2)], [(1, 8)], {"axis": 1})
    tensors = (graph.tensors[0], replace(graph.tensors[1], kind="constant"), *graph.tensors[2:])
    twice = replace(op, inputs=(0, 1, 2, 2))
    assert find_slots(replace(graph, tensors=tensors, inputs=(0, 2), ops=(twice,)), twice) == (Slot(0, 3, 0),)


def test_results_of_a_split_lie_in_its_input() -> None:
    graph, op = one("SPLIT_V", [(1, 6, 4), (2,)], [(1, 2, 4), (1, 4, 4)], {"axis": 1})
    assert find_slots(graph, op) == (Slot(2, 0, 0), Slot(3, 0, 32))
    graph, op = one("SPLIT", [(1,), (1, 6, 4)], [(1, 3, 4), (1, 3, 4)], {"axis": 1})
    assert find_slots(graph, op) == (Slot(2, 1, 0), Slot(3, 1, 48))
    graph, op = one("Split", [(6, 4)], [(3, 4), (3, 4)], {"axis": 0})
    assert find_slots(graph, op) == (Slot(1, 0, 0), Slot(2, 0, 48))


@pytest.mark.parametrize(
    "case",
    [
        one("CONCATENATION", [(2, 2), (2, 2)], [(2, 4)], {"axis": 1}),  # not along the outermost dimension
        one("CONCATENATION", [(1, 2), (1, 2)], [(1, 4)], {}),  # the axis is unknown
        one("CONCATENATION", [(1, 2), (1, 3)], [(1, 6)], {"axis": 1}),  # the shapes do not fit
        one("CONCATENATION", [(1, 2), (1, 2)], [(1, 4)], {"axis": 1}, "int4"),  # elements are no whole bytes
        one("SLICE", [(1, 8, 4, 5)], [(1, 2, 4, 5)], {}),
        one("SLICE", [(1, 4, 4, 5)], [(1, 2, 4, 5)], ROWS),  # beyond the end
        one("SPLIT", [(1,), (1, 6, 4)], [(1, 3, 4), (1, 2, 4)], {"axis": 1}),
        one("PACK", [(4,), (4,)], [(2, 4)], {"axis": 0}),
        one("ADD", [(4,), (4,)], [(4,)], {}),
    ],
)
def test_other_operators_have_no_slots(case: tuple[Graph, Op]) -> None:
    assert find_slots(*case) == ()
