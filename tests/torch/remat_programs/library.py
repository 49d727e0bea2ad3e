"""What authors of libraries write: operators of their own, gradients that they place, memory that they hand on."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import prune

from tests.torch.remat_programs.parts import mlp, pair, train
from tests.torch.remat_programs.registry import Keep, program


@torch.library.custom_op("remat_programs::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """An operator that computes in NumPy."""
    return torch.from_numpy(x.detach().numpy() * np.float32(factor))


@torch.library.custom_op("remat_programs::bump", mutates_args={"x"})
def bump(x: torch.Tensor) -> None:
    """An operator that writes its argument through NumPy."""
    x.numpy()[:] += 1


def _backward(ctx: Any, g: Any) -> Any:
    return g * ctx.factor, None


def _remember(ctx: Any, inputs: Any, output: Any) -> None:
    del output
    ctx.factor = inputs[1]


scaled.register_autograd(_backward, setup_context=_remember)

_library = torch.library.Library("remat_programs", "FRAGMENT")
_library.define("hidden_state(Tensor x) -> Tensor")
_calls = [0]


def _hidden(x: Any) -> Any:
    _calls[0] += 1
    return x * _calls[0]


_library.impl("hidden_state", _hidden, "CPU")


@program
def custom_operator(keep: Keep) -> Any:
    """An operator of the user with a gradient, in a network."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = scaled(model[:3](batch), 1.5)
        b = scaled(model[3:6](a), 0.5)
        c = model[6:](b)
        functional.mse_loss(c, target).backward()
    return a, b, c


@program
def custom_operator_that_writes(keep: Keep) -> Any:
    """An operator of the user that writes its argument, which has views."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        view = a.t()[3:9]
        b = [(a + k).cos() for k in range(5)]
        bump(a)
        c = [(a + k).sin() for k in range(5)]
        bump(view)
        d = a @ w
    return a, view, b, c, d


@program
def operator_with_hidden_state(keep: Keep) -> Any:
    """An operator of the user returns something else at every call."""
    _calls[0] = 0
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        made = [torch.ops.remat_programs.hidden_state(x + k) for k in range(4)]
        b = [(m @ w).tanh() for m in made]
        c = [m + k for m, k in zip(made, reversed(b), strict=True)]
    return made, b, c, _calls[0]


@program
def placed_gradients(keep: Keep) -> Any:
    """Gradients are placed, replaced, shared and swapped by hand, and accumulated into."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        big = torch.zeros(2, 64, 64)
        model[0].weight.grad, model[3].weight.grad = big[0], big[1]
        functional.mse_loss(model(batch), target).backward()
        model[0].weight.grad, model[3].weight.grad = model[3].weight.grad, model[0].weight.grad
        a = [(big[0] + k).cos() for k in range(5)]
        functional.mse_loss(model(batch), target).backward()
        model[6].weight.grad = model[6].weight.grad.t().contiguous().t()
        big.mul_(0.5)
        torch.autograd.backward(
            [model(batch).sum(), model(batch + 1).mean()], inputs=[model[0].weight, model[6].weight]
        )
    return big, a


@program
def pruned(keep: Keep) -> Any:
    """Pruning by masks, whose weights are made anew before each forward pass."""
    model, (batch, target) = mlp(), pair()
    for k in (0, 3):
        prune.l1_unstructured(model[k], "weight", 0.5)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    keep(model=model, optimizer=optimizer)
    with keep.context():
        losses = train(model, optimizer, batch, target)
        prune.random_unstructured(model[6], "weight", 0.3)
        losses += train(model, optimizer, batch, target, 1)
        prune.remove(model[0], "weight")
    return losses, model(batch)


@program
def array_interface(keep: Keep) -> Any:
    """Memory is handed on by `__array_interface__`, `numpy(force=True)`, `memoryview` and `share_memory_`."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        forced = (a * 1).requires_grad_().numpy(force=True)
        b = [(a + k).cos() for k in range(5)]
        memory: Any = memoryview(np.asarray(a).data)
        c = [(a + k).sin() for k in range(5)]
        memory[0, 0] = 4.0
        array = np.asarray(b[0])
        array[1] = 0
        d = (b[0] @ w).tanh()
        d.share_memory_()
        e = [(d + k).cos() for k in range(5)]
        d.add_(a)
    return a, b, c, d, e, forced, array


@program
def pointers_kept_for_later(keep: Keep) -> Any:
    """A table of pointers to activations is made, and read and written when all of them are old."""
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    with keep.context():
        made = [x @ w]
        for _ in range(5):
            made.append((made[-1] @ w).tanh())
        pointers = [m.data_ptr() for m in made]
        b = [(m + 1).cos() for m in made]
        read = [ctypes.string_at(p, 1024) for p in pointers]
        ctypes.memmove(pointers[0], pointers[5], 4096)
        c = [(m + 1).sin() for m in made]
    return made, b, c, read


@program
def parallel_threads(keep: Keep) -> Any:
    """Two threads train a model each at the same time, while this one computes."""
    models, (batch, target) = [mlp(2), mlp(2)], pair()  # named at the end: threads write them at any time
    failed: list[Exception] = []

    def work(model: Any) -> None:
        torch.set_num_threads(1)
        try:
            train(model, torch.optim.SGD(model.parameters(), 0.05), batch, target)
        except Exception as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    with keep.context():
        threads = [threading.Thread(target=work, args=(m,)) for m in models]
        for thread in threads:
            thread.start()
        a = [batch]
        try:
            for _ in range(6):
                a.append((a[-1] @ batch[:64]).softmax(0))
        finally:
            for thread in threads:
                thread.join()
        if failed:
            raise failed[0]
        b = [m(batch) for m in models]
    return a, b, models


@program
def weight_copies(keep: Keep) -> Any:
    """Copies of weights for a target network, by load_state_dict, copy_ and aliases of `.data`."""
    first, second, (batch, target) = mlp(2), mlp(2), pair()
    alias = nn.Linear(64, 64)
    alias.weight.data = first[0].weight.data
    optimizer = torch.optim.RMSprop(first.parameters(), 1e-3)
    keep(first=first, second=second, alias=alias, optimizer=optimizer)
    made = []
    with keep.context():
        for k in range(3):
            made += train(first, optimizer, batch, target, 1)
            made.append(alias(batch).detach())
            with torch.no_grad():
                made.append(second(batch))
                for p, q in zip(second.parameters(), first.parameters(), strict=True):
                    if k % 2:
                        p.data.copy_(q.data)
                    else:
                        p.mul_(0.5).add_(q, alpha=0.5)
    return made
