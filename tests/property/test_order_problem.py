"""The peak of an order from an OrderProblem, against the lower bound of the usage records of the reordered graph.

The two share the alias rules, but not what they do with them: one counts readers, the other makes usage records and
sums them up operator by operator. Tiny graphs are compared over all orders.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from edgemem.errors import ModelError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.schedule.beam import beam_order
from edgemem.schedule.greedy import greedy_order
from edgemem.schedule.order import find_order
from edgemem.schedule.peak import least_peak, order_peak, peak_of
from edgemem.schedule.problem import order_problem
from edgemem.targets import BUILT_IN, Target

TARGETS = (
    *BUILT_IN.values(),
    Target("inline", inputs="whole_run", outputs="to_end", unread="to_end", variables="whole_run", aliasing="litert"),
    Target("unread", inputs="until_last_use", unread="to_end", variables="whole_run"),
)
PLAIN = ("CONV_2D", "SPLIT", "ADD", "MUL", "RELU", "RESHAPE", "SQUEEZE", "SOFTMAX", "Reshape", "Relu", "SVDF")
IN_PLACE = ("ADD", "MUL", "SUB", "DIV")
SAME_SIZE = ("RELU", "Relu", "ADD", "SUB", "RESHAPE", "SQUEEZE", "Reshape", "SOFTMAX")


class Maker:
    """Random graphs; every size is a multiple of `unit` bytes."""

    def __init__(self, rng: random.Random, unit: int) -> None:
        self.rng = rng
        self.unit = unit
        self.made = 0

    def tensor(self, shape: tuple[int, ...] = (), kind: str = "activation") -> Tensor:
        self.made += 1
        dims = shape or (self.unit // 4 * self.rng.randint(1, 4),)
        return Tensor(f"/t{self.made}", "float32", dims, kind)  # type: ignore[arg-type]

    def graph(self, count: int, *, captured: tuple[Tensor, ...] = (), depth: int = 0, scratch: bool = True) -> Graph:
        rng = self.rng
        tensors = [self.tensor() for _ in range(rng.randint(1, 2))]
        inputs = tuple(range(len(tensors)))
        tensors += [replace(t, kind="captured") for t in captured]
        if rng.random() < 0.3:
            tensors.append(self.tensor(kind="variable"))
        tensors.append(self.tensor(kind="constant"))
        ops = []
        written: list[int] = []
        for k in range(count):
            kind = rng.choice(PLAIN)
            recent = written[-4:] or list(inputs)
            known = [i for i in range(len(tensors)) if i in written or tensors[i].kind != "activation" or i in inputs]
            ins = [rng.choice(recent if rng.random() < 0.7 else known)]
            if kind in IN_PLACE:
                ins.append(rng.choice(known))
            bodies: tuple[Graph, ...] = ()
            if depth < 2 and rng.random() < 0.15:
                kind = rng.choice(("IF", "WHILE"))
                outer = [tensors[i] for i in dict.fromkeys(rng.choices(known, k=2)) if tensors[i].kind == "activation"]
                bodies = tuple(
                    self.graph(rng.randint(1, 3), captured=tuple(outer), depth=depth + 1, scratch=scratch)
                    for _ in range(rng.randint(1, 2))
                )
                ins += [i for i, t in enumerate(tensors) if t in outer and i not in ins]
            outs = []
            for number in range(2 if kind == "SPLIT" else 1):
                like = tensors[ins[0]].shape if kind in SAME_SIZE and not number else ()
                outs.append(len(tensors))
                tensors.append(self.tensor(like))
            written += outs
            work = (self.unit * rng.randint(1, 4),) if scratch and rng.random() < 0.2 else ()
            ops.append(Op(f"/op{k}", kind, tuple(ins), tuple(outs), bodies, work, ordered=rng.random() < 0.1))
        outputs = tuple(sorted({written[-1], *rng.sample(written, min(len(written), rng.randint(0, 2)))}))
        pairs = [tuple(sorted(rng.sample(range(count), 2))) for _ in range(rng.randint(0, 1) if count > 1 else 0)]
        return Graph(f"g{self.made}", tuple(tensors), tuple(ops), inputs, outputs, "nhwc", tuple(pairs))  # type: ignore[arg-type]


def some_order(rng: random.Random, before: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    order: list[int] = []
    left = set(range(len(before)))
    while left:
        order.append(rng.choice([k for k in sorted(left) if not left.intersection(before[k])]))
        left.remove(order[-1])
    return tuple(order)


def unit_of(target: Target) -> int:
    """Bytes of which dense tensors are multiples, so that what the target keeps is multiples of its alignment."""
    return 512 if target.precision == "fp16" else 256


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_the_peak_is_the_lower_bound_of_the_records(target: Target) -> None:
    rng = random.Random(target.name)
    for _ in range(120):
        graph = Maker(rng, unit_of(target)).graph(rng.randint(1, 14), scratch=not (target.texels or target.layer_rows))
        problem = order_problem(graph, target)
        for order in (tuple(range(len(graph.ops))), *(some_order(rng, problem.before) for _ in range(4))):
            peak = order_peak(problem, order)
            assert peak == peak_of(graph.reordered(order), target)
            assert least_peak(problem) <= peak


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_padding_is_the_only_difference(target: Target) -> None:
    rng = random.Random(7)
    for _ in range(60):
        graph = Maker(rng, 12).graph(rng.randint(1, 10), scratch=not target.texels)
        problem = order_problem(graph, target)
        order = some_order(rng, problem.before)
        bound = peak_of(graph.reordered(order), target)
        assert bound <= order_peak(problem, order) <= bound + problem.padding
        assert problem.padding < target.alignment


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_a_wide_beam_is_exhaustive(target: Target) -> None:
    rng = random.Random(13)
    better = 0
    for _ in range(25):
        graph = Maker(rng, unit_of(target)).graph(rng.randint(2, 6), scratch=not (target.texels or target.layer_rows))
        peaks = {}
        for order in permutations(range(len(graph.ops))):
            try:
                peaks[order] = peak_of(graph.reordered(order), target)
            except ModelError:
                continue
        problem = order_problem(graph, target)
        allowed = {o for o in peaks if all(o.index(b) < o.index(k) for k, bs in enumerate(problem.before) for b in bs)}
        best = min(peaks[o] for o in allowed)
        assert order_peak(problem, beam_order(problem).order) == best
        assert peaks[greedy_order(problem)] >= best
        assert peaks[find_order(graph, target).order] <= best
        better += best < peaks[tuple(range(len(graph.ops)))]
    assert better
