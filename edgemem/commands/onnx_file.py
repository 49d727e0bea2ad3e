"""An .onnx file as the commands read it that only run ONNX models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_onnx"]


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
