"""An .onnx file as the commands read it that only run ONNX models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.formats import onnx_editor
from edgemem.runtime.feeds import sized_by

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from edgemem.formats import Bindings

__all__ = ["read_onnx", "sized_by_values"]


def read_onnx(path: Path, command: str) -> bytes:
    """The content of an .onnx file.

    Args:
        path: the file.
        command: what needs it, `run` or `measure`, for errors.

    Raises ModelError if it is none, and says which command the user wants instead, or if it cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".edgemem":
        raise ModelError(
            f"{path.name} is a plan without its model, which {command} needs; write the plan into the model with: "
            "edgemem plan MODEL.onnx -o PLANNED.onnx"
        )
    if suffix == ".tflite":
        raise ModelError(
            f"{path.name}: {command} is for .onnx models; for .tflite models there are: edgemem size {path.name}, and "
            f"edgemem run --compare {path.name}"
        )
    if suffix != ".onnx":
        taken = ".onnx or .tflite" if command == "run" else ".onnx"
        raise ModelError(f"{path.name} is no model that {command} takes; give an {taken} file")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"no file {path}") from None
    except OSError as e:
        raise ModelError(f"cannot read {path}: {e}") from None


def sized_by_values(path: Path, values: Mapping[str, NDArray[Any]], bindings: Bindings) -> Bindings:
    """The bindings, and for sizes that they leave open those of the values that are given for an .onnx file's inputs.

    Raises ModelError as `read_onnx`.
    """
    forms = onnx_editor().parts(read_onnx(path, "plan"), path.parent).input_forms()
    return sized_by(forms, values, bindings)
