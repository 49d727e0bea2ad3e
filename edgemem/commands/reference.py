"""How far results of a GPU are from those of the CPU: of ONNX Runtime for .onnx files, of LiteRT for .tflite files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import MissingDependencyError, ModelError, RuntimeBindError, UnsupportedError
from edgemem.runtime.litert.process import ask_litert
from edgemem.runtime.onnxruntime.baked_file import in_one_line, onnxruntime, session_options_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Model

__all__ = ["OutputError", "Reference", "reference_of"]


@dataclass(frozen=True, slots=True)
class OutputError:
    """How far an output is from that of the CPU.

    Attributes:
        name: of the output.
        largest: the largest absolute difference of two elements; infinite if a number is none in one of them alone.
        spread: the standard deviation of the CPU's output. Where it is 0 a right output proves nothing.
    """

    name: str
    largest: float
    spread: float


@dataclass(frozen=True, slots=True)
class Reference:
    """The outputs beside those of a runtime on the CPU.

    Attributes:
        runtime: its name and version.
        outputs: of each output that has numbers.
        reason: why there is no comparison; "" if there is.
    """

    runtime: str
    outputs: tuple[OutputError, ...] = ()
    reason: str = ""

    @property
    def worst(self) -> OutputError | None:
        """The output with the largest error relative to its spread, of those that are not constant."""
        spread = [error for error in self.outputs if error.spread > 0]
        return max(spread, key=lambda e: e.largest / e.spread, default=None)


def reference_of(
    path: Path, model: Model, feeds: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
) -> Reference:
    """Run the model on the CPU and compare; the reference says why not where it cannot.

    Args:
        path: the file.
        model: the same, opened in the sizes of the feeds.
        feeds: all inputs by name.
        outputs: what the GPU gave for them, by name.
    """
    onnx = path.suffix.lower() == ".onnx"
    try:
        runtime, wanted = _onnxruntime(path, feeds, list(outputs)) if onnx else _litert(path, model, feeds, outputs)
    except (MissingDependencyError, ModelError, RuntimeBindError, UnsupportedError) as e:
        return Reference("ONNX Runtime" if onnx else "LiteRT", reason=str(e))
    errors = [_error(name, outputs[name], value) for name, value in zip(outputs, wanted, strict=True)]
    return Reference(runtime, tuple(error for error in errors if error is not None))


def _onnxruntime(path: Path, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]) -> tuple[str, Sequence[Any]]:
    package = onnxruntime()
    with in_one_line(path):
        options = session_options_for(path.read_bytes())
        session = package.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return f"ONNX Runtime {package.__version__}", session.run(list(names), dict(feeds))


def _litert(
    path: Path, model: Any, feeds: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
) -> tuple[str, Sequence[Any]]:
    found, arrays = ask_litert("reference", path, model, tuple(feeds.values()), feeds=list(feeds))
    by_name = dict(zip(found["outputs"], arrays, strict=True))
    return f"LiteRT {found['version']}", [by_name[name] for name in outputs]


def _error(name: str, ours: NDArray[Any], wanted: Any) -> OutputError | None:
    """None for an output without numbers or elements."""
    if not isinstance(wanted, np.ndarray) or wanted.dtype.kind not in "fiub" or not wanted.size:
        return None
    if ours.shape != wanted.shape:
        return OutputError(name, float("inf"), 0.0)
    a, b = ours.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where(np.isnan(a) & np.isnan(b) | (a == b), 0.0, np.abs(a - b))
        spread = float(np.std(b[np.isfinite(b)])) if np.isfinite(b).any() else 0.0
    return OutputError(name, float(np.max(np.where(np.isnan(difference), np.inf, difference))), spread)
