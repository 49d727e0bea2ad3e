"""What `rematerialize` is given, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.errors import PlanError, RuntimeBindError, UnknownStrategyError  # noqa: E402


@pytest.mark.parametrize("budget", [0, -5, 1.5, float("nan"), b"1MiB", 1 << 47, (1 << 64) + (1 << 20), "x", "0MiB"])
def test_a_budget_that_is_none_is_refused(budget: Any) -> None:
    with pytest.raises(PlanError):
        edgemem.torch.rematerialize(budget)


@pytest.mark.parametrize("budget", [1 << 20, "1MiB", np.int64(1 << 20)])
def test_a_budget_is_bytes_or_a_size(budget: Any) -> None:
    with edgemem.torch.rematerialize(budget) as memory:
        assert torch.ones(1000).sum() == 1000
    assert memory.stats.budget == 1 << 20
    assert 4000 <= memory.stats.peak <= 1 << 20


def test_a_policy_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownStrategyError, match="coop"):
        edgemem.torch.rematerialize("1MiB", policy="none")


def test_a_context_is_entered_once_and_not_inside_another() -> None:
    with edgemem.torch.rematerialize("1MiB") as memory:
        with pytest.raises(RuntimeBindError, match="another program"), edgemem.torch.rematerialize("1MiB"):
            pass
        made = torch.ones(10) + 1
    with pytest.raises(RuntimeBindError, match="call `rematerialize` again"), memory:
        pass
    assert made.sum() == 20


def test_processes_that_load_data_run_inside_the_context() -> None:
    rows = [torch.full((1000,), float(k)) for k in range(16)]
    loader = torch.utils.data.DataLoader(rows, batch_size=4, num_workers=1, timeout=60, multiprocessing_context="fork")
    with edgemem.torch.rematerialize("8MiB"):
        assert sum(float(batch.sum()) for batch in loader) == 1000.0 * sum(range(16))
