"""Plans instances with several solvers in turns, in one process: sizes beside the bound, and processor time.

Only plans that were proved valid have figures.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, replace
from math import exp, fsum, log
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from edgemem.errors import UnknownStrategyError
from edgemem.planning import Choice, choices, make_plans, run
from edgemem.plans import OffsetPlan
from edgemem.proof import sweep_plan
from edgemem.strategy.bounds import lower_bounds
from tests.bench.planners import peers as others

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from edgemem.plans import LowerBounds, Plan
    from edgemem.records.problem import Problem
    from edgemem.strategy.registry import Family
    from tests.bench.planners.instances import Instance
    from tests.bench.planners.peers import Peer

__all__ = [
    "DEFAULT",
    "BenchSolver",
    "PeerLimits",
    "Result",
    "Row",
    "Summary",
    "geometric_mean",
    "measure",
    "solvers",
    "summary",
]

DEFAULT: dict[Family, tuple[str, ...]] = {
    "offsets": ("search", "greedy_by_size"),
    "shared_objects": ("greedy_by_size_improved", "greedy_by_size"),
}

# The call that is timed; it returns a call, not timed, that reads the plan from the answer.
_Call: TypeAlias = "Callable[[], Callable[[], Plan]]"


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Limits of the peers: seconds for each call, if a peer has a time limit; records, or None for each peer's own."""

    peer_seconds: float = 1.0
    peer_records: int | None = None


@dataclass(frozen=True, slots=True)
class BenchSolver:
    """One column: a strategy with its options, all of them (`auto`), or a peer."""

    name: str
    family: Family
    choice: Choice | None = None
    peer: Peer | None = None

    def refusal(self, problem: Problem, limits: PeerLimits) -> str:
        """Why this solver does not run; "" if it does."""
        most = (limits.peer_records or self.peer.most) if self.peer else len(problem)
        return f"left out above {most:,} records" if len(problem) > most else ""

    def prepare(self, problem: Problem, bounds: LowerBounds, limits: PeerLimits) -> _Call:
        """A call that plans once, to be timed; its inputs are prepared before."""
        if self.peer:
            return self._peer_call(self.peer, problem, bounds, limits)

        def call() -> Callable[[], Plan]:
            if self.choice:
                plan = run(problem, self.choice, bounds)
            else:
                made = make_plans(problem, families=(self.family,))
                best = made.best_offsets if self.family == "offsets" else made.best_shared_objects
                assert best is not None
                plan = best
            return lambda: plan

        return call

    def _peer_call(self, peer: Peer, problem: Problem, bounds: LowerBounds, limits: PeerLimits) -> _Call:
        timed = peer.prepare(problem, limits.peer_seconds)

        def call() -> Callable[[], Plan]:
            answer = timed()

            def plan() -> Plan:
                offsets = answer()
                size = int((offsets + problem.size).max(initial=0))
                return OffsetPlan(peer.name, {}, offsets, size, size == bounds.offsets)

            return plan

        return call


@dataclass(frozen=True, slots=True)
class Result:
    """What one solver did with one instance.

    Attributes:
        solver: its name.
        peer: whether it is another planner.
        size: bytes or texels of its smallest plan; None if there is no valid plan.
        seconds: of processor time, the least of all turns.
        optimal: whether the bound, the construction, or a solver of this row proves that no smaller plan exists.
        stopped: why a search ended; "" for a solver that does not report it.
        note: why there is no plan.
        left_out: whether it did not run because of the number of records.
        invalid: whether it gave a wrong plan, or claimed a proof that another solver's plan refutes.
        peak_rss: bytes, of a process of its own; None if not measured or unknown.
    """

    solver: str
    peer: bool
    size: int | None = None
    seconds: float | None = None
    optimal: bool = False
    stopped: str = ""
    note: str = ""
    left_out: bool = False
    invalid: bool = False
    peak_rss: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One instance. Sizes are bytes, or texels; `bound` is the lower bound."""

    instance: str
    records: int
    bound: int
    optimum: int | None
    at_most: int | None
    results: tuple[Result, ...]

    @property
    def to_best_peer_ratio(self) -> float | None:
        """Our smallest size divided by the peers' smallest."""
        ours = min((r.size for r in self.results if r.size is not None and not r.peer), default=0)
        theirs = min((r.size for r in self.results if r.size is not None and r.peer), default=0)
        return ours / theirs if ours and theirs else None


@dataclass(frozen=True, slots=True)
class Summary:
    """One solver over the instances it planned; `bound_ratio` is the geometric mean of size / bound."""

    solver: str
    instances: int
    bound_ratio: float | None
    at_bound: int
    optimal: int
    seconds: float


def solvers(
    strategies: Iterable[str], peers: Iterable[str], family: Family, effort: str | None
) -> tuple[BenchSolver, ...]:
    """The solvers that are the columns, without duplicates, in the given order.

    Args:
        strategies: `auto`, or `NAME[:OPTION=VALUE,...]`.
        peers: as `tests.bench.planners.peers.find` takes them; offsets only.
        family: which of a name's strategies.
        effort: for strategies that have this option and were named without it.

    Raises:
        UnknownStrategyError: a name is unknown, or there are peers in a family that they do not plan.
        MissingDependencyError: a peer is not installed.
    """
    made: dict[str, BenchSolver] = {}
    for text in strategies:
        if text == "auto":
            made[text] = BenchSolver(text, family)
            continue
        chosen = [c for c in choices(text) if c.strategy.family == family]
        if not chosen:
            raise UnknownStrategyError(f"{text!r} is no strategy of the family {family}; see --family")
        for choice in chosen:
            wanted = _with_effort(choice, effort)
            made[str(wanted)] = BenchSolver(str(wanted), family, wanted)
    for text in peers:
        if family != "offsets":
            raise UnknownStrategyError("the peers plan offsets only; leave out --peers or --family")
        made |= {peer.name: BenchSolver(peer.name, family, peer=peer) for peer in others.find(text)}
    return tuple(made.values())


