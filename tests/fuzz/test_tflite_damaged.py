"""Damaged .tflite files planned, proved, written, folded, streamed and probed: only edgemem's own errors come of it."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem import api, planfile
from edgemem.errors import EdgememError, ModelError, RuntimeBindError
from edgemem.model.rewrite import Rewrite
from edgemem.passes.streaming.stream import StripeStage, stream
from edgemem_converters.tflite.model import TfliteConverter
from models.fetch import FetchError, fetch
from tests import extent
from tests.runtime.litert_models import kinds
from tests.tflite_models import ADD_OPTIONS, IF, WHILE, M, O, S, T, build, floats

if TYPE_CHECKING:
    from collections.abc import Callable


def planned() -> bytes:
    """A planned file with a branch, data behind the flatbuffer, an operator of its own and other metadata."""
    main = S(
        [T("c", "bool", (1,)), T("x", signature=(-1, 4)), T("w", data=floats(1, 2, 3, 4)), T("a"), T("y"), T("z")],
        [O("ADD", (1, 2), (3,), ADD_OPTIONS), O("IF", (0, 3), (4,), (IF, (1, 2))), O("Magic", (4,), (5,))],
        (0, 1),
        (5,),
    )
    arms = [
        S([T("i"), T("v", behind=floats(*data)), T("o")], [O("ADD", (0, 1), (2,), ADD_OPTIONS)], (0,), (2,))
        for data in ((5, 6, 7, 8), (4, 3, 2, 1))
    ]
    model = TfliteConverter.from_bytes(build(M([main, *arms], metadata={"mine": b"12345"})))
    planset = api.plan(model, strategy="offsets/greedy_by_size")
    return model.with_plan(planfile.encode(planset), planset).content()


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
    from edgemem_converters.tflite.sparse_constants import Level
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


def rows() -> bytes:
    """Operators that run in stripes."""
    pytest.importorskip("ai_edge_litert")
    from tests.row_models import RowNet

    net = RowNet(int8=True, rng=np.random.default_rng(0))
    x = net.conv(net.input(12, 4, 4), 4, (3, 3), (1, 1), (1, 1), same=True, depthwise=False)
    return net.content([net.resize(net.pool(x, (3, 3), (2, 2), largest=True, same=True), 2, "half pixel")])


def rewrite(data: bytes) -> None:
    """Stream a file, and write its own graph anew."""
    model = TfliteConverter.from_bytes(data)
    graph = model.graph()
    same = Rewrite(graph, tuple(range(len(graph.ops))), tuple(range(len(graph.tensors))))
    model.rewritten(same).graph()
    model.rewritten(stream(graph, [StripeStage(0, len(graph.ops) - 1, 3)])).graph()


def plan(data: bytes) -> None:
    """Plan, prove, write and read a file; only edgemem's errors may come of it."""
    try:
        model = TfliteConverter.from_bytes(data)
        planset = api.plan(model, strategy="offsets/greedy_by_size")
        assert api.verify(planset, model) == ()
        content = model.with_plan(planfile.encode(planset), planset).content()
        reread = TfliteConverter.from_bytes(content)
        assert api.verify(planfile.decode(reread.plan() or b""), reread) == ()
        assert bool(reread.offline()) == any(r.kind != "variable" for r in planset.problem.records)
    except EdgememError:
        pass
    with suppress(EdgememError):
        TfliteConverter.from_bytes(data).folded().graph()
    with suppress(EdgememError):
        rewrite(data)


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


@pytest.mark.full
@pytest.mark.parametrize("make", [planned, loops, compressed, rows, kinds])
def test_damaged_files_are_planned_or_refused(make: Callable[[], bytes]) -> None:
    data, rng = make(), random.Random(17)
    plan(data)
    for _ in range(200 if extent.exhaustive else 80):
        plan(damage(data, rng))


@pytest.mark.full
@pytest.mark.parametrize("name", ["tflm_sine_float", "mww_alexa"])
def test_damaged_real_files_are_planned_or_refused(name: str) -> None:
    try:
        data = fetch(name).read_bytes()
    except FetchError as e:
        pytest.skip(f"{name} cannot be fetched: {e}")
    rng = random.Random(5)
    # The tables, which come first or last, rather than the weights.
    for _ in range(80 if extent.exhaustive else 40):
        damaged = (
            damage(data[:4096], rng) + data[4096:] if rng.random() < 0.5 else data[:-4096] + damage(data[-4096:], rng)
        )
        plan(damaged)


@pytest.mark.full
def test_damaged_files_do_not_take_this_process_with_them() -> None:
    pytest.importorskip("ai_edge_litert")
    from edgemem.runtime.litert.probe import probe_apart

    rng, probed, refused = random.Random(11), 0, []
    seeds = (kinds(), compressed())
    for data in (*seeds, *(damage(rng.choice(seeds), rng) for _ in range(10))):
        try:
            probe_apart(data)
            probed += 1
        except (ModelError, RuntimeBindError) as e:
            refused.append(str(e))
    assert probed >= len(seeds)
    assert refused
    assert not any("\n" in reason for reason in refused)
