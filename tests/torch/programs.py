"""Random training programs, which a seed determines: the same instructions in every run, whatever they compute.

An instruction that PyTorch refuses, such as the backward pass of a tensor that was written into, is part of a program:
the error's name is compared as results are.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import torch

from tests.torch.program_layers import STATEMENTS
from tests.torch.program_operators import OPERATORS
from tests.torch.program_run import SHAPES, Run, modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

__all__ = ["Program", "make_program", "reduced"]

_KINDS: Final = {**OPERATORS, **STATEMENTS}
_REFUSED: Final = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)
_OPTIMIZERS: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    lambda p: torch.optim.SGD(p, 0.01, foreach=False),
    lambda p: torch.optim.Adam(p, 1e-3),
    lambda p: torch.optim.AdamW(p, 1e-3, foreach=False, amsgrad=True),
    lambda p: torch.optim.RMSprop(p, 1e-3, momentum=0.5),
    lambda p: torch.optim.Adagrad(p, 1e-3),
)


class LeftError(Exception):
    """A step was left by an exception of the program's own."""


@dataclass(frozen=True, slots=True)
class Program:
    """A training program.

    Attributes:
        seed: of the state it begins with.
        steps: instructions of each step, by their kind and seed.
        context_at: steps before this one run outside of the context.
    """

    seed: int
    steps: tuple[tuple[tuple[str, int], ...], ...]
    context_at: int = 0

    @property
    def instructions(self) -> int:
        """Of all steps."""
        return sum(map(len, self.steps))

    def __str__(self) -> str:
        """For people: the kinds of instructions of each step."""
        return "\n".join(
            f"step {k}: {' '.join(f'{name}/{seed}' for name, seed in s)}" for k, s in enumerate(self.steps)
        )

    def begin(self) -> Run:
        """The state it begins with; also sets PyTorch's random state."""
        torch.manual_seed(self.seed)
        random = Random(self.seed)
        layers = modules()
        optimizer = random.choice(_OPTIMIZERS)(layers.parameters())
        tensors = [torch.randn(random.choice(SHAPES)) for _ in range(3)]
        buffers = [torch.randn(6, 8) for _ in range(2)]
        return Run(layers, optimizer, tensors, buffers, torch.Generator().manual_seed(self.seed))

    def proceed(self, run: Run, context: AbstractContextManager[Any] | None = None) -> None:
        """Run all steps, within a context from one of them on. What is no error of PyTorch's ends it early."""
        for step in self.steps[: self.context_at]:
            _step(run, step)
        with context or nullcontext():
            for step in self.steps[self.context_at :]:
                _step(run, step)


def make_program(seed: int) -> Program:
    """The program of a seed."""
    random = Random(seed)
    names, weights = list(_KINDS), [w for _, w in _KINDS.values()]
    weights = [w * random.choice((0.2, 1, 1, 3)) for w in weights]

    def instructions() -> tuple[tuple[str, int], ...]:
        return tuple(
            (name, random.randrange(10**6)) for name in random.choices(names, weights, k=random.randint(8, 40))
        )

    first = instructions()
    steps = [first] + [first if random.random() < 0.5 else instructions() for _ in range(random.randrange(3))]
    return Program(seed, tuple(steps), random.randrange(len(steps)) if random.random() < 0.3 else 0)


def reduced(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A program with fewer instructions that fails as well; `fails` says whether one does."""
    size = max(1, program.instructions // 2)
    while True:
        for smaller in _without(program, size):
            if fails(smaller):
                program = smaller
                break
        else:
            if size == 1:
                return program
            size //= 2


def _without(program: Program, size: int) -> Iterator[Program]:
    """The program without a step, or without some instructions of one."""
    for k in range(len(program.steps) - 1, -1, -1):
        if len(program.steps) > 1:
            at = program.context_at - (k < program.context_at)
            yield replace(program, steps=program.steps[:k] + program.steps[k + 1 :], context_at=at)
    for k, step in enumerate(program.steps):
        for begin in range(0, len(step), size):
            shorter = step[:begin] + step[begin + size :]
            yield replace(program, steps=(*program.steps[:k], shorter, *program.steps[k + 1 :]))


def _attempt(run: Run, act: Callable[[], Any]) -> Any:
    """What an action returns; None where PyTorch refuses it."""
    try:
        return act()
    except _REFUSED as e:
        run.seen.append(type(e).__name__)
        return None


def _step(run: Run, instructions: Sequence[tuple[str, int]]) -> None:
    """One step: some instructions, a backward pass, the optimizer."""
    random = Random(repr(instructions))
    try:
        if random.random() < 0.8:
            run.optimizer.zero_grad(set_to_none=random.random() < 0.7)
        for name, seed in instructions:
            _attempt(run, partial(_KINDS[name][0], run, Random(seed)))
        if random.random() < 0.05:
            raise LeftError  # noqa: TRY301
        _backward(run, random)
        if random.random() < 0.3:
            _attempt(run, lambda: torch.nn.utils.clip_grad_norm_(run.layers.parameters(), 1.0))
        if random.random() < 0.9:
            _attempt(run, run.optimizer.step)
    except LeftError:
        run.seen.append("left")
    if random.random() < 0.8:
        run.tensors = [t.detach() for t in run.tensors[-8:]]


def _backward(run: Run, random: Random) -> None:
    """Backward passes of some tensors; the graph of all but the last stays."""
    losses = []
    for _ in range(random.choice((1, 1, 2, 3))):
        suited = [t for t in run.tensors if t.requires_grad and t.numel()]
        chosen = random.sample(suited, min(len(suited), random.randint(1, 4)))
        losses.append(sum((t.tanh().mean() for t in chosen), torch.zeros(())))
    suited = chosen = []
    if random.random() < 0.3:
        run.tensors.clear()  # the graph alone keeps what the program does not name any more
    while losses:
        loss = losses.pop()
        if loss.requires_grad:
            _attempt(run, partial(loss.backward, retain_graph=bool(losses)))
        run.seen.append(repr(loss.item()))
