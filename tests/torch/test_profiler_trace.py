"""Traces from PyTorch's own profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity, record_function  # noqa: E402
from torch.profiler import profile as torch_profile  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.errors import ModelError  # noqa: E402
from edgemem.trace.cycle import Cycle  # noqa: E402
from tests.torch.training import Training  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("_one_thread")


def profiled(step: Callable[[], object], count: int = 4) -> Any:
    with torch_profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for k in range(count):
            with record_function(f"step {k}"):
                step()
    return profiler


@pytest.mark.parametrize("name", ["resnet18", "gpt"])
def test_it_is_the_trace_that_a_session_records(name: str) -> None:
    training = Training(name)
    recorded = edgemem.torch.profile(training.step).cycles[0]
    found = Cycle.of(edgemem.torch.trace_of_profiler(profiled(training.step), steps="step "))
    assert found.length == recorded.length
    for column in ("size", "start", "end"):
        np.testing.assert_array_equal(getattr(found, column), getattr(recorded, column))


def test_blocks_of_known_sizes() -> None:
    def step() -> None:
        a = torch.empty(1000, dtype=torch.uint8)
        b = torch.empty(300, dtype=torch.uint8)
        del a
        _ = torch.empty(500, dtype=torch.uint8)
        del b

    trace = edgemem.torch.trace_of_profiler(profiled(step, 2), steps="step ")
    assert trace.size.tolist() == 2 * [1000, 300, 0, 500, 0, 0]
    assert trace.request.tolist() == [0, 1, 0, 2, 1, 2, 3, 4, 3, 5, 4, 5]
    assert trace.iteration.tolist() == 6 * [0] + 6 * [1]
    assert (np.diff(trace.time_ns) >= 0).all()


def test_frees_of_what_is_older_are_left_out() -> None:
    older = [torch.empty(1000)]

    def step() -> None:
        older.clear()
        torch.empty(50)

    trace = edgemem.torch.trace_of_profiler(profiled(step, 1))
    assert trace.size[trace.requests].tolist() == [200]
    assert trace.iteration.tolist() == [-1] * len(trace)


def test_a_profile_without_memory_is_refused() -> None:
    with torch_profile(activities=[ProfilerActivity.CPU]) as profiler:
        torch.empty(10)
    with pytest.raises(ModelError, match="profile_memory=True"):
        edgemem.torch.trace_of_profiler(profiler)


def test_a_profiler_that_has_not_stopped_is_refused() -> None:
    with (
        torch_profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler,
        pytest.raises(ModelError, match="end it first"),
    ):
        edgemem.torch.trace_of_profiler(profiler)
