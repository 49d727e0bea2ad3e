"""Damaged and hostile .tflite files: an error of edgemem's own, soon, and nothing else."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgemem import api, planfile
from edgemem.errors import EdgememError, ModelError, RuntimeBindError
from edgemem.records.lifetime import lifetimes
from edgemem.runtime.litert.structs_model import model_bytes
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from edgemem_converters.tflite.writer import split, write
from models.fetch import FetchError, fetch
from tests.tflite_models import ADD_OPTIONS, IF, WHILE, M, O, S, T, build, floats

if TYPE_CHECKING:
    from collections.abc import Callable


def whole() -> bytes:
    """A file with something of everything that is read."""
    main = S(
        [T("c", "bool", (1,)), T("x", signature=(-1, 4)), T("w", data=floats(1, 2, 3, 4)), T("a"), T("y"), T("z")],
        [
            O("ADD", (1, 2), (3,), ADD_OPTIONS),
            O("IF", (0, 3), (4,), (IF, (1, 1))),
            O("Magic", (4,), (5,), custom_options=b"mm"),
        ],
        (0, 1),
        (5,),
    )
    arm = S([T("i"), T("v", behind=floats(5, 6, 7, 8)), T("o")], [O("ADD", (0, 1), (2,), ADD_OPTIONS)], (0,), (2,))
    return build(M([main, arm], metadata={"mine": b"12345"}))


WHOLE = whole()
PLANNED = write(
    WHOLE, {"edgemem.plan": b"plan" * 9, "OfflineMemoryAllocation": struct.pack("<12i", 1, 0, 9, *[-1] * 9)}
)


def loops() -> bytes:
    """Loops within loops, of bodies that several of them share."""
    subgraphs = [
        S([T("x"), T("y")], [O("WHILE", (0,), (1,), (WHILE, (5, k + 1)))], (0,), (1,), f"loop{k}") for k in range(4)
    ]
    leaf = S([T("x"), T("y")], [O("ABS", (0,), (1,))], (0,), (1,), "leaf")
    condition = S([T("x"), T("c", "bool", (1, 4))], [O("LESS", (0, 0), (1,))], (0,), (1,), "condition")
    return build(M([*subgraphs, leaf, condition]))


def compressed() -> bytes:
    """Constants in float16, one of them sparse."""
    pytest.importorskip("ai_edge_litert")
    from edgemem_converters.tflite.sparse import Level
    from tests.unit.test_tflite_fold import packed, sparsity, unpacked

    half = struct.pack("<4e", 1, 2, 3, 4)
    tensors = [T("x"), T("h", "float16", data=half), T("f"), T("s", "float16", data=half[:4]), T("d", "float16")]
    tensors += [T("g"), T("a"), T("y")]
    ops = [O("DEQUANTIZE", (1,), (2,)), O("DENSIFY", (3,), (4,)), O("DEQUANTIZE", (4,), (5,))]
    ops += [O("ADD", (0, 2), (6,), ADD_OPTIONS), O("ADD", (6, 5), (7,), ADD_OPTIONS)]
    model = unpacked(build(M([S(tensors, ops, (0,), (7,))])))
    levels = [Level(1), Level(0, np.array([0, 2]), np.array([1, 3]))]
    model.subgraphs[0].tensors[3].sparsity = sparsity((0, 1), (), levels, 8)
    return packed(model)


def use(data: bytes) -> None:
    """All that is done with a file; only edgemem's errors may come of it."""
    try:
        model = TfliteConverter.from_bytes(data)
        model.plan()
        model.content()
        graph = model.graph()
        for target in ("tflm", "generic"):
            lifetimes(graph, BUILT_IN[target])
        model.with_order(tuple(range(len(graph.ops)))[::-1])
    except EdgememError:
        pass


def plan(data: bytes) -> None:
    """Plan, prove, write and read a file; only edgemem's errors may come of it."""
    try:
        model = TfliteConverter.from_bytes(data)
        planset = api.plan(model, strategy="offsets/greedy_by_size")
        assert api.verify(planset, model) == ()
        content = model.with_plan(planfile.encode(planset), planset).content()
        assert TfliteConverter.from_bytes(content).offline()
    except EdgememError:
        pass
    with contextlib.suppress(EdgememError):
        TfliteConverter.from_bytes(data).folded().graph()


def damage(data: bytes, rng: random.Random) -> bytes:
    """Some bytes or words replaced, or a part put elsewhere."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) - 4)
        kind = rng.random()
        if kind < 0.5:
            out[at] ^= 1 << rng.randrange(8)
        elif kind < 0.8:
            word = rng.choice((0, 1, 0x7F, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, len(out), rng.randrange(len(out))))
            out[at : at + 4] = word.to_bytes(4, "little")
        else:
            start, length = rng.randrange(len(out)), rng.randrange(1, 64)
            part = out[start : start + length]
            out[at : at + len(part)] = part
    return bytes(out[: len(data)])


@given(st.sampled_from((WHOLE, PLANNED)), st.data())
def test_flipped_bits(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(data) - 1))
        damaged[at] ^= draw.draw(st.integers(1, 255))
    use(bytes(damaged))


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


@given(st.dictionaries(st.text(max_size=8), st.binary(max_size=80), max_size=4))
def test_what_is_written_is_read_again(changes: dict[str, bytes]) -> None:
    data = write(WHOLE, dict(changes))
    base, read_again = split(data)
    assert (base, read_again) == (WHOLE, changes)


@pytest.mark.parametrize("make", [whole, lambda: PLANNED, loops, compressed, model_bytes])
def test_damaged_files_are_planned_or_refused(make: Callable[[], bytes]) -> None:
    data, rng = make(), random.Random(17)
    plan(data)
    for _ in range(200):
        plan(damage(data, rng))


@pytest.mark.parametrize("name", ["tflm_sine_float", "mww_alexa"])
def test_damaged_real_files_are_planned_or_refused(name: str) -> None:
    try:
        data = fetch(name).read_bytes()
    except FetchError as e:
        pytest.skip(f"{name} cannot be fetched: {e}")
    rng = random.Random(5)
    # The tables, which come first or last, rather than the weights.
    for _ in range(80):
        damaged = (
            damage(data[:4096], rng) + data[4096:] if rng.random() < 0.5 else data[:-4096] + damage(data[-4096:], rng)
        )
        plan(damaged)


def test_damaged_files_do_not_take_this_process_with_them() -> None:
    pytest.importorskip("ai_edge_litert")
    from edgemem.runtime.litert.probe import probe_apart

    rng, probed, refused = random.Random(11), 0, []
    seeds = (model_bytes(), compressed())
    for data in (*seeds, *(damage(rng.choice(seeds), rng) for _ in range(10))):
        try:
            probe_apart(data)
            probed += 1
        except RuntimeBindError as e:
            refused.append(str(e))
    assert probed >= len(seeds)
    assert refused
    assert not any("\n" in reason for reason in refused)


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


@pytest.mark.parametrize(("count", "width"), [(300, 1), (20, 2), (12, 8)])
def test_bodies_within_bodies_without_end(count: int, width: int) -> None:
    with pytest.raises(ModelError, match=r"too often.* more than 100,000 tensors|too deep; the limit is 32"):
        TfliteConverter.from_bytes(arms(count, width)).graph()


def test_bodies_within_reason() -> None:
    assert len(TfliteConverter.from_bytes(arms(5, 2)).graph().ops) == 2


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
