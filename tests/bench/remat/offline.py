"""Recomputation of known graphs within budgets: training steps and randomly wired networks of 250 operators and more.

    python tests/bench/remat/offline.py [NAME ...] [--budget 0.9 0.8] [--seconds 55] [--bound cpsat]

Training graphs are forward and backward pass, without the update; gradients stay. `peak` is that of the best order that
is found without recomputation, and budgets are parts of it. `more` is the cost of what runs again, `at least` what is
proved for runs of the kind that the search looks at, both as a part of the cost of all operators once; the gap is the
difference. `bound` is one of the peak that no runs are below. Costs are bytes moved plus multiply-accumulate
operations, 16 of which are done in the time of a byte (float32; 1 for the int8 networks).

Exits with 1 if anything is above its budget, counts wrong, or takes more than a minute. Training graphs need PyTorch.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from math import isqrt, prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.model.graph import Graph
from edgemem.remat.operators import estimated_costs, repeatable
from edgemem.remat.program import program_of
from edgemem.remat.search import recompute
from edgemem.schedule.problem import order_problem
from edgemem.strategy.clock import Clock
from edgemem.targets import BUILT_IN
from models import wired_networks as wired
from tests.bench.remat.backwards import peak_bound
from tests.bench.remat.cheaper import ask_for_cheaper
from tests.bench.remat.idle_bound import idle_bound
from tests.bench.serving.checks import Checks
from tests.oracle.recompute import runs_peak as counted_peak

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.graph import Op
    from edgemem.remat.recompute_schedule import RecomputeSchedule
    from edgemem.schedule.problem import OrderProblem

LIMIT_S: Final = 60.0
_STATES: Final = 50  # of the search for a bound of the peak, for each operator
_ASKING: Final = 10.0  # CP-SAT's own measure of work
MACS_PER_BYTE: Final = 16
MIB: Final = 2**20


def training(name: str) -> Graph:
    """Forward and backward pass of a step of `tests.torch.steps`, whose gradients are outputs."""
    import torch

    import edgemem.torch
    from tests.torch.steps import make_step

    step = make_step(name, small=False)
    optimizer = torch.optim.SGD(step.model.parameters(), lr=0.1)
    graph = edgemem.torch.capture(step.model, torch.nn.functional.cross_entropy, (step.given, step.target), optimizer)
    kept = [k for k, op in enumerate(graph.ops) if op.name not in graph.updates and any(i >= 0 for i in op.outputs)]
    place = {k: at for at, k in enumerate(kept)}
    written = {i for k in kept for i in graph.ops[k].outputs if i >= 0}
    read_later = {i for k, op in enumerate(graph.ops) if k not in place for i in op.inputs if i in written}
    return Graph(
        f"{name}, training",
        graph.tensors,
        tuple(graph.ops[k] for k in kept),
        graph.inputs,
        tuple(sorted(read_later)),
        precedence=tuple((place[a], place[b]) for a, b in graph.precedence if a in place and b in place),
    )


def _products(graph: Graph, op: Op) -> int:
    """Multiply-accumulate operations of an operator of PyTorch."""
    shapes = [graph.tensors[i].shape for i in op.inputs if i >= 0]
    out = graph.tensors[op.outputs[0]].shape
    if "convolution" in op.type:
        weights = next(s for s in shapes if len(s) == 4 and graph.tensors[op.inputs[0]].shape == s)
        images = max(prod(s) // s[1] for s in shapes if len(s) == 4 and s is not weights)
        return prod(weights) * images * (2 if "backward" in op.type else 1)
    if op.type in ("aten.mm.default", "aten.addmm.default", "aten.bmm.default"):
        pair = sorted(map(prod, shapes))[-2:]
        batch = out[0] if op.type == "aten.bmm.default" else 1
        return isqrt(prod(pair) * prod(out) // batch)  # of n*k, k*m and n*m the product is (n*k*m) squared
    return 0


def _subject(name: str) -> tuple[Graph, str, list[int]]:
    """A graph, its target, and the costs of its operators."""
    if name in WIRED:
        graph = WIRED[name]()
        problem = order_problem(graph, BUILT_IN["tflm"])
        return graph, "tflm", list(estimated_costs(graph, problem))
    graph = training(name)
    moved = estimated_costs(graph, order_problem(graph, BUILT_IN["pytorch"]))
    return graph, "pytorch", [m + _products(graph, op) // MACS_PER_BYTE for m, op in zip(moved, graph.ops, strict=True)]


WIRED: Final[Mapping[str, Callable[[], Graph]]] = {
    "RandWire 64": lambda: wired.randwire(64, seed=2),
    "RandWire 192": lambda: wired.randwire(192, seed=5),
}
TRAINED: Final = ("resnet18", "unet", "gpt", "bert", "lstm")


def _bounded(
    problem: OrderProblem, costs: list[int], found: RecomputeSchedule, again: frozenset[int], bound: str, seconds: float
) -> tuple[RecomputeSchedule, int]:
    """The cheapest runs known, and a bound of the cost of runs of their kind."""
    assert found.budget is not None
    program = program_of(problem, costs, again)
    least = max(program.base_cost, idle_bound(program, tuple(dict.fromkeys(found.runs)), found.budget))
    if bound == "idle" or not found.is_within_budget:
        return found, min(least, found.cost)
    answer = ask_for_cheaper(program, found, found.budget, least, _ASKING, 1, seconds)
    return replace(answer.found, budget=found.budget), answer.bound


def main() -> None:
    """Print a line for each graph and budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*WIRED, *TRAINED], help=f"of {', '.join([*WIRED, *TRAINED])}")
    parser.add_argument("--budget", type=float, nargs="+", default=[0.9, 0.8])
    parser.add_argument("--seconds", type=float, default=LIMIT_S - 5)
    parser.add_argument("--bound", choices=("idle", "cpsat"), default="cpsat", help="what proves a bound of the cost")
    args = parser.parse_args()
    figures = []
    names = ("graph", "ops", "peak", "bound", "budget", "more", "at least", "gap", "s")
    print("{:14} {:>4} {:>9} {:>9} {:>6} {:>7} {:>8} {:>6} {:>5}".format(*names))
    for name in args.names:
        graph, target, costs = _subject(name)
        problem = order_problem(graph, BUILT_IN[target])
        once = recompute(problem, costs, most_cost=1.0, effort="fast", time_limit=args.seconds)
        lowest = peak_bound(program_of(problem, costs, None), _STATES, Clock(args.seconds))
        for share in args.budget:
            begin = time.perf_counter()
            found = recompute(
                problem,
                costs,
                budget=int(once.peak * share),
                may_repeat=repeatable(graph),
                time_limit=args.seconds / 2,
            )
            found, bound = _bounded(problem, costs, found, repeatable(graph), args.bound, args.seconds / 2)
            seconds = time.perf_counter() - begin
            least = bound / found.base_cost - 1
            print(
                f"{name:14} {problem.count:4} {once.peak / MIB:8.2f}M {lowest / MIB:8.2f}M {share:6.2f} "
                f"{found.overhead:7.2%} {least:8.2%} {(found.cost - bound) / found.base_cost:6.2%} {seconds:5.1f}"
                f"{'' if found.is_within_budget else f'  not met: {found.peak / once.peak:.3f}'}",
                flush=True,
            )
            figures.append((name, share, found, seconds, counted_peak(problem, found.runs)))
    checks = Checks()
    for name, share, found, seconds, counted in figures:
        checks.holds(f"{name} at {share}: within the budget", found.is_within_budget)
        checks.holds(f"{name} at {share}: counted alike", found.peak == counted)
        checks.at_most(f"{name} at {share}: time", seconds, LIMIT_S, " s")
    checks.end()


if __name__ == "__main__":
    main()
