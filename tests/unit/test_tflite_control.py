"""Pairs of operators that keep their order, as TensorFlow's converter writes them into a .tflite file."""

from __future__ import annotations

import pytest

from edgemem.errors import ModelError
from edgemem.schedule.order import find_order
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.control import decode_control, encode_control
from edgemem_converters.tflite.model import TfliteConverter
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build

KEY = "model_control_dependencies"


def branches(entry: bytes | None = None) -> TfliteConverter:
    """Two large tensors, each summed up: better one branch after the other than both at once."""
    tensors = [T("x"), T("big", shape=(1, 400)), T("huge", shape=(1, 400)), T("a"), T("b"), T("y")]
    ops = [
        O("TILE", (0,), (1,)),
        O("TILE", (0,), (2,)),
        O("SUM", (1,), (3,)),
        O("SUM", (2,), (4,)),
        O("ADD", (3, 4), (5,), ADD_OPTIONS),
    ]
    model = M([S(tensors, ops, (0,), (5,))], metadata={} if entry is None else {KEY: entry})
    return TfliteConverter.from_bytes(build(model))


@pytest.mark.parametrize(
    ("data", "operators", "pairs"),
    [
        (b"\x01\x00", (), ()),
        (b"\x01\x01\x00", (3,), ((),)),
        (b"\x01\x02\x01\x00\x02\x00", (2, 0), (((0, 1),), ())),
        # 64 and 16384 as signed numbers: 128 and 32768 in groups of 7 bits, the low ones first.
        (b"\x01\x01\x01\x80\x01\x80\x80\x02", (20_000,), (((64, 16_384),),)),
        (b"\x01\x01\x02\x00\x02\x02\x04", (3,), (((0, 1), (1, 2)),)),
    ],
)
def test_the_entry_is_varints(data: bytes, operators: tuple[int, ...], pairs: tuple[object, ...]) -> None:
    assert decode_control(data, operators) == pairs
    assert encode_control(decode_control(data, operators)) == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends within"),
        (b"\x02\x01\x00", "version 2"),
        (b"\x01\x02\x00\x00", "not of its 1 subgraphs"),
        (b"\x01\x01\x01\x00", "ends within"),
        (b"\x01\x01\x01\x02\x00", "not in the order"),  # 1 before 0
        (b"\x01\x01\x01\x01\x02", "not in the order"),  # -1 before 1
        (b"\x01\x01\x01\x00\x0a", "not in the order"),  # 5, of 5 operators
        (b"\x01\x01\x00\x00", "1 bytes too many"),
        (b"\x01\x01\xff\xff\xff\xff\x0f", "ends within"),
        (b"\x01\x01\xff\xff\xff\xff\xff\x0f", "ends within"),
    ],
)
def test_an_entry_that_cannot_be_read_leaves_the_order_of_the_file(data: bytes, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        decode_control(data, (5,))
    model = branches(data)
    assert model.graph().precedence == ((0, 1), (1, 2), (2, 3), (3, 4))
    assert find_order(model.graph(), BUILT_IN["tflm"]).order == (0, 1, 2, 3, 4)


def test_an_order_keeps_to_the_pairs_and_numbers_them_anew() -> None:
    assert find_order(branches().graph(), BUILT_IN["tflm"]).order == (0, 2, 1, 3, 4)
    bound = branches(b"\x01\x01\x01\x02\x04")  # the second TILE before the first SUM
    assert bound.graph().precedence == ((1, 2),)
    assert find_order(bound.graph(), BUILT_IN["tflm"]).order == (1, 3, 0, 2, 4)
    both = branches(b"\x01\x01\x02\x00\x06\x02\x04")  # and the first TILE before the second SUM
    assert find_order(both.graph(), BUILT_IN["tflm"]).order == (0, 1, 2, 3, 4)
    with pytest.raises(ModelError, match="must run before"):
        bound.with_order((0, 2, 1, 3, 4))
    moved = TfliteConverter.from_bytes(bound.with_order((1, 3, 0, 2, 4)).content())
    assert [op.outputs for op in moved.graph().ops] == [(2,), (4,), (1,), (3,), (5,)]
    assert moved.graph().precedence == ((0, 3),)
    assert moved.with_order((2, 0, 1, 3, 4)).graph().precedence == ((1, 3),)
