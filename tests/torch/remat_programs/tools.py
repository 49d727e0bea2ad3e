"""Threads, profilers, compilers and files."""

from __future__ import annotations

import io
import threading
from typing import Any

import torch
from torch.nn import functional

from tests.torch.remat_programs.parts import mlp, pair, train
from tests.torch.remat_programs.registry import Keep, program


def _in_thread(work: Any) -> Any:
    """The result of `work` on another thread, or what it raises."""
    ended: list[Any] = []

    def run() -> None:
        torch.set_num_threads(1)  # a thread has its own number, and sums depend on it
        try:
            ended.append((work(), None))
        except Exception as error:  # noqa: BLE001 - raised again below
            ended.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = ended[0]
    if error is not None:
        raise error
    return result


@program
def anomalies(keep: Keep) -> Any:
    """Anomaly detection is on, finds a NaN once, and a step goes through after that."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    said = False
    with keep.context(), torch.autograd.detect_anomaly():
        a = model[:4](batch)
        try:
            (a * 0).sqrt().mul(0).sum().backward()
        except RuntimeError as error:
            said = "returned nan" in str(error)
        b = model[4:](model[:4](batch))
        functional.mse_loss(b, target).backward()
    return a, b, said


@program
def profiled(keep: Keep) -> Any:
    """A profiler with shapes and memory watches the step."""
    model, (batch, target) = mlp(), pair()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    keep(model=model, optimizer=optimizer)
    watch = torch.profiler.profile(record_shapes=True, profile_memory=True)
    with keep.context(), watch, torch.profiler.record_function("step"):
        return train(model, optimizer, batch, target)


@program
def backward_on_thread(keep: Keep) -> Any:
    """Another thread runs the backward pass of what this one computed."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:4](batch)
        loss = functional.mse_loss(model[4:](a), target)
        _in_thread(loss.backward)
        b = a.detach() * 2
    return a, b, loss


@program
def read_on_thread(keep: Keep) -> Any:
    """Another thread reads and writes activations: by operators, by NumPy, by item."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        keep(a=a)
        b = [(a + k).cos() for k in range(6)]
        said = [_in_thread(lambda: a.sum().item()), _in_thread(lambda: bytes(a.numpy()))]
        c = _in_thread(lambda: a @ w)
        _in_thread(lambda: a.mul_(2))
        d = [(a + k).sin() for k in range(6)]
        e = c + d[0] + b[0]
    return a, b, c, d, e, said


@program
def forward_on_threads(keep: Keep) -> Any:
    """Each part of a model runs on a thread of its own, one after the other; the result is trained."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:3](batch)
        parts = [a]
        for k in (3, 5, 7):
            parts.append(_in_thread(lambda k=k: model[k : k + 2](parts[-1])))
        b = parts[-1] + a
        functional.mse_loss(b, target).backward()
    return a, b, parts


@program
def reentrant_backward(keep: Keep) -> Any:
    """A hook runs a backward pass of its own, deep enough that autograd takes other threads."""
    model, (batch, target) = mlp(2), pair(32)
    keep(model=model)

    class Deep(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = Deep.apply(ctx.x.sin(), depth - 1) if depth else ctx.x.cos()
            return ctx.y.detach()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            ctx.y.backward(g)
            return ctx.x.grad, None

    with keep.context():
        a = Deep.apply(model(batch), 70)
        functional.mse_loss(a, target).backward()
    return a


@program
def loaded_by_workers(keep: Keep) -> Any:
    """A DataLoader without processes collates batches inside the context."""
    from torch.utils.data import DataLoader, TensorDataset

    model, (batch, target) = mlp(), pair()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    keep(model=model, optimizer=optimizer)
    data = DataLoader(TensorDataset(batch, target), batch_size=64, shuffle=True)
    losses = []
    with keep.context():
        for _ in range(2):
            for x, y in data:
                losses += train(model, optimizer, x, y, 1)
    return losses


@program
def compiled(keep: Keep) -> Any:
    """Functions through torch.compile, with backends that run the graph as it is."""
    model, (batch, target) = mlp(2), pair()
    keep(model=model)
    torch.compiler.reset()
    first = torch.compile(model, backend="eager")
    second = torch.compile(lambda a: (a.sin() @ a.t()).cos() + 1, backend="aot_eager")
    with keep.context():
        a = first(batch)
        b = second(a.detach())
        c = [(a.detach() + k).cos() for k in range(5)]
        functional.mse_loss(a, target).backward()
    return a, b, c


@program
def scripted(keep: Keep) -> Any:
    """Traced and scripted functions."""
    w, x = torch.randn(64, 64, requires_grad=True), torch.randn(128, 64)
    keep(w=w)

    def f(a: Any, b: Any) -> Any:
        return (a @ b).tanh().relu() + a.sum()

    traced = torch.jit.trace(f, (x, w.detach()))
    with keep.context():
        a = traced(x, w)
        b = traced(a, w)
        c = [(b.detach() + k).cos() for k in range(5)]
        (a * b).mean().backward()
    return a, b, c


@program
def saved_and_loaded(keep: Keep) -> Any:
    """A checkpoint file is written and read in the middle, and optimizers go on from it."""
    model, (batch, target) = mlp(), pair()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    keep(model=model, optimizer=optimizer)
    with keep.context():
        losses = train(model, optimizer, batch, target, 1)
        file = io.BytesIO()
        torch.save([model.state_dict(), optimizer.state_dict(), losses], file)
        train(model, optimizer, batch, target, 1)
        file.seek(0)
        states = torch.load(file)
        model.load_state_dict(states[0], assign=True)
        other = torch.optim.AdamW(model.parameters(), 1e-2)
        other.load_state_dict(states[1])
        keep(optimizer=other)
        losses += train(model, other, batch, target, 1)
    return losses, states[2]
