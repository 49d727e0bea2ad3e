"""`measure` on .tflite files: the arena is seen in the process's memory, and files and runtimes are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import edgemem
from edgemem import planfile
from edgemem.commands.measure_tflite import measure_tflite
from edgemem.errors import ModelError
from edgemem.runtime.tflite_file import open_model
from edgemem.system import process_memory
from models.build import build_tflite
from tests.tflite_models import M, O, S, T, build, up16

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("ai_edge_litert")

MIB = 1 << 20
LITERT = ("litert", "xnnpack")


def chain(path: Path, pixels: int, types: tuple[str, ...] = ("ABS", "NEG", "ABS", "NEG")) -> Path:
    """Operators of one input one after the other; each of their tensors has `pixels` float32."""
    tensors = [T(f"t{k}", shape=(1, pixels)) for k in range(len(types) + 1)]
    ops = [O(kind, (k,), (k + 1,)) for k, kind in enumerate(types)]
    path.write_bytes(build(M([S(tensors, ops, (0,), (len(types),))])))
    return path


@pytest.mark.full
def test_the_arena_is_a_part_of_the_process(tmp_path: Path) -> None:
    """LiteRT keeps input and output and puts the rest between."""
    path = chain(tmp_path / "chain.tflite", 4 * MIB)
    row, delegated = measure_tflite(path, configurations=LITERT, repeats=1, rounds=1)
    assert (row.configuration, delegated.configuration) == LITERT
    assert (row.compared, delegated.compared, row.exact) == ("", "litert", None)
    assert row.arena is not None
    assert row.bound is not None
    assert 2 * 16 * MIB <= row.bound <= row.arena
    assert row.plan.startswith("LiteRT's arena")
    assert delegated.arena is None
    for each in (row, delegated):
        assert each.unavailable == ""
        if process_memory.anonymous_bytes() is not None:
            assert each.anonymous is not None
            assert each.proportional is not None
            assert each.peak is not None
        assert each.latency_ms is not None
        assert each.p99_ms is not None
        assert 0 < each.latency_ms <= each.p99_ms
    if process_memory.anonymous_bytes() is not None:
        assert row.anonymous is not None
        assert row.proportional is not None
        assert row.peak is not None
        # Modules may give memory back that they took as they were imported.
        assert abs(row.anonymous - row.arena) < 8 * MIB
        assert row.proportional > row.arena - 8 * MIB
        assert row.peak > row.arena - 8 * MIB


@pytest.mark.full
def test_tensorflow_lite_micro_by_itself_and_inside_the_plan_of_the_file(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    path = tmp_path / "planned.tflite"
    source = tmp_path / "source.tflite"
    source.write_bytes(build_tflite("mobilenet_v2_tflite", alpha=0.3, size=80, int8=True, classes=2))
    model, planset = open_model(source), edgemem.plan(source, target="tflm", strategy="offsets/naive")
    model.with_plan(planfile.encode(planset), planset).save(path)  # larger than its own, so that no command writes it
    stock, ours = measure_tflite(path, configurations=("tflm", "tflm_planned"), repeats=1, rounds=1)
    assert (stock.arena, stock.tail) == (96_000, 69_168)
    assert ours.arena == up16(edgemem.plan(source, target="tflm", strategy="offsets/naive").naive)
    assert ours.plan.startswith("arena")
    assert (ours.compared, ours.exact) == ("tflm", True)
    rows = measure_tflite(source, configurations=("tflm", "tflm_planned"), repeats=1, rounds=1)
    assert [row.configuration for row in rows] == ["tflm"]


@pytest.mark.full
def test_a_second_file_is_what_the_first_is_compared_with(tmp_path: Path) -> None:
    long = chain(tmp_path / "long.tflite", 4096, ("ABS", "ABS", "ABS"))
    short = chain(tmp_path / "short.tflite", 4096, ("ABS",))
    other = chain(tmp_path / "other.tflite", 4096, ("NEG",))
    rows = measure_tflite(long, against=short, configurations=LITERT, repeats=1, rounds=1)
    assert [(row.number, row.file, row.configuration) for row in rows] == [
        *((1, "long.tflite", name) for name in LITERT),
        *((2, "short.tflite", name) for name in LITERT),
    ]
    assert [row.compared for row in rows] == ["litert of short.tflite", "xnnpack of short.tflite", "", "litert"]
    assert [row.exact for row in rows] == [True, True, None, True]
    assert rows[0].arena_ratio == (rows[0].arena or 0) / (rows[2].arena or 1)
    rows = measure_tflite(long, against=other, configurations=["litert"], repeats=1, rounds=1)
    assert [row.exact for row in rows] == [False, None]


@pytest.mark.full
def test_requests_are_served_in_turn_and_all_are_compared(tmp_path: Path) -> None:
    """The files differ for negative values alone."""
    one, two = (chain(tmp_path / f"{kind}.tflite", 64, (kind,)) for kind in ("ABS", "RELU"))
    positive, negative = ({"t0": np.full((1, 64), value, np.float32)} for value in (1, -1))
    for requests, is_exact in (([positive], True), ([positive, negative], False)):
        rows = measure_tflite(one, requests, against=two, configurations=["litert"], repeats=1, rounds=1)
        assert rows[0].exact is is_exact


@pytest.mark.full
def test_given_shapes(tmp_path: Path) -> None:
    tensors = [T(name, shape=(1, 1), signature=(1, -1)) for name in "xy"]
    path = tmp_path / "open.tflite"
    path.write_bytes(build(M([S(tensors, [O("ABS", (0,), (1,))], (0,), (1,))])))
    litert, micro = measure_tflite(
        path, input_shapes={"x": (1, 1000)}, configurations=("litert", "tflm"), repeats=1, rounds=1
    )
    assert litert.arena is not None
    assert litert.arena >= 2 * 4000
    assert "cannot resize" in micro.unavailable


@pytest.mark.full
def test_what_fails_is_a_row_that_says_why(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    path = tmp_path / "custom.tflite"
    path.write_bytes(build(M([S([T("x"), T("y")], [O("NoSuchOperator", (0,), (1,))], (0,), (1,))])))
    for row in measure_tflite(path, repeats=1, rounds=1):
        assert row.unavailable
        assert row.latency_ms is row.anonymous is row.exact is None
    slow = chain(tmp_path / "slow.tflite", 64)
    for row in measure_tflite(slow, configurations=["litert"], rounds=1, timeout_s=0.001):
        assert "longer than 0.001 s" in row.unavailable


def test_wrong_calls(tmp_path: Path) -> None:
    path = chain(tmp_path / "chain.tflite", 64)
    with pytest.raises(ModelError, match="no configuration 'fast'"):
        measure_tflite(path, configurations=["fast"])
    with pytest.raises(ModelError, match="at least one"):
        measure_tflite(path, rounds=0)
    with pytest.raises(ModelError, match="other inputs"):
        measure_tflite(path, against=chain(tmp_path / "wide.tflite", 65))
    with pytest.raises(ModelError, match="no input 'y'"):
        measure_tflite(path, [{"y": np.zeros(1)}])
    with pytest.raises(ModelError, match="no file"):
        measure_tflite(tmp_path / "none.tflite")
