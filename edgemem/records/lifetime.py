"""From a graph under a target to usage records.

Time is counted in steps (`edgemem.model.steps`). `edgemem.records.bodies` says how long operators that run bodies need
what they take in and give back.

Which tensors share memory is decided in two parts. `find_sharing` says which may, in whatever order the operators run;
`merge` decides which do in the order at hand. The search for a better order (`edgemem.schedule`) reads the first part,
so that both follow the same rules.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.aliasing import rules_of
from edgemem.model.dtypes import DTYPE_BITS
from edgemem.model.slots import find_slots
from edgemem.model.steps import scratch_name, steps_of
from edgemem.model.texture_layout import is_same_storage, stored
from edgemem.records.bodies import begin_loops, body_spans, join_bodies, join_inputs
from edgemem.records.graph_relations import RelatedColumns, find_relations, keep_apart
from edgemem.records.live_range import Life, Sharing
from edgemem.records.problem import Problem, UsageRecord
from edgemem.records.sizes import tensor_bytes
from edgemem.records.tensor_requests import join_states, pin_tensors
from edgemem.records.textures import texel_extent
from edgemem.records.traffic import with_traffic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Graph, Layout, Tensor
    from edgemem.model.steps import Step
    from edgemem.records.problem import Kind, Size
    from edgemem.targets import Target

__all__ = ["Lifetimes", "find_lives", "find_sharing", "lifetimes", "memory_size", "merge"]


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The problem a graph makes under a target.

    Attributes:
        problem: its usage records; `first_op` and `last_op` count steps.
        steps: the label of the operator that runs at each step, with the path through the bodies it is in.
        unplanned: (tensor, reason) for every tensor that is no constant and has no place in the plan.
    """

    problem: Problem
    steps: tuple[str, ...]
    unplanned: tuple[tuple[str, str], ...]


def lifetimes(graph: Graph, target: Target, *, apart: bool = False) -> Lifetimes:
    """The usage records of a graph in the order of its operators.

    Tensors that alias under the target's rules (`edgemem.model.aliasing`) share one record, and so do tensors in bodies
    that are one piece of memory (`edgemem.records.bodies`), unless they are to be `apart`: for plans that somebody
    else made. Where a target has several regions, records may lie in any of them, and have their traffic.

    Raises UnsupportedError for an activation whose dtype has no fixed width, ModelError for an alignment at which
    tensors share layers of textures, and as `find_lives`.
    """
    if target.layer_rows and target.alignment % target.layer_bytes:
        raise ModelError(
            f"target {target.name!r}: the alignment {target.alignment} is no multiple of the {target.layer_bytes} "
            "bytes of a layer"
        )
    steps = steps_of(graph, bodies=target.bodies == "inline")
    lives = find_lives(graph, steps, target, apart=apart)
    sharing = find_sharing(lives, steps, target)
    is_related = (target.kernels != "none" or target.slots) and not (apart or not target.is_dense)
    slots = [find_slots(graph, op) for op in graph.ops] if is_related else []
    if is_related:
        sharing = keep_apart(graph, steps, sharing, target, slots)
    classes = merge(lives, steps, sharing, target)
    records, unplanned = [], []
    for life in lives.values():
        if classes[life.tensor.name] is not life:
            continue
        size = memory_size(life, graph.layout, target)
        if isinstance(size, str):
            unplanned += [(name, size) for name in life.names]
        else:
            names = tuple(life.names)
            records.append(UsageRecord(names[0], life.first, life.last, size, life.kind, names, life.offset))
    for number, step in enumerate(steps):
        records.extend(
            UsageRecord(scratch_name(step.label, k), number, number, size, "scratch")
            for k, size in enumerate(step.op.scratch)
            if size
        )
    if target.bodies == "outside":
        unplanned.extend(
            (t.name, "in a body, which the runtime keeps elsewhere")
            for op in graph.ops
            for body in op.bodies
            for t in _inner_tensors(body)
        )
    found = RelatedColumns()
    if is_related:
        kept = {life.names[0] for life in lives.values() if life.kept}
        found = find_relations(graph, steps, target, records, kept, slots)
    if len(target.regions) > 1 and not target.texels:
        tensors = {t.name: t for step in steps for t in step.graph.tensors}
        layout = graph.layout
        records = with_traffic(records, steps, sharing.views, lambda name: tensor_bytes(tensors[name], target, layout))
        if target.has_choice:
            anywhere = tuple(range(len(target.regions)))
            records = [replace(record, regions=anywhere) for record in records]
    problem = Problem(
        records,
        alignment=max(target.alignment, target.region.alignment) if target.texels else target.alignment,
        reserved=target.region.reserved,
        overlap=found.overlap,
        within=found.within,
        roles=found.roles,
    )
    return Lifetimes(problem, tuple(s.label for s in steps), tuple(unplanned))


