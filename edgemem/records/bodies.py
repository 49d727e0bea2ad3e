"""What the bodies of an operator take in and give back: how long it is needed, and what of it is one piece of memory.

Every time a body runs, it is given its inputs anew, and its outputs are copied as soon as it is done. A loop keeps its
values in the operator's outputs, from before its first body runs (`edgemem.model.control`):

    steps                     body 0     body 1     operator     later
    inputs of the operator    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    inputs of a body          xxx        xxx
    outputs of a body             xxx        xxx
    outputs of a loop         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...

Of branches one runs, so that what it gives back may lie where the results of the others would be:

    an output of all branches     xxxxxxxxxxxxxxxxxxxxxxxxxx
    that output of the operator                     xxxxxxxxxxxxxxx...

TensorFlow Lite Micro's own planner has the outputs of branches begin before they run, too, which never takes less.
Branches that give back what they take in, or a constant, have no such output; there the operator's is early as well.

A copy from one place to the same is none. So what a body takes in needs no memory of its own if the original stays
where it is while the body runs: the inputs of an IF, and the outputs of a WHILE until its body is done. The condition
of a WHILE has two originals, one after the other, so that this goes only for what it does not read.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from edgemem.model.control import Copy, events_of
from edgemem.model.graph import RUN_ONCE
from edgemem.records.sizes import tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.control import Side
    from edgemem.model.graph import Graph, Op
    from edgemem.model.steps import Step
    from edgemem.records.live_range import Life
    from edgemem.targets import Target

__all__ = ["begin_loops", "body_spans", "join_bodies", "join_inputs"]


def body_spans(step: Step, number: int) -> tuple[tuple[int, int], ...]:
    """The first and the last step of each body of the operator at step `number`, inclusive.

    Both are the step that comes next where a body has no operators. Empty where bodies are left out.
    """
    ends = (*step.starts[1:], number)
    return tuple((start, max(start, end - 1)) for start, end in zip(step.starts, ends, strict=False))


def begin_loops(steps: Sequence[Step], lives: Mapping[str, Life]) -> None:
    """Let the outputs of loops begin before their bodies run, which is what every runtime and every plan needs."""
    for step in steps:
        if step.starts and step.op.type not in RUN_ONCE:
            _begin_early(step, lives)


def join_bodies(graph: Graph, steps: Sequence[Step], target: Target, lives: dict[str, Life]) -> None:
    """Let the outputs of operators with bodies begin where they do, and make one life of what is one piece of memory.

    That is a tensor of a graph that several operators run (`Graph.number`), and one output of all branches. A life that
    becomes part of another is removed from `lives`.
    """
    _join_copies(graph, steps, lives)
    for number, step in enumerate(steps):
        if not step.starts:
            continue
        results = _results_of_branches(step, target, lives)
        for members in results:
            together = _join(members, lives)
            together.last = max(together.last, number)
        if not results:
            _begin_early(step, lives)


def _begin_early(step: Step, lives: Mapping[str, Life]) -> None:
    for life in (lives[name] for name in step.writes if name in lives):
        life.first = min(life.first, step.starts[0])


def _join_copies(graph: Graph, steps: Sequence[Step], lives: dict[str, Life]) -> None:
    """The memory of a graph that several operators run is there once, from the first of them to the last."""
    copies: dict[tuple[int, int], list[Life]] = {}
    for g in (graph, *(body for step in steps if step.starts for body in step.op.bodies)):
        for index, tensor in enumerate(g.tensors) if g.number >= 0 else ():
            life = lives.get(tensor.name)
            if life is not None and not life.outside:
                copies.setdefault((g.number, index), []).append(life)
    for members in copies.values():
        _join(members, lives)


def _results_of_branches(step: Step, target: Target, lives: Mapping[str, Life]) -> list[list[Life]]:
    """For each output the lives of what the branches give back there; empty if they cannot be one for every output.

    What a branch takes in stays where it was copied to, and a graph that several operators run may be in itself a part
    of the other branch.
    """
    if step.op.type not in RUN_ONCE or any(name not in lives or lives[name].outside for name in step.writes):
        return []
    found: list[list[Life]] = [[] for _ in step.writes]
    for body in step.op.bodies:
        if len(body.outputs) < len(found) or len({*body.outputs}) < len(body.outputs):
            return []
        taken = {*body.inputs}
        for members, index in zip(found, body.outputs, strict=False):
            tensor = body.tensors[index]
            life = lives.get(tensor.name) if tensor.kind == "activation" and index not in taken else None
            if life is None or life.outside or len(life.names) > 1 or tensor.name in target.pins:
                return []
            members.append(life)
    alike = all(len({(m.tensor.dtype, m.tensor.shape) for m in members}) == 1 for members in found)
    return found if alike else []


def _join(members: Sequence[Life], lives: dict[str, Life]) -> Life:
    """One life of several, from the first step of any to the last of any."""
    joined, *others = members
    for other in others:
        joined.first, joined.last = min(joined.first, other.first), max(joined.last, other.last)
        joined.names += other.names
        joined.fixed = True
        del lives[other.tensor.name]
    return joined


def join_inputs(steps: Sequence[Step], target: Target, lives: dict[str, Life]) -> None:
    """Let what bodies take in lie in the memory of its original, where that stays as it is for long enough.

    Operators come before those in their bodies, so that the original of an inner body is that of the outer one. The
    lives of what needs no memory of its own are removed from `lives`.
    """
    holders = {name: life for life in lives.values() for name in life.names}
    for step in reversed(steps) if not target.texels else ():
        copies: dict[int, list[Copy]] = {}  # to the inputs of each body; none where it is not known what becomes what
        for event in events_of(step.op) if step.starts else ():
            if isinstance(event, Copy) and event.skip is not None and event.to[1] == "inputs":
                copies.setdefault(event.to[0], []).append(event)
        for number, to_body in copies.items():
            body = step.op.bodies[number]
            for side, position, k in _originals(step.op, number, to_body):
                name = (step.reads if side == "inputs" else step.writes)[position]
                life, home = lives.get(body.tensors[body.inputs[k]].name), holders.get(name)
                if life is not None and home is not None and _fits(life, home, target):
                    home.names.append(life.tensor.name)
                    home.last = max(home.last, life.last)
                    holders[life.tensor.name] = home
                    del lives[life.tensor.name]


def _fits(life: Life, home: Life, target: Target) -> bool:
    """Whether what a body takes in is a copy of all of another tensor, and no other memory is promised to either."""
    if life is home or life.outside or home.outside or len(life.names) > 1:
        return False
    if target.pins and not target.pins.keys().isdisjoint((*life.names, *home.names)):
        return False
    one, other = life.tensor, home.tensor
    alike = one.dtype == other.dtype and tensor_bytes(one, target, "") == tensor_bytes(other, target, "")
    return alike and life.kind == "tensor" and home.kind in ("tensor", "input", "output")


def _originals(op: Op, number: int, copies: Sequence[Copy]) -> list[tuple[Side, int, int]]:
    """The inputs of a body that need no memory of their own, each after the place of its original.

    That is one of the operator's two lists, and a position in it. `copies` are those to the body's inputs.
    """
    body = op.bodies[number]
    sides: set[Side] = {event.source[1] for event in copies}
    read = {i for inner in body.ops for i in inner.inputs} | {*body.outputs}
    taken, written = Counter(body.inputs), Counter(op.outputs)
    given: dict[int, set[int]] = {}
    for at, index in enumerate(body.outputs):
        given.setdefault(index, set()).add(at)
    found: list[tuple[Side, int, int]] = []
    for position, k in copies[-1].pairs(op):
        index = body.inputs[k]
        if taken[index] > 1:
            continue
        if sides == {"inputs"}:
            found.append(("inputs", position, k))
        elif written[op.outputs[position]] > 1:
            continue
        # The outputs stay as they are until the body's are copied there, one after the other.
        elif given.get(index, set()) <= {position} if sides == {"outputs"} else index not in read:
            found.append(("outputs", position, k))
    return found
