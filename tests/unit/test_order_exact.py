"""The exact formulations of operator ordering, against every order of small problems."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.errors import MissingDependencyError, UnsupportedError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.proof.verification import verify_planset
from edgemem.records.lifetime import lifetimes
from edgemem.schedule.ilp import ilp_order
from edgemem.schedule.ordering import Solved, Start
from edgemem.schedule.peak import least_peak, order_peak
from edgemem.schedule.problem import OrderProblem, order_problem
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import BUILT_IN, Region
from tests.oracle.brute import offsets_faults, offsets_optimum
from tests.oracle.constraint_orders.contraction import contract, topological
from tests.oracle.constraint_orders.early_updates import early_updates, with_pairs
from tests.oracle.constraint_orders.joint import order_and_place
from tests.oracle.constraint_orders.search import cumulative_order
from tests.oracle.orders.cases import small_case
from tests.property.test_order_problem import TARGETS, Maker, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from edgemem.records.problem import Problem
    from edgemem.targets import Target

pytest.importorskip("ortools")
pytest.importorskip("scipy")

MOST_ORDERS = 5000


def every_order(problem: OrderProblem) -> Iterator[tuple[int, ...]]:
    def extend(order: list[int]) -> Iterator[tuple[int, ...]]:
        if len(order) == problem.count:
            yield tuple(order)
        for k in range(problem.count):
            if k not in order and all(b in order for b in problem.before[k]):
                yield from extend([*order, k])

    return extend([])


def some_problem(rng: random.Random, count: int) -> OrderProblem:
    """A problem with all features, even where no graph has them together."""
    size = [rng.randint(1, 9) for _ in range(rng.randint(0, 3))]
    reads: list[set[int]] = []
    writes: list[list[int]] = []
    before: list[set[int]] = []
    over: list[list[int]] = []
    writer: dict[int, int] = {}
    start = range(len(size))
    for k in range(count):
        read = set(rng.sample(range(len(size)), min(len(size), rng.choice((1, 1, 2, 3)))))
        reads.append(read)
        before.append({writer[c] for c in read if c in writer})
        if k and rng.random() < 0.2:
            before[k].add(rng.randrange(k))
        made = [] if rng.random() < 0.3 else list(range(len(size), len(size) + rng.choice((1, 1, 2))))
        size += [rng.randint(1, 9) for _ in made]
        writer |= dict.fromkeys(made, k)
        takes: list[int] = []
        if made and read and rng.random() < 0.6:
            takes = rng.sample(sorted(read), rng.randint(1, len(read)))
            for c in takes:
                size[c] = size[made[0]]
        over.append(takes)
        writes.append(made)
    # Sizes that `over` ties together are equal.
    for _ in range(len(size)):
        for k, takes in enumerate(over):
            for c in takes:
                size[c] = size[writes[k][0]] = min(size[c], size[writes[k][0]])
    unread = set(writer) - set().union(*reads)
    kept = {c for c in range(len(size)) if rng.random() < 0.15 and not any(c in t for t in over)}
    own = [rng.choice((0, 0, 0, rng.randint(1, 6))) for _ in range(count)]
    bodies = [rng.random() < 0.2 for _ in range(count)]
    return OrderProblem(
        before=tuple(tuple(sorted(b)) for b in before),
        size=tuple(size),
        reads=tuple(tuple(sorted(r)) for r in reads),
        writes=tuple(map(tuple, writes)),
        over=tuple(map(tuple, over)),
        start=tuple(c for c in start if c in kept or any(c in r for r in reads)),
        kept=frozenset(kept),
        lingers=frozenset(unread - kept if rng.random() < 0.4 else ()),
        guarded=frozenset(c for c in range(len(size)) if sum(c in r for r in reads) > 1 and rng.random() < 0.5),
        own=tuple(own),
        inside=tuple(rng.randint(0, 15) if b else 0 for b in bodies),
        early=tuple(size[w[0]] if b and w and rng.random() < 0.4 else 0 for b, w in zip(bodies, writes, strict=True)),
        leaves=tuple(rng.randint(0, o) if rng.random() < 0.3 else 0 for o in own),
        entry=tuple(sum(size[c] for c in w) + o for w, o in zip(writes, own, strict=True)),
        opening=rng.choice((0, 0, rng.randint(1, 20))),
    )


def best_and_worst(problem: OrderProblem) -> tuple[int, Start] | None:
    """The lowest peak, and the first of the worst orders; None for a problem with too many orders."""
    peaks: dict[tuple[int, ...], int] = {}
    for order in every_order(problem):
        peaks[order] = order_peak(problem, order)
        if len(peaks) > MOST_ORDERS:
            return None
    worst = max(peaks, key=peaks.__getitem__)
    return min(peaks.values()), Start(worst, peaks[worst], 0)


def solved_problems(seed: int, count: int, most: int = 9) -> Iterator[tuple[OrderProblem, int, Start]]:
    """Problems with the lowest peak and the worst order of each, made up or of graphs under all targets."""
    rng = random.Random(seed)
    while count:
        if rng.random() < 0.5:
            problem = some_problem(rng, rng.randint(0, most))
        else:
            target = rng.choice(TARGETS)
            graph = Maker(rng, unit_of(target)).graph(
                rng.randint(1, most), scratch=not (target.texels or target.layer_rows)
            )
            problem = order_problem(graph, target)
        found = best_and_worst(problem)
        if found:
            count -= 1
            yield problem, *found


@pytest.mark.full
def test_cumulative_finds_and_proves_the_lowest_peak() -> None:
    better = 0
    for problem, best, worst in solved_problems(3, 250):
        found = cumulative_order(problem, start=worst)
        assert order_peak(problem, found.order) == found.bound == best
        assert found.stopped == ("proof" if worst.peak else "bound")
        better += best < worst.peak
    assert better > 50


@pytest.mark.full
def test_ilp_finds_and_proves_the_lowest_peak() -> None:
    better = 0
    for problem, best, worst in solved_problems(4, 120, most=7):
        found = ilp_order(problem, start=worst)
        assert order_peak(problem, found.order) == found.bound == best
        better += best < worst.peak
    assert better > 30


@pytest.mark.parametrize("solve", [cumulative_order, ilp_order])
def test_solvers_begin_with_the_order_of_greedy(solve: Callable[[OrderProblem], Solved]) -> None:
    for problem, best, _ in solved_problems(6, 40, most=6):
        assert order_peak(problem, solve(problem).order) == best


@pytest.mark.parametrize("solve", [cumulative_order, ilp_order])
def test_a_bound_that_is_reached_ends_the_search(solve: Callable[..., Solved]) -> None:
    problem = next(p for p, best, worst in solved_problems(6, 40) if best < worst.peak)
    given = tuple(topological(problem))
    peak = order_peak(problem, given)
    assert solve(problem, start=Start(given, peak, peak)) == Solved(given, peak, "bound")


@pytest.mark.parametrize(("solve", "module"), [(cumulative_order, "ortools.sat.python"), (ilp_order, "scipy.optimize")])
def test_without_the_solver_the_error_names_the_package(
    solve: Callable[..., Solved], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    problem, _, worst = next(s for s in solved_problems(6, 40) if s[1] < s[2].peak)
    with pytest.raises(MissingDependencyError, match=r"pip install '(ortools|scipy)>="):
        solve(problem, start=worst)


def wired(nodes: int, seed: int) -> OrderProblem:
    """A random wiring: each operator reads up to three of the twelve results before it."""
    rng = random.Random(seed)
    reads = [tuple(sorted({rng.randrange(max(0, k - 12), k) for _ in range(3)})) if k else () for k in range(nodes)]
    size = tuple(rng.randint(1, 50) for _ in range(nodes))
    return OrderProblem(tuple(reads), size, tuple(reads), tuple((k,) for k in range(nodes)), ((),) * nodes)


@pytest.mark.full
def test_work_ends_a_search_the_same_way_each_time() -> None:
    problem = wired(60, seed=1)
    found = cumulative_order(problem, effort="fast")
    assert found.stopped == "work"
    assert least_peak(problem) < found.bound < order_peak(problem, found.order)
    assert cumulative_order(problem, effort="fast") == found
    late = cumulative_order(problem, effort="max", time_limit=0.0)
    assert late.stopped == "time"


@pytest.mark.full
def test_the_operators_that_are_left_out_change_no_peak() -> None:
    left_out = 0
    for problem, best, _ in solved_problems(5, 250):
        contraction = contract(problem)
        left_out += problem.count - len(contraction.ops)
        peaks = []
        for order in every_order(problem):
            expanded = contraction.expand(contraction.nodes(order))
            peaks.append(order_peak(problem, expanded))
            assert peaks[-1] <= order_peak(problem, order)
        assert min(peaks) == best
    assert left_out > 100


def records_of(problem: Problem) -> list[tuple[int, int, int]]:
    columns = (problem.first_op.tolist(), problem.last_op.tolist(), problem.size.tolist())
    return [(first, last, size) for first, last, size in zip(*columns, strict=True) if size]


def smallest_arena(graph: Graph, target: Target) -> int | None:
    """Over all orders and all places; None for too many orders or records."""
    orders = list(islice(every_order(order_problem(graph, target)), 41))
    problems = [lifetimes(graph.reordered(order), target).problem for order in orders]
    if len(orders) > 40 or any(len(records_of(p)) > 7 for p in problems):
        return None
    return min(offsets_optimum(records_of(p), target.alignment) for p in problems)


def test_order_and_place_finds_and_proves_the_smallest_arena() -> None:
    tried = 0
    for seed in (*range(1, 120), 347, 2204, 3051, 3584):
        case = small_case(seed)
        if len(case.graph.ops) > 6:
            continue
        try:
            joint = order_and_place(case.graph, case.target)
        except UnsupportedError as e:
            assert "cannot be found at once" in str(e)  # noqa: PT017 - most of them are not refused
            continue
        best = smallest_arena(case.graph, case.target)
        if best is None:
            continue
        tried += 1
        assert joint.arena == joint.lower_bound == best, case.name
        bounds = lower_bounds(joint.problem)
        plan = OffsetPlan("joint", {}, joint.offsets, joint.arena, joint.arena == bounds.offsets)
        planset = PlanSet(joint.problem, naive_size(joint.problem), bounds, (plan,), (), target=case.target)
        assert verify_planset(planset) == ()
        assert not offsets_faults(records_of(joint.problem), case.target.alignment, joint.offsets.tolist())
    assert tried > 30


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kernels": "tflm-reference"}, "overlap"),
        ({"pins": {"/t1": 0}}, "pinned"),
        ({"regions": (Region("ram", None, ((0, 64),)),)}, "reserved"),
    ],
)
def test_order_and_place_refuses_what_it_does_not_know(change: dict[str, Any], why: str) -> None:
    target = replace(BUILT_IN["tflm"], **change)
    tensors = (Tensor("x", "int8", (8,)), Tensor("/t1", "int8", (8,)), Tensor("y", "int8", (8,)))
    ops = (Op("a", "RELU", (0,), (1,)), Op("b", "RELU", (1,), (2,)))
    with pytest.raises(UnsupportedError, match=why):
        order_and_place(Graph("g", tensors, ops, (0,), (2,)), target)


def training_step(rng: random.Random, layers: int) -> tuple[OrderProblem, list[int]]:
    """A chain of layers forward and backward, and its updates, which write weights where they lie, outside the plan."""
    size: list[int] = []
    reads: list[tuple[int, ...]] = []
    writes: list[tuple[int, ...]] = []
    before: list[tuple[int, ...]] = []

    def add(*inputs: int, then: tuple[int, ...] = (), result: bool = True) -> int:
        waits = {k for k, written in enumerate(writes) if set(written) & set(inputs)}
        before.append(tuple(sorted(waits | {*then})))
        reads.append(tuple(sorted(inputs)))
        writes.append((len(size),) if result else ())
        size.extend([rng.randint(1, 20)] if result else [])
        return len(size) - 1

    activations = [add()]
    for _ in range(layers - 1):
        activations.append(add(activations[-1]))
    gradient = add(activations[-1])
    updates = []
    for layer in reversed(range(layers)):
        of_weights = add(gradient, *activations[max(0, layer - 1) : layer])
        reader = len(reads)
        if layer:
            gradient = add(gradient, activations[layer - 1])  # reads the weights, too
        updates.append(len(reads))
        add(of_weights, then=(reader,) if layer else (), result=False)
    step = OrderProblem(tuple(before), tuple(size), tuple(reads), tuple(writes), ((),) * len(reads))
    return step, updates


def lowest_peak(problem: OrderProblem) -> tuple[int, int]:
    """With the work that its proof takes."""
    found = cumulative_order(problem)
    assert found.bound == order_peak(problem, found.order)
    return found.bound, found.work


def test_early_updates_leave_fewer_orders_and_few_of_them_worse() -> None:
    rng = random.Random(1)
    lost = 0
    for _ in range(60):
        problem, updates = training_step(rng, 2)
        pairs = early_updates(problem, updates)
        assert [update for update, _ in pairs] == updates[:1]  # nothing comes after the last one
        some, all_orders = set(every_order(with_pairs(problem, pairs))), set(every_order(problem))
        assert some < all_orders
        least = min(order_peak(problem, order) for order in all_orders)
        lost += min(order_peak(problem, order) for order in some) > least
    assert 0 < lost < 30


def test_early_updates_spare_the_solver_most_of_its_work() -> None:
    rng = random.Random(2)
    work, lost = [0, 0], 0
    for _ in range(8):
        problem, updates = training_step(rng, 16)
        peak, steps = lowest_peak(problem)
        early_peak, early_steps = lowest_peak(with_pairs(problem, early_updates(problem, updates)))
        assert peak <= early_peak <= 1.1 * peak
        work = [work[0] + steps, work[1] + early_steps]
        lost += early_peak > peak
    assert work[1] < work[0] / 5
    assert lost <= 1


def test_an_update_that_only_releases_may_come_before_what_waits_for_the_same() -> None:
    rng = random.Random(3)
    pairs = 0
    for problem, best, _ in solved_problems(8, 200, most=8):
        nodes = contract(problem)
        for update in set(range(problem.count)) - set(nodes.ops):
            later = [k for k in range(problem.count) if k != update and k not in problem.before[update]]
            anchors = [k for k in later if {*problem.before[update]} <= {*problem.before[k]}]
            anchor = rng.choice([k for k in anchors if update not in problem.before[k]] or [-1])
            if anchor < 0 or problem.count < 2:
                continue
            pairs += 1
            early = with_pairs(problem, [(update, anchor)])
            peaks = [order_peak(problem, order) for order in every_order(early)]
            assert min(peaks, default=best) == best
    assert pairs > 50
