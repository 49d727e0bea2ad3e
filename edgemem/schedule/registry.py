"""The table of solvers: one entry a solver, filled by the decorator below.

A solver is a pure function of an `OrderProblem` (and its options) to an order: the operators' numbers in the order in
which they run. What an order is worth is computed once, in order.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from edgemem.schedule.problem import OrderProblem

__all__ = ["SOLVERS", "Solver", "order_solver"]

Function: TypeAlias = Callable[..., tuple[int, ...]]
Registered = TypeVar("Registered", bound=Function)


@dataclass(frozen=True, slots=True)
class Solver:
    """A registered solver.

    Attributes:
        name: unique.
        rank: solvers run in ascending order of it, the quick ones first; of equally good orders the first one counts.
        paper: where it is from, with the section.
        complexity: of the implementation, in n operators with m inputs together.
        options: each option's default, a whole number.
    """

    name: str
    rank: int
    paper: str
    complexity: str
    options: Mapping[str, int]
    function: Function = field(repr=False, compare=False)

    def solve(self, problem: OrderProblem, **options: int) -> tuple[int, ...]:
        """The solver's order. Options that it does not have are left out."""
        return self.function(problem, **{k: v for k, v in options.items() if k in self.options})


SOLVERS: dict[str, Solver] = {}


def order_solver(
    name: str, *, rank: int, paper: str, complexity: str, options: Mapping[str, int] | None = None
) -> Callable[[Registered], Registered]:
    """Register a function `(problem, **options) -> order`, which has all operators and obeys `problem.before`."""

    def decorate(function: Registered) -> Registered:
        if name in SOLVERS:
            raise ValueError(f"solver {name} is registered twice")
        SOLVERS[name] = Solver(name, rank, paper, complexity, dict(options or {}), function)
        return function

    return decorate
