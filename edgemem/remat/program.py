"""An order problem whose operators may run several times, each for its cost.

Each run makes new copies of its operator's results, and a reader reads the newest copy:

    run                a    b    a'   c                runs = (0, 1, 0, 2): operator 0 runs twice
    first copy of a    w----r                          b is its last reader
    second copy                  w----r                c reads the newer one
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from edgemem import native
from edgemem.errors import PlanError
from edgemem.remat.recompute_schedule import RecomputeSchedule

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.schedule.problem import OrderProblem

__all__ = ["Program", "Sources", "program_of", "sources_of"]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where an operator finds the copy of a class that it reads.

    A view writes no class: who reads it reads the copy of which the view was made, whatever copies there are by then.

    Attributes:
        is_direct: it reads the newest copy of the class.
        views: operators that it reads the class through: it reads the copies that their newest runs read.
    """

    is_direct: bool
    views: tuple[int, ...]


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

    def schedule(self, runs: Sequence[int]) -> RecomputeSchedule:
        """The figures of a sequence of runs. Raises ValueError for a sequence that is none."""
        cost = sum(self.costs[k] for k in runs)
        return RecomputeSchedule(tuple(runs), self.kernel.peak(runs), cost, self.base_cost)

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


def sources_of(problem: OrderProblem, k: int) -> dict[int, Sources]:
    """For each class that operator `k` reads where it finds it.

    The problem says only which operators `k` waits for. One that reads the class itself and makes nothing else that `k`
    reads is taken for a view of the class.
    """
    found = {}
    read = set(problem.reads[k])
    touching = {c: [b for b in problem.before[k] if c in problem.reads[b]] for c in read}
    for c, through in touching.items():
        views = tuple(b for b in through if read.isdisjoint(problem.writes[b]))
        is_written_there = any(c in problem.writes[b] for b in problem.before[k])
        if not is_written_there and not views:
            views = tuple(through)
        found[c] = Sources(is_written_there or not views, views)
    return found
