"""What `find_order` and its solvers say of random graphs, against the simulation and the search."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from inspect import signature
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from edgemem import lower_bounds
from edgemem.errors import EdgememError
from edgemem.records.lifetime import lifetimes
from edgemem.schedule.bound import order_bound
from edgemem.schedule.order import find_order
from edgemem.schedule.ordering import Start
from edgemem.schedule.peak import order_peak
from edgemem.schedule.problem import order_problem
from edgemem.schedule.registry import SOLVERS, Solver
from tests.oracle.orders.cases import Case, large_case, related_case, small_case
from tests.oracle.orders.search import all_orders, before, best_order, faults, keeps_its_order
from tests.oracle.orders.shrink import smaller, text
from tests.oracle.orders.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem import Target
    from edgemem.model.graph import Graph
    from edgemem.schedule.ordering import Ordering, Solved

__all__ = [
    "EXACT",
    "Tally",
    "check",
    "check_large",
    "check_peaks",
    "check_related",
    "check_small",
    "fingerprint",
    "solvers",
    "true_peak",
    "wrong_answers",
    "wrong_orderings",
    "wrongs",
]

# Methods that find the best order of nine operators. They count all padding, so that what they find may be above the
# best by the padding of one record.
EXACT: Final = frozenset(("auto", "beam", "ilp"))
_EXTRAS: Final = {"solvers": ("scipy", "ortools"), "scipy": ("scipy",), "ortools": ("ortools",)}
_MOST_OF_PROGRAMS = 12  # operators: with more of them, a program may take minutes to solve


@dataclass(slots=True)
class Tally:
    """What was found: numbers of checks, and failures, each with the smallest graph that shows it."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.counts.update(other.counts)
        self.kinds.update(other.kinds)
        self.failures += other.failures


def solvers(count: int) -> list[Solver]:
    """The solvers that can be run here on a graph of so many operators, the quick ones first."""
    return sorted(
        (
            s
            for s in SOLVERS.values()
            if count <= (s.limit or count)
            and (s.extra is None or (count <= _MOST_OF_PROGRAMS and all(map(find_spec, _EXTRAS[s.extra]))))
        ),
        key=lambda s: s.rank,
    )


def true_peak(graph: Graph, target: Target) -> int:
    """The peak of a graph as it stands: the lower bound of its usage records."""
    return lower_bounds(lifetimes(graph, target).problem).offsets


# Checks. Each gives the reasons why something is wrong, by the name of the check.


def wrong_orderings(
    case: Case, ordering: Ordering, method: str, best: int | None = None, most: int | None = None
) -> dict[str, str]:
    """What is wrong with an answer of find_order.

    `best` is the smallest peak of all orders, if that is known, and `most` what no exact method exceeds.
    """
    graph, target = case.graph, case.target
    wrong = faults(graph, target, ordering.order)
    if wrong:
        return {f"{method}: not topological": wrong[0]}
    found, given = true_peak(graph.reordered(ordering.order), target), true_peak(graph, target)
    floor = ordering.lower_bound
    said = f"peak {ordering.peak}, given {ordering.given_peak}, bound {floor}, {ordering.stopped}"
    facts = f"{said}, order {list(ordering.order)}; really {found}, given {given}, best {best}"
    checks = {
        "another peak than that of its order": ordering.peak != found,
        "another given peak": ordering.given_peak != given,
        "worse than the given order": found > given,
        "a peak below its own bound": found < floor,
        "keeps no order that must be kept": keeps_its_order(graph)
        and list(ordering.order) != list(range(len(graph.ops))),
        "a bound above the optimum": best is not None and floor > best,
        "optimal, and is not": best is not None and ordering.optimal and found != best,
        "stopped at a bound that it does not reach": ordering.stopped == "bound" and found != floor,
        "not exact": most is not None and method in EXACT and found > most,
        "a peak below the best": best is not None and found < best,
        "given, and is another order": ordering.method == "given" and found != given,
        "no such method": ordering.method not in ("given", "auto", *SOLVERS),
    }
    return {f"{method}: {name}": facts for name, is_wrong in checks.items() if is_wrong}


def wrong_answers(case: Case, name: str, solved: Solved, best: int | None) -> dict[str, str]:
    """What is wrong with the answer of one solver; `best` is the smallest peak with all padding, if that is known."""
    wrong = faults(case.graph, case.target, solved.order)
    if wrong:
        return {f"{name}: its order is not topological": wrong[0]}
    found = simulate(case.graph, case.target, solved.order, padded=True)
    facts = f"{solved}; its peak with padding is {found}, the best {best}"
    checks = {
        "its bound is above the optimum": best is not None and solved.bound > best,
        "its bound is above its peak": solved.bound > found,
        "it claims a proof, and is not the best": best is not None
        and solved.stopped in ("bound", "proof")
        and found != best,
        "it claims to be at the bound, and is not": solved.stopped == "bound" and solved.bound != found,
        "another order is better": best is not None and name.removesuffix(", with a start") in EXACT and found != best,
    }
    return {f"{name}: {what}": facts for what, is_wrong in checks.items() if is_wrong}


