"""Runs a program under a policy and a budget, and says whether it is right."""

from __future__ import annotations

import random
import traceback
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import edgemem.torch
from edgemem.errors import BudgetExceededError, EdgememError
from tests.torch.remat_programs.contents import contents, difference
from tests.torch.remat_programs.registry import PROGRAMS, Keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["EVERYTHING", "LEAST", "SHARES", "Outcome", "Subject"]

SHARES = ("0.9", "0.7", "0.5", "0.35")
EVERYTHING = "everything"  # all that can be evicted is evicted before every operator
LEAST = "least"  # budgets around the least one with which the program runs to its end


class Idle(TorchDispatchMode):
    """Does nothing but count operators: what differs under it is PyTorch's own doing."""

    calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        self.calls += 1
        return func(*args, **(kwargs or {}))


class History(TorchDispatchMode):
    """Notes what a program could reach, before and after every operator."""

    def __init__(self, keep: Keep, notes: list[Any]) -> None:
        super().__init__()
        self._keep, self._notes = keep, notes

    def _note(self) -> None:
        self._notes.append({p: (k, hash(d)) for p, (k, d) in contents(self._keep.reached).items()})

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        self._note()
        result = func(*args, **(kwargs or {}))
        self._note()
        return result

    def __enter__(self) -> Any:
        self._note()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._note()


