"""Folding of compressed constants, against LiteRT's own kernels and a slow encoder."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.tflite.constant_folding import fold
from edgemem_converters.tflite.model import TfliteConverter
from edgemem_converters.tflite.reader import read
from edgemem_converters.tflite.sparse_constants import Level, densify
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build, floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

schema = pytest.importorskip("ai_edge_litert.schema_py_generated")


def encoded(
    dense: NDArray[Any], traversal: Sequence[int], blocks: Sequence[tuple[int, int]], sparse: Sequence[bool]
) -> tuple[list[Any], list[Level]]:
    """Values and levels of a dense array, node by node. `blocks` are (dimension, size of a block)."""
    rank = dense.ndim
    size = [dense.shape[d] for d in range(rank)] + [b for _, b in blocks]
    for dimension, block in blocks:
        size[dimension] //= block

    def at(path: dict[int, int]) -> Any:
        index = [path[d] for d in range(rank)]
        for k, (dimension, block) in enumerate(blocks):
            index[dimension] = index[dimension] * block + path[rank + k]
        return dense[tuple(index)]

    def empty(path: dict[int, int]) -> bool:
        free = [d for d in traversal if d not in path]
        return all(
            at({**path, **dict(zip(free, rest, strict=True))}) == 0 for rest in product(*(range(size[d]) for d in free))
        )

    nodes: list[dict[int, int]] = [{}]
    levels = []
    for dimension, is_sparse in zip(traversal, sparse, strict=True):
        below, segments, indices = [], [0], []
        for node in nodes:
            for i in range(size[dimension]):
                child = {**node, dimension: i}
                if not is_sparse or not empty(child):
                    below.append(child)
                    indices.append(i)
            segments.append(len(indices))
        levels.append(
            Level(0, np.array(segments), np.array(indices, np.int64)) if is_sparse else Level(size[dimension])
        )
        nodes = below
    return [at(node) for node in nodes], levels


def some_sparse(rng: random.Random) -> tuple[NDArray[np.float32], list[int], list[tuple[int, int]], list[bool]]:
    rank = rng.randint(1, 4)
    shape = [rng.choice((1, 2, 4, 6)) for _ in range(rank)]
    blocks = [(d, rng.choice([b for b in (1, 2, 3) if shape[d] % b == 0])) for d in range(rank) if rng.random() < 0.4]
    insides = [rank + k for k in range(len(blocks))]
    if len({b for _, b in blocks}) == 1:
        rng.shuffle(insides)
    traversal = [*rng.sample(range(rank), rank), *insides]
    # A block is stored whole, as LiteRT's own converter does it.
    sparse = [rng.random() < 0.5 if d < rank else False for d in traversal]
    values = [rng.choice((0, 0, rng.randint(1, 99))) for _ in range(int(np.prod(shape)))]
    return np.array(values, "f4").reshape(shape), traversal, blocks, sparse


def test_densify_undoes_the_encoder() -> None:
    rng = random.Random(3)
    for _ in range(300):
        dense, traversal, blocks, sparse = some_sparse(rng)
        values, levels = encoded(dense, traversal, blocks, sparse)
        result = densify(np.array(values, "f4"), dense.shape, traversal, [d for d, _ in blocks], levels)
        np.testing.assert_array_equal(result, dense)


def sparsity(traversal: Sequence[int], blocks: Sequence[int], levels: Sequence[Level], width: int) -> Any:
    kinds = {8: (3, schema.Uint8VectorT, "u1"), 16: (2, schema.Uint16VectorT, "u2"), 32: (1, schema.Int32VectorT, "i4")}
    number, table, dtype = kinds[width]

    def vector(values: Any) -> Any:
        made = table()
        made.values = np.asarray(values, dtype)
        return made

    result = schema.SparsityParametersT()
    result.traversalOrder = np.array(traversal, "i4")
    result.blockMap = np.array(blocks, "i4") if blocks else None
    result.dimMetadata = []
    for level in levels:
        entry = schema.DimensionMetadataT()
        if level.segments is None:
            entry.denseSize = level.size
        else:
            entry.format = 1
            entry.arraySegmentsType = entry.arrayIndicesType = number
            entry.arraySegments, entry.arrayIndices = vector(level.segments), vector(level.indices)
        result.dimMetadata.append(entry)
    return result


def packed(model: Any) -> bytes:
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def unpacked(data: bytes) -> Any:
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))


def sparse_model(dense: NDArray[Any], values: Sequence[Any], parameters: Any, dtype: str) -> bytes:
    """x of the constant's shape plus the constant, which is stored sparse (and in float16, if so)."""
    raw = np.array(values, "f2" if dtype == "float16" else "f4").tobytes()
    shape = dense.shape
    tensors = [T("x", shape=shape), T("w", dtype, shape, raw), T("d", dtype, shape), T("y", shape=shape)]
    ops = [O("DENSIFY", (1,), (2,))]
    if dtype == "float16":
        tensors.append(T("f", shape=shape))
        ops.append(O("DEQUANTIZE", (2,), (4,)))
    ops.append(O("ADD", (0, 4 if dtype == "float16" else 2), (3,), ADD_OPTIONS))
    model = unpacked(build(M([S(tensors, ops, (0,), (3,))])))
    model.subgraphs[0].tensors[1].sparsity = parameters
    return packed(model)


