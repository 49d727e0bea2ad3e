"""Hooks on tensors, on gradients that have been accumulated, and on modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.torch.remat_programs.parts import mlp, pair, train
from tests.torch.remat_programs.registry import Keep, program


def _hooked(keep: Keep, hook: Any) -> Any:
    """A step in which `hook` sees the gradients of all activations."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    seen: list[Any] = []
    keep(seen=seen)
    with keep.context():
        x = batch
        for layer in model:
            x = layer(x)
            x.register_hook(lambda g: hook(g, seen))
        loss = functional.mse_loss(x, target)
        loss.backward()
    return loss


@program
def returns_new(keep: Keep) -> Any:
    """A hook that returns a new gradient."""
    return _hooked(keep, lambda g, _: g * 1.5 + g.sign() * 1e-3)


@program
def in_place(keep: Keep) -> Any:
    """A hook that changes the gradient in place and returns nothing."""

    def hook(g: Any, _: Any) -> None:
        g.mul_(0.75).clamp_(-1e-3, 1e-3)

    return _hooked(keep, hook)


@program
def through_numpy(keep: Keep) -> Any:
    """A hook that changes the gradient through its NumPy array."""

    def hook(g: Any, seen: Any) -> None:
        array = g.numpy()
        array *= 0.5
        array[0] = 1e-3
        seen.append(float(array.sum()))

    return _hooked(keep, hook)


@program
def numpy_result(keep: Keep) -> Any:
    """A hook that computes in NumPy and returns a tensor that shares the result."""
    import numpy as np

    return _hooked(keep, lambda g, _: torch.from_numpy(np.tanh(g.numpy()) * np.float32(0.5)))


@program
def keeps_gradients(keep: Keep) -> Any:
    """A hook that keeps gradients, some cloned and some not."""

    def hook(g: Any, seen: Any) -> None:
        seen.append(g if len(seen) % 2 else g.clone())

    return _hooked(keep, hook)


@program
def norms_as_numbers(keep: Keep) -> Any:
    """A hook that decides by the norm of the gradient as a Python number."""

    def hook(g: Any, seen: Any) -> Any:
        norm = g.norm().item()
        seen.append(norm)
        return g / norm if norm > 1e-3 else None

    return _hooked(keep, hook)


@program
def removed_in_hook(keep: Keep) -> Any:
    """A hook that removes itself, and a second backward pass over the same graph."""
    x: Any = torch.randn(64, 64)
    w: Any = torch.randn(64, 64, requires_grad=True)
    keep(w=w)
    with keep.context():
        y = (x @ w).tanh()
        handles: list[Any] = []

        def hook(g: Any) -> Any:
            handles.pop().remove()
            return g * 3

        handles.append(y.register_hook(hook))
        z = (y * y).mean()
        z.backward(retain_graph=True)
        first = w.grad.clone()
        z.backward()
    return first, y, z


@program
def after_accumulation(keep: Keep) -> Any:
    """The optimizer runs in hooks that are called once a gradient is accumulated, and the gradient is set to None."""
    model, (batch, target) = mlp(), pair()
    optimizers = {p: torch.optim.SGD([p], lr=0.05, momentum=0.9) for p in model.parameters()}

    def step(p: Any) -> None:
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    keep(model=model, optimizers=list(optimizers.values()))
    losses = []
    with keep.context():
        for _ in range(3):
            loss = functional.mse_loss(model(batch), target)
            loss.backward()
            losses.append(loss)
    return losses


