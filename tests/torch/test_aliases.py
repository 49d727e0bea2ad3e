"""Views, writes in place, random numbers and statistics keep what a step computes, in whatever order it runs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.schedule.peak import peak_of  # noqa: E402
from edgemem.targets import BUILT_IN  # noqa: E402
from tests.torch.orders import random_order  # noqa: E402


class Aliases(nn.Module):
    """Reads values before and after they are written through views of them."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(6, 6)
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, x: Any) -> Any:
        y = self.line(x)
        before = y.detach().view(-1).sum()
        part = y.detach().clone()
        row = part[1]
        old = row * 2
        part.add_(1)
        row.mul_(before)
        new = row + old
        part[:, ::2].zero_()
        self.seen.copy_(part[0])
        early = self.seen * 3
        self.seen.add_(new)
        halves = torch.empty(4, 3).fill_(2.0)
        halves[:2] = y.detach()[:2, :3]
        return y * new + early * self.seen + part.t().reshape(4, 6) + halves.repeat(1, 2)


class Statistics(nn.Module):
    """Reads the running mean of a normalisation before and after it has been written; draws random numbers twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.line = nn.BatchNorm1d(6, momentum=0.5), nn.Linear(6, 6)

    def forward(self, x: Any) -> Any:
        old = self.norm.running_mean + 1
        x = functional.dropout(x, 0.5)
        y = self.norm(self.line(x))
        new = self.norm.running_mean * 2
        return functional.dropout(y, 0.3) * old + torch.rand(4, 6) + new


class Replaced(nn.Module):
    """Puts another tensor into the place of a buffer, and leaves a parameter unread and one frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.unread = nn.Parameter(torch.ones(3))
        self.second.bias.requires_grad_(False)
        self.mean: Any
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        self.mean = self.mean * 0.9 + y.detach().mean(0)
        return self.second(y) - self.mean


def loss_fn(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()


@pytest.mark.parametrize("kind", [Aliases, Statistics, Replaced])
def test_every_order_computes_the_same(kind: type[Any]) -> None:
    torch.manual_seed(0)
    model = kind().train()
    batch = (torch.randn(4, 6), torch.randn(4, 6))
    graph = edgemem.torch.capture(model, loss_fn, batch, torch.optim.SGD(model.parameters(), 0.1))
    plain = copy.deepcopy(model)
    optimizer = torch.optim.SGD(plain.parameters(), 0.1)
    losses = []
    for k in range(2):
        torch.manual_seed(k)
        optimizer.zero_grad()
        loss = loss_fn(plain(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    for seed in range(12):
        order = random_order(graph, seed)
        step = edgemem.torch.reorder(graph, order)
        twin = copy.deepcopy(model)
        own = torch.optim.SGD(twin.parameters(), 0.1)
        for k in range(2):
            torch.manual_seed(k)
            with edgemem.torch.LiveBytes() as live:
                loss = step(twin, own, batch)
            assert torch.equal(loss, losses[k])
            assert live.peak == peak_of(graph.reordered(order), BUILT_IN["pytorch"])
            del loss
        for name, value in plain.state_dict().items():
            assert torch.equal(twin.state_dict()[name], value), name


def test_gradients_that_are_one_tensor_are_left_apart() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(3, 2))

        def forward(self, x: Any) -> Any:
            return self.a + self.b + x

    model = Sum()
    graph = edgemem.torch.capture(model, lambda output, _: output.sum(), (torch.ones(3, 2), ()))
    edgemem.torch.reorder(graph)(model, None, (torch.ones(3, 2), ()))
    model.a.grad.mul_(2)
    assert torch.equal(model.b.grad, torch.ones(3, 2))
    assert torch.equal(model.a.grad, torch.full((3, 2), 2.0))
