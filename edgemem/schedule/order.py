"""A good order for a graph's operators: greedy, then a beam search, and never worse than the order it has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from edgemem.errors import PlanError
from edgemem.schedule.peak import PeakModel, peak_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["beam", "find_order", "greedy"]

_Path: TypeAlias = "tuple[_Path, int] | None"


def find_order(graph: Graph, target: Target, *, width: int = 32) -> tuple[int, ...]:
    """The order of the operators with the smallest lower bound of the arena under a target that was found.

    Operators with side effects keep their order, and so do those that share a variable. The result is the graph's
    own order unless another one is really better.

    Args:
        graph: in the order of its file.
        target: whose lifetimes and aliasing count.
        width: how many partial orders the beam search keeps; 1 or more. More is slower and no worse, as a rule.

    Returns:
        A permutation of `range(len(graph.ops))` that `Graph.reordered` accepts.

    Raises:
        PlanError: `width` is below 1.
    """
    if width < 1:
        raise PlanError(f"the width of a beam is 1 or more, not {width}")
    best = tuple(range(len(graph.ops)))
    written = Counter(i for op in graph.ops for i in op.outputs if i >= 0)
    if max(written.values(), default=0) > 1:
        return best  # who reads which of the values is told by the order alone
    best_peak = peak_of(graph, target)
    model = PeakModel(graph, target)
    floor = max(model.needs, default=0) - target.alignment
    for search in (greedy, lambda m: beam(m, width)):
        if best_peak <= floor:
            break
        order = search(model)
        peak = peak_of(graph.reordered(order), target)
        if peak < best_peak:
            best, best_peak = order, peak
    return best


def greedy(model: PeakModel) -> tuple[int, ...]:
    """Always the ready operator that leaves the fewest bytes alive; ties by its own peak, then by index."""
    order: list[int] = []
    done, live = 0, model.start
    left = list(range(model.count))
    while left:
        ready = [k for k in left if not model.before[k] & ~done]
        steps = {k: model.step(done, live, k) for k in ready}
        best = min(ready, key=lambda k: (steps[k][1], steps[k][0], k))
        order.append(best)
        left.remove(best)
        done, live = done | 1 << best, steps[best][1]
    return tuple(order)


def beam(model: PeakModel, width: int) -> tuple[int, ...]:
    """The best order among `width` partial ones that are extended together, operator by operator.

    Partial orders of the same operators leave the same bytes alive, so only the one with the lowest peak goes on.
    With a width beyond the number of such sets the search is exhaustive under its model.
    """
    # Peak so far, bytes alive, operators done, the way there; all with equally many operators done.
    front: list[tuple[int, int, int, _Path]] = [(model.start, model.start, 0, None)]
    for _ in range(model.count):
        found: dict[int, tuple[int, int, int, _Path]] = {}
        for state in front:
            for extended in _extensions(model, state):
                known = found.get(extended[2])
                if known is None or extended[0] < known[0]:
                    found[extended[2]] = extended
        front = sorted(found.values(), key=lambda s: s[:2])[:width]
    return _unwound(front[0][3])


def _extensions(model: PeakModel, state: tuple[int, int, int, _Path]) -> Iterator[tuple[int, int, int, _Path]]:
    """The state after each operator that is ready.

    An operator that neither raises the peak nor leaves more alive may as well run at once: whatever comes later
    finds no less room. Then it is the only way on.
    """
    peak, live, done, path = state
    ways = []
    for k in range(model.count):
        if done >> k & 1 or model.before[k] & ~done:
            continue
        at_peak, after = model.step(done, live, k)
        way = (max(peak, at_peak), after, done | 1 << k, (path, k))
        if at_peak <= peak and after <= live:
            yield way
            return
        ways.append(way)
    yield from ways


def _unwound(path: _Path) -> tuple[int, ...]:
    order = []
    while path is not None:
        path, k = path
        order.append(k)
    return tuple(reversed(order))
