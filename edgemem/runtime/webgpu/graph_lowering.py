"""A graph as dispatches in the order of the plan, before any device is there: what runs, what need not, what cannot."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import ArgMax, Gather
from edgemem.model.texture_layout import SLICE
from edgemem.runtime.webgpu.dispatch import SMALL
from edgemem.runtime.webgpu.lowering import Lowering, lower
from edgemem.runtime.webgpu.shaders import Reach, assemble
from edgemem.runtime.webgpu.values import DTYPES, EXACT
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from edgemem.model.graph import Graph, Op
    from edgemem.model.tensor_ops import TensorOp
    from edgemem.runtime.webgpu.dispatch import Dispatch
    from edgemem.runtime.webgpu.gpu_model import GpuModel
    from edgemem.runtime.webgpu.shaders import Precision

__all__ = ["LoweredOperator", "Missing", "lower_graph", "missing_kernels", "needed_tensors"]


_MOST: Final = 2**31 - 1  # an index is an i32
_FUSED: Final = "com.microsoft::"  # the domain of what ONNX Runtime's optimiser makes of several operators


@dataclass(frozen=True, slots=True, eq=False)
class LoweredOperator:
    """An operator of the graph as it runs.

    Attributes:
        number: of the operator, in the order of the plan.
        op: the operator.
        dispatches: what the GPU runs, in order; () on the CPU.
        on_cpu: it runs on the CPU, because it has no kernel here.
    """

    number: int
    op: Op
    dispatches: tuple[Dispatch, ...]
    on_cpu: bool = False


def lower_graph(
    prepared: GpuModel, *, cpu_ops: bool = False, busy: int = SMALL
) -> tuple[tuple[LoweredOperator, ...], Lowering]:
    """The operators that compute something, in the order of the plan, and the context they were lowered in.

    Args:
        prepared: the model.
        cpu_ops: run on the CPU what no kernel computes.
        busy: workgroups that keep the GPU busy.

    Raises UnsupportedError, which lists every operator that cannot run.
    """
    lowered, context, missing = _lower(prepared, cpu_ops=cpu_ops, busy=busy)
    if missing is not None:
        raise UnsupportedError(f"{prepared.name} does not run on the GPU, {missing}{missing.remedy(cpu_ops=cpu_ops)}")
    return lowered, context


def missing_kernels(prepared: GpuModel) -> Missing | None:
    """What of a model has no kernel; None if all of it runs on a GPU."""
    return _lower(prepared, cpu_ops=False, busy=SMALL)[2]


@dataclass(frozen=True, slots=True)
class Missing:
    """What cannot run: operators by type and reason, and tensors, in words."""

    operators: Mapping[tuple[str, str], Sequence[str]]
    tensors: Sequence[str]

    def __str__(self) -> str:
        said = []
        for (kind, reason), names in self.operators.items():
            why = "" if reason == kind else f": {reason}"
            said.append(f"{join_names(names, most=3)} ({kind}){why}")
        if self.tensors:
            said.append(join_names(self.tensors, most=5))
        count = sum(map(len, self.operators.values())) + len(self.tensors)
        return f"{count} {'thing' if count == 1 else 'things'} without a kernel: {'; '.join(said)}"

    def remedy(self, *, cpu_ops: bool = False) -> str:
        """What helps, after a semicolon; "" if nothing does."""
        fused = sorted({kind.removeprefix(_FUSED) for kind, _ in self.operators if kind.startswith(_FUSED)})
        made = (
            f"; edgemem shrink --steps optimize=basic keeps ONNX Runtime's optimiser from making {join_names(fused)}"
            if fused
            else ""
        )
        return made + ("" if cpu_ops or not self.operators else "; --cpu-ops runs single operators on the CPU")


def _lower(
    prepared: GpuModel, *, cpu_ops: bool, busy: int
) -> tuple[tuple[LoweredOperator, ...], Lowering, Missing | None]:
    graph = prepared.graph
    context = Lowering.of(prepared.program, busy)
    read = {i for op in graph.ops for i in op.inputs} | set(graph.outputs)
    found: list[LoweredOperator] = []
    tensors = [*_uncounted(graph, context), *_refused_tensors(graph)]
    refused: dict[tuple[str, str], list[str]] = {}  # names by type and reason
    for number, (op, steps) in enumerate(zip(graph.ops, prepared.steps, strict=True)):
        if all(_needs_nothing(graph, i, context) or i not in read for i in op.outputs):
            continue
        dispatches, reason = _lowered(graph, op, steps, context, read)
        reason = reason or _inexact(graph, steps, context, prepared.precision)
        if not reason:
            found.append(LoweredOperator(number, op, dispatches))
        elif cpu_ops and not op.bodies:
            found.append(LoweredOperator(number, op, (), on_cpu=True))
        else:
            refused.setdefault((op.type, reason), []).append(repr(op.name or op.type))
    return tuple(found), context, Missing(refused, tensors) if refused or tensors else None


def _uncounted(graph: Graph, context: Lowering) -> Iterator[str]:
    for number, tensor in enumerate(graph.tensors):
        if tensor.kind != "opaque" and max(context.stored(number).texels * SLICE, prod(tensor.shape)) > _MOST:
            yield f"{tensor.name!r} has more elements than a kernel can count ({_MOST:,})"


def _inexact(graph: Graph, steps: tuple[TensorOp, ...] | str, context: Lowering, precision: Precision) -> str:
    """Why an operator's indices are not told apart by floats of a precision; "" if they are."""
    for step in steps:
        if isinstance(step, ArgMax | Gather):
            indices = step.output if isinstance(step, ArgMax) else step.indices
            sizes = step.sizes if isinstance(step, Gather) else (context.shape(step.input)[step.axis],)
            largest = max(sizes) - 1
            if largest > EXACT[precision] and not context.is_constant(indices):
                name, exact = graph.tensors[indices].name, EXACT[precision]
                return f"{name!r} has indices up to {largest:,}, and {precision} tells integers apart up to {exact:,}"
    return ""


