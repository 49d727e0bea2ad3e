"""A program bound to a device: compiled kernels, constants in buffers, and bind groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from edgemem.report.sizes import size_text
from edgemem.runtime.webgpu.device import checked
from edgemem.runtime.webgpu.kernel_texts import prelude
from edgemem.runtime.webgpu.shaders import layout_entries

if TYPE_CHECKING:
    from edgemem.runtime.webgpu.constants import Constants
    from edgemem.runtime.webgpu.device import GpuDevice
    from edgemem.runtime.webgpu.gpu_program import GpuKernel, GpuPass, GpuProgram, GpuStep
    from edgemem.runtime.webgpu.memory import GpuMemory
    from edgemem.runtime.webgpu.shaders import Precision

__all__ = ["BoundConstants", "BoundPass", "BoundProgram", "bind_program"]

_STORAGE: Final = 0x80  # GPUBufferUsage


@dataclass(frozen=True, slots=True, eq=False)
class BoundPass:
    """A pass as an encoder takes it."""

    pipeline: Any
    group: Any
    workgroups: tuple[int, int, int]


class BoundConstants:
    """Constants in buffers of a device.

    Attributes:
        allocated: bytes of the buffers, as the device reports them.
    """

    def __init__(self, device: GpuDevice, constants: Constants) -> None:
        self._ranges = tuple(constants.ranges)
        self._buffers: list[Any] = []
        try:
            for number, size in enumerate(constants.sizes):
                with checked(f"cannot allocate {size_text(size)} for constants"):
                    buffer = device.handle.create_buffer(size=size, usage=_STORAGE, mapped_at_creation=True)
                    self._buffers.append(buffer)
                    for offset, values in constants.arrays(number):
                        buffer.write_mapped(values, offset)
                    buffer.unmap()
                    device.wait()  # what the values were copied from is given back before more is taken
        except BaseException:
            self.close()
            raise
        constants.forget()
        self.allocated = sum(int(buffer.size) for buffer in self._buffers)

    def resource(self, number: int) -> dict[str, Any]:
        """What a bind group takes for an array."""
        at = self._ranges[number]
        return {"buffer": self._buffers[at.buffer], "offset": at.offset, "size": at.size}

    def close(self) -> None:
        """Give the memory back."""
        for buffer in self._buffers:
            buffer.destroy()
        self._buffers = []


@dataclass(frozen=True, slots=True, eq=False)
class BoundProgram:
    """A program on a device.

    Attributes:
        steps: the operators, in the order of the plan, each with its passes.
        constants: read-only memory of the kernels.
        views: operators that need not run, because their output is their input's place.
        in_place: passes that write over an input.
        pipelines: different kernels.
    """

    steps: tuple[tuple[GpuStep, tuple[BoundPass, ...]], ...]
    constants: BoundConstants
    views: int
    in_place: int
    pipelines: int

    def close(self) -> None:
        """Give the memory back."""
        self.constants.close()


def bind_program(device: GpuDevice, memory: GpuMemory, program: GpuProgram) -> BoundProgram:
    """Compile the kernels of a program and bind its passes to memory.

    Raises RuntimeBindError if the device refuses a kernel or a binding.
    """
    constants = BoundConstants(device, program.constants)
    steps = []
    try:
        for step in program.steps:
            bound = []
            for one in step.passes:
                kernel = program.kernels[one.kernel]
                with checked(f"{step.op.name or step.op.type!r} ({step.op.type}, kernel {kernel.name})"):
                    bound.append(_bound(device, memory, constants, kernel, one))
            steps.append((step, tuple(bound)))
    except BaseException:
        constants.close()
        raise
    views = sum(step.is_view for step in program.steps)
    in_place = sum(one.over is not None for step in program.steps for one in step.passes)
    return BoundProgram(tuple(steps), constants, views, in_place, len(program.kernels))


def _bound(
    device: GpuDevice, memory: GpuMemory, constants: BoundConstants, kernel: GpuKernel, one: GpuPass
) -> BoundPass:
    layout, pipeline = _pipeline(device, kernel, memory.layout.precision)
    resources = {binding: memory.resource(tensor) for binding, tensor in one.tensors}
    resources |= {binding: constants.resource(number) for binding, number in one.constants}
    entries = [{"binding": binding, "resource": resource} for binding, resource in resources.items()]
    return BoundPass(pipeline, device.handle.create_bind_group(layout=layout, entries=entries), one.workgroups)


def _pipeline(device: GpuDevice, kernel: GpuKernel, precision: Precision) -> tuple[Any, Any]:
    """The layout of the bind group and the pipeline of a kernel, which the device keeps for all sessions."""
    code = prelude(has_f16=device.has_f16 and precision == "fp16") + kernel.text
    if code not in device.pipelines:
        handle = device.handle
        layout = handle.create_bind_group_layout(entries=layout_entries(kernel.layout, precision))
        pipeline = handle.create_compute_pipeline(
            layout=handle.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": handle.create_shader_module(code=code), "entry_point": "main"},
        )
        device.pipelines[code] = (layout, pipeline)
    found: tuple[Any, Any] = device.pipelines[code]
    return found
