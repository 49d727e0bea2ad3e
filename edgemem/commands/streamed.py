"""Whether a streamed .tflite model computes the same in LiteRT as the model that it was made from.

Reference kernels compute a row in one way, wherever it is. LiteRT's float kernels work in blocks of rows, and may add
up the rows of a stripe in another order: so this is tested for each file, on made-up inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.commands.run_litert import ask_litert
from edgemem.commands.tflite_file import TfliteModel
from edgemem.errors import ModelError, NumericDifferenceError
from edgemem.runtime.differences import compare_values
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from edgemem.formats import Model

__all__ = ["check_streamed"]

_RUNS: Final = 3


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