def _with_effort(choice: Choice, effort: str | None) -> Choice:
    if effort is None or "effort" not in choice.strategy.options or "effort" in choice.options:
        return choice
    choice.strategy.check({"effort": effort})
    return replace(choice, options={**choice.options, "effort": effort})


def measure(
    instance: Instance,
    columns: Sequence[BenchSolver],
    *,
    limits: PeerLimits | None = None,
    repeat: int = 1,
) -> Row:
    """Plan one instance with every solver in turns, `repeat` times, one thread each.

    A solver that fails has the reason in its result, and the others run; raises ModelError if the instance is not
    readable.
    """
    limits = limits or PeerLimits()
    problem = instance.problem()
    bounds = lower_bounds(problem)
    runners = [_Runner(solver, problem, bounds, limits) for solver in columns]
    for _ in range(repeat):
        for runner in runners:
            runner.turn()
    offsets = columns[0].family == "offsets" if columns else True
    bound = bounds.offsets if offsets else bounds.shared_objects
    optimum = instance.optimum if offsets else None
    results = _with_shared_proofs([r.result for r in runners], optimum)
    return Row(instance.name, len(problem), bound, optimum, instance.at_most if offsets else None, results)


class _Runner:
    """A solver and one instance, over several turns."""

    def __init__(self, solver: BenchSolver, problem: Problem, bounds: LowerBounds, limits: PeerLimits) -> None:
        refusal = solver.refusal(problem, limits)
        self.result = Result(solver.name, solver.peer is not None, note=refusal, left_out=bool(refusal))
        self._solver, self._problem, self._bounds, self._limits = solver, problem, bounds, limits
        self._call: _Call | None = None
        self._proved: Plan | None = None

    def turn(self) -> None:
        if self.result.note:
            return
        try:
            self._call = self._call or self._solver.prepare(self._problem, self._bounds, self._limits)
            gc.collect()  # not during the timed call
            start = time.process_time()
            answer = self._call()
            seconds = time.process_time() - start
            plan = answer()
        except Exception as e:  # noqa: BLE001 - a peer may raise anything, and the other solvers still run
            self.result = replace(self.result, size=None, seconds=None, note=_reason(e))
            return
        # A plan that equals the one before is not proved again.
        if not (self._proved and _same(self._proved, plan)):
            if violations := sweep_plan(self._problem, plan):
                note = f"invalid: {violations[0]}"
                self.result = replace(self.result, size=None, seconds=None, note=note, invalid=True)
                return
            self._proved = plan
        smaller = self.result.size is None or plan.size < self.result.size
        self.result = replace(
            self.result,
            size=plan.size if smaller else self.result.size,
            seconds=seconds if self.result.seconds is None else min(seconds, self.result.seconds),
            optimal=plan.optimal if smaller else self.result.optimal,
            stopped=(plan.search.stopped if plan.search else "") if smaller else self.result.stopped,
        )


def _same(a: Plan, b: Plan) -> bool:
    if isinstance(a, OffsetPlan):
        return isinstance(b, OffsetPlan) and a.size == b.size and np.array_equal(a.offsets, b.offsets)
    if isinstance(b, OffsetPlan):
        return False
    return a.size == b.size and a.objects == b.objects and np.array_equal(a.assignment, b.assignment)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _with_shared_proofs(results: Sequence[Result], optimum: int | None) -> tuple[Result, ...]:
    """Apply each solver's proof of optimality to all; a proof that a smaller valid plan refutes is marked invalid."""
    valid = [r for r in results if r.size is not None]
    least = min((r.size for r in valid if r.size is not None), default=0)
    proved = least == optimum or any(r.optimal and r.size == least for r in valid)
    results_with_proofs = []
    for r in results:
        if r.optimal and r.size is not None and r.size > least:
            note = f"invalid: {r.size:,} is called optimal, and there is a plan of {least:,}"
            results_with_proofs.append(replace(r, size=None, seconds=None, optimal=False, note=note, invalid=True))
        else:
            results_with_proofs.append(replace(r, optimal=r.size == least and proved))
    return tuple(results_with_proofs)


def summary(rows: Sequence[Row]) -> tuple[Summary, ...]:
    """Each solver over all rows, in the order of the columns."""
    made = []
    for name in dict.fromkeys(r.solver for row in rows for r in row.results):
        done = [(row, r) for row in rows for r in row.results if r.solver == name and r.size is not None]
        ratios = [r.size / row.bound for row, r in done if r.size and row.bound]
        made.append(
            Summary(
                name,
                len(done),
                geometric_mean(ratios),
                sum(r.size == row.bound for row, r in done),
                sum(r.optimal for _, r in done),
                fsum(r.seconds or 0.0 for _, r in done),
            )
        )
    return tuple(made)


def geometric_mean(ratios: Sequence[float]) -> float | None:
    """The geometric mean; None for an empty sequence."""
    return exp(fsum(map(log, ratios)) / len(ratios)) if ratios else None
