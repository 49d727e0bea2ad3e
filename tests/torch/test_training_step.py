"""A reordered training step computes the same bits as PyTorch, in as many bytes as was predicted."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.errors import RuntimeBindError  # noqa: E402
from edgemem.schedule.order import find_order  # noqa: E402
from edgemem.schedule.peak import peak_of  # noqa: E402
from edgemem.targets import BUILT_IN  # noqa: E402
from tests.torch.networks import CASES, make  # noqa: E402
from tests.torch.orders import random_order  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

LIVE = BUILT_IN["pytorch"]
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, weight_decay=1e-3),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, weight_decay=1e-2),
    "amsgrad": lambda p: torch.optim.Adam(p, amsgrad=True, maximize=True),
    "adamw": lambda p: torch.optim.AdamW(p, betas=(0.8, 0.95)),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    """Sums of several threads may be in another order from run to run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def bits(tensors: Any) -> list[bytes]:
    return [t.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes() for t in tensors if t.numel()]


def eager(model: Any, optimizer: Any, batch: Any) -> Any:
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.detach()


def states(optimizer: Any) -> list[Any]:
    return [v for s in optimizer.state.values() for _, v in sorted(s.items())]


PAIRS = [
    ("resnet18", "momentum"),
    ("mobilenet_v2", "adamw"),
    ("gpt_dropout", "adam"),
    *(("gpt", k) for k in OPTIMIZERS),
]


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_losses_parameters_buffers_and_states_are_bit_identical_in_any_order(name: str, kind: str) -> None:
    model, batch = make(name)
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, OPTIMIZERS[kind](model.parameters()))
    best = find_order(graph, LIVE, method="greedy")
    orders = {"own": None, "best": best.order, "any": random_order(graph, 1)}
    plain = copy.deepcopy(model)
    optimizer = OPTIMIZERS[kind](plain.parameters())
    runs = {}
    for label, order in orders.items():
        twin = copy.deepcopy(model)
        runs[label] = (edgemem.torch.reorder(graph, order), twin, OPTIMIZERS[kind](twin.parameters()))
    for k in range(3):
        torch.manual_seed(k)
        loss = eager(plain, optimizer, batch)
        for label, (step, twin, own) in runs.items():
            torch.manual_seed(k)
            given = step(twin, own, batch)
            assert bits([given]) == bits([loss]), (label, k)
            assert bits(twin.state_dict().values()) == bits(plain.state_dict().values()), (label, k)
            assert bits(states(own)) == bits(states(optimizer)), (label, k)


@pytest.mark.parametrize(
    ("name", "kind"), [("resnet18", "sgd"), ("mobilenet_v2", "adam"), ("gpt", "adamw"), ("gpt_dropout", "momentum")]
)
def test_the_bytes_alive_are_those_predicted(name: str, kind: str) -> None:
    model, batch = make(name)
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, OPTIMIZERS[kind](model.parameters()))
    best = find_order(graph, LIVE, method="greedy")
    assert best.peak < best.given_peak
    optimizer = OPTIMIZERS[kind](model.parameters())
    peaks: dict[Any, int] = {None: best.given_peak, best.order: best.peak}
    for seed in range(2):
        order = random_order(graph, seed)
        peaks[order] = peak_of(graph.reordered(order), LIVE)
    for order, predicted in peaks.items():
        step = edgemem.torch.reorder(graph, order)
        step(model, optimizer, batch)  # makes the optimizer's state
        with edgemem.torch.LiveBytes() as live:
            loss = step(model, optimizer, batch)
        assert live.peak == predicted
        del loss


@pytest.mark.parametrize("name", CASES)
def test_the_graph_needs_in_its_own_order_what_pytorch_needs(name: str) -> None:
    model, batch = make(name)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, optimizer)
    with edgemem.torch.LiveBytes() as live:
        eager(model, optimizer, batch)
    # PyTorch keeps the gradient of the loss, which is 1, until the end, and some masks for a little longer.
    assert peak_of(graph, LIVE) == pytest.approx(live.peak, rel=0.005)


@pytest.mark.parametrize("name", CASES)
def test_without_an_optimizer_the_step_leaves_the_gradients(name: str) -> None:
    model, batch = make(name)
    twin = copy.deepcopy(model)
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch)
    step = edgemem.torch.reorder(graph, find_order(graph, LIVE, method="greedy").order)
    for k in range(2):  # the second time they are added to
        torch.manual_seed(k)
        functional.cross_entropy(model(batch[0]), batch[1]).backward()
        torch.manual_seed(k)
        step(twin, None, batch)
    assert bits(p.grad for p in twin.parameters()) == bits(p.grad for p in model.parameters())


def _losses(model: Any, optimizer: Any, step: Any, *, apart: bool, **options: Any) -> list[bytes]:
    """Two steps, each in an autocast of its own or both in one."""
    batch = torch.randn(4, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 1])
    losses = []
    with nullcontext() if apart else torch.autocast("cpu", torch.bfloat16, **options):
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16, **options):
                losses.append(step(model, optimizer, batch))
    return bits(losses)


def _cast_step(optimizer: bool) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    updates = torch.optim.SGD(model.parameters(), 0.5) if optimizer else None
    batch = torch.randn(4, 8), torch.tensor([0, 1, 2, 1])
    with torch.autocast("cpu", torch.bfloat16):
        graph = edgemem.torch.capture(model, functional.cross_entropy, batch, updates)
    return model, updates, edgemem.torch.reorder(graph)


def test_steps_within_one_autocast_compute_with_old_casts_in_pytorch_and_are_refused() -> None:
    model, optimizer, step = _cast_step(optimizer=True)
    other = copy.deepcopy(model)
    right = _losses(other, torch.optim.SGD(other.parameters(), 0.5), eager, apart=True)
    assert _losses(model, optimizer, step, apart=True) == right
    other = copy.deepcopy(_cast_step(optimizer=True)[0])
    assert _losses(other, torch.optim.SGD(other.parameters(), 0.5), eager, apart=False) != right
    with pytest.raises(RuntimeBindError, match="enter autocast for each step"):
        _losses(*_cast_step(optimizer=True), apart=False)
    assert _losses(*_cast_step(optimizer=True), apart=False, cache_enabled=False) == right


def test_steps_within_one_autocast_that_update_nothing_are_not_refused() -> None:
    model, _, step = _cast_step(optimizer=False)
    first, second = _losses(model, None, step, apart=False)
    assert first == second
