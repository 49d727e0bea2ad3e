"""Every model runs in its planned arena, poisoned, to the same bits as without a plan; and the arena is minimal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.runtime.onnxruntime.session import InferenceSession
from models.build import names
from tests.onnx_sessions import REAL, feeds, options, plain, real, same, small

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

pytest.importorskip("onnxruntime")

LEVELS = ("BASIC", "EXTENDED", "ALL")


def holds(model: bytes | Path, level: str, threads: int, given: Any) -> None:
    """Record, replay twice in a poisoned arena that ends at a guard page, compare every run."""
    expected = plain(model, level, threads).run(None, given)
    with InferenceSession(
        model, options(level, threads), ["CPUExecutionProvider"], cache=False, poison=True, guard=True, background=False
    ) as session:
        for _ in range(3):
            assert same(session.run(None, given), expected)
        memory = session.memory
    assert (memory.mode, memory.reason) == ("replay", "")
    assert (memory.runs, memory.replayed, memory.bails) == (3, 2, 0)
    # What the heap served is the results, and what kernels keep for the next run.
    assert memory.misses <= len(expected) + 1
    assert memory.hits + memory.misses == memory.requests
    assert memory.bound <= memory.planned <= 1.01 * memory.bound
    assert memory.arena == max(memory.planned, 1)


@pytest.mark.full
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", names())
def test_reference_networks(name: str, level: str) -> None:
    model = small(name)
    given = feeds(plain(model))
    for threads in (1, 2):
        holds(model, level, threads, given)


@pytest.mark.full
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", REAL)
def test_real_models(name: str, level: str) -> None:
    model = real(name)
    given = feeds(plain(model), REAL[name])
    # The large ones run at either number of threads, to keep the suite short.
    for threads in (1, 2) if model.stat().st_size < 3_000_000 and "light" not in name else (1 + len(level) % 2,):
        holds(model, level, threads, given)


@pytest.mark.parametrize("level", LEVELS)
def test_a_network_quantised_to_int8(tmp_path: Path, level: str) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    (tmp_path / "float.onnx").write_bytes(small("resnet18"))
    given = feeds(plain(tmp_path / "float.onnx"))

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._rows = iter([given])

        def get_next(self) -> dict[str, NDArray[Any]] | None:
            return next(self._rows, None)

    quantized = tmp_path / "int8.onnx"
    quantization.quantize_static(
        tmp_path / "float.onnx", quantized, Reader(), quant_format=quantization.QuantFormat.QDQ
    )
    assert b"QuantizeLinear" in quantized.read_bytes()
    holds(quantized, level, 1, given)


@pytest.mark.parametrize("name", ["mobilenet_v2", "transformer", "dynamic"])
def test_one_plan_serves_every_batch_up_to_the_largest(name: str) -> None:
    model = small(name, batch="N")
    sessions = plain(model)
    with InferenceSession(model, options(), cache=False, background=False, poison=True) as session:
        planned = {}
        for batch in (3, 1, 2, 3, 7, 4, 6, 5, 1, 14, 8):
            given = feeds(sessions, batch=batch)
            assert same(session.run(None, given), sessions.run(None, given))
            planned[batch] = session.memory.planned
        # 3 is recorded; 7 does not fit; 4 fits as it is smaller than 7, and is recorded; then there is room for 14.
        assert session.memory.bails <= 4
        assert session.memory.replayed >= 6
        assert session.memory.replans <= 3
        assert planned[3] < planned[14]


def test_results_can_live_in_the_arena() -> None:
    model = small("unet")
    reference = plain(model)
    with (
        InferenceSession(model, options(), cache=False, background=False, poison=True, bind_outputs=True) as bound,
        InferenceSession(model, options(), cache=False, background=False) as unbound,
    ):
        results = []
        for seed in range(4):
            given = feeds(reference, seed=seed)
            results.append((bound.run(None, given), reference.run(None, given)))
            unbound.run(None, given)
        # All of them, after all runs: no result is overwritten by a later one.
        assert all(same(*pair) for pair in results)
        assert bound.memory.misses == 0
        assert unbound.memory.misses == 1
        assert bound.memory.replayed == 3
        assert bound.memory.planned <= unbound.memory.planned + results[0][0][0].nbytes
        assert np.all(np.isfinite(results[0][0][0]))
