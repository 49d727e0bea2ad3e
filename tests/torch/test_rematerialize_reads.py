"""Reads of evicted memory, refusals, threads, and what outlives a context: the same bits as PyTorch."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import threading
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.errors import BudgetExceededError, EdgememError  # noqa: E402
from tests.torch.budgets import Layers, peak_of  # noqa: E402
from tests.torch.steps import make_step  # noqa: E402
from tests.torch.training import bits  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("_one_thread", "_steady_costs")


def _saved(x: Any) -> bytes:
    file = io.BytesIO()
    torch.save(x.clone(), file)
    file.seek(0)
    loaded: bytes = bits([torch.load(file)])[0]
    return loaded


READERS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x.numpy().tobytes(),
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x[1, 1].item(),
    "array": lambda x: np.asarray(x).sum(),
    "dlpack": lambda x: np.from_dlpack(x).tobytes(),
    "bytes": lambda x: bytes(x.untyped_storage()),
    "storage": lambda x: x.untyped_storage().tolist(),
    "address": lambda x: bytes((ctypes.c_char * 256).from_address(x.data_ptr())),
    "text": str,
    "copy": lambda x: copy.deepcopy(x).tolist(),
    "clone of storage": lambda x: x.untyped_storage().clone().tolist(),
    "save": _saved,
    "iteration": lambda x: [float(n) for n in x[3]],
    "equal": lambda x: torch.equal(x, x + 0),
    "truth": lambda x: bool(x[0, 0] > 0),
    "index": lambda x: [1, 2, 3][int((x[0, 0] > 0).long())],
    "shared memory": lambda x: x.clone().share_memory_().tolist(),
    "set": lambda x: torch.empty(0).set_(x.untyped_storage(), 0, x.shape).tolist(),
    "from buffer": lambda x: torch.frombuffer(bytearray(x.numpy().tobytes()), dtype=torch.float32).tolist(),
}


@pytest.mark.parametrize("reader", READERS)
def test_numbers_of_what_was_evicted_are_read(reader: str) -> None:
    def values() -> list[Any]:
        torch.manual_seed(0)
        x = torch.randn(32, 32)
        found = []
        for _ in range(12):
            x = (x @ x).tanh()
            found.append(x)
        return found

    expected = [READERS[reader](x) for x in values()]
    with edgemem.torch.rematerialize(budget=6 * 4096, poison=True) as memory:
        kept = values()
        assert memory.stats.evictions
        found = [READERS[reader](x) for x in kept[:2]]
    assert found == expected[:2]
    assert [READERS[reader](x) for x in kept] == expected


def test_a_long_chain_is_computed_again() -> None:
    with edgemem.torch.rematerialize(budget=8 << 10) as memory:
        x = torch.arange(256.0)
        for _ in range(3000):
            x = x + 1
        y = x * 2
        filled = [torch.ones(256) * k for k in range(7)]
        assert x.tolist() == [k + 3000 for k in range(256)]
        assert y.tolist() == [2 * k + 6000 for k in range(256)]
    assert memory.stats.evictions
    assert [t[0].item() for t in filled] == list(range(7))


def test_what_is_larger_than_the_budget_is_refused_and_the_program_goes_on() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    expected = bits([x @ x, (x @ x).tanh()])
    with edgemem.torch.rematerialize(budget=64 << 10, poison=True) as memory:
        y = x @ x
        with pytest.raises(BudgetExceededError) as caught:
            torch.ones(1 << 20)
        z = y.tanh()
    assert caught.value.available == 64 << 10
    assert caught.value.required >= 4 << 20
    assert "ones" in caught.value.op or "full" in caught.value.op or "empty" in caught.value.op
    assert memory.stats.peak <= 64 << 10
    assert bits([y, z]) == expected


def test_a_backward_pass_that_is_refused_can_be_made_again_without_a_budget() -> None:
    layers, expected = Layers(), Layers()
    expected.loss().backward()
    peak = peak_of(lambda: Layers().loss().backward())
    with pytest.raises(BudgetExceededError), edgemem.torch.rematerialize(budget=peak // 12, poison=True):
        layers.loss().backward()
    layers.optimizer.zero_grad()
    layers.loss().backward()
    assert bits(layers.state()) == bits(expected.state())


def test_an_exception_of_the_program_leaves_its_tensors_whole() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    expected, made = [x], []
    for _ in range(10):
        expected.append((expected[-1] @ x).tanh())

    def work() -> None:
        made.append(x)
        for k in range(10, -1, -1):
            made.append((made[-1] @ x).tanh() if 10 // k else x)

    with pytest.raises(ZeroDivisionError), edgemem.torch.rematerialize(budget=80 << 10, poison=True):
        work()
    assert bits(made) == bits(expected)


def test_a_context_inside_another_is_refused() -> None:
    with edgemem.torch.rematerialize(budget=1 << 20):
        with pytest.raises(EdgememError), edgemem.torch.rematerialize(budget=1 << 20):
            pass
        assert (torch.ones(4) + 1).tolist() == [2] * 4


def test_contexts_follow_each_other_and_tensors_outlive_them() -> None:
    def work(contexts: Iterator[Any]) -> Any:
        layers = Layers(torch.optim.Adam)
        outputs = []
        for context in contexts:
            with context:
                layers.optimizer.zero_grad()
                loss = layers.loss()
                loss.backward()
                outputs.append(loss.detach())
            layers.optimizer.step()
            gc.collect()
        return [*outputs, *layers.state()]

    expected = work(iter([torch.enable_grad() for _ in range(4)]))
    peak = peak_of(lambda: Layers().loss().backward())
    found = work(edgemem.torch.rematerialize(budget=int(share * peak), poison=True) for share in (0.9, 0.7, 0.6, 0.8))
    assert bits(found) == bits(expected)


def test_a_graph_made_within_the_context_is_differentiated_after_it() -> None:
    layers, expected = Layers(), Layers()
    expected.loss().backward()
    with edgemem.torch.rematerialize(budget=int(0.5 * peak_of(Layers().loss)), poison=True):
        loss = layers.loss()
    loss.backward()
    assert bits(layers.state()) == bits(expected.state())


def test_a_graph_made_before_the_context_is_differentiated_within_it() -> None:
    layers, expected = Layers(), Layers()
    expected.loss().backward()
    loss = layers.loss()
    with edgemem.torch.rematerialize(budget=1 << 20, poison=True):
        loss.backward()
    assert bits(layers.state()) == bits(expected.state())


def test_another_thread_computes_meanwhile() -> None:
    """As a loader of batches does: its tensors come into the context and go out of it."""
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    made: list[Any] = []
    found: list[Any] = []

    def load() -> None:
        made.extend(torch.full((64, 64), k / 20.0) @ x for k in range(20))

    def serve() -> list[Any]:
        loader = threading.Thread(target=load)
        loader.start()
        y, kept = x, []
        for _ in range(20):
            y = (y @ x).tanh()
            kept.append(y)
        loader.join()
        return kept + [y + m for m in made]

    expected = bits(serve())
    made.clear()
    with edgemem.torch.rematerialize(budget=1 << 20, poison=True):
        found = serve()
    assert bits(found) == expected


def test_several_threads_compute_within_operators() -> None:
    torch.set_num_threads(3)
    step, expected = make_step("resnet18"), make_step("resnet18")
    peak = peak_of(make_step("resnet18").loss)
    with edgemem.torch.rematerialize(budget=int(0.9 * peak), poison=True):
        step.loss()
    expected.loss()
    pairs = zip(step.gradients(), expected.gradients(), strict=True)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in pairs)


def test_a_backward_pass_on_another_thread() -> None:
    layers, expected = Layers(), Layers()
    expected.loss().backward()
    with edgemem.torch.rematerialize(budget=None, poison=True):
        loss = layers.loss()
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    assert bits(layers.state()) == bits(expected.state())


def test_memory_comes_back_when_all_is_let_go() -> None:
    with edgemem.torch.rematerialize(budget=2 << 20, poison=True) as memory:
        for _ in range(5):
            layers = Layers()
            layers.loss().backward()
            del layers
            gc.collect()
        whole = torch.zeros((2 << 20) // 4 - 64)
    assert memory.stats.peak <= 2 << 20
    assert not whole.any()
