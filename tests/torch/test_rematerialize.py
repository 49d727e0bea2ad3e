"""The context itself: what it refuses, counts, and keeps."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import edgemem.torch  # noqa: E402
from edgemem.errors import BudgetExceededError, PlanError, RuntimeBindError, UnknownStrategyError  # noqa: E402
from edgemem.remat.policies import POLICIES  # noqa: E402

pytestmark = pytest.mark.usefixtures("_one_thread", "_steady_costs")

SIZE = 64 << 10  # bytes of `chain`'s tensors


def chain(length: int) -> list[Any]:
    """Tensors of 64 KiB, each made from the one before."""
    torch.manual_seed(0)
    made = [torch.randn(128, 128)]
    for _ in range(length - 1):
        made.append((made[-1] @ made[0]).tanh())
    return made


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_keeps_the_budget_and_the_bits(policy: str) -> None:
    expected = chain(16)
    with edgemem.torch.rematerialize(10 * SIZE, policy=policy, poison=True) as memory:
        found = chain(16)
        total = sum(x.sum() for x in found)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert torch.equal(total, sum(x.sum() for x in expected))
    stats = memory.stats
    assert stats.evictions
    assert stats.recomputed_calls
    assert SIZE < stats.peak <= 10 * SIZE


def test_without_a_budget_nothing_is_evicted_and_the_peak_is_counted() -> None:
    with edgemem.torch.rematerialize() as memory:
        kept = chain(16)
    assert memory.stats.budget is None
    assert memory.stats.evictions == 0
    assert 16 * SIZE <= memory.stats.peak <= 18 * SIZE
    assert len(kept) == 16


def test_what_was_there_before_does_not_count() -> None:
    before = torch.randn(1024, 1024)
    with edgemem.torch.rematerialize("1MiB") as memory:
        total = before.sum()
    assert memory.stats.peak < 1 << 20
    assert memory.stats.budget == 1 << 20
    assert torch.equal(total, before.sum())


def test_an_operator_that_does_not_fit_is_named_with_what_it_needs() -> None:
    with edgemem.torch.rematerialize(4 * SIZE) as memory:
        x = torch.ones(128, 128)
        with pytest.raises(BudgetExceededError, match=r"aten\.cat") as refused:
            torch.cat([x, x, x, x])
        y = x + 1
    assert refused.value.op == "aten.cat.default"
    assert refused.value.available == 4 * SIZE
    assert refused.value.required == 5 * SIZE
    assert torch.equal(y, torch.full((128, 128), 2.0))
    assert memory.stats.peak <= 4 * SIZE


def test_a_tensor_that_is_kept_stays_where_it_is() -> None:
    with edgemem.torch.rematerialize(8 * SIZE, poison=True) as memory:
        first = torch.ones(128, 128) * 3
        memory.keep(first)
        place = first.data_ptr()
        made = chain(16)
        assert memory.stats.evictions
        assert first.data_ptr() == place
    assert torch.equal(first, torch.full((128, 128), 3.0))
    assert len(made) == 16


def test_memory_that_another_library_writes_is_read_as_it_is() -> None:
    with edgemem.torch.rematerialize(8 * SIZE, poison=True) as memory:
        x = torch.ones(128, 128) * 3
        before = x + 1
        x.numpy()[:] = 7
        after = x + 1
        made = chain(16)
        assert memory.stats.evictions
    assert torch.equal(before, torch.full((128, 128), 4.0))
    assert torch.equal(after, torch.full((128, 128), 8.0))
    assert torch.equal(x, torch.full((128, 128), 7.0))
    assert len(made) == 16


def test_an_argument_that_changes_leaves_what_was_made_of_it() -> None:
    with edgemem.torch.rematerialize(10 * SIZE, poison=True) as memory:
        outside = torch.ones(128, 128) * 2
        made = [outside * k for k in range(4)]
        views = [x.view(-1)[:64] for x in made]
        outside.mul_(5)
        later = outside + 1
        more = chain(16)
        assert memory.stats.evictions
    assert [int(v[0]) for v in views] == [0, 2, 4, 6]
    assert torch.equal(later, torch.full((128, 128), 11.0))
    assert len(more) == 16


def test_a_function_of_another_library_runs_once() -> None:
    library = torch.library.Library("edgemem_test_once", "DEF")
    library.define("counted(Tensor x) -> Tensor")
    calls = []

    def counted(x: Any) -> Any:
        calls.append(1)
        return x + len(calls)

    library.impl("counted", counted, "CPU")
    with edgemem.torch.rematerialize(8 * SIZE, poison=True) as memory:
        found = torch.ops.edgemem_test_once.counted(torch.ones(128, 128))
        made = chain(16)
        assert memory.stats.evictions
    assert calls == [1]
    assert torch.equal(found, torch.full((128, 128), 2.0))
    assert len(made) == 16


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(PlanError, match="a budget of 0 bytes is none"):
        edgemem.torch.rematerialize(0)
    with pytest.raises(PlanError, match="no size"):
        edgemem.torch.rematerialize("much")
    with pytest.raises(UnknownStrategyError, match="coop"):
        edgemem.torch.rematerialize(1 << 20, policy="best")


def test_a_context_is_entered_once_and_counts_only_then() -> None:
    memory = edgemem.torch.rematerialize(1 << 20)
    with pytest.raises(RuntimeBindError, match="not begun"):
        _ = memory.stats
    with pytest.raises(RuntimeBindError, match="not open"):
        memory.keep(torch.ones(1))
    with memory:
        pass
    with pytest.raises(RuntimeBindError, match="begun already"), memory:
        pass
    assert "peak" in str(memory.stats)
