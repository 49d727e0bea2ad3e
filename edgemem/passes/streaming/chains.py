"""The cheapest chains of stages and plain operators, for every arena that they can reach.

    operator   0 . . . 5 6 . . 9 10 . . . 20 21 . . .      an edge is a stage with its stripes, or one operator alone;
               |--stage--|--stage--|---stage---|-|-|-       a chain leads from the first operator to the last

Stages do not influence each other: what one leaves behind is what the next begins with. So the arena of a chain is the
largest of its edges, and its operators and its tail are their sums: the cheapest chain below an arena is a shortest
path over the edges below it (dynamic programming).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Chain", "Edge", "chains"]


@dataclass(frozen=True, slots=True)
class Edge:
    """Operators that a chain runs in one piece.

    Attributes:
        first: the first operator.
        end: the operator after the last one.
        stripes: of the stage; 0 for an operator that runs as it is.
        peak: bytes of the arena.
        operators: that it runs as.
        tail: bytes of TensorFlow Lite Micro's tail.
    """

    first: int
    end: int
    stripes: int
    peak: int
    operators: int
    tail: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Edges from the first operator to the last.

    Attributes:
        edges: in order.
        peak: the largest of theirs.
        operators: their sum.
        tail: their sum.
    """

    edges: tuple[Edge, ...]
    peak: int
    operators: int
    tail: int

    @property
    def stages(self) -> tuple[tuple[int, int, int], ...]:
        """First operator, last operator and stripes of each stage."""
        return tuple((e.first, e.end - 1, e.stripes) for e in self.edges if e.stripes)


def chains(edges: Sequence[Edge], count: int, *, by_operators: bool = False) -> Iterator[Chain]:
    """The cheapest chain without a limit of the arena, then the cheapest with a smaller arena, and so on.

    Args:
        edges: between 0 and `count`.
        count: operators of the graph.
        by_operators: the fewest operators are cheapest, instead of the shortest tail.
    """
    starting: list[list[Edge]] = [[] for _ in range(count)]
    for edge in edges:
        starting[edge.first].append(edge)
    limit = max((edge.peak for edge in edges), default=0)
    while (chain := _cheapest(starting, limit, by_operators=by_operators)) is not None:
        yield chain
        limit = chain.peak - 1


def _cheapest(starting: Sequence[Sequence[Edge]], limit: int, *, by_operators: bool) -> Chain | None:
    """The chain of the smallest cost whose edges are all within the limit; the earliest edges win a tie."""
    count = len(starting)
    best: list[tuple[int, int] | None] = [None] * count + [(0, 0)]  # cost from here to the end: first, second
    chosen: list[Edge | None] = [None] * count
    for begin in range(count - 1, -1, -1):
        for edge in starting[begin]:
            rest = best[edge.end]
            if edge.peak > limit or rest is None:
                continue
            own = (edge.operators, edge.tail) if by_operators else (edge.tail, edge.operators)
            cost = own[0] + rest[0], own[1] + rest[1]
            there = best[begin]
            if there is None or cost < there:
                best[begin], chosen[begin] = cost, edge
    if best[0] is None:
        return None
    path, begin = [], 0
    while begin < count:
        taken = chosen[begin]
        assert taken is not None
        path.append(taken)
        begin = taken.end
    return Chain(
        tuple(path),
        max((e.peak for e in path), default=0),
        sum(e.operators for e in path),
        sum(e.tail for e in path),
    )
