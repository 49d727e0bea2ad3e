"""What the user asks of single tensors: states that keep their memory from run to run, and pinned offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.aliasing import rules_of
from edgemem.records.sizes import tensor_bytes
from edgemem.system.text import join_names
from edgemem.targets.states import match_states, near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.model.steps import Step
    from edgemem.records.live_range import Life
    from edgemem.targets import Target

__all__ = ["join_states", "pin_tensors", "readers_before_writers"]


def join_states(graph: Graph, steps: Sequence[Step], target: Target, lives: dict[str, Life]) -> None:
    """Make one life of the two tensors of each state, for the whole run; the one that is written has none any more.

    The value is written over the input of this run. That is right if the operator that writes it is the last that
    reads the input, and reads each element before it writes the same one (`edgemem.model.aliasing`), or does not read
    it. Raises ModelError for tensors that cannot be one state, UnsupportedError where the input would be overwritten
    too early; both name the tensors, the latter the operators.
    """
    if not target.states:
        return
    tensors = {t.name: t for t in graph.tensors}
    for past, present in _pairs(graph, target):
        old, new = tensors[past], tensors[present]
        if "opaque" in (old.kind, new.kind):
            raise ModelError(f"the state {past!r} = {present!r} has no size that is known; leave it out")
        size, size_after = tensor_bytes(old, target, graph.layout), tensor_bytes(new, target, graph.layout)
        if not size or size != size_after or (not target.is_dense and old.shape != new.shape):
            raise ModelError(
                f"the state {past!r} has {size} bytes, {present!r} has {size_after}; a state keeps one size above 0, "
                "so use a cache of fixed length that the model updates in place"
            )
        if past in {graph.tensors[i].name for i in graph.outputs}:
            raise UnsupportedError(f"the state {past!r} is a graph output, too, but {present!r} overwrites it")
        _refuse_early(past, present, size, steps, target)
        life = lives[past]
        life.first, life.last = 0, max(len(steps) - 1, 0)
        life.kind, life.outside, life.fixed, life.present, life.kept = "state", "", True, True, True
        life.names = [past, present]
        del lives[present]


def _pairs(graph: Graph, target: Target) -> tuple[tuple[str, str], ...]:
    inputs = [graph.tensors[i].name for i in graph.inputs]
    written = [graph.tensors[i].name for op in graph.ops for i in op.outputs if i >= 0]
    return match_states(target.states, inputs, written)


def readers_before_writers(graph: Graph, target: Target) -> tuple[tuple[int, int], ...]:
    """Pairs of operators (first, then) that any order must keep: what reads a state's input, and what overwrites it."""
    pairs = []
    index = {t.name: i for i, t in enumerate(graph.tensors)}
    for past, present in _pairs(graph, target) if target.states else ():
        writer = next(k for k, op in enumerate(graph.ops) if index[present] in op.outputs)
        pairs += [(k, writer) for k, op in enumerate(graph.ops) if index[past] in op.inputs and k != writer]
    return tuple(pairs)


def _refuse_early(past: str, present: str, size: int, steps: Sequence[Step], target: Target) -> None:
    """Raise UnsupportedError if anything reads the input after, or while, the value is written over it."""
    number = next(k for k, step in enumerate(steps) if present in step.writes)
    writer = steps[number]
    later = [step.label for step in steps[number + 1 :] if past in step.reads]
    if later:
        raise UnsupportedError(
            f"the state {past!r} cannot be {present!r}: {join_names(map(repr, later))} still reads {past!r} after "
            f"{writer.label!r} has written {present!r} over it; run the reader first, or leave the state out"
        )
    positions = {p for p, name in enumerate(writer.reads) if name == past}
    rules = rules_of(target.aliasing, target.kernels)
    view = writer.op.type in rules.views and positions == {0}
    in_place = positions <= set(rules.in_place.get(writer.op.type, ())) and size > rules.over
    updated = len(positions) == 1 and any(
        positions == {i} and writer.writes[o : o + 1] == (present,) for i, o in rules.updates.get(writer.op.type, ())
    )
    if positions and not (updated or (writer.writes[0] == present and (view or in_place))):
        raise UnsupportedError(
            f"the state {past!r} cannot be {present!r}: {writer.label!r} ({writer.op.type}) would write {present!r} "
            f"over {past!r} while it still reads it; only operators that work in place can, so leave the state out"
        )


def pin_tensors(target: Target, lives: dict[str, Life]) -> None:
    """Give the lives of pinned tensors their offsets.

    Raises ModelError for a tensor that there is not or that has no place in the plan, and for one memory with two
    offsets.
    """
    holders = {name: life for life in lives.values() for name in life.names}
    for tensor, offset in target.pins.items():
        life = holders.get(tensor)
        if life is None:
            raise ModelError(f"tensor {tensor!r} is pinned, but is none of those to plan{near(tensor, holders)}")
        if life.outside:
            raise ModelError(f"tensor {tensor!r} is pinned, but has no place in the plan: {life.outside}")
        if not target.texels and not tensor_bytes(life.tensor, target, ""):
            raise ModelError(f"tensor {tensor!r} is pinned, but is empty: it has no bytes that could lie anywhere")
        if life.offset not in (None, offset):
            raise ModelError(f"{' and '.join(map(repr, life.names))} are one state, but are pinned at two offsets")
        life.offset = offset