def run(data: bytes) -> list[Any]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    for details in interpreter.get_input_details():
        interpreter.set_tensor(details["index"], np.ones(details["shape"], details["dtype"]))
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [8, 16, 32])
def test_a_folded_sparse_constant_is_what_litert_makes_of_it(width: int, dtype: str) -> None:
    rng = random.Random(width)
    folded_some = 0
    for _ in range(12):
        dense, traversal, blocks, sparse = some_sparse(rng)
        values, levels = encoded(dense, traversal, blocks, sparse)
        if not values:
            continue
        data = sparse_model(dense, values, sparsity(traversal, [d for d, _ in blocks], levels, width), dtype)
        folded = fold(data)
        (subgraph,) = read(folded).subgraphs
        assert [op.type for op in subgraph.operators] == ["ADD"]
        np.testing.assert_array_equal(run(folded)[0], dense + 1)
        np.testing.assert_array_equal(run(data)[0], dense + 1)
        folded_some += 1
    assert folded_some >= 8


def test_blocks_out_of_order_are_refused_as_litert_misreads_them() -> None:
    dense = np.arange(1, 25, dtype="f4").reshape(1, 4, 6)
    traversal: tuple[int, ...] = (1, 2, 0, 4, 5, 3)
    blocks: tuple[tuple[int, int], ...] = ((0, 1), (1, 2), (2, 3))
    values, levels = encoded(dense, traversal, blocks, (False,) * 6)
    data = sparse_model(dense, values, sparsity(traversal, (0, 1, 2), levels, 32), "float32")
    assert not np.array_equal(run(data)[0], dense + 1)
    with pytest.raises(UnsupportedError, match="out of order"):
        fold(data)
    # Two that change places are no trouble.
    swapped = (1, 2, 0, 4, 3)
    values, levels = encoded(dense, swapped, ((1, 2), (2, 3)), (True, False, True, False, False))
    data = sparse_model(dense, values, sparsity(swapped, (1, 2), levels, 32), "float32")
    for result in (run(data), run(fold(data))):
        np.testing.assert_array_equal(result[0], dense + 1)


def damaged() -> dict[str, tuple[Sequence[int], Sequence[int], Sequence[Level]]]:
    two = np.array([0, 1, 2])
    good = Level(0, two, np.array([0, 1]))
    return {
        "a level too few": ((0, 1), (), (Level(2),)),
        "a dimension twice": ((0, 0), (), (Level(2), Level(2))),
        "a block of no dimension": ((0, 1, 2), (2,), (Level(2), Level(2), Level(1))),
        "too many places": ((0, 1), (), (Level(2), Level(1 << 40))),
        "a negative size": ((0, 1), (), (Level(-1), Level(2))),
        "segments of another count": ((0, 1), (), (Level(2), Level(0, np.array([0, 2]), np.array([0, 1])))),
        "segments beyond the indices": ((0, 1), (), (Level(2), Level(0, np.array([0, 1, 9]), np.array([0, 1])))),
        "descending segments": ((0, 1), (), (Level(2), Level(0, np.array([0, 3, 2]), np.array([0, 1])))),
        "no segments": ((0, 1), (), (Level(2), Level(0, np.zeros(0, np.int64), np.zeros(0, np.int64)))),
        "an index outside": ((0, 1), (), (Level(2), Level(0, two, np.array([0, 2])))),
        "a negative index": ((0, 1), (), (Level(2), Level(0, two, np.array([0, -1])))),
        "one value too many": ((0, 1), (), (good, Level(2))),
    }


@pytest.mark.parametrize("case", damaged())
def test_damage_is_an_error(case: str) -> None:
    with pytest.raises(ModelError, match="damaged"):
        densify(np.ones(2, "f4"), (2, 2), *damaged()[case])


def half(*values: float) -> bytes:
    return np.array(values, "<f2").tobytes()


