"""Which values of a graph depend on random numbers, and so differ from run to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from edgemem.model.graph import Graph

__all__ = ["RANDOM", "random_values_of"]

# Operators whose results depend on how many random numbers were drawn before.
RANDOM: Final = frozenset(
    (
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        *("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "STABLEHLO_RNG_BIT_GENERATOR"),
    )
)


def random_values_of(graph: Graph, known: Collection[str] = ()) -> frozenset[str]:
    """The names of all values, in bodies too, that depend on a random number or on one of the values `known`.

    A body counts whole: if anything in it is random, so are all results of the operator that runs it.
    """
    found = set(known)
    _spread(graph, found)
    return frozenset(found)


def _spread(graph: Graph, found: set[str]) -> bool:
    """Add what depends on what is found, and on random operators; returns whether anything in the graph is random."""
    names = [t.name for t in graph.tensors]
    for op in graph.ops:
        read = [names[i] for i in op.inputs if i >= 0]
        is_random = op.type in RANDOM or not found.isdisjoint(read)
        for body in op.bodies:
            is_random |= _spread(body, found)
        if is_random:
            for body in op.bodies:
                found.update(body.tensors[i].name for op_ in body.ops for i in op_.outputs if i >= 0)
                found.update(body.tensors[i].name for i in body.inputs)
                _spread(body, found)
            found.update(names[i] for i in op.outputs if i >= 0)
    return not found.isdisjoint(names)
