from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.dtypes import DTYPE_BITS, byte_size
from edgemem.model.graph import Graph, Op, Tensor, digest


@pytest.mark.parametrize(
    ("dtype", "elements", "size"),
    [
        ("float32", 3, 12),
        ("bool", 3, 3),
        ("uint4", 3, 2),
        ("int4", 4, 2),
        ("int2", 5, 2),
        ("float4e2m1", 1, 1),
        ("float8e4m3fn", 7, 7),
        ("bfloat16", 3, 6),
        ("complex128", 2, 32),
        ("int64", 0, 0),
    ],
)
def test_byte_sizes(dtype: str, elements: int, size: int) -> None:
    assert byte_size(dtype, elements) == size


def test_a_dtype_without_width_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'string' has no fixed width"):
        byte_size("string", 1)


def test_widths_agree_with_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = {"float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2", "float8e8m0": "float8_e8m0fnu"}
    for ours, theirs in {**names, "bfloat16": "bfloat16"}.items():
        assert DTYPE_BITS[ours] == ml_dtypes.finfo(getattr(ml_dtypes, theirs)).bits
    for name in ("int4", "uint4", "int2", "uint2"):
        assert DTYPE_BITS[name] == ml_dtypes.iinfo(getattr(ml_dtypes, name)).bits


def test_a_tensor_keeps_its_size_and_compares_without_it() -> None:
    asked, fresh = Tensor("x", "int4", (3, 5)), Tensor("x", "int4", (3, 5))
    assert asked.size == asked.size == 8
    assert asked == fresh
    assert hash(asked) == hash(fresh)
    assert repr(asked) == repr(fresh)
    assert replace(asked, shape=(3,)).size == 2
    assert pickle.loads(pickle.dumps(asked)).size == 8
    words = Tensor("s", "string", (2,), "opaque")
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="'string' has no fixed width"):
            words.size  # noqa: B018


def _chain(*, shape: tuple[int, ...] = (4,)) -> Graph:
    tensors = tuple(Tensor(name, "float32", shape) for name in "xab")
    return Graph("g", tensors, (Op("f", "Conv", (0,), (1,)), Op("g", "Conv", (1,), (2,))), (0,), (2,))


def test_the_digest_sees_what_a_plan_depends_on() -> None:
    base = digest(_chain())
    assert base == digest(_chain())
    assert base != digest(_chain(shape=(5,)))
    renamed = Graph(
        "other", _chain().tensors, tuple(Op("?", o.type, o.inputs, o.outputs) for o in _chain().ops), (0,), (2,)
    )
    assert base == digest(renamed), "operators' names are for people"


def test_reading_before_writing_is_refused() -> None:
    g = _chain()
    with pytest.raises(ModelError, match="reads 'a' before anything writes it"):
        Graph("g", g.tensors, g.ops[::-1], g.inputs, g.outputs)


def test_indices_must_exist() -> None:
    with pytest.raises(ModelError, match="names tensor 7, but there are 3"):
        Graph("g", _chain().tensors, (Op("f", "Conv", (7,), (1,)),), (0,), (1,))


def test_an_order_must_be_topological() -> None:
    diamond = Graph(
        "g",
        tuple(Tensor(name, "float32", (1,)) for name in "xabc"),
        (Op("a", "Relu", (0,), (1,)), Op("b", "Relu", (0,), (2,)), Op("c", "Add", (1, 2), (3,))),
        (0,),
        (3,),
    )
    assert [op.name for op in diamond.reordered((1, 0, 2)).ops] == ["b", "a", "c"]
    with pytest.raises(ModelError, match="before anything writes it"):
        diamond.reordered((2, 0, 1))
    with pytest.raises(ModelError, match="permutation of the 3 operators"):
        diamond.reordered((0, 0, 2))


def test_side_effects_keep_their_order() -> None:
    graph = Graph("g", (), (Op("w", "ASSIGN", (), (), ordered=True), Op("r", "READ", (), (), ordered=True)), (), ())
    with pytest.raises(ModelError, match="side effects"):
        graph.reordered((1, 0))


def test_pairs_of_operators_keep_their_order() -> None:
    tensors = tuple(Tensor(name, "float32", (1,)) for name in "xabc")
    ops = tuple(Op(name, "Relu", (0,), (k,)) for k, name in enumerate("abc", start=1))
    graph = Graph("g", tensors, ops, (0,), (3,), precedence=((0, 2),))
    moved = graph.reordered((1, 0, 2))
    assert [op.name for op in moved.ops] == ["b", "a", "c"]
    assert moved.precedence == ((1, 2),)
    assert digest(graph) == digest(replace(graph, precedence=()))
    with pytest.raises(ModelError, match="'a' must run before operator 'c'"):
        graph.reordered((2, 1, 0))
    for pair in ((0, 3), (-1, 2)):
        with pytest.raises(ModelError, match="but there are 3"):
            replace(graph, precedence=(pair,))


@pytest.mark.parametrize("ops", [((0,), (1,), (0,), (1,)), ((0,), (1,), (1,), (1,)), ((0,), (0,), (0,), (1,))])
def test_a_value_is_written_once(ops: tuple[tuple[int, ...], ...]) -> None:
    tensors = tuple(Tensor(name, "float32", (4,)) for name in "xy")
    first, second = Op("f", "ABS", ops[0], ops[1]), Op("g", "ABS", ops[2], ops[3])
    with pytest.raises(ModelError, match="which has a value before"):
        Graph("g", tensors, (first, second), (0,), (1,))