def halves(**changes: Any) -> bytes:
    """Two operators read float16 weights that share a buffer; a body has some of its own."""
    w = half(1, 2, 65504, -6e-8)
    tensors = [
        T("x"),
        T("h", "float16", data=w),
        T("f"),
        T("a"),
        T("k", "float16", data=half(5, 6, 7, 8)),
        T("g"),
        T("y"),
    ]
    ops = [
        O("DEQUANTIZE", (1,), (2,)),
        O("ADD", (0, 2), (3,), ADD_OPTIONS),
        O("DEQUANTIZE", (4,), (5,)),
        O("ADD", (3, 5), (6,), ADD_OPTIONS),
    ]
    return build(M([S(tensors, ops, (0,), (6,))], metadata={"note": b"kept", **changes}))


def test_half_constants_become_floats_and_leave() -> None:
    data = halves()
    folded = fold(data)
    before, after = read(data), read(folded)
    assert [t.name for t in after.subgraphs[0].tensors] == ["x", "f", "a", "g", "y"]
    assert [op.type for op in after.subgraphs[0].operators] == ["ADD", "ADD"]
    assert len(after.buffers) == len(before.buffers)  # two came, two left
    assert half(5, 6, 7, 8) not in folded
    assert floats(5, 6, 7, 8) in folded
    assert all(b.start % 16 == 0 for b in after.buffers if b.size)
    (entry,) = after.metadata
    place = after.buffers[entry.buffer]
    assert folded[place.start : place.start + place.size] == b"kept"
    np.testing.assert_array_equal(run(folded)[0], run(data)[0])
    assert fold(folded) is folded


def test_what_does_not_concern_the_constants_is_untouched() -> None:
    data = halves()
    one, other = unpacked(data), unpacked(fold(data))
    assert one.version == other.version
    assert one.description == other.description
    kept = {t.name: t for t in one.subgraphs[0].tensors}
    for tensor in other.subgraphs[0].tensors:
        twin = kept[tensor.name]
        assert tensor.type == twin.type
        assert list(tensor.shape) == list(twin.shape)
    theirs = [op for op in one.subgraphs[0].operators if len(op.inputs) == 2]
    for op, twin in zip(other.subgraphs[0].operators, theirs, strict=True):
        assert op.opcodeIndex == twin.opcodeIndex
        assert vars(op.builtinOptions) == vars(twin.builtinOptions)


def test_a_half_constant_that_is_also_wanted_as_it_is_stays() -> None:
    tensors = [T("h", "float16", data=half(1, 2, 3, 4)), T("f"), T("x"), T("y")]
    ops = [O("DEQUANTIZE", (0,), (1,)), O("ADD", (2, 1), (3,), ADD_OPTIONS)]
    folded = fold(build(M([S(tensors, ops, (2,), (3, 0))])))
    (subgraph,) = read(folded).subgraphs
    assert [t.name for t in subgraph.tensors] == ["h", "f", "x", "y"]
    assert subgraph.outputs == (3, 0)


def test_what_is_no_compressed_constant_is_left() -> None:
    quantized = [T("x", "int8"), T("y")]
    data = build(M([S(quantized, [O("DEQUANTIZE", (0,), (1,))], (0,), (1,))]))
    assert fold(data) is data
    model = TfliteConverter.from_bytes(data)
    assert model.folded() is model


def test_constants_behind_the_flatbuffer_come_along() -> None:
    tensors = [
        T("x"),
        T("h", "float16", behind=half(1, 2, 3, 4)),
        T("f"),
        T("a"),
        T("w", behind=floats(9, 8, 7, 6)),
        T("y"),
    ]
    ops = [O("DEQUANTIZE", (1,), (2,)), O("ADD", (0, 2), (3,), ADD_OPTIONS), O("ADD", (3, 4), (5,), ADD_OPTIONS)]
    data = build(M([S(tensors, ops, (0,), (5,))]))
    np.testing.assert_array_equal(run(fold(data))[0], [[11, 11, 11, 11]])


def test_signatures_keep_their_tensors() -> None:
    model = unpacked(halves())
    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = "out", 6
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.outputs, signature.inputs = "serve", [entry], []
    model.signatureDefs = [signature]
    folded = unpacked(fold(packed(model)))
    index = folded.signatureDefs[0].outputs[0].tensorIndex
    assert folded.subgraphs[0].tensors[index].name == b"y"


def test_operators_known_by_number_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="control dependencies"):
        fold(halves(model_control_dependencies=b"\1"))


def test_a_folded_model_has_no_plan() -> None:
    model = TfliteConverter.from_bytes(halves())
    planned = TfliteConverter(model.content(), {"edgemem.plan": b"plan"}, model.bindings)
    assert planned.plan() == b"plan"
    folded = planned.folded()
    assert folded.plan() is None
    assert len(folded.graph().ops) == 2


def test_damaged_files_fold_or_are_refused() -> None:
    rng = random.Random(17)
    data = halves()
    refused = 0
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(8, len(broken))] = rng.randrange(256)
        try:
            fold(bytes(broken))
        except ModelError:
            refused += 1
    assert refused > 20
