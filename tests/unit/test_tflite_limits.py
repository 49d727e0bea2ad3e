"""Small .tflite files that ask for much: refused with the limit's name before the work is done or the memory taken."""

from __future__ import annotations

import resource
import struct

import numpy as np
import pytest

from edgemem import api
from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.tflite.constant_folding import fold
from edgemem_converters.tflite.model import TfliteConverter
from edgemem_converters.tflite.sparse_constants import Level, densify
from tests.tflite_models import ADD_OPTIONS, IF, M, O, S, T, build


def repeated(runs: int, *, tensor: str = "i", operator: str = "ABS", subgraph: str = "body") -> bytes:
    """A small subgraph that several operators of the main one run."""
    main = S(
        [T("c", "bool", (1,)), T("x"), *(T(f"y{k}") for k in range(runs))],
        [O("IF", (0, 1), (2 + k,), (IF, (1, 1))) for k in range(runs)],
        (0, 1),
        (2,),
    )
    return build(M([main, S([T(tensor), T("o")], [O(operator, (0,), (1,))], (0,), (1,), subgraph)]))


def test_long_names_are_not_copied_without_end() -> None:
    long = "n" * 100_000
    for data in (
        repeated(2000, tensor=long),
        repeated(2000, operator=long),
        repeated(2000, subgraph=long),
        build(M([S([T("x"), T("y")], [O(long, (0,), (1,))] * 2000, (0,), (1,))])),
    ):
        with pytest.raises(ModelError, match=r"names in the TFLite file are too long: .* more than 67,108,864 letters"):
            TfliteConverter.from_bytes(data).graph()
    assert TfliteConverter.from_bytes(repeated(200)).graph().ops[-1].name == "IF_199"


def test_the_number_of_dimensions_has_a_limit() -> None:
    for shape, signature in (((2**31 - 1,) * 100_000, ()), ((1,), (1,) * 65)):
        data = build(M([S([T("x", shape=shape, signature=signature), T("y")], [O("ABS", (0,), (1,))], (0,), (1,))]))
        with pytest.raises(ModelError, match=r"dimensions; the limit is 64"):
            TfliteConverter.from_bytes(data)


def test_a_tensor_that_no_memory_holds_is_named() -> None:
    data = build(M([S([T("x"), T("huge", shape=(2**31 - 1,) * 8)], [O("ABS", (0,), (1,))], (0,), (1,))]))
    with pytest.raises(ModelError, match=r"'huge' has the shape \[2147483647, .*\], which no memory holds"):
        api.plan(TfliteConverter.from_bytes(data))


def test_the_largest_tensors_that_int64_holds_are_planned() -> None:
    data = build(M([S([T("x"), T("y", "int8", (2**31 - 1, 2**28 - 1))], [O("ABS", (0,), (1,))], (0,), (1,))]))
    planset = api.plan(TfliteConverter.from_bytes(data), strategy="offsets/greedy_by_size")
    assert planset.best_offsets is not None
    assert planset.best_offsets.size > 2**58


# --- decompression --------------------------------------------------------------------------------------------------


def sparse(shape: tuple[int, ...], values: int, levels: list[Level]) -> bytes:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    from tests.unit.test_tflite_fold import packed, sparsity, unpacked

    raw = np.ones(values, "f4").tobytes()
    tensors = [T("x", shape=shape), T("w", shape=shape, data=raw), T("d", shape=shape), T("y", shape=shape)]
    ops = [O("DENSIFY", (1,), (2,)), O("ADD", (0, 2), (3,), ADD_OPTIONS)]
    model = unpacked(build(M([S(tensors, ops, (0,), (3,))])))
    model.subgraphs[0].tensors[1].sparsity = sparsity(range(len(levels)), [], levels, 32)
    assert schema
    return packed(model)


def test_a_damaged_sparse_shape_takes_no_memory() -> None:
    # 378 GiB of zeros were asked for.
    one = Level(0, np.array([0, 1]), np.array([0]))
    data = sparse((100_000, 1_000_000), 1, [one, one])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match=r"once decompressed: the limit is 64 times the file and 16,777,216 bytes"):
        fold(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 16


def test_levels_that_have_other_leaves_than_values_take_no_memory() -> None:
    half = 1 << 15
    for levels in ([Level(half), Level(half)], [Level(half), Level(half), Level(0)]):
        with pytest.raises(ModelError, match="damaged TFLite file: a"):
            densify(np.ones(1, "f4"), (half, half, 1)[: len(levels)], range(len(levels)), [], levels)
    with pytest.raises(UnsupportedError, match="17 levels; the limit is 16"):
        densify(np.ones(1, "f4"), (1,) * 17, range(17), [], [Level(1)] * 17)


def test_sparse_constants_of_a_usual_density_are_decompressed() -> None:
    rows = Level(0, np.array([0, 8]), np.arange(8))
    columns = Level(0, np.arange(9), np.arange(8) * 2000)
    data = fold(sparse((64, 20_000), 8, [rows, columns]))
    assert len(data) > 4 * 64 * 20_000


def overlapping(count: int, size: int, *, behind: bool) -> bytes:
    """`count` float16 constants whose buffers all lie on the same `size` bytes."""
    raw = {"behind": bytes(size)} if behind else {"data": bytes(size)}
    halves = [T(f"h{k}", "float16", (size // 2,), **({"data": b"12"} if k else raw)) for k in range(count)]  # type: ignore[arg-type]
    tensors = [T("x"), T("y"), *halves, *(T(f"f{k}") for k in range(count))]
    ops = [O("ABS", (0,), (1,)), *(O("DEQUANTIZE", (2 + k,), (2 + count + k,)) for k in range(count))]
    data = bytearray(build(M([S(tensors, ops, (0,), (1,))])))
    buffers = TfliteConverter.from_bytes(bytes(data))._file.buffers
    shared = next(b for b in buffers if b.size == size)
    vector = data.index(struct.pack("<I", 1 + len(halves)))  # of the references to buffers
    for k, buffer in enumerate(buffers):
        if buffer.size == 2:
            at = vector + 4 + 4 * k
            assert at + struct.unpack_from("<I", data, at)[0] == buffer.at
            struct.pack_into("<I", data, at, shared.at - at)
    return bytes(data)


@pytest.mark.parametrize("behind", [True, False])
def test_constants_that_lie_on_each_other_are_not_copied_without_end(behind: bool) -> None:
    pytest.importorskip("ai_edge_litert")
    data = overlapping(500, 1 << 18, behind=behind)
    with pytest.raises(ModelError, match="overlap so often that it cannot be folded"):
        fold(data)