def needed_tensors(graph: Graph, lowered: tuple[LoweredOperator, ...], context: Lowering) -> tuple[int, ...]:
    """The tensors that must have memory: inputs and outputs of the graph, and those that operators read and write."""
    used = dict.fromkeys((*graph.inputs, *graph.outputs))
    for step in lowered:
        used |= dict.fromkeys(i for i in (*step.op.inputs, *step.op.outputs) if i >= 0)
        for dispatch in step.dispatches:
            used |= dict.fromkeys((*dispatch.inputs, dispatch.output))
    return tuple(i for i in used if not _needs_nothing(graph, i, context))


def _needs_nothing(graph: Graph, tensor: int, context: Lowering) -> bool:
    """Whether a tensor is absent, of a known value, or empty, so that nothing computes or keeps it."""
    if tensor < 0 or context.is_constant(tensor):
        return True
    return graph.tensors[tensor].kind == "constant" or 0 in graph.tensors[tensor].shape


def _refused_tensors(graph: Graph) -> Iterator[str]:
    for tensor in graph.tensors:
        if tensor.kind == "variable":
            yield f"{tensor.name!r} keeps its value between runs"
        elif tensor.kind == "opaque":
            yield f"{tensor.name!r} is {tensor.note or tensor.dtype}"
    for number in dict.fromkeys((*graph.inputs, *graph.outputs)):
        tensor = graph.tensors[number]
        if tensor.kind not in ("variable", "opaque") and tensor.dtype not in DTYPES:
            yield f"{tensor.name!r} is {tensor.dtype}"


def _lowered(
    graph: Graph, op: Op, steps: tuple[TensorOp, ...] | str, context: Lowering, read: Collection[int]
) -> tuple[tuple[Dispatch, ...], str]:
    """The dispatches of an operator; or why there are none."""
    if op.bodies:
        return (), "it runs graphs of its own"
    if isinstance(steps, str):
        return (), steps
    found: list[Dispatch] = []
    try:
        for step in steps:
            found += lower(step, context)
        for dispatch in found:  # as if each tensor were in a buffer: whether there is such a kernel
            reaches = [Reach("buffer", context.stored(i), i) for i in dispatch.inputs]
            assemble(dispatch, reaches, Reach("buffer", context.stored(dispatch.output), "output"))
    except UnsupportedError as e:
        return (), str(e)
    written = {dispatch.output for dispatch in found}
    outputs = {i for i in op.outputs if not _needs_nothing(graph, i, context)}
    if written - outputs:
        return (), "it would write other tensors"
    if any(i in read for i in outputs - written):
        return (), "not all of its outputs are computed"
    there = set(op.inputs)
    for dispatch in found:
        for number in dispatch.inputs:
            name = graph.tensors[number].name
            if context.is_constant(number):
                if _is_inexact(graph, number, context):
                    return (), f"the integers of {name!r} are beyond {EXACT['fp32']:,}, which float32 keeps apart"
            elif _needs_nothing(graph, number, context):
                return (), f"it reads {name!r}, which has no values"
            elif number not in there:  # nothing proves that it is still there
                return (), f"it would read {name!r}, which is no input of it"
        there.add(dispatch.output)
    return tuple(found), ""


def _is_inexact(graph: Graph, number: int, context: Lowering) -> bool:
    """Whether a constant has integers that float32, in which it is kept, may have rounded."""
    values = context.value(number)
    is_whole = "int" in graph.tensors[number].dtype
    return is_whole and values.size > 0 and float(np.abs(values).max()) >= EXACT["fp32"]
