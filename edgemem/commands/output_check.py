"""Whether a changed model computes the same in its runtime as the model that it was made from.

Every operator of a model with recomputation reads the values that it read before, so that this should never fail. It
is tested all the same, because a wrong file would be wrong in silence.

Reference kernels compute a row of a stripe in one way, wherever it is. LiteRT's float kernels work in blocks of rows,
and may add up the rows of a stripe in another order: so this is tested for each streamed file, on made-up inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError, NumericDifferenceError
from edgemem.runtime.differences import compare_values
from edgemem.runtime.litert.process import ask_litert
from edgemem.runtime.onnxruntime.tile_comparison import compare_tiled
from edgemem.runtime.tflite_file import TfliteModel
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext

__all__ = ["check_same", "check_streamed"]

_RUNS: Final = 3


def check_same(original: Model, changed: Model, recompute: PassContext) -> None:
    """Raise NumericDifferenceError where an output is not the same bit for bit in the model's runtime.

    ONNX models run in ONNX Runtime with one thread and with the user's; .tflite models in LiteRT where the plan is for
    it: there are no other kernels that would run them here.

    Raises ModelError where the runtime cannot run one of the two, MissingDependencyError where it is not installed.
    """
    if ".onnx" in original.suffixes:
        threads = tuple(dict.fromkeys((1, int(recompute.options.get("threads", 0)))))
        with temporary_folder() as folder:
            found = compare_tiled(
                original, changed, folder, bindings=recompute.bindings, feeds=recompute.feeds, threads=threads
            )
        if not found.is_identical:
            raise NumericDifferenceError(
                f"{recompute.path.name}: with operators that run again, {found}; "
                "allow it with --allow-numeric-difference",
                largest=found.largest,
            )
    elif recompute.target.scratch == "litert":
        check_streamed(original, changed, recompute.path)


def check_streamed(original: Model, streamed: Model, path: Path) -> None:
    """Raise NumericDifferenceError where an output is not the same bit for bit in LiteRT's builtin kernels.

    Args:
        original: the model.
        streamed: made from it.
        path: of the file, for messages.

    Raises MissingDependencyError without LiteRT, and ModelError where it cannot run one of the two.
    """
    with temporary_folder() as folder:
        before, after = (
            _outputs(model, folder / f"{name}-{path.name}")
            for name, model in (("original", original), ("streamed", streamed))
        )
    found = [compare_values(here, there) for here, there in zip(before, after, strict=True)]
    if not all(is_same for is_same, _ in found):
        largest = max(difference for _, difference in found)
        raise NumericDifferenceError(
            f"{path.name}: streamed, an output differs in LiteRT by up to {largest:.2g} of its largest element, "
            "because its float kernels compute in blocks; allow it with --allow-numeric-difference, or plan for "
            "TensorFlow Lite Micro (--target tflm)",
            largest=largest,
        )


def _outputs(model: Model, path: Path) -> Sequence[NDArray[Any]]:
    if not isinstance(model, TfliteModel):
        raise ModelError(f"{path.name} is no .tflite model")
    model.save(path)
    return ask_litert("plain", path, model, runs=_RUNS)[1]