def memory_size(life: Life, layout: Layout, target: Target) -> Size | str:
    """Bytes or texels of a tensor's memory; or why it has no place in the plan.

    Raises UnsupportedError for an activation whose dtype has no fixed width, and for one that is larger than a texture
    or a binding of the target.
    """
    if life.outside:
        return life.outside
    if target.texels:
        return texel_extent(life.tensor, layout, target)
    size = tensor_bytes(life.tensor, target, layout)
    if target.binding and size > target.binding:
        raise UnsupportedError(
            f"tensor {life.tensor.name!r} takes {size} bytes, and target {target.name!r} binds {target.binding} at once"
        )
    return size or "empty"


def find_lives(graph: Graph, steps: Sequence[Step], target: Target, *, apart: bool = False) -> dict[str, Life]:
    """The life of every tensor that is no constant, by name, before any share memory under the alias rules.

    Args:
        graph: the graph.
        steps: its operators in time, with bodies where the target plans them inline.
        target: says which inputs, outputs and variables are in the plan, and for how long; and which tensors are states
            or pinned. The value that is written in a state has no life of its own.
        apart: tensors in bodies have lives of their own, each as long as any plan needs it.

    Raises ModelError and UnsupportedError for impossible states and pins, as `edgemem.records.tensor_requests`.
    """
    end = max(len(steps) - 1, 0)
    lives: dict[str, Life] = {}

    def add(tensor: Tensor, first: int, last: int, *, kind: Kind = "tensor", outside: str = "") -> Life:
        reason = tensor.note or f"a {tensor.dtype}, not a dense tensor" if tensor.kind == "opaque" else outside
        life = Life(tensor, first, last, kind, reason, fixed=kind != "tensor", names=[tensor.name])
        lives[tensor.name] = life
        return life

    def enter(g: Graph, first: int, last: int, *, top: bool, keep_inputs: bool) -> None:
        """Declare a graph's tensors; its inputs are there from `first`, and what it gives back stays until `last`."""
        inputs, outputs = set(g.inputs), set(g.outputs)
        for index, tensor in enumerate(g.tensors):
            if tensor.kind in ("constant", "captured"):
                continue
            if tensor.kind == "variable":
                outside = "" if target.variables == "whole_run" else "a variable, which keeps its value between runs"
                life = add(tensor, 0, end, kind="variable", outside=outside)
                life.present = life.kept = True
            elif index in inputs:
                outside = "a graph input, held by the caller" if top and target.inputs == "outside" else ""
                kind: Kind = "input" if top else "tensor"
                life = add(tensor, first, last if keep_inputs else first, kind=kind, outside=outside)
                life.present, life.kept = top, top and keep_inputs
            elif index in outputs and top:
                outside = "a graph output, held by the caller" if target.outputs == "outside" else ""
                life = add(tensor, end + 1, 0, kind="output", outside=outside)
            else:
                life = add(tensor, end + 1, 0)
            if index in inputs or index in outputs:
                life.fixed = True
                if index in outputs:
                    life.last = last
                    life.kept = life.kept or top

    enter(graph, 0, end, top=True, keep_inputs=target.inputs == "whole_run")
    for number, step in enumerate(steps):
        for body, (first, last) in zip(step.op.bodies, body_spans(step, number), strict=False):
            enter(body, first, last, top=False, keep_inputs=False)
    for number, step in enumerate(steps):
        for name in step.writes:
            if life := lives.get(name):
                life.first = min(life.first, number)
                life.last = max(life.last, number)
        for name in step.reads:
            if life := lives.get(name):
                life.last = max(life.last, number)
    for life in lives.values():
        if life.first > life.last:
            life.outside = life.outside or "never written"
            life.first = life.last = 0
    begin_loops(steps, lives)
    if not apart:
        join_bodies(graph, steps, target, lives)
    join_states(graph, steps, target, lives)
    if not apart:
        join_inputs(steps, target, lives)
    pin_tensors(target, lives)
    return lives


