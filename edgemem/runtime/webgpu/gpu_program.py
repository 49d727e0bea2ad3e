"""A static program of a graph in memory: kernels whose sizes are constants, and the passes that run them.

It is made before any device is there. The executor runs it, and `edgemem export -f web` writes it for browsers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgemem.errors import InvalidPlanError
from edgemem.model.aliasing import RULES
from edgemem.model.texture_layout import SLICE, is_same_storage
from edgemem.runtime.webgpu.constants import Constants
from edgemem.runtime.webgpu.packing import pack
from edgemem.runtime.webgpu.shaders import OUTPUT, WEIGHTS, assemble
from edgemem.runtime.webgpu.size_constants import Reach
from edgemem.runtime.webgpu.stored_weights import stored_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph, Op
    from edgemem.runtime.webgpu.dispatch import Dispatch
    from edgemem.runtime.webgpu.graph_lowering import LoweredOperator
    from edgemem.runtime.webgpu.lowering import Lowering
    from edgemem.runtime.webgpu.places import GpuLayout, Place
    from edgemem.runtime.webgpu.profile import GpuProfile
    from edgemem.runtime.webgpu.shaders import BindingKind
    from edgemem.targets import Target

__all__ = ["GpuKernel", "GpuPass", "GpuProgram", "GpuStep", "build_program"]


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """A compute shader.

    Attributes:
        name: of the file in kernels/gpu that it was made of.
        text: WGSL, without any size left open; its entry point is `main`.
        layout: each binding's number and kind.
    """

    name: str
    text: str
    layout: tuple[tuple[int, BindingKind], ...]


@dataclass(frozen=True, slots=True)
class GpuPass:
    """One run of a kernel.

    Attributes:
        kernel: its number in the program.
        tensors: (binding, tensor's index in the graph); the last is the one that is written.
        constants: (binding, number of an array).
        workgroups: the grid.
        over: the input that the output is written over, bound as the output; None: there is none.
        reads: tensors whose values it reads, those that share a binding, too.
    """

    kernel: int
    tensors: tuple[tuple[int, int], ...]
    constants: tuple[tuple[int, int], ...]
    workgroups: tuple[int, int, int]
    over: int | None
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GpuStep:
    """An operator of the graph as passes.

    Attributes:
        number: of the operator, in the order of the plan.
        op: the operator.
        passes: what runs; () on the CPU, and for a view, which need not run.
        written: the tensors that it gives values; outputs that nothing reads may be left out.
        on_cpu: it runs on the CPU.
        is_view: its output is its input under another name.
    """

    number: int
    op: Op
    passes: tuple[GpuPass, ...]
    written: tuple[int, ...]
    on_cpu: bool
    is_view: bool


@dataclass(frozen=True, slots=True, eq=False)
class GpuProgram:
    """A graph as a device runs it.

    Attributes:
        layout: the memory of its tensors.
        kernels: all of them, each once.
        steps: the operators, in the order of the plan.
        constants: read-only memory of the kernels.
    """

    layout: GpuLayout
    kernels: tuple[GpuKernel, ...]
    steps: tuple[GpuStep, ...]
    constants: Constants


def build_program(
    layout: GpuLayout,
    graph: Graph,
    target: Target,
    lowered: Sequence[LoweredOperator],
    context: Lowering,
    profile: GpuProfile,
) -> GpuProgram:
    """The program of a graph in a layout of memory.

    Raises:
        InvalidPlanError: an operator's operands overlap what it writes, and it is none that may run so.
        UnsupportedError: a constant is too large for a binding.
    """
    kernels: dict[GpuKernel, int] = {}
    constants = Constants(profile)
    steps = []
    for step in lowered:
        is_view = _is_view(step, layout, target, context)
        passes = (
            ()
            if is_view
            else tuple(_pass(d, step.op, layout, graph, context, constants, kernels) for d in step.dispatches)
        )
        if not is_view:
            _check_later(step, layout, graph, context)
        given = step.op.outputs if step.on_cpu else (d.output for d in step.dispatches)
        written = tuple(i for i in dict.fromkeys(given) if i in layout.places)
        steps.append(GpuStep(step.number, step.op, passes, written, step.on_cpu, is_view))
    return GpuProgram(layout, tuple(kernels), tuple(steps), constants)


def _is_view(step: LoweredOperator, layout: GpuLayout, target: Target, context: Lowering) -> bool:
    """Whether an operator only gives its input another name: the same texels at one place."""
    op = step.op
    if op.type not in RULES[target.aliasing].views or not op.inputs or step.on_cpu:
        return False
    source, result = op.inputs[0], op.outputs[0]
    if context.is_constant(source) or not {source, result} <= layout.places.keys():
        return False
    a, b = layout.places[source], layout.places[result]
    if a.key != b.key or not is_same_storage(a.stored, b.stored):
        return False
    return a.texels is None or b.texels is None or a.texels == b.texels


def _pass(
    dispatch: Dispatch,
    op: Op,
    layout: GpuLayout,
    graph: Graph,
    context: Lowering,
    constants: Constants,
    kernels: dict[GpuKernel, int],
) -> GpuPass:
    what = repr(op.name or op.type)
    _check_apart(dispatch, op, layout, graph, context)
    reaches = [
        Reach("constant", context.stored(i), ("constant", i)) if context.is_constant(i) else layout.reach(i)
        for i in dispatch.inputs
    ]
    dispatch = replace(dispatch, weights=stored_weights(dispatch, layout.precision))
    shader = assemble(dispatch, reaches, layout.reach(dispatch.output), layout.precision)
    kernel = kernels.setdefault(GpuKernel(dispatch.kernel, shader.text, shader.layout), len(kernels))
    tensors: dict[int, int] = {}
    arrays: dict[int, int] = {}
    for number, binding in zip(dispatch.inputs, shader.inputs, strict=True):
        if context.is_constant(number):
            name = f"{what} ({graph.tensors[number].name!r})"
            arrays[binding] = _add_operand(number, name, context, constants)
        elif binding != OUTPUT:
            tensors.setdefault(binding, number)
    tensors[OUTPUT] = dispatch.output
    for k, array in enumerate(dispatch.weights):
        arrays[WEIGHTS + k] = constants.add(array.nbytes, lambda array=array: array, what)  # type: ignore[misc]
    reads = tuple(i for i in dict.fromkeys(dispatch.inputs) if not context.is_constant(i))
    over = next((i for i, b in zip(dispatch.inputs, shader.inputs, strict=True) if b == OUTPUT), None)
    return GpuPass(kernel, tuple(tensors.items()), tuple(arrays.items()), dispatch.workgroups, over, reads)


def _add_operand(number: int, what: str, context: Lowering, constants: Constants) -> int:
    dims = context.stored(number)
    return constants.add(dims.texels * SLICE * 4, lambda: pack(context.value(number), dims), what, ("operand", number))


def _check_apart(dispatch: Dispatch, op: Op, layout: GpuLayout, graph: Graph, context: Lowering) -> None:
    """Raise InvalidPlanError for an operand that overlaps the output, unless the kernel may write over it."""
    output = layout.places[dispatch.output]
    for k, number in enumerate(dispatch.inputs):
        if context.is_constant(number):
            continue
        place = layout.places[number]
        same = output.texels is None and place.key == output.key and place.size == output.size
        if not _is_apart(place, output) and not (same and k in dispatch.in_place):
            raise _overlap(dispatch.output, number, op, graph)


def _check_later(step: LoweredOperator, layout: GpuLayout, graph: Graph, context: Lowering) -> None:
    """Raise InvalidPlanError where a dispatch of an operator writes over what a later one of the same reads."""
    for k, dispatch in enumerate(step.dispatches):
        for later in step.dispatches[k + 1 :]:
            for number in later.inputs:
                if context.is_constant(number) or number == dispatch.output:
                    continue
                if not _is_apart(layout.places[number], layout.places[dispatch.output]):
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
