"""By how much an operator's output may reach into an input that dies there, for each library of kernels.

A kernel that writes its output from low to high addresses has done with the low part of its input long before the end:

    input            [ read | still to be read      )
    output    [ written     | not yet written    )
              <----- distance ----->  written bytes never reach what is still to be read

    offset of the input - offset of the output >= distance

The distance is the maximum, over all moments at which the kernel writes, of the end of what is written minus the lowest
byte that is read later, both from the start of their tensors ("diagonal memory optimisation", Blacker et al. 2020,
arXiv 2010.01668). It follows from the order of the kernel's loops alone, so that it holds for one library of kernels:
the *kernel profile*. What nobody knows is disjoint.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from edgemem.model.overlap.case import case_of
from edgemem.model.overlap.profiles import RULES

if TYPE_CHECKING:
    from edgemem.model.graph import Graph, Op
    from edgemem.model.overlap.case import Case

__all__ = ["distance"]


def distance(profile: str, graph: Graph, op: Op, position: int) -> int | None:
    """By how many bytes an input that dies in an operator must begin after the operator's output, at least.

    Args:
        profile: one of `edgemem.model.profiles.PROFILES`; any other is as `none`.
        graph: the graph that the operator is in.
        op: the operator. It reads the input at no other position, and nothing reads the input afterwards.
        position: of the input among the operator's inputs.

    Returns:
        The least safe `offset of the input - offset of the output`, in bytes; it may be negative, as far as minus the
        input's size. None: the two must be disjoint, as far as anybody knows. It depends on shapes, types and
        `Op.attributes`, and is no multiple of anything.
    """
    rules = RULES.get(profile)
    rule = rules.get(op.type) if rules else None
    if rule is None:
        return None
    case = case_of(graph, op, position)
    return None if case is None else _distance(profile, case)


@lru_cache(maxsize=8192)
def _distance(profile: str, case: Case) -> int | None:
    """Equal cases have equal distances: networks repeat a few of them hundreds of times."""
    found = RULES[profile][case.type](case)
    if found is None or found >= case.output.size:
        return None
    return max(found, -case.input.size)
