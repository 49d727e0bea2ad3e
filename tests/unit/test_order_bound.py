"""The lower bound of every order: against all orders of small graphs, and figures counted elsewhere."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from edgemem.errors import PlanError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.schedule.bound import order_bound
from edgemem.schedule.peak import order_peak
from edgemem.schedule.problem import OrderProblem, order_problem
from edgemem.targets import BUILT_IN
from models import wired_networks as wired

# KiB of int8 activations: the least cuts of every operator, found before with scipy's maximum flow on these graphs.
CUTS = [
    (wired.randwire(16, seed=0), 392),
    (wired.randwire(32, seed=1), 637),
    (wired.randwire(64, seed=2), 884),
    (wired.randwire(128, seed=3), 2109),
    (wired.inception(9), 433),
    (wired.unet(), 576),
]


@pytest.mark.parametrize(("graph", "kib"), [pytest.param(g, kib, id=g.name) for g, kib in CUTS])
def test_bound_is_the_largest_of_the_least_cuts(graph: Graph, kib: int) -> None:
    problem = order_problem(graph, BUILT_IN["tflm"])
    assert order_bound(problem, range(problem.count)) // 1024 == kib


def some_problem(rng: random.Random, count: int) -> OrderProblem:
    """Operators that read up to three classes; some may take the memory of what they read, some classes are kept."""
    size: list[int] = []
    reads, writes, over, before = [], [], [], []
    for k in range(count):
        read = tuple(rng.sample(range(k), min(k, rng.randint(0, 3))))
        size.append(size[read[0]] if read and rng.random() < 0.4 else rng.randint(1, 9))
        reads.append(read)
        writes.append((k,))
        over.append(tuple(c for c in read if size[c] == size[k]))
        before.append(tuple(sorted(read)))
    kept = frozenset(rng.sample(range(count), min(count, rng.randint(0, 2))))
    over = [tuple(c for c in classes if c not in kept) for classes in over]
    own = tuple(rng.choice((0, 0, 5)) for _ in range(count))
    return OrderProblem(tuple(before), tuple(size), tuple(reads), tuple(writes), tuple(over), kept=kept, own=own)


def is_order(problem: OrderProblem, order: tuple[int, ...]) -> bool:
    return all(set(problem.before[k]) <= set(order[:place]) for place, k in enumerate(order))


def test_no_order_is_below_the_bound_and_most_reach_it() -> None:
    rng = random.Random(4)
    reached = 0
    for _ in range(60):
        problem = some_problem(rng, rng.randint(1, 6))
        orders = [o for o in permutations(range(problem.count)) if is_order(problem, o)]
        least = min(order_peak(problem, order) for order in orders)
        for known in (orders[0], orders[-1]):
            assert order_bound(problem, known) <= least
        reached += order_bound(problem, orders[0]) == least
    assert reached > 40


def training_step(layers: int) -> Graph:
    """Forward, backward and updates of a chain. Activations stay until their gradient is there, and weights' gradients,
    which are large, until their update."""
    tensors = [Tensor("x", "float32", (64,))]
    ops: list[Op] = []

    def add(name: str, inputs: list[int], size: int) -> int:
        tensors.append(Tensor(name, "float32", (size,)))
        ops.append(Op(name, "CONV_2D", tuple(inputs), (len(tensors) - 1,), (), ()))
        return len(tensors) - 1

    activations = [0]
    for k in range(layers):
        activations.append(add(f"a{k}", activations[-1:], 64))
    gradient = add("loss", activations[-1:], 64)
    weights = []
    for k in reversed(range(layers)):
        weights.append(add(f"w{k}", [gradient, activations[k]], 6400))
        gradient = add(f"g{k}", [gradient, activations[k]], 64)
    updates = [add(f"u{k}", [w], 16) for k, w in enumerate(weights)]
    return Graph("step", tuple(tensors), tuple(ops), (0,), (gradient, *updates))


def test_some_weight_is_first_and_finds_all_activations_there() -> None:
    # Each weight's gradient alone could come when most activations are released: 20 KiB less.
    layers = 80
    problem = order_problem(training_step(layers), BUILT_IN["generic"])
    forward, backward = range(layers + 1), range(layers + 1, 3 * layers + 1)
    order = list(forward)
    for k in backward:  # w, u, g
        order += [k, k + 2 * layers - (k - layers - 1) // 2] if (k - layers) % 2 else [k]
    bound = order_bound(problem, order)
    assert bound == order_bound(problem, range(problem.count)) == order_peak(problem, order)
    assert bound == 256 * (layers - 1) + 256 + 4 * 6400  # the other activations, the gradient, the weight


def test_bound_asks_for_an_order() -> None:
    problem = order_problem(training_step(2), BUILT_IN["generic"])
    with pytest.raises(PlanError, match="order"):
        order_bound(problem, (0, 1))
