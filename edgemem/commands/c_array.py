"""A planned .tflite file as C source, with an arena of the size that was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import PlanError, PlanFileError
from edgemem.report.c_array import as_c_array
from edgemem.report.c_header import kernel_warning
from edgemem.runtime.tflite_file import open_model
from edgemem.runtime.tflm.file_plan import file_plan
from edgemem.runtime.tflm.size import size_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["c_array_of"]


def c_array_of(path: Path, name: str) -> str:
    """The model with its offsets, and without the plan that nothing on the device reads, as a C array.

    Args:
        path: a .tflite file planned for TensorFlow Lite Micro.
        name: the prefix of every identifier.

    Raises:
        PlanFileError: the file has no plan. InvalidPlanError: the plan or its offsets are wrong.
        RuntimeBindError: the plan is not one for TensorFlow Lite Micro.
        PlanError: the arena could not be measured.
    """
    model = open_model(path)
    plan = file_plan(model, kernels=None)
    if plan.refusal is not None:
        raise plan.refusal.error("tflm", path)
    if plan.planset is None:
        raise PlanFileError(f"{path.name} carries no plan; make one with: edgemem plan {path.name} -o PLANNED.tflite")
    size = size_of(model, kernels=None)
    measured = size.arena or (size.head + size.tail if size.tail is not None else None)
    if measured is None:
        raise PlanError(f"the arena's size is not known: {size.reason}")
    assert size.origin is not None
    about = (
        f"{path.name}, planned by {size.origin.strategy}: {size.head} bytes of head and {size.tail} of tail in "
        f"an arena of {measured}, measured on this computer; a device with smaller pointers needs less tail"
    )
    offsets = model if model.plan() is None else model.with_offsets(plan.planset)
    return as_c_array(offsets.content(), name, arena=measured, about=about, warning=kernel_warning(plan.planset))
