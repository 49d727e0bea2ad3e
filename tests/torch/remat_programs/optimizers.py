"""Optimizers and what is done between their steps."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.nn import functional

from tests.torch.remat_programs.parts import mlp, pair, train
from tests.torch.remat_programs.registry import Keep, program


def _trained(keep: Keep, make: Any, steps: int = 3) -> Any:
    """Steps of training with the optimizer that `make` makes of the parameters."""
    model, (batch, target) = mlp(), pair()
    optimizer = make(model.parameters())
    keep(model=model, optimizer=optimizer)
    with keep.context():
        return train(model, optimizer, batch, target, steps)


@program
def sgd(keep: Keep) -> Any:
    """SGD with momentum, Nesterov, weight decay, one tensor at a time."""
    make = lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01, foreach=False)  # noqa: E731
    return _trained(keep, make)


@program
def sgd_foreach(keep: Keep) -> Any:
    """SGD over lists of tensors, maximizing."""
    return _trained(keep, lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, foreach=True, maximize=True))


@program
def sgd_fused(keep: Keep) -> Any:
    """SGD in one kernel on the CPU."""
    return _trained(keep, lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, fused=True))


@program
def adam(keep: Keep) -> Any:
    """Adam with AMSGrad, one tensor at a time."""
    return _trained(keep, lambda p: torch.optim.Adam(p, 1e-2, amsgrad=True, foreach=False))


@program
def adam_foreach(keep: Keep) -> Any:
    """Adam over lists of tensors, then one by one with a rate that is a tensor."""
    model, (batch, target) = mlp(), pair()
    first = torch.optim.Adam(model.parameters(), 1e-2, foreach=True, capturable=False)
    second = torch.optim.Adam(model.parameters(), torch.tensor(1e-2), foreach=False)
    keep(model=model, optimizers=[first, second])
    with keep.context():
        return train(model, first, batch, target) + train(model, second, batch, target)


@program
def adamw_fused(keep: Keep) -> Any:
    """AdamW in one kernel on the CPU."""
    return _trained(keep, lambda p: torch.optim.AdamW(p, 1e-2, fused=True))


@program
def adagrad_and_adamax(keep: Keep) -> Any:
    """Adagrad, fused Adagrad, Adamax and Adadelta, each on a part of one model."""
    model, (batch, target) = mlp(4, norm=False), pair()
    optimizers = [
        torch.optim.Adagrad(model[0].parameters(), 0.01),
        torch.optim.Adagrad(model[2].parameters(), 0.01, fused=True),
        torch.optim.Adamax(model[4].parameters(), 0.01, foreach=True),
        torch.optim.Adadelta(model[6].parameters(), 0.5),
    ]
    keep(model=model, optimizers=optimizers)
    losses = []
    with keep.context():
        for _ in range(3):
            loss = functional.mse_loss(model(batch), target)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss)
    return losses


@program
def rmsprop(keep: Keep) -> Any:
    """RMSprop, centered and with momentum."""
    return _trained(keep, lambda p: torch.optim.RMSprop(p, 1e-3, centered=True, momentum=0.5))


@program
def nadam_and_radam(keep: Keep) -> Any:
    """NAdam over lists and RAdam one by one take turns on the same parameters."""
    model, (batch, target) = mlp(), pair()
    optimizers = [
        torch.optim.NAdam(model.parameters(), 1e-3, foreach=True),
        torch.optim.RAdam(model.parameters(), 1e-3, foreach=False),
        torch.optim.ASGD(model.parameters(), 1e-3),
    ]
    keep(model=model, optimizers=optimizers)
    with keep.context():
        return [train(model, o, batch, target, 2) for o in optimizers]


@program
def lbfgs(keep: Keep) -> Any:
    """LBFGS with a line search, which calls the closure many times."""
    model, (batch, target) = mlp(2), pair()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    keep(model=model)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = functional.mse_loss(model(batch), target)
        loss.backward()
        return loss

    with keep.context():
        return [optimizer.step(closure) for _ in range(2)]


@program
def rprop_and_closure(keep: Keep) -> Any:
    """Rprop with a closure, parameters in groups of different rates that change between steps."""
    model, (batch, target) = mlp(), pair()
    groups = [{"params": model[:3].parameters(), "lr": 0.01}, {"params": model[3:].parameters()}]
    optimizer = torch.optim.Rprop(groups, lr=0.001)
    keep(model=model, optimizer=optimizer)

    def closure() -> Any:
        optimizer.zero_grad(set_to_none=False)
        loss = functional.mse_loss(model(batch), target)
        loss.backward()
        return loss

    with keep.context():
        losses = []
        for _ in range(3):
            losses.append(optimizer.step(closure))
            optimizer.param_groups[0]["lr"] *= 0.5
    return losses


@program
def clipped_and_accumulated(keep: Keep) -> Any:
    """Gradients of several batches are accumulated and clipped by norm and by value, and kept as zeros."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    keep(model=model, optimizer=optimizer)
    batches = [pair() for _ in range(4)]
    norms = []
    with keep.context():
        for k, (batch, target) in enumerate(batches):
            (functional.mse_loss(model(batch), target) / 2).backward()
            if k % 2:
                norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=bool(k & 2)))
                torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
    return norms