def check_peaks(case: Case, tally: Tally | None = None) -> dict[str, str]:
    """Whether simulation, usage records and OrderProblem agree on peaks of some orders."""
    graph, target = case.graph, case.target
    rng = Random(case.name)
    wrong: dict[str, str] = {}
    problem = None if keeps_its_order(graph) else order_problem(graph, target)
    for order in (tuple(range(len(graph.ops))), *(_some_order(rng, graph, target) for _ in range(2))):
        simulated = simulate(graph, target, order)
        real = true_peak(graph.reordered(order), target)
        if simulated != real:
            wrong["peaks: simulation and usage records"] = f"{list(order)}: simulated {simulated}, records {real}"
        if problem is not None:
            simulated, model = simulate(graph, target, order, padded=True), order_peak(problem, order)
            if simulated != model:
                wrong["peaks: simulation and OrderProblem"] = f"{list(order)}: simulated {simulated}, problem {model}"
        if tally:
            tally.counts["orders simulated"] += 1
    return wrong


def _some_order(rng: Random, graph: Graph, target: Target) -> tuple[int, ...]:
    needs, order = before(graph, target), []
    ready = [k for k, earlier in enumerate(needs) if not earlier]
    while ready:
        order.append(ready.pop(rng.randrange(len(ready))))
        done = set(order)
        ready += [k for k, e in enumerate(needs) if order[-1] in e and e <= done]
    return tuple(order)


def check_small(case: Case, tally: Tally | None = None) -> dict[str, str]:
    """All methods on a graph whose best order is found by trying all."""
    graph, target = case.graph, case.target
    wrong = check_peaks(case, tally)
    best, order = best_order(graph, target)
    if true_peak(graph.reordered(order), target) != best:
        wrong["peaks: the best order"] = f"{order}: {best}"
    padded, _ = best_order(graph, target, padded=True)
    wrong |= _check_methods(case, best, padded, tally)
    if not keeps_its_order(graph):
        problem = order_problem(graph, target)
        given = tuple(range(len(graph.ops)))
        for known in (given, order):
            if order_bound(problem, known) > padded:
                wrong["order_bound: above the optimum"] = f"{order_bound(problem, known)} > {padded}, from {known}"
        start = Start(given, simulate(graph, target, padded=True), padded)
        for solver in solvers(len(graph.ops)):
            wrong |= wrong_answers(case, solver.name, solver.solve(problem), padded)
            solved = solver.solve(problem, start=start)
            wrong |= wrong_answers(case, f"{solver.name}, with a start", solved, padded)
            none = solver.solve(problem, effort="fast", time_limit=0.0)
            wrong |= wrong_answers(case, f"{solver.name}, no time", none, padded)
            takes = "start" in signature(solver.function).parameters
            if takes and not wrong and simulate(graph, target, solved.order, padded=True) > start.peak:
                wrong[f"{solver.name}, with a start: worse than its start"] = f"{start}; {solved}"
    return wrong


def check_large(case: Case, tally: Tally | None = None) -> dict[str, str]:
    """All methods on a graph that is too large for trying all."""
    wrong = check_peaks(case, tally) | _check_methods(case, None, None, tally)
    if not keeps_its_order(case.graph):
        problem = order_problem(case.graph, case.target)
        answers = {s.name: s.solve(problem, effort="fast", seed=3) for s in solvers(len(case.graph.ops))}
        for name, solved in answers.items():
            wrong |= wrong_answers(case, name, solved, None)
        found = min((simulate(case.graph, case.target, s.order, padded=True) for s in answers.values()), default=0)
        for name, solved in answers.items():
            if solved.bound > found:
                wrong[f"{name}: its bound is above the peak of another solver"] = f"{solved.bound} > {found}"
    return wrong


