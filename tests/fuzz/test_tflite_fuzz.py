"""Damaged and hostile .tflite files: an error of edgemem's own, soon, and nothing else."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgemem.errors import EdgememError, ModelError
from edgemem_converters.tflite.model import TfliteConverter
from edgemem_converters.tflite.writer import split, write
from tests.fuzz import tflite_files
from tests.fuzz.tflite_files import PLANNED, WHOLE
from tests.tflite_models import IF, M, O, S, T, build


def use(data: bytes) -> None:
    """All that is done with a file; only edgemem's errors may come of it."""
    with suppress(EdgememError):
        tflite_files.use(data)


@given(st.sampled_from((WHOLE, PLANNED)), st.data())
def test_flipped_bits(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(data) - 1))
        damaged[at] ^= draw.draw(st.integers(1, 255))
    use(bytes(damaged))


@pytest.mark.full
@pytest.mark.parametrize("data", [WHOLE, PLANNED])
def test_every_single_word_replaced(data: bytes) -> None:
    for at in range(0, min(len(data), 1500) - 4, 2):
        for word in (0, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, len(data)):
            use(data[:at] + word.to_bytes(4, "little") + data[at + 4 :])


@pytest.mark.parametrize("data", [WHOLE, PLANNED])
def test_every_truncation(data: bytes) -> None:
    for length in range(len(data)):
        use(data[:length])


@given(st.binary(max_size=200))
@example(b"")
def test_noise(noise: bytes) -> None:
    use(noise)
    use(struct.pack("<I", 8) + b"TFL3" + noise)
    use(PLANNED[:24] + noise + PLANNED[24 + len(noise) :])


@pytest.mark.full
@given(st.dictionaries(st.text(max_size=8), st.binary(max_size=80), max_size=4))
def test_what_is_written_is_read_again(changes: dict[str, bytes]) -> None:
    data = write(WHOLE, dict(changes))
    base, read_again = split(data)
    assert (base, read_again) == (WHOLE, changes)


def test_a_subgraph_that_runs_itself() -> None:
    main = S([T("c", "bool", (1,)), T("x"), T("y")], [O("IF", (0, 1), (2,), (IF, (0, 0)))], (0, 1), (2,))
    with pytest.raises(ModelError, match="runs itself"):
        TfliteConverter.from_bytes(build(M([main]))).graph()


def arms(count: int, width: int) -> bytes:
    """Subgraph k runs subgraph k + 1 `width` times."""
    subgraphs = []
    for k in range(count):
        tensors = [T("c", "bool", (1,)), T("x"), *(T(f"y{i}") for i in range(width))]
        ops = [O("IF", (0, 1), (2 + i,), (IF, (k + 1, k + 1))) for i in range(width)]
        subgraphs.append(S(tensors, ops, (0, 1), (2,)))
    subgraphs.append(S([T("c", "bool", (1,)), T("x"), T("y")], [O("ABS", (1,), (2,))], (0, 1), (2,)))
    return build(M(subgraphs))


@pytest.mark.full
@pytest.mark.parametrize(("count", "width"), [(300, 1), (20, 2), (12, 8)])
def test_bodies_within_bodies_without_end(count: int, width: int) -> None:
    with pytest.raises(ModelError, match=r"too often.* more than 100,000 tensors|too deep; the limit is 32"):
        TfliteConverter.from_bytes(arms(count, width)).graph()


def test_bodies_within_reason() -> None:
    assert len(TfliteConverter.from_bytes(arms(5, 2)).graph().ops) == 2


@pytest.mark.full
def test_parts_that_overlap_cannot_make_the_work_quadratic() -> None:
    # Every entry of the vector of operators leads to one operator with 30,000 inputs.
    count = 30_000
    model = M([S([T("x"), T("y")], [O("ABS", (0,) * count, (1,)), *[O("ABS", (0,), (1,))] * count], (0,), (1,))])
    data = bytearray(build(model))
    reader = TfliteConverter.from_bytes(bytes(data))._file
    slots = range(reader.subgraphs[0].operators_at, reader.subgraphs[0].operators_at + 4 * (count + 1), 4)
    target = slots[0] + struct.unpack_from("<I", data, slots[0])[0]
    for slot in slots:
        struct.pack_into("<I", data, slot, target - slot)
    with pytest.raises(ModelError, match="overlap so often"):
        TfliteConverter.from_bytes(bytes(data))
