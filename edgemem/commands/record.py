"""A plan of what ONNX Runtime asks for, recorded and added to the plans of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.commands.run import in_one_line, planned_bindings
from edgemem.formats import Bindings
from edgemem.runtime.onnxruntime import record as runtime_record
from edgemem.runtime.onnxruntime.optimise import onnxruntime

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet

__all__ = ["add_recording"]


def add_recording(
    planned: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    bindings: Bindings | None = None,
    threads: int = 1,
) -> PlanSet:
    """Record a model and add the plan of what ONNX Runtime asked for to those in its file, atomically.

    The plan is made with the settings of the plan of the graph in the file, which stays there.

    Args:
        planned: an .onnx file.
        feeds: inputs by name; made up otherwise.
        bindings: sizes of made-up inputs; what is not given is as in the plan that is in the file.
        threads: of one operator; sessions that replay the plan have to have as many.

    Raises what `edgemem.runtime.onnxruntime.record.record` and `embed` raise; the file stays as it was then.
    """
    options = onnxruntime().SessionOptions()
    options.intra_op_num_threads = threads
    wanted = planned_bindings(planned.read_bytes(), bindings or Bindings())
    with in_one_line(planned):
        recorded = runtime_record.record(
            planned, feeds, dims=wanted.dims, input_shapes=wanted.input_shapes, sess_options=options
        )
    runtime_record.embed(planned, [recorded], planned)
    return recorded
