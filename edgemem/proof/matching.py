"""The records of a plan set against the tensors of the graph that it claims to be for, one to one.

Executors take tensors and workspace out of a plan by their names. So every name in a record must be one that the graph
has, each tensor and each workspace must be in one record only, and that record must be as large, in the form and at
the alignment that the graph and the target ask for. All of it is computed here from those two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lcm, prod
from typing import TYPE_CHECKING

from edgemem.model.dtypes import DTYPE_BITS
from edgemem.model.steps import body_path, scratch_name
from edgemem.plans import LEFT_TO_RUNTIME
from edgemem.proof.storage import gpu_bytes, has_same_places, texture_of
from edgemem.proof.violations import Cause, Violation, violation
from edgemem.targets import match_states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.model.graph import Graph, Tensor
    from edgemem.plans import PlanSet
    from edgemem.records.problem import UsageRecord
    from edgemem.targets import Target

__all__ = ["Contents", "check_records", "contents_of", "is_view_of", "may_overwrite"]


@dataclass(slots=True)
class Contents:
    """What a graph has that memory may be planned for, under a target.

    Attributes:
        tensors: all that are no constants, by name, those of bodies included where they are planned with the rest.
        needed: names of the tensors that must have a place.
        workspace: the step and the bytes of every workspace, by the name of its record.
        labels: the operator at each step.
        states: the value that is written in each state -> the graph input that it is in the next run.
        variables: names of those that keep their value from run to run, each with the graph of the file and the tensor
            in it that it is. What several operators run is in memory once, so that two names may be one variable.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    workspace: dict[str, tuple[int, int]] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    variables: dict[str, tuple[int, int]] = field(default_factory=dict)


def contents_of(graph: Graph, target: Target | None) -> Contents:
    """What a graph has under a target. Raises ModelError for states that the graph cannot have."""
    contents = Contents()
    inline = target is None or target.bodies == "inline"
    names = [t.name for t in graph.tensors]
    written = [names[i] for op in graph.ops for i in op.outputs if i >= 0]
    wanted = target.states if target else {}
    contents.states = {
        present: past for past, present in match_states(wanted, [names[i] for i in graph.inputs], written)
    }

    def walk(g: Graph, path: str, *, top: bool) -> None:
        made = {i for op in g.ops for i in op.outputs} | set(g.inputs)
        inputs, outputs = set(g.inputs), set(g.outputs)
        for index, tensor in enumerate(g.tensors):
            if tensor.kind in ("constant", "captured"):
                continue
            contents.tensors[tensor.name] = tensor
            outside = tensor.kind == "opaque" or not _has_room(tensor, target, g)
            if tensor.kind == "variable":
                contents.variables[tensor.name] = (g.number, index) if g.number >= 0 else (-1, len(contents.variables))
                outside = outside or target is None or target.variables == "outside"
            else:
                outside = outside or index not in made
                outside = outside or (top and index in inputs and (target is None or target.inputs == "outside"))
                outside = outside or (top and index in outputs and (target is None or target.outputs == "outside"))
            if not outside:
                contents.needed.add(tensor.name)
        for op in g.ops:
            label = f"{path}{op.name or op.type}"
            for k, body in enumerate(op.bodies if inline else ()):
                walk(body, body_path(label, op, k), top=False)
            step = len(contents.labels)
            for k, size in enumerate(op.scratch):
                if size:
                    contents.workspace[scratch_name(label, k)] = (step, size)
            contents.labels.append(label)

    walk(graph, "", top=True)
    contents.needed |= {name for pair in contents.states.items() for name in pair}
    return contents


def _has_room(tensor: Tensor, target: Target | None, graph: Graph) -> bool:
    """Whether the tensor takes any memory of the kind that is planned."""
    if target is not None and target.texels and target.storage == "plain":
        return _texture(tensor, graph.layout, target) is not None
    return prod(tensor.shape) > 0


