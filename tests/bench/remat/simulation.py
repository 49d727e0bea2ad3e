"""A program under a memory budget, in figures: what is evicted, what is recomputed, and what that costs.

The metrics are those of Coop, section 4.2. The rules are in kernels/tests/remat_simulator.h. At the end all that the
program still holds must be in memory, as gradients must for an optimizer (DTR's output condition).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from edgemem.errors import PlanError
from edgemem.remat.policies import Policy, find_policy
from tests.bench.remat.library import simulate_remat

if TYPE_CHECKING:
    from tests.bench.remat.operator_log import OperatorLog

__all__ = ["ALIGNMENT", "Simulation", "simulate"]

ALIGNMENT: Final = 512  # bytes; of PyTorch's caching allocator
_ENDS: Final = ("done", "out of memory", "thrashing")
_MOST_LIMIT: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a program did under a budget. Counts and costs are up to where it ended.

    Attributes:
        policy: what decided.
        budget: bytes of the pool.
        ended: `done`; `out of memory`: a request found no room even after all evictions; `thrashing`: recomputing took
            more than the limit.
        event: the event that could not be finished; the number of events if all were.
        short_of: bytes of the request that found no room, or 0.
        cost: nanoseconds of all calls of the program, each once.
        recomputed_cost: nanoseconds of what ran again.
        recomputed_calls: how often calls ran again.
        requests: blocks taken from the pool.
        shortages: requests that did not fit when they came.
        searches: passes over the pool for values to evict.
        evaluations: heuristics computed in them. A measure of the search that is the same on every machine.
        search_ns: nanoseconds in them, measured.
        evictions: values evicted to make room.
        evicted_bytes: of those.
        peak: most bytes in use at once.
        fragmentation: the mean, over all shortages, of the part of the pool that is free and cannot serve the request.
    """

    policy: Policy
    budget: int
    ended: Literal["done", "out of memory", "thrashing"]
    event: int
    short_of: int
    cost: int
    recomputed_cost: int
    recomputed_calls: int
    requests: int
    shortages: int
    searches: int
    evaluations: int
    search_ns: int
    evictions: int
    evicted_bytes: int
    peak: int
    fragmentation: float

    @property
    def is_done(self) -> bool:
        """Whether the program ran to its end."""
        return self.ended == "done"

    @property
    def overhead(self) -> float:
        """Time that recomputing takes, as a part of the time of the program without it."""
        return self.recomputed_cost / self.cost if self.cost else 0.0

    @property
    def evaluations_per_shortage(self) -> float:
        """Heuristics computed for a request that does not fit: the search latency in work."""
        return self.evaluations / self.shortages if self.shortages else 0.0

    @property
    def search_us_per_shortage(self) -> float:
        """Microseconds of search for a request that does not fit: the search latency, measured."""
        return self.search_ns / self.shortages / 1000 if self.shortages else 0.0


def simulate(
    log: OperatorLog, budget: int, policy: str | Policy, *, limit: float = 10.0, alignment: int = ALIGNMENT
) -> Simulation:
    """Run the log under a budget.

    Args:
        log: what the program ran.
        budget: bytes of the pool that serves all values, constants too.
        policy: one of `POLICIES`, or a policy of your own.
        limit: the most that recomputing may take, in multiples of the program's own time, up to 1000.
        alignment: bytes; sizes are rounded up to it.

    Raises:
        UnknownStrategyError: there is no such policy.
        PlanError: the budget is negative, the alignment not positive, or the limit not in 0..1000.
    """
    chosen = find_policy(policy)
    if budget < 0 or alignment <= 0 or not 0 <= limit <= _MOST_LIMIT:
        raise PlanError(
            f"a budget of {budget} bytes, an alignment of {alignment} and a limit of {limit} cannot be simulated; "
            f"give a budget from 0, an alignment from 1, and a limit from 0 to {_MOST_LIMIT:g}"
        )
    given = (*log.columns, budget, alignment, chosen.rules, limit)
    counters, fragmentation, _ = simulate_remat(*given)
    ended, event, short_of, recomputed_cost, recomputed_calls, *counts = counters.tolist()
    requests, shortages, searches, evaluations, search_ns, evictions, evicted_bytes, peak = counts
    return Simulation(
        policy=chosen,
        budget=budget,
        ended=_ENDS[ended],
        event=event,
        short_of=short_of,
        cost=log.total_cost,
        recomputed_cost=recomputed_cost,
        recomputed_calls=recomputed_calls,
        requests=requests,
        shortages=shortages,
        searches=searches,
        evaluations=evaluations,
        search_ns=search_ns,
        evictions=evictions,
        evicted_bytes=evicted_bytes,
        peak=peak,
        fragmentation=fragmentation,
    )