def _check_methods(case: Case, best: int | None, most: int | None, tally: Tally | None) -> dict[str, str]:
    graph, target = case.graph, case.target
    wrong: dict[str, str] = {}
    peaks: dict[str, Ordering] = {}
    for method in ("auto", *(s.name for s in solvers(len(graph.ops)))):
        ordering = peaks[method] = find_order(graph, target, method=method)
        wrong |= wrong_orderings(case, ordering, method, best, most)
        again = find_order(graph, target, method=method)
        if _said(again) != _said(ordering):
            wrong[f"{method}: another answer the second time"] = f"{_said(ordering)}; {_said(again)}"
        fast = find_order(graph, target, method=method, effort="fast")
        if ordering.peak > fast.peak:
            wrong[f"{method}: default is worse than fast"] = f"{ordering.peak} > {fast.peak}"
        wrong |= wrong_orderings(case, fast, f"{method}, fast", best)
        if len(graph.ops) <= 20:
            longest = find_order(graph, target, method=method, effort="max")
            if longest.peak > ordering.peak:
                wrong[f"{method}: max is worse than default"] = f"{longest.peak} > {ordering.peak}"
            wrong |= wrong_orderings(case, longest, f"{method}, max", best)
        seeded = find_order(graph, target, method=method, effort="fast", seed=7)
        wrong |= wrong_orderings(case, seeded, f"{method}, seed 7", best)
        none = find_order(graph, target, method=method, effort="fast", time_limit=0)
        wrong |= wrong_orderings(case, none, f"{method}, no time", best)
        if tally:
            tally.counts[f"{method}"] += 1
            tally.counts[f"{method} says optimal"] += ordering.optimal
            tally.counts[f"{method} is best"] += ordering.peak == best
            tally.counts[f"{method} better than given"] += ordering.peak < ordering.given_peak
    lowest = min(o.peak for o in peaks.values())
    for method, ordering in peaks.items():
        if ordering.lower_bound > lowest:
            wrong[f"{method}: a bound above another method's peak"] = f"{ordering.lower_bound} > {lowest}"
        if method != "auto" and peaks["auto"].peak > ordering.peak:
            wrong[f"auto: worse than {method}"] = f"{peaks['auto'].peak} > {ordering.peak}"
    return wrong


def _said(ordering: Ordering) -> Ordering:
    return replace(ordering, seconds=0.0)


def check_related(case: Case, tally: Tally | None = None) -> dict[str, str]:
    """`auto` where peaks cannot be simulated: the smallest peak is that of the usage records of all orders."""
    graph, target = case.graph, case.target
    given = true_peak(graph, target)
    best, tried = given, 0
    if not keeps_its_order(graph):
        for order in all_orders(graph, target):
            best, tried = min(best, true_peak(graph.reordered(order), target)), tried + 1
    if tally:
        tally.counts["orders of related records"] += tried
    wrong: dict[str, str] = {}
    for method in ("auto", *(s.name for s in solvers(len(graph.ops)))):
        ordering = find_order(graph, target, method=method)
        wrong |= wrong_orderings(case, ordering, method, best)  # none is exact: no solver knows of relations
        if tally:
            tally.counts[f"related {method}"] += 1
            tally.counts[f"related {method} is best"] += ordering.peak == best
    return wrong


_Check: TypeAlias = "Callable[[Case, Tally | None], dict[str, str]]"
_CHECKS: Final[dict[str, tuple[Callable[[int], Case], _Check]]] = {
    "small": (small_case, check_small),
    "large": (large_case, check_large),
    "related": (related_case, check_related),
    "peaks": (small_case, check_peaks),
}


def check(kind: str, seed: int, tally: Tally, *, case: Case | None = None) -> None:
    """One case of a kind, with its failures as small as they can be made."""
    case = case or _CHECKS[kind][0](seed)
    try:
        true_peak(case.graph, case.target)
    except EdgememError as e:
        tally.counts[f"not planned: {' '.join(str(e).split()[:2])}"] += 1
        return
    tally.counts[f"{kind} graphs"] += 1
    shrunk = False
    for name, facts in wrongs(kind, case, tally).items():
        tally.kinds[name] += 1
        if tally.kinds[name] > 1:
            continue
        shown, said = case, facts
        if len(case.graph.ops) <= 40 and not shrunk:
            shrunk = True
            shown = replace(case, graph=smaller(case.graph, partial(_shows, kind, case, name)))
            said = wrongs(kind, shown).get(name, facts)
        tally.failures.append(f"{case.name}: {name}: {said}\n{text(shown.graph, shown.target)}")


def _shows(kind: str, case: Case, name: str, graph: Graph) -> bool:
    return name in wrongs(kind, replace(case, graph=graph))


def wrongs(kind: str, case: Case, tally: Tally | None = None) -> dict[str, str]:
    """What is wrong with the answers for a case: facts by the name of the check."""
    try:
        return _CHECKS[kind][1](case, tally)
    except Exception as e:
        if isinstance(e, NotImplementedError):
            raise
        return {f"raises {type(e).__name__}": f"{e}"}


def fingerprint(kind: str, seeds: range) -> str:
    """A hash of what all methods answer for the cases with these numbers."""
    sha = sha256()
    for seed in seeds:
        case = _CHECKS[kind][0](seed)
        for method in ("auto", *(s.name for s in solvers(len(case.graph.ops)))):
            try:
                ordering = find_order(case.graph, case.target, method=method, effort="fast")
            except EdgememError as e:
                sha.update(type(e).__name__.encode())
                continue
            sha.update(repr((method, astuple(_said(ordering)))).encode())
    return sha.hexdigest()
