"""The choice of streaming stages: the least memory for the operators that it costs.

The front of chains (`edgemem.passes.streaming.chains`) is found from costs alone, in three steps. First all operators
far above the level that streaming reaches are looked at, then those nearer to it, because operators below it need no
stage. Then the stages of the front are tried in every number of stripes. The chains that promise most are written as
graphs and planned, because a plan may be larger than its bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from edgemem.errors import UnsupportedError
from edgemem.native.offset_search import search_offsets
from edgemem.passes.streaming.chains import chains
from edgemem.passes.streaming.edges import StageGraph
from edgemem.passes.streaming.region import StripeStage
from edgemem.passes.streaming.stream import stream
from edgemem.records.lifetime import lifetimes
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_tail import predicted_tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.passes.streaming.chains import Chain
    from edgemem.targets import Target

__all__ = ["Objective", "StripeChoice", "StripeLimits", "choose_stages", "find_front", "measure_stages"]

Objective: TypeAlias = Literal["arena", "head"]

_SEED: Final = 1
_WORK: Final = 200_000  # steps of the search for a plan of one candidate
_PLANNED: Final = 10  # candidates that are written and planned
_STEP: Final = 0.02  # a memory that is larger by no more than this part is no worse if it takes fewer operators
_NEARER: Final = 0.7  # the next level, as a part of the arena that was reached


@dataclass(frozen=True, slots=True)
class StripeLimits:
    """What a choice may cost.

    Attributes:
        operators: most of the streamed graph; None for as many as it takes.
        head: bytes of the head that are small enough: the cheapest stages with such a head are chosen. None: the
            least memory.
    """

    operators: int | None = None
    head: int | None = None


@dataclass(frozen=True, slots=True)
class StripeChoice:
    """Stages, and what they take.

    Attributes:
        stages: in order; () leaves the graph as it is.
        bound: bytes in use at the worst moment, which no plan of the head goes below as far as the costs tell.
        head: bytes of a plan; None where none was made.
        tail: predicted bytes of TensorFlow Lite Micro's tail.
        operators: of the streamed graph.
    """

    stages: tuple[StripeStage, ...]
    bound: int
    head: int | None
    tail: int
    operators: int

    @property
    def arena(self) -> int:
        """Head and tail, as far as they are known."""
        return (self.bound if self.head is None else self.head) + self.tail


def choose_stages(
    graph: Graph, target: Target, *, objective: Objective = "arena", limits: StripeLimits | None = None
) -> StripeChoice:
    """The stages with the least memory; those with fewer operators among equals.

    Args:
        graph: of a model whose format says which dimension is the height.
        target: the rules of the memory, with the overlaps and slots that the runtime honours.
        objective: `arena` counts what more operators cost in TensorFlow Lite Micro's tail, `head` does not.
        limits: what they may cost.

    The result depends on nothing but the arguments. Raises UnsupportedError where the limits exclude even the graph as
    it is.
    """
    limits = limits or StripeLimits()
    front = find_front(graph, target, limits=limits)
    if not front:
        raise UnsupportedError(
            f"the graph has {len(graph.ops):,} operators, and {limits.operators:,} are allowed; allow more of them"
        )
    if limits.head is not None:
        return _cheapest_below(graph, target, front, limits.head)

    def memory(choice: StripeChoice) -> int:
        return choice.arena if objective == "arena" else choice.arena - choice.tail

    planned: list[StripeChoice] = []
    for choice in sorted(_thinned(front), key=lambda c: (memory(c), c.operators))[:_PLANNED]:
        if planned and memory(choice) >= min(map(memory, planned)):
            break  # its bound is no better than a plan
        planned.append(measure_stages(graph, target, choice.stages))
    enough = min(map(memory, planned)) * (1 + (_STEP if objective == "head" else 0))
    return min((c for c in planned if memory(c) <= enough), key=lambda c: (c.operators, memory(c)))


def find_front(graph: Graph, target: Target, *, limits: StripeLimits | None = None) -> tuple[StripeChoice, ...]:
    """The cheapest stages for every arena that stages reach, by their bounds; the first has none. No plan is made.

    Arguments as `choose_stages`. () where the limits exclude even the graph as it is.
    """
    network = StageGraph(graph, target)
    count = len(graph.ops)
    most = max((edge.peak for edge in network.plain), default=0)
    level, edges, found = most // 2, [], []
    while True:
        level = max(level, network.floor)
        edges = [*network.plain, *network.stages(level)]
        found = list(chains(edges, count))
        reached = int(found[-1].peak * _NEARER) if found else 0
        if level <= network.floor or reached >= level:
            break
        level = reached
    pairs = sorted({(stage[0], stage[1]) for chain in found for stage in chain.stages})
    edges += [edge for first, last in pairs for edge in network.all_stripes(first, last)]
    found = list(chains(edges, count))
    allowed = limits.operators if limits is not None else None
    if allowed is not None:
        found += chains(edges, count, by_operators=True)
        found = [chain for chain in found if chain.operators <= allowed]
    rest = predicted_tail(graph, build_of(target)) - sum(edge.tail for edge in network.plain)
    return _front([_choice(chain, rest) for chain in found])


def measure_stages(graph: Graph, target: Target, stages: Sequence[StripeStage]) -> StripeChoice:
    """What stages take, with a plan of the streamed graph. Raises as `stream` and `search_offsets`."""
    streamed = stream(graph, stages, target.alignment if target.slots else 0).graph if stages else graph
    problem = lifetimes(streamed, target).problem
    offsets, bound, *_ = search_offsets(problem, _WORK, seed=_SEED)
    head = int((offsets + problem.size).max(initial=0))
    tail = predicted_tail(streamed, build_of(target))
    return StripeChoice(tuple(stages), bound, head, tail, len(streamed.ops))


def _cheapest_below(graph: Graph, target: Target, front: Sequence[StripeChoice], head: int) -> StripeChoice:
    """The first of the front with a plan that is small enough; the smallest plan if there is none."""
    best: StripeChoice | None = None
    for choice in [c for c in front if c.bound <= head][:_PLANNED] or front[-1:]:
        planned = measure_stages(graph, target, choice.stages)
        if best is None or planned.arena - planned.tail < best.arena - best.tail:
            best = planned
        if best.head is not None and best.head <= head:
            break
    assert best is not None
    return best


def _choice(chain: Chain, rest: int) -> StripeChoice:
    stages = tuple(StripeStage(first, last, stripes) for first, last, stripes in chain.stages)
    return StripeChoice(stages, chain.peak, None, chain.tail + rest, chain.operators)


def _front(choices: Sequence[StripeChoice]) -> tuple[StripeChoice, ...]:
    """Those that no other one beats in both memory and tail, from the cheapest on."""
    front: list[StripeChoice] = []
    for choice in sorted(choices, key=lambda c: (c.tail, c.operators, c.bound)):
        if not front or choice.bound < front[-1].bound:
            front.append(choice)
    return tuple(front)


def _thinned(front: Sequence[StripeChoice]) -> list[StripeChoice]:
    """Of choices with nearly the same bound the cheapest one."""
    kept: list[StripeChoice] = []
    for choice in front:
        if not kept or choice.bound <= kept[-1].bound * (1 - _STEP):
            kept.append(choice)
    return kept
