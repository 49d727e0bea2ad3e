"""Programs of Python around tensors: branches, containers, threads, exceptions, several contexts."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import threading
import weakref
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from edgemem.errors import EdgememError
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
def branches(keep: Keep) -> Any:
    """Branches by item, tolist, bool, nonzero, masked_select and shapes that depend on values."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a, said = x, []
        for k in range(6):
            a = (a @ w).sin()
            said.append(a.sum().item())
            if a.mean() > 0 or bool((a > 0.9).any()):
                a = a + a[a.nonzero()[:, 0].unique()[0]]
            b = a.masked_select(a > k / 10)
            a = a * b.mean() + len(b) % 7
            said += a[0, :3].tolist()
        c = x[(a[:, 0] > a[:, 1])]
    return a, b, c, said


@program
def printed(keep: Keep) -> Any:
    """Tensors are printed, formatted and compared in the middle, old ones among them."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        made = [x @ w]
        for _ in range(6):
            made.append((made[-1] @ w).softmax(1))
        said = [repr(made[0]), str(made[3]), f"{made[1].mean():.6f}", format(made[2][0, 0], ".4f")]
        said += [torch.equal(made[1], made[2]), torch.allclose(made[3], made[3] + 1e-9), made[0] in [made[0]]]
        said += [list(map(float, made[4][0, :4])), [float(v) for v in made[1][0]], int(made[2].argmax()), len(made[0])]
        said.append(repr(dict(enumerate(made[5:]))))
    return made, said


@program
def copied(keep: Keep) -> Any:
    """deepcopy, copy and pickle of tensors, of views that share memory, and of a model with gradients."""
    model, (batch, target) = mlp(2), pair()
    keep(model=model)
    with keep.context():
        a = model[:3](batch).detach()
        b = model(batch)
        F.mse_loss(b, target).backward()
        both = copy.deepcopy({"a": a, "view": a[3:]})
        both["a"].mul_(2)
        other = copy.deepcopy(model)
        again = pickle.loads(pickle.dumps((a, a.t())))
        again[0].add_(1)
        shallow = copy.copy(a)
        shallow[0] = 0
        c = other(batch) + b
    return a, b, c, both, list(again), other, [p.grad for p in other.parameters()]


@program
def containers(keep: Keep) -> Any:
    """Tensors live in lists, dicts, closures, weak references and generators over many steps."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)

    def produce(a: Any) -> Any:
        while True:
            a = (a @ w).tanh()
            yield a

    with keep.context():
        source = produce(x)
        queue = [next(source) for _ in range(3)]
        closures = [lambda t, a=a: t * a for a in queue]
        weak = weakref.WeakValueDictionary({k: a for k, a in enumerate(queue)})
        cache: dict[Any, Any] = {}
        for k in range(4):
            queue.append(next(source))
            cache[k] = queue.pop(0)
            cache.pop(k - 2, None)
        gone = sorted(weak)
        made = [f(x) for f in closures] + [weak[k].sin() for k in gone]
        source.close()
    return queue, cache, made, gone


@program
def collected(keep: Keep) -> Any:
    """Cycles with tensors in them are collected in the middle, and finalizers read tensors."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    said = []

    class Node:
        def __init__(self, value: Any) -> None:
            self.value, self.me = value, self

        def __del__(self) -> None:
            said.append(round(self.value.sum().item(), 3))

    with keep.context():
        a = x
        for _ in range(4):
            a = (a @ w).softmax(0)
            Node(a)
            b = a * 2
            del b
            gc.collect()
        c = (a + x).cos()
    return a, c, said


@program
def user_exceptions(keep: Keep) -> Any:
    """Exceptions of the user are thrown in forward, in a Function, in backward, and in the loop."""

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ZeroDivisionError

    model, (batch, target) = mlp(), pair()
    keep(model=model)
    said = []
    with keep.context():
        for k in range(4):
            try:
                a = model[:3](batch + k)
                if k == 0:
                    raise KeyError
                b = Fails.apply(a) if k == 1 else a * 2
                if k == 2:
                    b @ torch.ones(3, 3)
                F.mse_loss(model[3:](b), target).backward()
            except (KeyError, ZeroDivisionError, RuntimeError) as error:
                assert not isinstance(error, EdgememError)
                if k == 2 and "shapes cannot be multiplied" not in str(error):
                    raise
                said.append(type(error).__name__)
    return a, b, said


@program
def too_large_request(keep: Keep) -> Any:
    """A request that no machine can serve is refused, and the program goes on."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:4](batch)
        b = model[4:](a)
        try:
            torch.empty(1 << 50)
        except (RuntimeError, EdgememError):
            pass
        c = a.detach() * 2 + b.detach()
        F.mse_loss(b, target).backward()
    return a, b, c


