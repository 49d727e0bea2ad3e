"""Arenas on a CUDA device, by a stand-in for CUDA's runtime that gives addresses without memory."""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from edgemem.replay import cuda

if TYPE_CHECKING:
    import pytest


class Runtime:
    def __init__(self) -> None:
        self._places = itertools.count(1 << 44, 1 << 20)
        self.freed: Counter[int] = Counter()

    def cudaMalloc(self, place: Any, _: int) -> int:
        place._obj.value = next(self._places)
        return 0

    def cudaFree(self, place: int) -> int:
        self.freed[place] += 1
        return 0


def test_threads_that_give_arenas_back_free_each_of_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime()
    monkeypatch.setattr(cuda, "cuda_runtime", lambda: runtime)
    errors: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(500):
                cuda.DeviceMemory(64).close()
        except Exception as e:  # noqa: BLE001 - told below
            errors.append(e)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors
    cuda._give_back()
    assert set(runtime.freed.values()) == {1}
    assert len(runtime.freed) == 2000
