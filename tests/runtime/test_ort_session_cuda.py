"""Replay in device memory. Without a GPU only what can be seen without one is tested; kernels/tests has the logic."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from edgemem.errors import RuntimeBindError
from edgemem.replay import cuda as replay_cuda
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.context import Context
from edgemem.replay.cuda import cuda_runtime
from edgemem.replay.library import DEVICE, library
from edgemem.replay.plan import ReplayPlan
from edgemem.runtime.onnxruntime.cuda import CUDA, with_allocator
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests.onnx_sessions import feeds, options, plain, same, small

ort = pytest.importorskip("onnxruntime")


def has_runtime() -> bool:
    try:
        cuda_runtime()
    except RuntimeBindError:
        return False
    return True


def has_gpu() -> bool:
    return CUDA in ort.get_available_providers() and has_runtime()


@pytest.mark.skipif(not has_gpu(), reason="no CUDA provider, or no CUDA runtime")
@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18", "unet", "transformer"])
def test_a_planned_session_on_a_gpu(name: str) -> None:
    model = small(name)
    reference = plain(model)
    with InferenceSession(model, options(), [CUDA, "CPUExecutionProvider"], cache=False, background=False) as session:
        results = []
        for seed in range(4):
            given = feeds(reference, seed=seed)
            results.append(session.run(None, given))
            # Other kernels than the CPU's: near, not equal.
            for mine, theirs in zip(results[-1], reference.run(None, given), strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-2, atol=1e-3)
        given = feeds(reference, seed=0)
        again = session.run(None, given)
        assert all(np.array_equal(a, b) for a, b in zip(again, results[0], strict=True))
        memory = session.memory
        assert memory.mode == "replay", memory.reason
        assert memory.replayed >= 3
        assert memory.planned <= 1.01 * memory.bound


def test_without_cuda_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_cuda, "_RUNTIMES", ("libcudart.so.none",))
    cuda_runtime.cache_clear()
    try:
        with pytest.raises(RuntimeBindError, match="CUDA's runtime is not there"):
            with_allocator([CUDA], None)
    finally:
        cuda_runtime.cache_clear()


def test_the_provider_is_told_the_allocators_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_cuda, "cuda_runtime", lambda: None)
    named = dict(with_allocator([(CUDA, {"device_id": "1"}), "CPUExecutionProvider"], None))
    assert named["CPUExecutionProvider"] == {}
    assert named[CUDA]["device_id"] == "1"
    functions = {"alloc": "em_cuda_alloc", "free": "em_cuda_free", "empty_cache": "em_cuda_empty_cache"}
    for option, function in functions.items():
        assert int(named[CUDA][f"gpu_external_{option}"]) == library().address(function) != 0
    assert dict(with_allocator([CUDA], [{"device_id": "2"}]))[CUDA]["device_id"] == "2"
    with pytest.raises(RuntimeBindError, match="user_compute_stream"):
        with_allocator([(CUDA, {"user_compute_stream": "1"})], None)


def test_where_onnxruntime_goes_on_without_the_device_host_memory_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    if has_gpu():
        pytest.skip("this ONNX Runtime has CUDA")
    model = small("resnet18")
    given = feeds(plain(model))
    known = [CUDA, "CPUExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: known)
    for runtime, why in (
        (lambda: None, "no CUDA device here"),
        (no_runtime, "host memory alone is planned: no runtime"),
    ):
        monkeypatch.setattr(replay_cuda, "cuda_runtime", runtime)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Specified provider", UserWarning)  # ONNX Runtime's own
            with pytest.warns(RuntimeWarning, match=why):
                session = InferenceSession(model, options(), known, cache=False, background=False)
        for _ in range(2):
            assert same(session.run(None, given), plain(model).run(None, given))
        assert (session.memory.mode, session.memory.replayed) == ("replay", 1)
        session.close()


def no_runtime() -> None:
    raise RuntimeBindError("no runtime")


def test_a_device_context_wants_device_memory() -> None:
    plan: Any = ReplayPlan(np.array([64, -1], np.int64), np.array([0], np.int64), 64)
    with pytest.raises(RuntimeBindError, match="memory of the context's kind"):
        Context(DEVICE).begin_replay(plan, ArenaMemory(64))