@program
def after_accumulation_in_place(keep: Keep) -> Any:
    """A hook after accumulation halves the gradient in place by NumPy, on every second parameter by an operator."""
    model, (batch, target) = mlp(), pair()

    def by_numpy(p: Any) -> None:
        array = p.grad.numpy()
        array *= 0.5

    def by_operator(p: Any) -> None:
        p.grad.mul_(0.5)

    for k, p in enumerate(model.parameters()):
        p.register_post_accumulate_grad_hook(by_numpy if k % 2 else by_operator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    keep(model=model, optimizer=optimizer)
    with keep.context():
        return train(model, optimizer, batch, target)


@program
def full_backward_hooks(keep: Keep) -> Any:
    """Full backward hooks of modules that scale gradients, and pre-hooks that keep them."""
    model, (batch, target) = mlp(), pair()
    kept: list[Any] = []
    keep(model=model, kept=kept)
    for layer in model:
        layer.register_full_backward_hook(lambda _m, given, _o: tuple(g if g is None else g * 0.9 for g in given))
        layer.register_full_backward_pre_hook(lambda _m, made: kept.append(made[0]))
    with keep.context():
        loss = functional.mse_loss(model(batch.requires_grad_()), target)
        loss.backward()
    return loss, batch


@program
def forward_hooks(keep: Keep) -> Any:
    """Forward hooks that keep what goes in, replace what comes out, and change it in place."""
    model, (batch, target) = mlp(), pair()
    features: dict[str, Any] = {}
    keep(model=model, features=features)
    model[0].register_forward_hook(lambda _m, given, made: features.update(given=given[0], made=made))
    model[1].register_forward_hook(lambda _m, _g, made: made * 1.25)
    model[5].register_forward_hook(lambda _m, _g, made: made.add_(0.125))
    model[6].register_forward_pre_hook(lambda _m, given: (given[0].roll(1, 0),))
    with keep.context():
        loss = functional.mse_loss(model(batch), target) + features["made"].square().mean()
        loss.backward()
    return loss


@program
def retained_gradients(keep: Keep) -> Any:
    """Gradients of activations are retained, read, and changed afterwards."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        x, activations = batch, []
        for layer in model:
            x = layer(x)
            x.retain_grad()
            activations.append(x)
        keep(activations=activations)
        functional.mse_loss(x, target).backward()
        activations[2].grad.numpy()[:] *= 2
        scale = sum(a.grad.abs().sum() for a in activations)
        activations[1].grad.div_(scale)
    return scale


@program
def multi_gradient_hook(keep: Keep) -> Any:
    """One hook for several tensors, which keeps all their gradients."""
    from torch.autograd.graph import register_multi_grad_hook

    model, (batch, target) = mlp(), pair()
    kept: list[Any] = []
    keep(model=model, kept=kept)
    with keep.context():
        a = model[0](batch)
        b, c = a.sin(), a.cos()
        register_multi_grad_hook((b, c), lambda grads: kept.extend(g.clone() for g in grads))
        loss = functional.mse_loss(model[1:](b * c), target)
        loss.backward()
    return loss


@program
def node_hooks(keep: Keep) -> Any:
    """Hooks and pre-hooks of nodes of the graph."""
    model, (batch, target) = mlp(), pair()
    kept: list[Any] = []
    keep(model=model, kept=kept)
    with keep.context():
        x = model[:4](batch)
        x.grad_fn.register_prehook(lambda grads: tuple(g * 2 for g in grads))
        y = model[4:](x)
        y.grad_fn.register_hook(lambda given, _made: kept.append(given[0]))
        loss = functional.mse_loss(y, target)
        loss.backward()
    return loss


@program
def hook_with_graph(keep: Keep) -> Any:
    """A hook computes with other activations of the forward pass, which may have been evicted."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:3](batch)
        b = model[3:6](a)
        c = model[6:](b)
        b.register_hook(lambda g: g + 1e-3 * a.detach() * c.detach().tanh())
        loss = functional.mse_loss(c, target)
        loss.backward()
    return loss, a, b, c


@program
def raises_in_hook(keep: Keep) -> Any:
    """A hook throws in the middle of a backward pass; what there is by then stays, and a second pass works."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:5](batch)

        def fail(_: Any) -> Any:
            raise KeyError("of the user")

        handle = a.register_hook(fail)
        b = model[5:](a)
        loss = functional.mse_loss(b, target)
        try:
            loss.backward(retain_graph=True)
        except KeyError:
            handle.remove()
        loss.backward()
    return loss, a, b


@program
def global_module_hooks(keep: Keep) -> Any:
    """Hooks of all modules, which replace what comes out."""
    model, (batch, target) = nn.Sequential(mlp(2), mlp(1)), pair()
    keep(model=model)
    handle = nn.modules.module.register_module_forward_hook(
        lambda m, _g, made: made.clamp(-2, 2) if isinstance(m, nn.Linear) else None
    )
    try:
        with keep.context():
            loss = functional.mse_loss(model(batch), target)
            loss.backward()
    finally:
        handle.remove()
    return loss