class Squeeze(TorchDispatchMode):
    """Before every operator, or one of `every`, asks for all memory of the budget: what can be evicted then is."""

    def __init__(self, budget: int, every: int) -> None:
        super().__init__()
        self._calls, self._every = 0, every
        self._sizes = [budget * part // 100 for part in (100, 95, 90, 80, 70, 60, 50, 40)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        self._calls += 1
        for size in self._sizes if self._calls % self._every == 0 else []:
            try:
                torch.empty(size, dtype=torch.uint8)
            except BudgetExceededError:
                continue
            break
        return func(*args, **(kwargs or {}))


class Squeezed:
    """A context under a budget that is ample, inside which everything is evicted before every operator."""

    def __init__(self, memory: Any, budget: int, every: int) -> None:
        self._memory, self._squeeze = memory, Squeeze(budget, every)

    def __enter__(self) -> Any:
        entered = self._memory.__enter__()
        self._squeeze.__enter__()
        return entered

    def __exit__(self, *error: object) -> Any:
        self._squeeze.__exit__(*error)
        return self._memory.__exit__(*error)


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        kind: "same" or "refused", which are right; "different", "damaged" (refused, and tensors are wrong then),
            "error" (an exception that is not edgemem's) or "over budget".
        detail: what differs, or the exception.
    """

    kind: str
    detail: str = ""
    evictions: int = 0

    @property
    def right(self) -> bool:
        return self.kind in {"same", "refused"}


@dataclass
class Run:
    """What a run left behind."""

    keep: Keep
    memories: list[Any] = field(default_factory=list)
    returned: Any = None
    error: Exception | None = None

    def contents(self) -> Any:
        reached = {**self.keep.reached, "returned": self.returned, "generator": torch.get_rng_state()}
        return contents(reached)


class Subject:
    """A program, and what it computes without a budget."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._program = PROGRAMS[name]
        plain = self._run(Keep())
        if plain.error is not None:
            raise plain.error
        self.expected = plain.contents()
        del plain
        modes: list[Idle] = []

        def idle() -> Any:
            modes.append(Idle())
            return modes[-1]

        for way, keep in (("again", Keep()), ("under a mode that does nothing", Keep(idle))):
            run = self._run(keep)
            if run.error is not None:
                raise run.error
            if said := difference(run.contents(), self.expected):
                raise AssertionError(f"{name} is not deterministic {way}: {said}")
        self._operators = sum(mode.calls for mode in modes)

    def _run(self, keep: Keep) -> Run:
        run = Run(keep)
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 - programs of users have it
        random.seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of prototypes in PyTorch
            try:
                run.returned = self._program(keep)
            except Exception as error:  # noqa: BLE001 - whatever comes is judged
                run.error = error
        return run

    def _watched(self, make: Callable[[], tuple[Any, Any]]) -> Run:
        """A run in contexts that `make` makes, with the object that has their counts."""
        memories: list[Any] = []

        def context() -> Any:
            entered, memory = make()
            memories.append(memory)
            return entered

        run = self._run(Keep(context))
        run.memories = memories
        return run

    def measure(self) -> Outcome:
        """Without a budget nothing is evicted, but everything is watched."""

        def make() -> tuple[Any, Any]:
            memory = edgemem.torch.rematerialize()
            return memory, memory

        run = self._watched(make)
        self.peak = max((memory.stats.peak for memory in run.memories), default=0)
        return self._judge(run, None)

    def under(self, policy: str, budget: int) -> Outcome:
        """With a budget in bytes."""

        def make() -> tuple[Any, Any]:
            memory = edgemem.torch.rematerialize(budget=budget, policy=policy, poison=True)
            return memory, memory

        return self._judge(self._watched(make), budget)

    def squeezed(self, policy: str, at_most: int | None = None) -> Outcome:
        """With everything evicted before every operator, or `at_most` so many times, evenly spread."""
        budget = 4 * self.peak + (1 << 20)
        every = -(-self._operators // at_most) if at_most and self._operators else 1

        def make() -> tuple[Any, Any]:
            memory = edgemem.torch.rematerialize(budget=budget, policy=policy, poison=True)
            return Squeezed(memory, budget, every), memory

        return self._judge(self._watched(make), budget)

    def outcomes(self, policy: str, settings: tuple[str, ...]) -> Iterator[tuple[str, Outcome]]:
        """Each setting, or each budget tried for it, and how the run ended."""
        for setting in settings:
            if setting == EVERYTHING:
                yield setting, self.squeezed(policy)
            elif setting == LEAST:
                yield from self._near_least(policy)
            else:
                yield setting, self.under(policy, int(float(setting) * self.peak))

    def _near_least(self, policy: str) -> Iterator[tuple[str, Outcome]]:
        low, high = 0.0, 1.0
        for _ in range(6):
            share = (low + high) / 2
            outcome = self.under(policy, max(1, int(share * self.peak)))
            yield f"{share:.4f}", outcome
            if outcome.kind == "same":
                high = share
            else:
                low = share

    def _judge(self, run: Run, budget: int | None) -> Outcome:
        # A context that could not be entered has no counts.
        begun = [m for m in run.memories if m is not None and run.error is None]
        evictions = sum(memory.stats.evictions for memory in begun)
        if isinstance(run.error, EdgememError):
            said = f"{type(run.error).__name__}: {run.error}"
            found = {p: (k, hash(d)) for p, (k, d) in contents(run.keep.reached).items()}
            if any(found.items() <= note.items() for note in self._history):
                return Outcome("refused", said)
            nearest = max(self._history, key=lambda note: len(found.items() & note.items()))
            wrong = sorted(path for path in found if nearest.get(path) != found[path])
            return Outcome("damaged", f"{', '.join(wrong[:4])} after {said}")
        if run.error is not None:
            where = traceback.extract_tb(run.error.__traceback__)[-1]
            return Outcome("error", f"{type(run.error).__name__}: {run.error} ({where.filename}:{where.lineno})")
        if said := difference(run.contents(), self.expected):
            return Outcome("different", said, evictions)
        if budget is not None and any(memory.stats.peak > budget for memory in begun):
            return Outcome("over budget", f"{max(m.stats.peak for m in begun)} of {budget}", evictions)
        return Outcome("same", "", evictions)

    @cached_property
    def _history(self) -> list[Any]:
        """All that the program could reach, as it was at every operator without a budget."""
        notes: list[Any] = []
        keep = Keep(lambda: History(keep, notes))
        run = self._run(keep)
        assert run.error is None, run.error
        notes.append({p: (k, hash(d)) for p, (k, d) in contents(keep.reached).items()})
        return notes
