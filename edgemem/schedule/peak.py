"""The peak of an order, and what every order needs."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.records.lifetime import lifetimes
from edgemem.strategy.bounds import lower_bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.model.graph import Graph
    from edgemem.schedule.problem import OrderProblem
    from edgemem.targets import Target

__all__ = ["least_peak", "order_peak", "own_peaks", "peak_of", "peak_unit"]


def peak_of(graph: Graph, target: Target) -> int:
    """The lower bound of the graph's arena in bytes (texels for textures), in the order of its operators."""
    return lower_bounds(lifetimes(graph, target).problem).offsets


def order_peak(problem: OrderProblem, order: Iterable[int]) -> int:
    """The most that is alive at once in an order of the operators, all sizes padded.

    It is `peak_of` the graph in that order if every size is a multiple of the alignment, and up to `problem.padding`
    above it otherwise, because the record that lies highest needs no padding. It leaves reserved ranges out.

    Raises PlanError if an operator runs before those that it waits for, twice, or never.
    """
    try:
        return problem.kernel.peak(tuple(order))
    except ValueError as e:
        raise PlanError(str(e)) from None


def least_peak(problem: OrderProblem) -> int:
    """A lower bound of `order_peak` over all orders: what is alive at each operator in any of them, and at the end.

    It holds where operators run several times, too.
    """
    size = problem.size
    base = sum(size[c] for c in problem.start if c in problem.kept)
    least = base + max(sum(size[c] for c in problem.kept) - base, problem.opening if not problem.count else 0)
    return max(least, *own_peaks(problem)) if problem.count else least


def own_peaks(problem: OrderProblem) -> tuple[int, ...]:
    """For each operator what is alive while it runs in any order: what it reads, writes and works with, and what stays.

    A result that may lie on an input counts as if it did.
    """
    size = problem.size
    always = {c for c in problem.start if c in problem.kept}
    base = sum(size[c] for c in always)
    peaks = []
    for k in range(problem.count):
        reads = sum(size[c] for c in problem.reads[k] if c not in always)
        over = max((size[c] for c in problem.over[k]), default=0)
        during = reads + problem.born[k] + problem.own[k] - over
        peaks.append(base + max(during, reads + problem.early[k] + problem.inside[k]))
    return tuple(peaks)


def peak_unit(problem: OrderProblem) -> int:
    """The greatest size that divides all sizes of the problem, and so the peak of every order; 1 if all are 0."""
    sizes = (problem.size, problem.own, problem.inside, problem.early, problem.leaves, problem.entry)
    return gcd(problem.opening, *(size for column in sizes for size in column)) or 1
