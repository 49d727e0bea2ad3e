"""Writes in place, and views of all kinds."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.torch.remat_programs.parts import conv_net, mlp, pair, train
from tests.torch.remat_programs.registry import Keep, program


def _many(x: Any, n: int = 5) -> list[Any]:
    """Values that take memory, so that others are evicted."""
    return [(x * (k + 1)).cos() for k in range(n)]


@program
def chain(keep: Keep) -> Any:
    """A chain of writes in place, whose intermediate values are cloned."""
    x = torch.randn(128, 64)
    with keep.context():
        a = x * 2
        kept = [a.clone()]
        for write in (a.sin_, a.exp_, a.neg_, a.tanh_, a.abs_, a.sqrt_, a.round_):
            write()
            kept.append(a.clone())
        b = _many(a)
        a.add_(b[0]).mul_(b[1]).addcmul_(b[2], b[3], value=0.5).lerp_(b[4], 0.25)
    return a, kept, b


@program
def views_of_views(keep: Keep) -> Any:
    """Views of views are written, and the base is read in between."""
    x = torch.randn(128, 64)
    with keep.context():
        a = x.sin()
        b = a.view(64, 128).t()[3:9]
        c = b.narrow(1, 2, 8).unsqueeze(0).expand(2, 6, 8)[0]
        d = _many(a)
        c.mul_(3)
        e = a @ a.t()
        a.view(-1).as_strided((16, 16), (65, 2), 5).copy_(e[:16, :16])
        f = _many(b)
        a.diagonal().zero_()
        b.select(0, 1).fill_(9)
        torch.flip(a, [0])[2:4] += 1
        g = a.unfold(1, 8, 4).sum(-1)
    return a, b, c, d, e, f, g


@program
def splits(keep: Keep) -> Any:
    """Parts of split, chunk, unbind and movedim are written and read."""
    x = torch.randn(96, 64)
    with keep.context():
        a = x.exp()
        p, q, r = a.chunk(3)
        rows = a.unbind(1)
        s, t = a.split([16, 48], 1)
        b = _many(a)
        p.add_(q)
        rows[5].zero_()
        s.copy_(t[:, :16])
        r.t().mul_(2)
        a.unflatten(0, (3, 32)).movedim(0, 2)[..., 1].neg_()
        c = torch.stack(rows, 1) + torch.cat([p, q, r]) + a
        d = _many(c)
    return a, b, c, d


@program
def indexed_writes(keep: Keep) -> Any:
    """index_put_, scatter_, masked_fill_, index_add_, index_copy_ and assignments with masks."""
    x, rows = torch.randn(128, 64), torch.randperm(128)[:32]
    with keep.context():
        a = x.sin()
        b = _many(a)
        a[rows] = b[0][:32]
        a[a > 0.5] = 0.5
        a.masked_fill_(b[1] < 0, -1)
        a.index_add_(0, rows, b[2][:32], alpha=2)
        a.index_copy_(0, rows[:8], b[3][:8])
        a.scatter_(1, b[4].argsort(1)[:, :8], b[0][:, :8])
        a.scatter_add_(0, torch.randint(0, 128, (16, 64)), b[1][:16])
        a.scatter_reduce_(1, torch.randint(0, 64, (128, 16)), b[2][:, :16], "amax")
        a.index_put_((rows, rows % 64), torch.tensor(3.0), accumulate=True)
        a.masked_scatter_(b[3] > 0.9, b[4])
        a.put_(rows, torch.arange(32.0)).index_fill_(1, rows % 64, 0.25)
        c = _many(a)
        d = a[rows, :][:, rows % 64]
    return a, b, c, d


@program
def out_arguments(keep: Keep) -> Any:
    """out= with right sizes, with empty tensors, with views, and with several results."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a, b = torch.empty(128, 64), torch.empty(0)
        torch.mm(x, w, out=a)
        torch.sin(a, out=b)
        whole = torch.zeros(256, 64)
        torch.add(a, b, out=whole[64:192])
        values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.topk(whole, 8, out=(values, places))
        c = _many(whole)
        torch.cat([a, b], out=whole)
        torch.where(whole > 0, whole, torch.zeros(()), out=whole)
        torch.cumsum(a, 0, out=a)
        highest = torch.max(a, 1)
        d = _many(a)
    return a, b, whole, values, places, c, d, highest.values, highest.indices


@program
def saved_then_written_elsewhere(keep: Keep) -> Any:
    """What backward needs is kept by autograd, while detached copies of it are written."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:3](batch)
        copy = a.detach().clone()
        copy.mul_(100)
        b = model[3:](a)
        copy.add_(b.detach())
        functional.mse_loss(b, target).backward()
    return a, b, copy


@program
def written_through_detach(keep: Keep) -> Any:
    """An activation is written through `detach()` where backward does not need it."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[0](batch) + 1
        a.detach().clamp_(-1, 1)
        b = model[3](a * 1.0)
        a.detach().numpy()[0] = 0
        c = _many(a)
        functional.mse_loss(b + c[0], target).backward()
    return a, b, c


