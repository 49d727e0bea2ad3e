"""Dispatches bound to memory: compiled shaders, bind groups, and what of the plan's sharing they use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgemem.errors import InvalidPlanError
from edgemem.model.aliasing import RULES
from edgemem.model.texture_layout import is_same_storage
from edgemem.runtime.webgpu.constants import Constants, Parameters
from edgemem.runtime.webgpu.device import checked
from edgemem.runtime.webgpu.packing import pack
from edgemem.runtime.webgpu.shaders import OUTPUT, PARAMETERS, WEIGHTS, Reach, Shader, assemble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph, Op
    from edgemem.runtime.webgpu.device import GpuDevice
    from edgemem.runtime.webgpu.dispatch import Dispatch
    from edgemem.runtime.webgpu.graph_lowering import LoweredOperator
    from edgemem.runtime.webgpu.lowering import Lowering
    from edgemem.runtime.webgpu.memory import GpuMemory
    from edgemem.runtime.webgpu.places import Place
    from edgemem.targets import Target

__all__ = ["BoundDispatch", "BoundGraph", "BoundOperator", "bind_graph"]


@dataclass(frozen=True, slots=True, eq=False)
class BoundDispatch:
    """A dispatch as an encoder takes it."""

    pipeline: Any
    group: Any
    workgroups: tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class BoundOperator:
    """An operator bound to memory.

    Attributes:
        number: of the operator, in the order of the plan.
        op: the operator.
        bound: its dispatches; () on the CPU, and for a view, which need not run.
        written: the tensors that it gives values; outputs that nothing reads may be left out.
        on_cpu: it runs on the CPU.
    """

    number: int
    op: Op
    bound: tuple[BoundDispatch, ...]
    written: tuple[int, ...]
    on_cpu: bool


@dataclass(frozen=True, slots=True, eq=False)
class BoundGraph:
    """A graph bound to memory.

    Attributes:
        steps: the operators, in the order of the plan.
        constants, parameters: read-only memory of the kernels.
        views: operators that need not run, because their output is their input's place.
        in_place: dispatches that write over an input.
        pipelines: different shaders.
    """

    steps: tuple[BoundOperator, ...]
    constants: Constants
    parameters: Parameters
    views: int
    in_place: int
    pipelines: int

    def close(self) -> None:
        """Give the memory back."""
        self.constants.close()
        self.parameters.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A dispatch whose shader is known, before its constants are in a buffer."""

    dispatch: Dispatch
    shader: Shader
    weights: tuple[int, ...]
    operands: tuple[int, ...]  # numbers of constant operands by input, -1 for a tensor in memory


def bind_graph(
    device: GpuDevice,
    memory: GpuMemory,
    graph: Graph,
    target: Target,
    lowered: Sequence[LoweredOperator],
    context: Lowering,
) -> BoundGraph:
    """Compile the shaders of a graph and bind them to memory.

    Raises:
        InvalidPlanError: an operator's operands overlap what it writes, and it is none that may run so.
        UnsupportedError: a constant is too large for a binding.
        RuntimeBindError: the device refuses a shader or a binding.
    """
    constants = Constants(device)
    try:
        planned: list[tuple[LoweredOperator, tuple[_Job, ...]]] = []
        views = in_place = 0
        for step in lowered:
            if _is_view(step, memory, target, context):
                views += 1
                planned.append((step, ()))
                continue
            jobs = tuple(_job(d, step.op, memory, graph, context, constants) for d in step.dispatches)
            _check_later(step, memory, graph, context)
            in_place += sum(OUTPUT in job.shader.inputs for job in jobs)
            planned.append((step, jobs))
        constants.flush()
        parameters = Parameters(device, [job.shader.parameters for _, jobs in planned for job in jobs])
    except BaseException:
        constants.close()
        raise
    try:
        used: set[int] = set()
        steps = []
        count = 0
        for step, jobs in planned:
            bound = []
            for job in jobs:
                with checked(f"{step.op.name or step.op.type!r} ({step.op.type}, kernel {job.dispatch.kernel})"):
                    bound.append(_bound(device, memory, constants, parameters.resource(count), job, used))
                count += 1
            given = step.op.outputs if step.on_cpu else (d.output for d in step.dispatches)
            written = tuple(i for i in dict.fromkeys(given) if i in memory.layout.places)
            steps.append(BoundOperator(step.number, step.op, tuple(bound), written, step.on_cpu))
    except BaseException:
        constants.close()
        parameters.close()
        raise
    return BoundGraph(tuple(steps), constants, parameters, views, in_place, len(used))