@program
def left_by_exception(keep: Keep) -> Any:
    """An exception leaves the context; tensors of the context are used outside, then in another context."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    made = []
    try:
        with keep.context():
            for layer in model:
                batch = layer(batch)
                made.append(batch)
            raise KeyError
    except KeyError:
        a = sum(m.detach() for m in made)
    F.mse_loss(made[-1], target).backward()
    with keep.context():
        b = [m.detach() + a for m in made]
        c = model(b[-1])
    return made, a, b, c


@program
def several_contexts(keep: Keep) -> Any:
    """Contexts are opened one after another, and the graph goes from one to the next."""
    model, (batch, target) = mlp(), pair()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    keep(model=model, optimizer=optimizer)
    with keep.context():
        a = model[:3](batch)
        b = a.detach()[3:].t()
    outside = b * 2
    a.detach()[0] = 1
    with keep.context():
        c = model[3:](a)
        loss = F.mse_loss(c, target)
    loss.backward()
    with keep.context():
        optimizer.step()
        losses = train(model, optimizer, batch, target)
        b.mul_(2)
    return a, b, c, outside, losses


@program
def made_outside(keep: Keep) -> Any:
    """Tensors made outside are written inside, by views and in place, and read in between."""
    x, w, counts = torch.randn(128, 64), torch.randn(64, 64), torch.zeros(64)
    x_view, seen = x.t()[3:40], x.clone()
    with keep.context():
        a = (x @ w).tanh()
        x_view.mul_(2)
        b = (x @ w).tanh()
        counts += b.sum(0)
        x[a > 0] = 0
        c = [(x + k).cos() for k in range(4)]
        seen.copy_(a)
        a.copy_(x)
        d = a + b
        x.resize_(64, 64)
        e = d[:64] * x
    return a, b, c, d, e, x, counts, seen


@program
def gradient_modes(keep: Keep) -> Any:
    """no_grad, enable_grad, set_grad_enabled and inference_mode, one within another."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        with torch.no_grad():
            a = model[:3](batch)
            with torch.enable_grad():
                b = model[3:6](a)
        with torch.inference_mode():
            c = model(batch)
            c.mul_(2)
            d = c[3:].t().clone()
        with torch.set_grad_enabled(False):
            e = model[6:](b)
            f = e + c
        F.mse_loss(model[6:](b), target + c.clone()).backward()
    return a, b, c, d, e, f


@program
def context_within_modes(keep: Keep) -> Any:
    """The context is opened within inference_mode and within no_grad."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with torch.inference_mode(), keep.context():
        a = model(batch)
        b = [(a + k).cos() for k in range(4)]
        a[0] = 0
        c = a @ b[0].t()
    with torch.no_grad(), keep.context():
        d = model(batch)
        with torch.enable_grad():
            F.mse_loss(model(d), target).backward()
    return a, b, c, d


@program
def anomalies(keep: Keep) -> Any:
    """Anomaly detection is on, finds a NaN once, and a step goes through after that."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    said = ""
    with keep.context(), torch.autograd.detect_anomaly():
        a = model[:4](batch)
        try:
            (a * 0).sqrt().mul(0).sum().backward()
        except RuntimeError as error:
            said = "returned nan" in str(error)
        b = model[4:](model[:4](batch))
        F.mse_loss(b, target).backward()
    return a, b, said


@program
def profiled(keep: Keep) -> Any:
    """A profiler with shapes and memory watches the step."""
    model, (batch, target) = mlp(), pair()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    keep(model=model, optimizer=optimizer)
    with keep.context(), torch.profiler.profile(record_shapes=True, profile_memory=True):
        with torch.profiler.record_function("step"):
            return train(model, optimizer, batch, target)


@program
def backward_on_thread(keep: Keep) -> Any:
    """Another thread runs the backward pass of what this one computed."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:4](batch)
        loss = F.mse_loss(model[4:](a), target)
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
        F.mse_loss(b, target).backward()
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
        F.mse_loss(a, target).backward()
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
        F.mse_loss(a, target).backward()
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
def several_models(keep: Keep) -> Any:
    """Two networks play against each other, with gradients switched off for each in turn."""
    makes, judges = mlp(2), nn.Sequential(mlp(2), nn.Linear(64, 1))
    first = torch.optim.Adam(makes.parameters(), 1e-3)
    second = torch.optim.RMSprop(judges.parameters(), 1e-3)
    keep(makes=makes, judges=judges, optimizers=[first, second])
    real, _ = pair()
    said = []
    with keep.context():
        for _ in range(2):
            made = makes(torch.randn(128, 64))
            second.zero_grad()
            loss = F.softplus(-judges(real)).mean() + F.softplus(judges(made.detach())).mean()
            loss.backward()
            second.step()
            first.zero_grad()
            judges.requires_grad_(False)
            F.softplus(-judges(made)).mean().backward()
            judges.requires_grad_(True)
            first.step()
            said.append(loss.item())
    return made, said


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
