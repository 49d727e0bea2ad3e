"""Threads that serve one session on a CUDA device: right bits, and memory that goes while nothing runs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pytest

from edgemem.errors import RuntimeBindError
from edgemem.replay import cuda as replay_cuda
from edgemem.replay.cuda import cuda_runtime
from edgemem.runtime.onnxruntime.cuda import CUDA
from edgemem.runtime.onnxruntime.session import InferenceSession
from models.build import build
from tests.onnx_sessions import feeds, options, same, small
from tests.runtime.test_ort_session_cuda import has_gpu

ort = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.skipif(not has_gpu(), reason="no CUDA provider, or no CUDA runtime")

MEBIBYTE: Final = 1 << 20
# Both sessions take the convolutions that cuDNN's heuristic names; measuring them may choose others.
PROVIDERS: Final[list[Any]] = [(CUDA, {"cudnn_conv_algo_search": "HEURISTIC"}), "CPUExecutionProvider"]
THREADS: Final = 8
ARENAS: Final = 3


class Counted:
    """CUDA's runtime, with the bytes of arenas that it has given and not got back.

    What the driver has given says nothing: other processes use the device, too.
    """

    def __init__(self) -> None:
        self._runtime = cuda_runtime()
        self._sizes: dict[int, int] = {}

    @property
    def held(self) -> int:
        return sum(self._sizes.values())

    def cudaMalloc(self, place: Any, size: int) -> int:
        status = int(self._runtime.cudaMalloc(place, size))
        if status == 0:
            self._sizes[place._obj.value] = size
        return status

    def cudaFree(self, address: int) -> int:
        status = int(self._runtime.cudaFree(address))
        assert status == 0
        del self._sizes[address]
        return status


def wait_until_gone(session: InferenceSession) -> None:
    pause = threading.Event()
    for _ in range(400):
        if session.memory.arena == 0:
            return
        pause.wait(0.05)
    raise AssertionError(f"{session.memory.arena} bytes of arenas stay")


@pytest.mark.parametrize("has_background", [True, False])
def test_threads_get_the_bits_of_a_plain_session_and_idle_arenas_go(
    has_background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Counted()
    monkeypatch.setattr(replay_cuda, "cuda_runtime", lambda: device)
    data = bytes(build("unet", size="full").SerializeToString())
    plain = ort.InferenceSession(data, options(), providers=PROVIDERS)
    assert plain.get_providers()[0] == CUDA
    given = [feeds(plain, seed=seed) for seed in range(4)]
    wanted = [plain.run(None, feed) for feed in given]
    del plain
    with InferenceSession(
        data, options(), PROVIDERS, cache=False, background=has_background, most_arenas=ARENAS, idle_seconds=0.5
    ) as session:
        for feed in given:
            session.run(None, feed)
        assert session.wait(60)
        start = threading.Barrier(THREADS)

        def serve(thread: int) -> list[bool]:
            start.wait()
            order = [(thread + k) % len(given) for k in range(12)]
            return [same(session.run(None, given[k]), wanted[k]) for k in order]

        def all_serve(threads: ThreadPoolExecutor) -> None:
            results = list(threads.map(serve, range(THREADS)))
            assert all(map(all, results)), results

        with ThreadPoolExecutor(THREADS) as threads:
            all_serve(threads)
            memory = session.memory
            assert memory.mode == "replay", memory.reason
            assert memory.runs - memory.replayed <= len(given), "runs before there was a plan"
            assert memory.planned > 40 * MEBIBYTE
            assert memory.planned <= memory.arena == device.held <= ARENAS * memory.planned
            wait_until_gone(session)
            assert device.held == 0
            all_serve(threads)
            assert session.memory.arena == device.held >= memory.planned
            session.trim()
            assert session.memory.arena == device.held == 0
            all_serve(threads)
            assert session.memory.bails == 0
    assert device.held == 0


def test_threads_run_shapes_of_their_own() -> None:
    data = small("transformer", batch="n")  # cuDNN would begin anew with each shape of a convolution
    plain = ort.InferenceSession(data, options(), providers=PROVIDERS)
    given = [feeds(plain, batch=batch, seed=batch) for batch in (1, 2, 3, 5, 8, 13, 4, 7)]
    wanted = [plain.run(None, feed) for feed in given]
    with (
        InferenceSession(data, options(), PROVIDERS, cache=False) as session,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        for _ in range(5):
            found = list(threads.map(lambda feed: session.run(None, feed), given * 4))
            for mine, theirs in zip(found, wanted * 4, strict=True):
                # Near, not equal: cuBLAS may take other kernels while other streams are busy.
                np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-2, atol=1e-3)
            assert session.wait(60)
        memory = session.memory
        assert memory.mode == "replay", memory.reason
        assert memory.replayed >= 2 * 4 * len(given)


def test_a_cap_is_refused_on_a_device() -> None:
    with pytest.raises(RuntimeBindError, match="arenas are its own and in host memory"):
        InferenceSession(small("mobilenet_v2"), options(), PROVIDERS, cache=False, max_bytes=64 * MEBIBYTE)