@program
def version_error(keep: Keep) -> Any:
    """Autograd refuses a backward pass through a value that was written; the program goes on."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[0](batch).tanh()
        b = model[3](a)
        a.add_(1)
        try:
            functional.mse_loss(b, target).backward()
        except RuntimeError as error:
            said = "modified by an inplace operation" in str(error)
        c = model(batch)
        functional.mse_loss(c, target).backward()
    return a, b, c, said


@program
def leaf_views_under_no_grad(keep: Keep) -> Any:
    """Views of parameters are written under no_grad, and initialisations run again in the middle."""
    model, (batch, target) = mlp(), pair()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    keep(model=model, optimizer=optimizer)
    with keep.context():
        losses = train(model, optimizer, batch, target, 1)
        a = model(batch)
        with torch.no_grad():
            model[0].weight[3:5] = 0
            model[3].weight.view(-1)[::7].mul_(2)
            nn.init.xavier_uniform_(model[6].weight)
            model[0].bias.copy_(a.mean(0))
        b = model(batch)
        losses += train(model, optimizer, batch, target, 2)
    return losses, a, b


@program
def relu_after_convolution(keep: Keep) -> Any:
    """ReLU in place on results of convolutions and batch norms, with residuals added in place."""
    model, x = conv_net(), torch.randn(4, 3, 16, 16)
    keep(model=model)
    with keep.context():
        y = model[0](x)
        z = model[1:4](y)
        z += y
        z = functional.relu_(z)
        out = model[4:](z)
        loss = functional.hardtanh_(out).square().mean()
        loss.backward()
    return loss, y, z, out


@program
def in_place_on_views_with_graph(keep: Keep) -> Any:
    """Writes to views of an activation that autograd follows (copy slices)."""
    w = torch.randn(64, 64, requires_grad=True)
    x = torch.randn(128, 64)
    keep(w=w)
    with keep.context():
        a = x @ w
        a[:, ::2] *= 2
        a[5:20] = a[25:40].sigmoid()
        a.t()[3].add_(1)
        b = a.clone()
        b.view(64, 128)[1].zero_()
        c = (b @ w).exp()
        d = c * 1
        d.narrow(0, 3, 4).mul_(a[:4])
        d.square().mean().backward()
    return a, b, c, d


@program
def copies_between_types(keep: Keep) -> Any:
    """copy_ between types and layouts, `to` that shares and `to` that copies, bit views."""
    x = torch.randn(128, 64)
    with keep.context():
        a = x.sin()
        half, whole = torch.empty(128, 64, dtype=torch.bfloat16), torch.empty(64, 128, dtype=torch.int32)
        half.copy_(a)
        whole.copy_(a.t() * 100)
        same, other = a.to(torch.float32), a.to(torch.float64)
        bits = a.view(torch.int32)
        b = _many(a)
        same.mul_(2)
        bits.bitwise_and_(-256)
        half.view(torch.int16)[0] = 0
        c = half.float() + whole.t() + other.float() + a
        d = _many(c)
    return a, half, whole, same, other, b, c, d


@program
def swapped(keep: Keep) -> Any:
    """Names are swapped, tensors rebound in dicts, and `swap_tensors` exchanges two of them."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a, b = x @ w, (x @ w).exp()
        a, b = b, a
        state = {"a": a, "b": b}
        c = _many(a)
        torch.utils.swap_tensors(a, b)
        a.mul_(2)
        state["b"].neg_()
        d = _many(state["a"])
        a, b = b - 1, a
        e = _many(a + b)
    return a, b, c, d, e, state


@program
def foreach(keep: Keep) -> Any:
    """`_foreach` functions in place on lists, with results of others as arguments."""
    x = torch.randn(64, 64)
    with keep.context():
        first = [x * k for k in range(1, 6)]
        second = torch._foreach_exp(first)
        third = torch._foreach_add(first, second, alpha=0.5)
        torch._foreach_mul_(first, 0.5)
        torch._foreach_addcdiv_(first, third, second, value=0.1)
        norms = torch._foreach_norm(first)
        torch._foreach_div_(third, norms)
        torch._foreach_copy_(second, third)
        torch._foreach_lerp_(second, first, 0.3)
        torch._foreach_zero_(first[:2])
        torch._foreach_clamp_max_(second, 0.5)
    return first, second, third, norms


@program
def written_in_a_loop(keep: Keep) -> Any:
    """A cache of keys and values is filled row by row, and read by views of growing length."""
    w = [torch.randn(64, 64) * 0.1 for _ in range(3)]
    x = torch.randn(1, 64)
    with keep.context():
        keys, values = torch.zeros(64, 64), torch.zeros(64, 64)
        keep(keys=keys, values=values)
        read = []
        for k in range(8):
            keys[k], values[k] = (x @ w[0])[0], (x @ w[1])[0]
            weights = (x @ w[2] @ keys[: k + 1].t()).softmax(-1)
            x = weights @ values[: k + 1] + x
            read.append(keys @ values.t())
    return read, x


@program
def self_overlapping(keep: Keep) -> Any:
    """A roll by hand, within one buffer, and accumulations into its own views."""
    with keep.context():
        history = torch.arange(32768.0).view(32, 1024)
        sums = []
        for k in range(6):
            history[:-1] = history[1:].clone()
            history[-1] = torch.sin(history[0] + k)
            history[2:4] += history[:2]
            sums.append(history * 2)
    return history, sums
