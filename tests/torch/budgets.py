"""A small training program, its peak, and what it computes within budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

import edgemem.torch
from tests.torch.training import bits

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Layers", "assert_same", "peak_of"]


def peak_of(work: Callable[[], Any]) -> int:
    """Bytes at the peak without a budget."""
    with edgemem.torch.rematerialize(budget=None) as memory:
        kept = work()
    del kept
    peak: int = memory.stats.peak
    return peak


def assert_same(work: Callable[[], Any], shares: tuple[float, ...] = (0.9, 0.7, 0.5), policy: str = "coop") -> None:
    """What `work` returns has the same bits with a budget of each share as it has without.

    It makes all that it needs by itself, from a seed.
    """
    expected = bits(work())
    peak = peak_of(work)
    for share in shares:
        with edgemem.torch.rematerialize(budget=int(share * peak), policy=policy, poison=True) as memory:
            found = work()
        assert memory.stats.peak <= share * peak
        assert bits(found) == expected, f"with {share} of {peak:,} bytes"


class Layers:
    """A network of some linear layers, its batch and an optimizer."""

    def __init__(self, kind: Any = torch.optim.SGD, depth: int = 6, width: int = 48, **options: Any) -> None:
        torch.manual_seed(0)
        parts = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())]
        self.model = nn.Sequential(*parts)
        self.given, self.target = torch.randn(64, width), torch.randn(64, width)
        self.optimizer = kind(self.model.parameters(), **{"lr": 0.01, **options})

    def loss(self) -> Any:
        return functional.mse_loss(self.model(self.given), self.target)

    def state(self) -> list[Any]:
        """Parameters and gradients."""
        parameters = list(self.model.parameters())
        return [*parameters, *(p.grad for p in parameters if p.grad is not None)]
