"""Contexts that are opened and left in all ways, and the modes of gradients in them."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from edgemem.errors import EdgememError
from tests.torch.remat_programs.parts import mlp, pair, train
from tests.torch.remat_programs.registry import Keep, program


@program
def too_large_request(keep: Keep) -> Any:
    """A request that no machine can serve is refused, and the program goes on."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:4](batch)
        b = model[4:](a)
        with contextlib.suppress(RuntimeError, EdgememError):
            torch.empty(1 << 50)
        c = a.detach() * 2 + b.detach()
        functional.mse_loss(b, target).backward()
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
            raise KeyError  # noqa: TRY301
    except KeyError:
        a = sum(m.detach() for m in made)
    functional.mse_loss(made[-1], target).backward()
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
        loss = functional.mse_loss(c, target)
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
        functional.mse_loss(model[6:](b), target + c.clone()).backward()
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
            functional.mse_loss(model(d), target).backward()
    return a, b, c, d


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
            loss = functional.softplus(-judges(real)).mean() + functional.softplus(judges(made.detach())).mean()
            loss.backward()
            second.step()
            first.zero_grad()
            judges.requires_grad_(False)
            functional.softplus(-judges(made)).mean().backward()
            judges.requires_grad_(True)
            first.step()
            said.append(loss.item())
    return made, said
