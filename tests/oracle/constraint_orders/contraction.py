"""The operators that need a place of their own in an order, and the places where each of them may run.

An operator that brings nothing alive and needs no workspace, such as a view, or an update of a weight where it lies,
can only release memory. It may as well run at once after the last of those that it waits for:

    operator      0    1    2    3               0    1    3
    gradient      w---------r           ->       w----          1, 2: an update that waits for 0 and 1
    activation         w----r----r                    w----r

So it is left out. What it reads is alive until all of those have run that it waits for, and what waits for it waits for
them. An order of the others is then an order of all, with the same peak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.schedule.problem import OrderProblem

__all__ = ["Contraction", "contract"]


@dataclass(frozen=True, slots=True)
class Contraction:
    """What is left of a problem; "node" is the position of an operator in `ops`.

    Attributes:
        problem: that all this is about.
        ops: the operators that need a place of their own, so that each comes after those that it waits for.
        before: for each node those that must run before it, without those that follow from others.
        ancestors: for each node all that must run before it, as a set of bits.
        descendants: for each node all that must run after it, as a set of bits.
        writer: for each class the node that brings it alive, or -1.
        needed: for each class the nodes after which it is not needed any more, once all of them have run. Empty for a
            class that nothing reads, or only operators that run before all others.
        is_opened: whether an operator that is left out runs before all others.
    """

    problem: OrderProblem
    ops: tuple[int, ...]
    before: tuple[tuple[int, ...], ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]
    writer: tuple[int, ...]
    needed: tuple[tuple[int, ...], ...]
    is_opened: bool
    _waits: tuple[frozenset[int], ...]  # for each operator that is left out the nodes that it waits for

    def earliest(self, node: int) -> int:
        """The first place of a node, counted from 0 among those in `ops`."""
        return self.ancestors[node].bit_count()

    def latest(self, node: int) -> int:
        """The last place of a node."""
        return len(self.ops) - 1 - self.descendants[node].bit_count()

    def other_readers(self, node: int, c: int) -> frozenset[int]:
        """The nodes that must have run before `node` so that nothing reads class `c` after it.

        `node` itself is among them if a reader of the class waits for it.
        """
        found: set[int] = set()
        number = {k: v for v, k in enumerate(self.ops)}
        for reader in self.problem.readers[c]:
            if reader != self.ops[node]:
                found |= {number[reader]} if reader in number else self._waits[reader]
        return frozenset(found)

    def nodes(self, order: Iterable[int]) -> list[int]:
        """The nodes of an order of all operators."""
        number = {k: v for v, k in enumerate(self.ops)}
        return [number[k] for k in order if k in number]

    def expand(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """The order of all operators that runs the nodes in the order given, and the others as early as they can."""
        problem = self.problem
        kept = set(self.ops)
        waits = [len(b) for b in problem.before]
        order: list[int] = []

        def run(k: int) -> None:
            ready = [k]
            while ready:
                order.append(ready.pop())
                for then in problem.after[order[-1]]:
                    waits[then] -= 1
                    if not waits[then] and then not in kept:
                        ready.append(then)

        for k in [k for k in range(problem.count) if not problem.before[k] and k not in kept]:
            run(k)
        for node in nodes:
            run(self.ops[node])
        return tuple(order)


def contract(problem: OrderProblem, *, leave_out: bool = True) -> Contraction:
    """The problem without the operators that can only release memory, or with them if none is to be left out."""
    releasing = _releasing(problem) if leave_out else [False] * problem.count
    waits: list[frozenset[int]] = [frozenset()] * problem.count
    ops: list[int] = []
    number: dict[int, int] = {}
    ancestors: list[int] = []
    before: list[tuple[int, ...]] = []
    for k in topological(problem):
        found: set[int] = set()
        for b in problem.before[k]:
            found |= waits[b] if releasing[b] else {number[b]}
        waits[k] = _last_of(found, ancestors)
        if not releasing[k]:
            number[k] = len(ops)
            ops.append(k)
            before.append(tuple(sorted(waits[k])))
            ancestors.append(_union(ancestors[b] | 1 << b for b in waits[k]))
    descendants = [0] * len(ops)
    for node in reversed(range(len(ops))):
        for b in before[node]:
            descendants[b] |= descendants[node] | 1 << node
    writer = [-1] * len(problem.size)
    for node, k in enumerate(ops):
        for c in problem.writes[k]:
            writer[c] = node
    needed = []
    for readers in problem.readers:
        found = set()
        for r in readers:
            found |= waits[r] if releasing[r] else {number[r]}
        needed.append(tuple(sorted(_last_of(found, ancestors))))
    return Contraction(
        problem,
        tuple(ops),
        tuple(before),
        tuple(ancestors),
        tuple(descendants),
        tuple(writer),
        tuple(needed),
        any(free and not problem.before[k] for k, free in enumerate(releasing)),
        tuple(waits),
    )


def topological(problem: OrderProblem) -> list[int]:
    """The operators, each after those that it waits for; otherwise by number."""
    waits = [len(b) for b in problem.before]
    order = [k for k, count in enumerate(waits) if not count]
    for k in order:
        for then in problem.after[k]:
            waits[then] -= 1
            if not waits[then]:
                order.append(then)
    return order


def _releasing(problem: OrderProblem) -> list[bool]:
    """Whether each operator can only release memory, and nothing is lost if it runs at once."""
    # If more stays alive after an operator than while it runs, another one right after it would show that.
    if any(left > own for left, own in zip(problem.leaves, problem.own, strict=True)):
        return [False] * problem.count
    # An early reader may make another operator the last reader of a class that is guarded, and so end its search.
    ending = {c for classes in problem.over for c in classes if c in problem.guarded}
    return [
        not (problem.writes[k] or problem.over[k] or problem.own[k] or problem.inside[k] or problem.early[k])
        and not (problem.entry[k] and problem.opening)
        and ending.isdisjoint(problem.reads[k])
        for k in range(problem.count)
    ]


def _last_of(nodes: set[int], ancestors: Sequence[int]) -> frozenset[int]:
    """Those that must not run before another one of them."""
    earlier = _union(ancestors[node] for node in nodes)
    return frozenset(node for node in nodes if not earlier >> node & 1)


def _union(sets: Iterable[int]) -> int:
    found = 0
    for bits in sets:
        found |= bits
    return found
