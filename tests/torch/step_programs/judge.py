"""Runs a program in plain PyTorch and as a captured step, and says whether they are the same."""

from __future__ import annotations

import random as python_random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import edgemem
import edgemem.torch
from edgemem.errors import EdgememError
from tests.torch.orders import random_order
from tests.torch.step_programs.registry import PROGRAMS
from tests.torch.training import bits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torch.step_programs.registry import Training

__all__ = ["ORDERS", "STEPS", "judge"]

STEPS = 10
ORDERS = ("given", "best", "any")


def _begin(name: str) -> Training:
    torch.manual_seed(0)
    return PROGRAMS[name]()


def _randoms(training: Training) -> Any:
    """The states of all generators that a program may draw from."""
    states = [torch.get_rng_state(), *(g.get_state() for g in training.generators)]
    return bits(states), python_random.getstate(), str(np.random.get_state())  # noqa: NPY002 - the global one


def _state(training: Training) -> list[bytes]:
    """All that a step may change."""
    found = [*training.model.parameters(), *training.model.buffers()]
    found += [p.grad for p in training.model.parameters() if p.grad is not None and training.optimizer is None]
    for p in training.model.parameters():
        found += [v for _, v in sorted(getattr(training.optimizer, "state", {}).get(p, {}).items()) if v is not None]
    return bits([*found, *training.more()])


def _steps(training: Training, step: Callable[[Training, Any], Any]) -> list[Any]:
    """What there is after each step."""
    torch.manual_seed(1)
    python_random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the global one
    data, found = torch.Generator().manual_seed(2), []
    for k in range(STEPS):
        batch = training.batch(data)
        training.prepare(k)
        with training.around():
            loss = step(training, batch)
        training.finish(k)
        found.append((bits([loss]), _state(training), _randoms(training)))
    return found


def _eager(training: Training, batch: Any) -> Any:
    if training.optimizer is not None:
        training.optimizer.zero_grad()
    loss = training.loss(training.model(batch[0]), batch[1])
    loss.backward()
    if training.optimizer is not None:
        training.optimizer.step()
    return loss


def _order(graph: Any, name: str) -> Any:
    if name == "given":
        return None
    return edgemem.order(graph, "greedy").order if name == "best" else random_order(graph, 3)


def judge(name: str, order: str) -> str:
    """`same`, `refused: ...`, or what differs."""
    expected = _steps(_begin(name), _eager)
    training = _begin(name)
    batch = training.batch(torch.Generator().manual_seed(4))
    before = _state(training), _randoms(training)
    try:
        with training.capturing():
            graph = edgemem.torch.capture(training.model, training.loss, batch, training.optimizer)
        step = edgemem.torch.reorder(graph, _order(graph, order))
        if (_state(training), _randoms(training)) != before:
            return "capture has changed the model or a generator"
        found = _steps(training, lambda t, b: step(t.model, t.optimizer, b))
    except EdgememError as e:
        moved = _randoms(training)[0][1:] != before[1][0][1:] and not training.generators
        return f"refused: {type(e).__name__}: {e}" if not moved else "the refusal has changed a generator"
    for k, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        parts = [n for n, a, b in zip(("loss", "state", "generators"), mine, theirs, strict=True) if a != b]
        if parts:
            return f"step {k}: {', '.join(parts)} differ"
    return "same"
