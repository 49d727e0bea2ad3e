"""CP-SAT: are there runs within the budget that cost less than the best ones known? Asked until the answer is no.

Most of the work goes into runs that cost less. Where that does not decide whether there are any, the rest raises the
bound: the solver is asked for runs that cost no more than what lies between the bound and the best.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.strategy.cp_sat import CpSat
from tests.bench.remat.retention import Retention

if TYPE_CHECKING:
    from edgemem.remat.program import Program
    from edgemem.remat.recompute_schedule import RecomputeSchedule

__all__ = ["Cheaper", "ask_for_cheaper"]

_SHARE: Final = 0.6  # of the work, for runs that cost less
_MOST_HALVINGS: Final = 6
_LEAST_WORK: Final = 0.01


@dataclass(frozen=True, slots=True)
class Cheaper:
    """What the solver answered.

    Attributes:
        found: the cheapest runs known.
        bound: no runs of the kind that `assumes` describes are within the budget and cost less.
        assumes: of what kind they are.
        is_proved: whether the bound is the cost of the runs.
        is_late: whether the time was up.
    """

    found: RecomputeSchedule
    bound: int
    assumes: str
    is_proved: bool
    is_late: bool


def ask_for_cheaper(
    program: Program,
    found: RecomputeSchedule,
    budget: int,
    bound: int,
    work: float,
    seed: int,
    time_limit: float | None,
) -> Cheaper:
    """Runs within a budget that cost less than some that are within it, and a bound of the cost of their kind.

    `bound` is one that is known for first runs in the same order.

    Raises MissingDependencyError without ortools, SolverError if it fails.
    """
    solver = CpSat("recomputation by `cpsat`", seed, time_limit)
    order = tuple(dict.fromkeys(found.runs))
    copies = max(2, *Counter(found.runs).values())
    best = found

    def ask(most_cost: int, amount: float) -> bool | None:
        """Whether there are runs that cost no more; None if that was not decided."""
        nonlocal best, bound
        if amount < _LEAST_WORK or solver.is_late:
            return None
        model = solver.cp_model.CpModel()
        retention = Retention(program, order, budget, copies, most_cost, model)
        retention.hint(best.runs)
        status, answer = solver.solve(model, amount)
        if status == "INFEASIBLE":
            bound = max(bound, most_cost + 1)
            return False
        if status in ("OPTIMAL", "FEASIBLE"):
            reached = program.schedule(retention.runs(answer))
            if status == "OPTIMAL":
                bound = max(bound, program.base_cost + round(answer.objective_value))
            if reached.peak <= budget and reached.cost < best.cost:
                best = reached
            return True
        return None

    ask(best.cost - 1, _SHARE * work)
    undecided = best.cost
    for _ in range(_MOST_HALVINGS):
        halfway = (bound + undecided) // 2
        if not bound <= halfway < undecided:
            break
        if not ask(halfway, (work - solver.work) / 2):
            undecided = halfway
        undecided = min(undecided, best.cost)
    bound = min(bound, best.cost)
    assumes = (
        f"first runs in this order, each operator at most {copies} times and at most once between two first runs, in "
        "the same order there"
    )
    return Cheaper(best, bound, assumes, bound == best.cost, solver.is_late)
