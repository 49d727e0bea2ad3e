"""Programs of Python around tensors: branches, containers, copies, exceptions."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import torch
from torch.nn import functional

from edgemem.errors import EdgememError
from tests.torch.remat_programs.parts import mlp, pair
from tests.torch.remat_programs.registry import Keep, program


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
        said: list[Any] = [repr(made[0]), str(made[3]), f"{made[1].mean():.6f}", format(made[2][0, 0], ".4f")]
        said += [torch.equal(made[1], made[2]), torch.allclose(made[3], made[3] + 1e-9), made[0] in made[:1]]
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
        functional.mse_loss(b, target).backward()
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
        weak = weakref.WeakValueDictionary(dict(enumerate(queue)))
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
        def backward(_ctx: Any, _g: Any) -> Any:
            raise ZeroDivisionError

    model, (batch, target) = mlp(), pair()
    keep(model=model)
    said = []
    with keep.context():
        for k in range(4):
            try:
                a = model[:3](batch + k)
                if k == 0:
                    raise KeyError  # noqa: TRY301
                b = Fails.apply(a) if k == 1 else a * 2
                if k == 2:
                    b @ torch.ones(3, 3)
                functional.mse_loss(model[3:](b), target).backward()
            except (KeyError, ZeroDivisionError, RuntimeError) as error:
                if isinstance(error, EdgememError | RuntimeError) and "shapes cannot be multiplied" not in str(error):
                    raise
                said.append(type(error).__name__)
    return a, b, said
