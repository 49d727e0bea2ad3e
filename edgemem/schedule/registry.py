"""The table of solvers: one entry a solver, filled by the decorator below.

A solver is a pure function of an `OrderProblem` (and its options) to an order: the operators' numbers in the order in
which they run, as `Solved`, or alone. What an order is worth is computed once, in order.py. A function with a parameter
`start` also gets what is known so far (`Start`), or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from edgemem.schedule.ordering import Solved

if TYPE_CHECKING:
    from edgemem.plans import OptionValue
    from edgemem.schedule.ordering import Start
    from edgemem.schedule.problem import OrderProblem
    from edgemem.strategy.options import Option

__all__ = ["SOLVERS", "Solver", "order_solver"]

Function: TypeAlias = Callable[..., "Solved | tuple[int, ...]"]
Registered = TypeVar("Registered", bound=Function)


@dataclass(frozen=True, slots=True)
class Solver:
    """A registered solver.

    Attributes:
        name: unique.
        rank: solvers run in ascending order of it, the quick ones first; of equally good orders the first one counts.
        paper: where it is from, with the section.
        complexity: of the implementation, in n operators with m inputs together.
        options: each option's choices, the default first, or a range of numbers, as strategies have them.
        extra: the optional dependency it needs, or None.
        limit: `auto` leaves it out above this many operators (None: never).
    """

    name: str
    rank: int
    paper: str
    complexity: str
    options: Mapping[str, Option]
    extra: str | None
    limit: int | None
    function: Function = field(repr=False, compare=False)

    def is_slow(self, count: int) -> bool:
        """Whether `auto` does without it for that many operators."""
        return self.limit is not None and count > self.limit

    def solve(self, problem: OrderProblem, *, start: Start | None = None, **options: OptionValue | None) -> Solved:
        """The solver's answer. Options that it does not have, and those that are None, are left out."""
        given: dict[str, Any] = {k: v for k, v in options.items() if k in self.options and v is not None}
        if "start" in signature(self.function).parameters:
            given["start"] = start
        found = self.function(problem, **given)
        return found if isinstance(found, Solved) else Solved(found)


SOLVERS: dict[str, Solver] = {}


def order_solver(
    name: str,
    *,
    rank: int,
    paper: str,
    complexity: str,
    options: Mapping[str, Option] | None = None,
    extra: str | None = None,
    limit: int | None = None,
) -> Callable[[Registered], Registered]:
    """Register a function `(problem, start=None, **options)`, with or without `start`.

    Its order has all operators and obeys `problem.before`.
    """

    def decorate(function: Registered) -> Registered:
        if name in SOLVERS:
            raise ValueError(f"solver {name} is registered twice")
        SOLVERS[name] = Solver(name, rank, paper, complexity, dict(options or {}), extra, limit, function)
        return function

    return decorate