def _bytes(tensor: Tensor, target: Target | None, layout: str) -> int:
    """Bytes of a tensor in the runtime's memory."""
    if target is not None and target.storage == "phwc4":
        return gpu_bytes(tensor, layout, target)
    bits = DTYPE_BITS.get(tensor.dtype, 0)
    if target is not None and target.sub_byte == "unpacked":
        bits = max(bits, 8)
    return -(-bits * prod(tensor.shape) // 8)


def _texture(tensor: Tensor, layout: str, target: Target) -> tuple[int, int] | None:
    """The texture of four channels that a tensor is kept in, (width, height); None if it is no texture.

    With the storage `phwc4` every tensor is one that is not too large. Else width and batch lie side by side, slices of
    four channels below each other; of the four dimensions (batch, height, width, channels) a tensor has the first and
    the last ones, and with one dimension channels alone.
    """
    if target.storage == "phwc4":
        return texture_of(tensor, layout, target)
    if tensor.dtype not in ("float32", "float16") or len(tensor.shape) > 4 or not prod(tensor.shape):
        return None
    shape = list(tensor.shape)
    if len(shape) == 4 and layout == "nchw":
        shape = [shape[0], shape[2], shape[3], shape[1]]
    head = shape[:1] if len(shape) > 1 else []
    tail = shape[len(head) :]
    batch, height, width, channels = (head or [1]) + [1] * (3 - len(tail)) + tail
    return batch * width, height * -(-channels // 4)


def may_overwrite(read: Tensor, written: Tensor, storage: str) -> bool:
    """Whether element k of what an operator writes in place lies on element k of what it reads."""
    if storage == "phwc4":
        return read.shape == written.shape
    forms = [(prod(t.shape), DTYPE_BITS.get(t.dtype, 0)) for t in (read, written)]
    return forms[0] == forms[1]


def is_view_of(view: Tensor, of: Tensor, storage: str, layout: str) -> bool:
    """Whether a tensor with the elements of another one has its memory as it is."""
    if storage == "phwc4":
        return has_same_places(view.shape, of.shape, layout)
    bits = [prod(t.shape) * DTYPE_BITS.get(t.dtype, 0) for t in (view, of)]
    return bits[0] == bits[1]


def check_records(planset: PlanSet, graph: Graph, contents: Contents) -> Iterator[Violation]:
    """Everything in which records and graph do not match."""
    target = planset.target
    multiple = lcm(target.alignment, target.layer_bytes or 1) if target is not None else 1
    if target is not None and planset.problem.alignment % multiple:
        message = (
            f"the plan keeps offsets to multiples of {planset.problem.alignment}, target {target.name!r} to "
            f"multiples of {multiple}"
        )
        yield Violation(Cause.MISALIGNED, message)
    if list(planset.steps) != contents.labels:
        at = next(
            (k for k, (a, b) in enumerate(zip(planset.steps, contents.labels, strict=False)) if a != b),
            min(len(planset.steps), len(contents.labels)),
        )
        message = f"the graph takes {len(contents.labels)} steps, the plan {len(planset.steps)}; they differ at {at}"
        yield Violation(Cause.WRONG_STEPS, message)
    records = planset.problem.records
    place: dict[str, int] = {}
    workspace: set[str] = set()
    for index, record in enumerate(records):
        if record.kind == "scratch":
            yield from _check_workspace(record, contents, workspace)
            continue
        if not record.tensors:
            message = f"record {record.name!r} holds no tensor, so that no one can tell what is in its place"
            yield Violation(Cause.UNKNOWN_TENSOR, message, records=(record.name,))
        for name in record.tensors:
            if name not in contents.tensors:
                yield Violation(Cause.UNKNOWN_TENSOR, f"the graph has no tensor {name!r}", records=(name,))
            elif name in place:
                message = f"{name!r} is in the records {records[place[name]].name!r} and {record.name!r}"
                yield Violation(Cause.TWO_PLACES, message, records=(name,))
            else:
                place[name] = index
                yield from _check_tensor(planset, graph, contents.tensors[name], index)
    for name, (step, size) in contents.workspace.items():
        if name not in workspace:
            message = f"the workspace {name!r} of {size} bytes at step {step} has no place"
            yield Violation(Cause.MISSING_TENSOR, message, records=(name,))
    yield from _check_left_out(planset, contents, place)
    yield from _check_objects(planset)
    yield from _check_states(planset, contents, place)


def _check_workspace(record: UsageRecord, contents: Contents, seen: set[str]) -> Iterator[Violation]:
    if record.tensors or record.name not in contents.workspace:
        message = f"{record.name!r} is no workspace that an operator of the graph takes on this target"
        yield Violation(Cause.UNKNOWN_TENSOR, message, records=(record.name,))
        return
    step, size = contents.workspace[record.name]
    if record.name in seen:
        message = f"the workspace {record.name!r} is in two records"
        yield Violation(Cause.TWO_PLACES, message, records=(record.name,))
    elif (record.first_op, record.last_op) != (step, step):
        message = f"{record.name!r} is in use from {record.first_op} to {record.last_op}, its operator runs at {step}"
        yield Violation(Cause.WRONG_STEPS, message, records=(record.name,), op=step)
    elif not isinstance(record.size, int) or record.size < size:
        message = f"{record.name!r} needs {size}, its record has {record.size}"
        yield Violation(Cause.RECORD_TOO_SMALL, message, records=(record.name,), op=step)
    seen.add(record.name)


def _check_tensor(planset: PlanSet, graph: Graph, tensor: Tensor, index: int) -> Iterator[Violation]:
    """The record is what the tensor needs, in bytes or as a texture, and of the tensor's kind."""
    name, record, target = tensor.name, planset.problem.records[index], planset.target
    if (record.kind == "variable") != (tensor.kind == "variable"):
        message = f"{name!r} is {'a' if tensor.kind == 'variable' else 'no'} variable, its record is of {record.kind!r}"
        yield Violation(Cause.WRONG_KIND, message, records=(name,))
    if tensor.kind == "opaque":
        message = f"{name!r} is {tensor.note or tensor.dtype}, and its record has {record.size}"
        yield Violation(Cause.RECORD_TOO_SMALL, message, records=(name,))
        return
    is_texture = target is not None and target.texels
    needed = _texture(tensor, graph.layout, target) if target and is_texture else _bytes(tensor, target, graph.layout)
    held = record.size
    fits = (
        isinstance(held, int) and held >= needed
        if isinstance(needed, int)
        else needed is not None
        and not isinstance(held, int)
        and len(held) == len(needed)
        and all(h >= n for h, n in zip(held, needed, strict=True))
    )
    if not fits:
        message = f"{name!r} needs {'another kind of memory' if needed is None else needed}, its record has {held}"
        yield Violation(Cause.RECORD_TOO_SMALL, message, records=(name,))
    if isinstance(needed, int) and target is not None and target.binding and needed > target.binding:
        message = f"{name!r} takes {needed} bytes, and target {target.name!r} binds {target.binding} at once"
        yield Violation(Cause.OVER_CAPACITY, message, records=(name,))


def _check_objects(planset: PlanSet) -> Iterator[Violation]:
    """No texture is larger than those of the target."""
    target = planset.target
    if target is None or target.storage == "plain":
        return
    for plan in planset.shared_objects:
        for number, extent in enumerate(plan.objects):
            if not isinstance(extent, int) and max(extent) > target.texture_side:
                message = f"object {number} is {extent}, a texture of {target.name!r} has {target.texture_side} a side"
                yield violation(plan, Cause.OVER_CAPACITY, message)


def _check_left_out(planset: PlanSet, contents: Contents, place: dict[str, int]) -> Iterator[Violation]:
    """What has no place needs none, whatever reason the plan gives; and has none, if the plan says so."""
    # TensorFlow Lite Micro places what its offsets leave out by itself, clear of what they say.
    left = planset.target is not None and planset.target.name == "tflm"
    left_out = {name for name, why in planset.unplanned if left and why == LEFT_TO_RUNTIME}
    for name in sorted(contents.needed - place.keys() - left_out):
        yield Violation(Cause.MISSING_TENSOR, f"{name!r} has no place", records=(name,))
    for name, _ in planset.unplanned:
        if name in place:
            message = f"{name!r} is in a record, and listed among what has no place"
            yield Violation(Cause.TWO_PLACES, message, records=(name,))


def _check_states(planset: PlanSet, contents: Contents, place: dict[str, int]) -> Iterator[Violation]:
    """Both tensors of a state are in one record, which is a state, and nothing else is one."""
    states: set[int] = set()
    for present, past in contents.states.items():
        index = place.get(past)
        if index is None or place.get(present) != index or planset.problem.records[index].kind != "state":
            message = f"{past!r} and {present!r} are one state, but not one record of that kind"
            yield Violation(Cause.STATE_NOT_KEPT, message, records=(past, present))
            continue
        record = planset.problem.records[index]
        states.add(index)
        if (record.first_op, record.last_op) != (0, max(len(planset.steps) - 1, 0)):
            message = f"{record.name!r} is in use from {record.first_op} to {record.last_op}, not for the whole run"
            yield Violation(Cause.STATE_NOT_KEPT, message, records=(past, present))
    for index, record in enumerate(planset.problem.records):
        if record.kind == "state" and index not in states:
            message = f"{record.name!r} is kept from run to run, and the target names no such state"
            yield Violation(Cause.WRONG_KIND, message, records=(record.name,))