def _is_view(step: LoweredOperator, memory: GpuMemory, target: Target, context: Lowering) -> bool:
    """Whether an operator only gives its input another name: the same texels at one place."""
    op = step.op
    if op.type not in RULES[target.aliasing].views or not op.inputs or step.on_cpu:
        return False
    source, result = op.inputs[0], op.outputs[0]
    if context.is_constant(source) or not {source, result} <= memory.layout.places.keys():
        return False
    a, b = memory.place(source), memory.place(result)
    if a.key != b.key or not is_same_storage(a.stored, b.stored):
        return False
    return a.texels is None or b.texels is None or a.texels == b.texels


def _job(dispatch: Dispatch, op: Op, memory: GpuMemory, graph: Graph, context: Lowering, constants: Constants) -> _Job:
    output = memory.reach(dispatch.output)
    reaches, operands = [], []
    for number in dispatch.inputs:
        if context.is_constant(number):
            dims = context.stored(number)
            name = f"{op.name or op.type!r} ({graph.tensors[number].name!r})"
            operands.append(constants.add(pack(context.value(number), dims), name, ("operand", number)))
            reaches.append(Reach("constant", dims, ("constant", number)))
        else:
            operands.append(-1)
            reaches.append(memory.reach(number))
    _check_apart(dispatch, op, memory, graph, context)
    shader = assemble(dispatch, reaches, output, memory.layout.precision)
    weights = tuple(constants.add(w, f"{op.name or op.type!r}") for w in dispatch.weights)
    return _Job(dispatch, shader, weights, tuple(operands))


def _check_apart(dispatch: Dispatch, op: Op, memory: GpuMemory, graph: Graph, context: Lowering) -> None:
    """Raise InvalidPlanError for an operand that overlaps the output, unless the kernel may write over it."""
    output = memory.place(dispatch.output)
    for k, number in enumerate(dispatch.inputs):
        if context.is_constant(number):
            continue
        place = memory.place(number)
        same = output.texels is None and place.key == output.key and place.size == output.size
        if not _is_apart(place, output) and not (same and k in dispatch.in_place):
            raise _overlap(dispatch.output, number, op, graph)


def _check_later(step: LoweredOperator, memory: GpuMemory, graph: Graph, context: Lowering) -> None:
    """Raise InvalidPlanError where a dispatch of an operator writes over what a later one of the same reads."""
    for k, dispatch in enumerate(step.dispatches):
        for later in step.dispatches[k + 1 :]:
            for number in later.inputs:
                if context.is_constant(number) or number == dispatch.output:
                    continue
                if not _is_apart(memory.place(number), memory.place(dispatch.output)):
                    raise _overlap(dispatch.output, number, step.op, graph)


def _is_apart(a: Place, b: Place) -> bool:
    """Whether two places have no texel in common."""
    is_arena = a.texels is None or a.texels.layers > 0
    return a.piece != b.piece or (is_arena and (a.offset + a.size <= b.offset or b.offset + b.size <= a.offset))


def _overlap(output: int, number: int, op: Op, graph: Graph) -> InvalidPlanError:
    return InvalidPlanError(
        f"the plan puts {graph.tensors[output].name!r} over {graph.tensors[number].name!r}, and "
        f"{op.name or op.type!r} ({op.type}) cannot write over it; plan again"
    )


def _bound(
    device: GpuDevice, memory: GpuMemory, constants: Constants, block: dict[str, Any], job: _Job, used: set[int]
) -> BoundDispatch:
    layout, pipeline = _pipeline(device, job.shader)
    used.add(id(pipeline))
    resources: dict[int, Any] = {PARAMETERS: block, OUTPUT: memory.resource(job.dispatch.output)}
    for number, operand, binding in zip(job.dispatch.inputs, job.operands, job.shader.inputs, strict=True):
        if binding not in resources:
            resources[binding] = memory.resource(number) if operand < 0 else constants.resource(operand)
    for k, number in enumerate(job.weights):
        resources[WEIGHTS + k] = constants.resource(number)
    entries = [{"binding": binding, "resource": resource} for binding, resource in resources.items()]
    group = device.handle.create_bind_group(layout=layout, entries=entries)
    return BoundDispatch(pipeline, group, job.dispatch.workgroups)


def _pipeline(device: GpuDevice, shader: Shader) -> tuple[Any, Any]:
    """The layout of the bind group and the pipeline of a shader, which the device keeps for all sessions."""
    key = (shader.text, repr(shader.layout))
    if key not in device.pipelines:
        handle = device.handle
        layout = handle.create_bind_group_layout(entries=list(shader.layout))
        pipeline = handle.create_compute_pipeline(
            layout=handle.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": handle.create_shader_module(code=shader.text), "entry_point": "main"},
        )
        device.pipelines[key] = (layout, pipeline)
    found: tuple[Any, Any] = device.pipelines[key]
    return found