def find_sharing(lives: Mapping[str, Life], steps: Sequence[Step], target: Target) -> Sharing:
    """Which tensors may share memory under the target's alias rules, in whatever order the operators run."""
    rules = rules_of(target.aliasing, target.kernels)
    readers = Counter(name for step in steps for name in step.reads)
    root = {name: name for name in lives}
    views: list[str] = []
    over: list[tuple[str, ...]] = []
    for step in steps:
        out = lives.get(step.writes[0]) if step.writes else None
        view = step.op.type in rules.views
        positions = (0,) if view else rules.in_place.get(step.op.type, ())
        viewed, found = "", []
        is_free = out is not None and not out.fixed and not out.outside and out.offset is None
        layout = step.graph.layout
        size = tensor_bytes(out.tensor, target, layout) if out is not None and is_free and positions else 0
        for position in positions if is_free else ():
            name = step.reads[position] if position < len(step.reads) else ""
            source = lives[root[name]] if name in lives else None
            if source is None or out is None or source.outside:
                continue
            if tensor_bytes(source.tensor, target, layout) != size or source.offset is not None:
                continue
            if rules.same_storage:
                shapes = [lives[n].tensor.shape for n in step.reads if root.get(n) == source.tensor.name]
                if not all(_is_same(shape, out.tensor.shape, layout, is_view=view) for shape in shapes):
                    continue
            elif target.texels and source.tensor.shape != out.tensor.shape:
                continue  # as many texels in another form are another texture
            if source.fixed and not (view and rules.views_of_outputs and source.kind == "output"):
                continue
            if view:
                root[out.tensor.name] = viewed = source.tensor.name
                continue
            # Element k must lie on element k.
            if not rules.same_storage and _bits(source.tensor) != _bits(out.tensor):
                continue
            if size <= rules.over or (rules.sole_reader and readers[name] > 1):
                continue
            if all(p in positions for p, read in enumerate(step.reads) if root.get(read) == source.tensor.name):
                found.append(source.tensor.name)
        views.append(viewed)
        over.append(tuple(found))
    return Sharing(root, tuple(views), tuple(over), readers, rules.sole_reader)


def merge(lives: Mapping[str, Life], steps: Sequence[Step], sharing: Sharing, target: Target) -> Mapping[str, Life]:
    """Merge the lives of tensors that share memory in this order of the steps, and give each the class it is in.

    The lives are changed: a class has the names of all its tensors, and lasts as long as the last of them.
    """
    classes = dict(lives)

    def join(out: Life, source: Life) -> None:
        source.last = max(source.last, out.last)
        source.names += out.names
        classes[out.tensor.name] = source

    for number, step in enumerate(steps):
        out = lives.get(step.writes[0]) if step.writes else None
        if out is None:
            continue
        if sharing.views[number]:
            join(out, classes[sharing.views[number]])
            continue
        for name in sharing.over[number]:
            source = classes[name]
            if source.last != number:
                continue
            if not (sharing.sole_reader and sharing.readers[source.tensor.name] > 1):
                join(out, source)
            break
    if target.unread == "to_end":
        for name, life in lives.items():
            if classes[name] is life and not sharing.readers[name] and not life.fixed:
                life.kind, life.last, life.kept = "output", len(steps) - 1, True
    return classes


def _is_same(read: Sequence[int], written: Sequence[int], layout: Layout, *, is_view: bool) -> bool:
    """Whether two shapes have each element at the same place in slices of four; in place, each element of an index."""
    return is_same_storage(stored(read, layout), stored(written, layout)) if is_view else read == written


def _bits(tensor: Tensor) -> int:
    """Of an element."""
    return DTYPE_BITS.get(tensor.dtype, 0)


def _inner_tensors(graph: Graph) -> list[Tensor]:
    inner = [t for op in graph.ops for body in op.bodies for t in _inner_tensors(body)]
    return [t for t in graph.tensors if t.kind not in ("constant", "captured")] + inner
