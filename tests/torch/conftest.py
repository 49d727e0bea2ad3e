from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """Sums of several threads may be in another order from run to run."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def _steady_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator costs the same, so that what is evicted, and what fits, does not depend on the machine."""
    pytest.importorskip("torch")
    from edgemem.torch.remat import operators, repeater

    clock = SimpleNamespace(perf_counter_ns=count(0, 1000).__next__)
    for module in (operators, repeater):
        monkeypatch.setattr(module, "time", clock)