@program
def moving_average(keep: Keep) -> Any:
    """An average of the parameters is updated in place after every step, by hand and by AveragedModel."""
    model, (batch, target) = mlp(), pair()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    average = copy.deepcopy(model).requires_grad_(False)
    swa = torch.optim.swa_utils.AveragedModel(model)
    keep(model=model, average=average, swa=swa)
    losses = []
    with keep.context():
        for _ in range(3):
            losses += train(model, optimizer, batch, target, 1)
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters(), strict=True):
                    a.lerp_(p, 0.1)
            swa.update_parameters(model)
        outputs = [average(batch), swa(batch), model(batch)]
    return losses, outputs


@program
def state_loaded_in_the_middle(keep: Keep) -> Any:
    """States of model and optimizer are copied, and taken up again after steps that turn out bad."""
    model, (batch, target) = mlp(), pair()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    keep(model=model, optimizer=optimizer)
    with keep.context():
        losses = train(model, optimizer, batch, target, 1)
        before = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
        shared = model.state_dict()
        losses += train(model, optimizer, batch, target, 1)
        out = model(batch)
        with torch.no_grad():
            for name, value in shared.items():
                value.copy_(before[0][name])
        optimizer.load_state_dict(before[1])
        losses += train(model, optimizer, batch, target, 1)
        model.load_state_dict({name: value * 0.5 for name, value in before[0].items()}, assign=True)
        losses += train(model, optimizer, batch, target, 1)
    return losses, out, shared


@program
def optimizer_by_hand(keep: Keep) -> Any:
    """Parameters are updated by `.data`, by `sub_` and by assignment of new parameters."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    losses = []
    with keep.context():
        for k in range(3):
            loss = functional.mse_loss(model(batch), target)
            for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True):
                if k == 0:
                    p.data -= 0.05 * g
                elif k == 1:
                    with torch.no_grad():
                        p.sub_(g, alpha=0.05)
                else:
                    p.data = p.data - 0.05 * g
            losses.append(loss)
    return losses


@program
def flat_parameters(keep: Keep) -> Any:
    """All parameters and gradients are views of two flat buffers, which are updated by one operator each."""
    model, (batch, target) = mlp(), pair()
    sizes = [p.numel() for p in model.parameters()]
    flat = torch.cat([p.detach().view(-1) for p in model.parameters()])
    gradients = torch.zeros_like(flat)
    for p, part, grad in zip(model.parameters(), flat.split(sizes), gradients.split(sizes), strict=True):
        p.data, p.grad = part.view_as(p), grad.view_as(p)
    keep(model=model, flat=flat, gradients=gradients)
    losses = []
    with keep.context():
        for _ in range(3):
            gradients.zero_()
            loss = functional.mse_loss(model(batch), target)
            loss.backward()
            flat.add_(gradients, alpha=-0.05)
            losses.append(loss)
    return losses


@program
def parameters_to_vector(keep: Keep) -> Any:
    """Parameters go to a vector and back, as views of it, and training goes on."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        losses = train(model, optimizer, batch, target, 1)
        vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        torch.nn.utils.vector_to_parameters(vector * 0.9, model.parameters())
        vector.zero_()
        losses += train(model, optimizer, batch, target, 2)
    return losses, vector
