"""What a training program is, and the list of all."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PROGRAMS", "Training", "classes", "images", "program", "words"]


def classes(random: Any) -> tuple[Any, Any]:
    """Eight rows of 16 numbers, some of them large, and one of four classes for each."""
    rows = torch.randn(8, 16, generator=random)
    rows[0] *= 30
    return rows, torch.randint(0, 4, (8,), generator=random)


def images(random: Any) -> tuple[Any, Any]:
    """Four small images, and one of four classes for each."""
    return torch.randn(4, 3, 8, 8, generator=random), torch.randint(0, 4, (4,), generator=random)


def words(random: Any) -> tuple[Any, Any]:
    """Four rows of six of twelve words, and one of four classes for each."""
    return torch.randint(0, 12, (4, 6), generator=random), torch.randint(0, 4, (4,), generator=random)


def _nothing(step: int) -> None:
    del step


@dataclass
class Training:
    """A model with all that one loop needs; every call of a program makes the same anew.

    Attributes:
        model: takes the first of a batch.
        optimizer: updates the model in the step; None leaves gradients, and `finish` uses them.
        loss: of the output and the second of a batch.
        batch: the next batch, drawn with a generator.
        prepare: is called with the number of each step, before it.
        finish: the same, after it.
        around: makes the context in which each step runs.
        capturing: makes the context in which the step is captured.
        generators: whose states capture must leave alone, and which must agree after each step.
        more: other things to compare, such as averages of weights.
    """

    model: Any
    optimizer: Any = None
    loss: Callable[[Any, Any], Any] = functional.cross_entropy
    batch: Callable[[Any], tuple[Any, Any]] = classes
    prepare: Callable[[int], Any] = _nothing
    finish: Callable[[int], Any] = _nothing
    around: Callable[[], Any] = nullcontext
    capturing: Callable[[], Any] = nullcontext
    generators: tuple[Any, ...] = ()
    more: Callable[[], Any] = tuple


PROGRAMS: dict[str, Callable[[], Training]] = {}


def program(make: Callable[[], Training]) -> Callable[[], Training]:
    """Register a program by the name of its file and its function."""
    name = f"{make.__module__.rsplit('.', 1)[-1]}.{make.__name__}"
    assert name not in PROGRAMS, name
    PROGRAMS[name] = make
    return make
