"""An exception at each line and behind each call of a budget and of a captured step: what runs later is right.

    python -m tests.torch.interrupted_programs budget STRIDE

Of the many times that a line is passed, it is raised at the first, the second and the last.

A process of its own: CPython keeps what a trace function raised inside a handler, and with it tensors.
"""

from __future__ import annotations

import copy
import gc
import sys
from contextlib import suppress
from itertools import count
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

import edgemem.torch
from edgemem.errors import BudgetExceededError
from edgemem.torch.remat import operators, repeater
from tests.interrupts import Interrupt, interrupted, product_files

FILES = product_files("replay", "torch")
BUDGET = 168_000  # bytes, of 171,712: operators run again


def made() -> tuple[Any, Any]:
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(2)]
    batch = torch.randn(128, 64), torch.randint(10, (128,))
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, 10)), batch


def gradients(model: Any, batch: Any) -> list[bytes]:
    model.zero_grad()
    functional.cross_entropy(model(batch[0]), batch[1]).backward()
    return [p.grad.numpy().tobytes() for p in model.parameters()]


def check_budget(step: int) -> None:
    model, batch = made()
    expected = gradients(model, batch)

    def within() -> list[bytes]:
        with edgemem.torch.rematerialize(budget=BUDGET):
            model.zero_grad()
            functional.cross_entropy(model(batch[0]), batch[1]).backward()
        return [p.grad.numpy().tobytes() for p in model.parameters()]

    assert within() == expected
    with interrupted(-1, FILES, calls=True) as whole:
        within()
    raised = 0
    for point in whole.first_and_last()[::step]:
        try:
            with interrupted(point, FILES, calls=True) as interrupt:
                within()
        except BudgetExceededError:  # of what an interrupted operator holds
            pass
        raised += interrupt.is_raised
        model.zero_grad()
        gc.collect()
        for _ in range(3):
            assert gradients(model, batch) == expected, point  # plain PyTorch
        assert within() == expected, point  # another budget, so none is left
    print(f"{raised} exceptions at {len(whole.passed)} points")
    assert raised


def check_in_place(step: int) -> None:
    """Results that are made again in place, and read within the same budget after an exception: right, or an error."""
    given, factor = torch.rand(64, 64), torch.rand(64, 64) / 32

    def chain() -> list[torch.Tensor]:
        kept = [given]
        for _ in range(12):
            kept.append(kept[-1].mm(factor).add_(given).relu_().mul_(0.5))
        return kept[1:]

    expected = [value.clone() for value in chain()]

    def within(point: int) -> Interrupt:
        try:
            with edgemem.torch.rematerialize(budget=120_000):
                kept = chain()
                with suppress(BudgetExceededError), interrupted(point, FILES, calls=True) as interrupt:
                    for value in kept:
                        value.sum()
                for value, right in zip(kept, expected, strict=True):
                    assert torch.equal(value, right), point
        except RuntimeError as e:
            if "made again in place: what is evicted is lost" not in str(e):
                raise
        return interrupt

    whole = within(-1)
    assert {"Repeater._repeat", "Repeater._pass", "Repeater._move"} <= {place[1] for place in whole.passed}
    points = whole.first_and_last()[::step]
    print(f"{sum(within(point).is_raised for point in points)} exceptions at {len(whole.passed)} points")
    assert within(-1).is_raised is False  # no budget is left


def check_captured_step(step: int) -> None:
    first, batch = made()
    loss = functional.cross_entropy
    optimizer = torch.optim.Adam(first.parameters())
    captured = edgemem.torch.reorder(edgemem.torch.capture(first, loss, batch, optimizer))
    start = copy.deepcopy(first.state_dict())

    def plain() -> list[bytes]:
        model = copy.deepcopy(first)
        model.load_state_dict(start)
        chosen = torch.optim.Adam(model.parameters())
        for _ in range(3):
            chosen.zero_grad()
            loss(model(batch[0]), batch[1]).backward()
            chosen.step()
        return [p.detach().numpy().tobytes() for p in model.parameters()]

    expected = plain()
    with interrupted(-1, FILES, calls=True) as whole:
        captured(first, optimizer, batch)
    raised = 0
    for point in whole.first_and_last()[::step]:
        with interrupted(point, FILES, calls=True) as interrupt:
            captured(first, optimizer, batch)
        raised += interrupt.is_raised
        first.load_state_dict(start)
        optimizer.state.clear()
        for _ in range(3):
            captured(first, optimizer, batch)
        assert [p.detach().numpy().tobytes() for p in first.parameters()] == expected, point
        assert plain() == expected, point
    print(f"{raised} exceptions at {len(whole.passed)} points")
    assert raised


if __name__ == "__main__":
    torch.set_num_threads(1)
    # Every operator costs the same, so that what is evicted, and what fits, does not depend on the machine.
    vars(operators)["time"] = vars(repeater)["time"] = SimpleNamespace(perf_counter_ns=count(0, 1000).__next__)
    programs = {"budget": check_budget, "in_place": check_in_place, "step": check_captured_step}
    programs[sys.argv[1]](int(sys.argv[2]))
