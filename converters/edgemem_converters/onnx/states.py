"""The caches of an ONNX decoder: which input comes back as which output, along which axis, written by which operator.

A pair is found by the operator that takes the one and writes the other, or by the names of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.model.states import StatePair, grown_axis, named_pairs
from edgemem_converters.onnx.scopes import op_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import GraphProto, NodeProto, ValueInfoProto

    from edgemem.model.states import Growth

__all__ = ["APPENDING", "declared_dims", "find_pairs", "source_of", "writers"]


@dataclass(frozen=True, slots=True)
class _Role:
    """An operator that takes a cache as input `past` and gives it back as output `present`."""

    past: int
    present: int
    axis: int
    growth: Growth


_ROLES: Final[Mapping[str, tuple[_Role, ...]]] = {
    "TensorScatter": (_Role(0, 0, -2, "in_place"),),
    "ScatterND": (_Role(0, 0, -2, "in_place"),),
    "Attention": (_Role(4, 1, 2, "appended"), _Role(5, 2, 2, "appended")),
    "com.microsoft::Attention": (_Role(4, 1, 3, "appended"),),
    "com.microsoft::MultiHeadAttention": (_Role(6, 1, 2, "appended"), _Role(7, 2, 2, "appended")),
    "com.microsoft::GroupQueryAttention": (_Role(3, 1, 2, "in_place"), _Role(4, 2, 2, "in_place")),
}
# These do as the attribute `past_present_share_buffer` says.
_SHARING: Final[Mapping[str, tuple[_Role, ...]]] = {
    "com.microsoft::DecoderMaskedSelfAttention": (_Role(4, 1, 3, "appended"),),
    "com.microsoft::DecoderMaskedMultiHeadAttention": (_Role(5, 1, 2, "appended"), _Role(6, 2, 2, "appended")),
}

# Operators whose results are a cache with new rows behind it.
APPENDING: Final = frozenset(
    kind for kind, roles in (*_ROLES.items(), *_SHARING.items()) if roles[0].growth == "appended"
)


def find_pairs(graph: GraphProto, patterns: Mapping[str, str]) -> tuple[StatePair, ...]:
    """The caches of a graph, in the order of its inputs.

    Args:
        graph: the model's graph.
        patterns: input -> output, with one `*` in both or none. An empty mapping finds all that an operator or the
            usual names tell.

    Raises ModelError for a pattern that fits nothing, and for a named pair whose growing axis nothing tells.
    """
    constants = {t.name for t in graph.initializer}
    inputs = {i.name: i for i in graph.input if i.name not in constants}
    outputs = {o.name: o for o in graph.output}
    made = writers(graph)
    found: dict[str, StatePair] = {}
    for output in outputs:
        pair = _by_operator(output, made, inputs)
        if pair is not None and (not patterns or _is_wanted(pair, patterns)):
            found.setdefault(pair.past, pair)
    wanted = _by_patterns(patterns, inputs, outputs) if patterns else named_pairs(inputs, outputs)
    for past, present in wanted.items():
        if past not in found:
            found[past] = _by_shapes(inputs[past], outputs[present], made)
    for past, present in wanted.items() if patterns else ():
        if found[past].present != present:
            raise ModelError(f"the state {past!r} comes back as {found[past].present!r}, not as {present!r}")
    return tuple(found[name] for name in inputs if name in found)


def writers(graph: GraphProto) -> dict[str, NodeProto]:
    """The node that writes each value."""
    return {name: node for node in graph.node for name in node.output if name}


def source_of(name: str, made: Mapping[str, NodeProto]) -> str:
    """The value that this one is a plain copy of, by Identity nodes and concatenations of one input; or itself."""
    seen = set()
    while name in made and name not in seen:
        seen.add(name)
        node = made[name]
        if op_type(node) not in ("Identity", "Concat") or len(node.input) != 1:
            break
        name = node.input[0]
    return name


def declared_dims(value: ValueInfoProto) -> tuple[int | str | None, ...]:
    """The shape that the file declares; None for a dimension that it leaves open. () for no tensor."""
    dims = value.type.tensor_type.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims)


def _by_operator(output: str, made: Mapping[str, NodeProto], inputs: Mapping[str, ValueInfoProto]) -> StatePair | None:
    written = source_of(output, made)
    node = made.get(written)
    if node is None:
        return None
    kind = op_type(node)
    if kind == "Concat":
        past = source_of(node.input[0], made)
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if len(node.input) != 2 or past not in inputs:
            return None
        rank = len(declared_dims(inputs[past]))
        return StatePair(past, output, axis % rank, "appended", kind) if rank else None
    shared = any(a.name == "past_present_share_buffer" and a.i for a in node.attribute)
    for role in (*_ROLES.get(kind, ()), *_SHARING.get(kind, ())):
        if role.present < len(node.output) and node.output[role.present] == written and role.past < len(node.input):
            past = source_of(node.input[role.past], made)
            rank = len(declared_dims(inputs[past])) if past in inputs else 0
            if rank:
                axis = next((a.i for a in node.attribute if a.name == "axis" and kind == "TensorScatter"), role.axis)
                growth: Growth = "in_place" if shared and kind in _SHARING else role.growth
                return StatePair(past, output, axis % rank, growth, kind)
    return None


def _is_wanted(pair: StatePair, patterns: Mapping[str, str]) -> bool:
    return any(_stands_for(past, pair.past) is not None for past in patterns)


def _stands_for(pattern: str, name: str) -> str | None:
    """What `*` stands for if the name has this pattern; "" for a pattern without one; None if it has not."""
    head, star, tail = pattern.partition("*")
    if not star:
        return "" if name == pattern else None
    fits = len(name) >= len(head) + len(tail) and name.startswith(head) and name.endswith(tail)
    return name[len(head) : len(name) - len(tail)] if fits else None


def _by_patterns(
    patterns: Mapping[str, str], inputs: Mapping[str, ValueInfoProto], outputs: Mapping[str, ValueInfoProto]
) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for past, present in patterns.items():
        if past.count("*") > 1 or past.count("*") != present.count("*"):
            raise ModelError(f"state {past!r} = {present!r}: give one * on both sides, or none")
        fitting = [name for name in inputs if _stands_for(past, name) is not None]
        if not fitting:
            raise ModelError(f"no graph input matches the state {past!r}; there are {_listed(inputs)}")
        for name in fitting:
            value = present.replace("*", _stands_for(past, name) or "")
            if value not in outputs:
                raise ModelError(f"no graph output {value!r}, which the state {name!r} is to be; {_listed(outputs)}")
            if pairs.get(name, value) != value or value in {v for k, v in pairs.items() if k != name}:
                raise ModelError(f"{name!r} or {value!r} is in two states; name each value once")
            pairs[name] = value
    return pairs


def _listed(names: Mapping[str, object]) -> str:
    shown = ", ".join(map(repr, list(names)[:5]))
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def _by_shapes(past: ValueInfoProto, present: ValueInfoProto, made: Mapping[str, NodeProto]) -> StatePair:
    before, after = declared_dims(past), declared_dims(present)
    node = made.get(source_of(present.name, made))
    kind = op_type(node) if node is not None else ""
    axis = grown_axis(before, after)
    if axis is not None:
        return StatePair(past.name, present.name, axis, "appended", kind)
    if before and before == after and None not in before:
        return StatePair(past.name, present.name, 0, "replaced", kind)
    raise ModelError(
        f"the state {past.name!r} is declared as {list(before)} and {present.name!r} as {list(after)}, which does not "
        "tell what axis grows; declare symbols for their dimensions, or leave the state out"
    )
