"""Which values of a graph depend on random numbers, and so differ from run to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.model.graph import Graph

__all__ = ["is_random", "random_values_of"]

# Operators whose results depend on how many random numbers were drawn before.
_RANDOM: Final = frozenset(
    (
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        "com.microsoft::Sampling",
        *("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "STABLEHLO_RNG_BIT_GENERATOR"),
    )
)

# Operators that draw random numbers while they train, and which of their inputs says so.
_TRAINING_MODE: Final = {
    "Dropout": 2,
    "com.microsoft::BitmaskDropout": 2,
    "com.microsoft::BiasDropout": 4,
    "com.microsoft::BitmaskBiasDropout": 4,
}


def is_random(kind: str, given: Sequence[bool]) -> bool:
    """Whether an operator of this type may draw random numbers; `given` says which of its inputs are there."""
    place = _TRAINING_MODE.get(kind)
    return kind in _RANDOM or (place is not None and len(given) > place and given[place])


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
        draws = is_random(op.type, [i >= 0 for i in op.inputs]) or not found.isdisjoint(read)
        for body in op.bodies:
            draws |= _spread(body, found)
        if draws:
            for body in op.bodies:
                found.update(body.tensors[i].name for op_ in body.ops for i in op_.outputs if i >= 0)
                found.update(body.tensors[i].name for i in body.inputs)
                _spread(body, found)
            found.update(names[i] for i in op.outputs if i >= 0)
    return not found.isdisjoint(names)
