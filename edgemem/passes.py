"""What can be done to a model before it is planned, each wish by itself: other sizes of the file, the same outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem import formats
from edgemem.errors import ModelError
from edgemem.formats import Bindings, Foldable, Model, RecordFile
from edgemem.schedule.order import find_order
from edgemem.targets import BUILT_IN, Target
from edgemem.targets import target as find_target

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["prepare"]


def prepare(
    path: Path,
    folder: Path,
    *,
    bindings: Bindings | None = None,
    target: str | Target | None = None,
    fold: bool = False,
    reorder: bool = False,
    optimize: str | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
) -> Model | RecordFile:
    """A model, opened and changed as wished.

    Args:
        path: the file.
        folder: where a changed file may be put; it is read from there later.
        bindings: values for open dimensions and shapes.
        target: whose rules an order is for; the format's own by default.
        fold: compute what follows from constants alone, where the runtimes of the format would do it at load time.
        reorder: run operators in an order with a lower peak.
        optimize: let ONNX Runtime optimise the graph to this level first; its order holds only then.
        feeds: inputs of the run that tells the sizes of the optimised graph.

    Raises:
        ModelError: a wish that the format does not know, or as `load` and the passes do.
    """
    bindings = bindings or Bindings()
    opened = formats.load(path, bindings)
    if not (fold or reorder or optimize):
        return opened
    if not isinstance(opened, Model):
        raise ModelError(f"{path.name} holds usage records: there is no graph to change")
    rules = find_target(target) if isinstance(target, str) else target or BUILT_IN[opened.default_target]
    if fold:
        if not isinstance(opened, Foldable):
            raise ModelError(f"{path.name}: only .tflite files are folded; use --optimize for ONNX")
        opened = opened.folded()
    if optimize is not None:
        if path.suffix.lower() != ".onnx":
            raise ModelError(f"{path.name}: ONNX Runtime optimises .onnx files only")
        from edgemem.runtime.onnxruntime.baking import bake_sized

        baked = folder / path.name
        bake_sized(
            path,
            baked,
            optimize,
            feeds=feeds,
            dims=bindings.dims,
            input_shapes=bindings.input_shapes,
            reorder=rules if reorder else None,
        )
        return formats.load(baked)
    if reorder:
        if path.suffix.lower() == ".onnx":
            raise ModelError(
                f"{path.name}: ONNX Runtime runs a graph in an order of its own unless it is baked; add --optimize"
            )
        opened = opened.with_order(find_order(opened.graph(), rules))
    return opened
