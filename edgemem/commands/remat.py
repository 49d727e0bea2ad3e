"""A program's log under memory budgets: what each policy of rematerialisation makes of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from edgemem.formats import load_operator_log
from edgemem.remat.budgets import cutoff_budget, minimum_budget
from edgemem.remat.policies import find_policy
from edgemem.remat.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from edgemem.remat.policies import Policy
    from edgemem.remat.simulation import Simulation
    from edgemem.trace import OperatorLog

__all__ = ["PolicyResult", "RematReport", "examine_log"]


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What one policy makes of a program.

    Attributes:
        policy: the policy.
        runs: a simulation for each budget.
        minimum: least budget under which the program runs to its end, in bytes; None if it was not asked for.
        cutoff: least budget under which nothing is evicted, in bytes; None if it was not asked for.
    """

    policy: Policy
    runs: tuple[Simulation, ...]
    minimum: int | None
    cutoff: int | None


@dataclass(frozen=True, slots=True, eq=False)
class RematReport:
    """A program under budgets.

    Attributes:
        log: what the program ran.
        budgets: bytes, as they were given.
        results: one for each policy, the one that was asked for first.
    """

    log: OperatorLog
    budgets: tuple[int, ...]
    results: tuple[PolicyResult, ...]

    def data(self) -> dict[str, Any]:
        """All figures as plain data; sizes are bytes, costs nanoseconds."""
        return {
            "calls": len(self.log.cost),
            "values": len(self.log.size),
            "cost": self.log.total_cost,
            "peak": self.log.peak,
            "policies": [
                {
                    "policy": result.policy.name,
                    "minimum_budget": result.minimum,
                    "cutoff_budget": result.cutoff,
                    "budgets": [_run_data(run) for run in result.runs],
                }
                for result in self.results
            ],
        }


def examine_log(
    source: Path,
    policies: Sequence[str],
    budgets: Sequence[int | float],
    *,
    limit: float = 10.0,
    with_borders: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> RematReport:
    """Simulate a log under every policy and budget.

    Args:
        source: file of an operator log.
        policies: names; a name that comes twice counts once.
        budgets: bytes, or as a float a part of the peak that the program has without a budget.
        limit: the most that recomputing may take, in multiples of the program's own time.
        with_borders: whether minimum and cutoff budgets are looked for.
        progress: is told the policy at work.

    Raises:
        ModelError: the file is no operator log.
        UnknownStrategyError: there is no such policy.
    """
    chosen = [find_policy(name) for name in dict.fromkeys(policies)]
    log = load_operator_log(source)
    sizes = tuple(budget if isinstance(budget, int) else int(budget * log.peak) for budget in budgets)
    results = []
    for policy in chosen:
        progress(policy.name)
        results.append(
            PolicyResult(
                policy,
                tuple(simulate(log, size, policy, limit=limit) for size in sizes),
                minimum_budget(log, policy, limit=limit) if with_borders else None,
                cutoff_budget(log, policy) if with_borders else None,
            )
        )
    return RematReport(log, sizes, tuple(results))


def _run_data(run: Simulation) -> dict[str, Any]:
    """A simulation without the policy, which stands above it."""
    return {name: value for name, value in asdict(run).items() if name != "policy"} | {"overhead": run.overhead}
