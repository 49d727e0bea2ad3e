"""An order problem whose operators may run several times, each for its cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from edgemem import native
from edgemem.errors import PlanError
from edgemem.remat.runs import sources_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.schedule.problem import OrderProblem

__all__ = ["Program", "program_of"]


@dataclass(frozen=True)
class Program:
    """What a search for runs reads.

    Attributes:
        problem: the operators and their memory.
        costs: of each operator, in any unit.
        repeatable: the operators that may run several times.
    """

    problem: OrderProblem
    costs: tuple[int, ...]
    repeatable: frozenset[int]

    @property
    def base_cost(self) -> int:
        """The cost of all operators once."""
        return sum(self.costs)

    def cost(self, runs: Sequence[int]) -> int:
        """The cost of a sequence of runs."""
        return sum(self.costs[k] for k in runs)

    @cached_property
    def kernel(self) -> native.kernels.RecomputeProgram:
        """The same for the compiled search."""
        problem = self.problem
        sources = []
        for k in range(problem.count):
            found = sources_of(problem, k)
            read = [found[c] for c in problem.reads[k]]
            sources.append([[*([problem.count] if source.is_direct else []), *source.views] for source in read])
        return native.kernels.RecomputeProgram(problem.kernel, sources, problem.direct, problem.keeps_unread)


def program_of(problem: OrderProblem, costs: Sequence[int], may_repeat: Collection[int] | None) -> Program:
    """A checked program; `may_repeat` of None is all operators.

    Operators with bodies never run twice, nor do those that leave memory behind. Raises PlanError for costs that are
    negative or not one for each operator, and for operators that there are not.
    """
    if len(costs) != problem.count or any(cost < 0 for cost in costs):
        raise PlanError(f"costs are {problem.count} numbers from 0, one for each operator")
    chosen = frozenset(range(problem.count) if may_repeat is None else may_repeat)
    if strange := sorted(k for k in chosen if not 0 <= k < problem.count):
        raise PlanError(f"there is no operator {strange[0]}: there are {problem.count}")
    once = {k for k in chosen if problem.inside[k] or problem.early[k] or problem.leaves[k]}
    return Program(problem, tuple(costs), chosen - once)
