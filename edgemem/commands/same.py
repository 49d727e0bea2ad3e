"""Whether a changed model computes the same in its runtime as the model that it was made from.

Every operator of a model with recomputation reads the values that it read before, so that this should never fail. It
is tested all the same, because a wrong file would be wrong in silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.commands.streamed import check_streamed
from edgemem.errors import NumericDifferenceError
from edgemem.runtime.onnxruntime.tile_comparison import compare_tiled
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from edgemem.commands.steps import Steps
    from edgemem.formats import Model

__all__ = ["check_same"]


def check_same(original: Model, changed: Model, steps: Steps) -> None:
    """Raise NumericDifferenceError where an output is not the same bit for bit in the model's runtime.

    ONNX models run in ONNX Runtime with one thread and with the user's; .tflite models in LiteRT where the plan is for
    it: there are no other kernels that would run them here.

    Raises ModelError where the runtime cannot run one of the two, MissingDependencyError where it is not installed.
    """
    if ".onnx" in original.suffixes:
        threads = tuple(dict.fromkeys((1, int(steps.options["recompute"].get("threads", 0)))))
        with temporary_folder() as folder:
            found = compare_tiled(
                original, changed, folder, bindings=steps.bindings, feeds=steps.feeds, threads=threads
            )
        if not found.is_identical:
            raise NumericDifferenceError(
                f"{steps.path.name}: with operators that run again, {found}; allow it with --allow-numeric-difference",
                largest=found.largest,
            )
    elif steps.rules.scratch == "litert":
        check_streamed(original, changed, steps.path)
