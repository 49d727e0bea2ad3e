"""Recurrent layers: a captured step computes the same bits as PyTorch, in as many bytes as was predicted."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.schedule.order import find_order  # noqa: E402
from edgemem.schedule.peak import peak_of  # noqa: E402
from edgemem.targets import BUILT_IN  # noqa: E402
from tests.torch.orders import random_order  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")

LIVE = BUILT_IN["pytorch"]
LAYERS: dict[str, Any] = {
    "lstm": lambda: nn.LSTM(8, 16, batch_first=True),
    "deep_lstm": lambda: nn.LSTM(8, 16, num_layers=3, dropout=0.3, batch_first=True),
    "lstm_both_ways": lambda: nn.LSTM(8, 16, bidirectional=True, batch_first=True),
    "lstm_without_bias": lambda: nn.LSTM(8, 16, num_layers=2, bias=False, batch_first=True),
    "projected_lstm": lambda: nn.LSTM(8, 16, proj_size=4, batch_first=True),
    "gru": lambda: nn.GRU(8, 16, num_layers=2, bidirectional=True, batch_first=True),
    "rnn": lambda: nn.RNN(8, 16, num_layers=2, batch_first=True),
}


class Tagger(nn.Module):
    """A class for each step of a sequence."""

    def __init__(self, recurrent: Any) -> None:
        super().__init__()
        self.recurrent = recurrent
        width = (recurrent.proj_size or recurrent.hidden_size) * (2 if recurrent.bidirectional else 1)
        self.head = nn.Linear(width, 5)

    def forward(self, x: Any) -> Any:
        y, _ = self.recurrent(x)
        return self.head(y).flatten(0, 1)


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    """Sums of several threads may be in another order from run to run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make(name: str) -> tuple[Any, tuple[Any, Any]]:
    torch.manual_seed(0)
    return Tagger(LAYERS[name]()), (torch.randn(3, 6, 8), torch.randint(5, (18,)))


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def captured(model: Any, batch: Any) -> Any:
    return edgemem.torch.capture(model, functional.cross_entropy, batch, sgd(model))


@pytest.mark.parametrize("name", LAYERS)
def test_losses_and_parameters_are_bit_identical_in_any_order(name: str) -> None:
    model, batch = make(name)
    graph = captured(model, batch)
    orders = [None, find_order(graph, LIVE, method="greedy").order, random_order(graph, 1)]
    for order in orders:
        step, twin, plain = edgemem.torch.reorder(graph, order), copy.deepcopy(model), copy.deepcopy(model)
        own, optimizer = sgd(twin), sgd(plain)
        for k in range(3):
            torch.manual_seed(k)
            optimizer.zero_grad()
            loss: Any = functional.cross_entropy(plain(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            torch.manual_seed(k)
            assert torch.equal(step(twin, own, batch), loss.detach())
            for one, other in zip(twin.parameters(), plain.parameters(), strict=True):
                assert torch.equal(one, other)
                assert one.grad is None


@pytest.mark.parametrize("name", LAYERS)
def test_the_bytes_alive_are_those_predicted(name: str) -> None:
    model, batch = make(name)
    graph, optimizer = captured(model, batch), sgd(model)
    for order in (tuple(range(len(graph.ops))), random_order(graph, 2)):
        step = edgemem.torch.reorder(graph, order)
        step(model, optimizer, batch)  # makes the optimizer's state
        with edgemem.torch.LiveBytes() as live:
            loss = step(model, optimizer, batch)
        assert live.peak == peak_of(graph.reordered(order), LIVE)
        assert not loss.requires_grad
        del loss


def test_without_an_optimizer_the_step_leaves_the_gradients() -> None:
    model, batch = make("deep_lstm")
    twin = copy.deepcopy(model)
    step = edgemem.torch.reorder(edgemem.torch.capture(model, functional.cross_entropy, batch))
    torch.manual_seed(1)
    loss: Any = functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    torch.manual_seed(1)
    step(twin, None, batch)
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)
