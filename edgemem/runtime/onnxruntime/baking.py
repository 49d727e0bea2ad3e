"""From a model to the file that ONNX Runtime will run as planned: its optimised graph, with every size, in an order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem import formats
from edgemem.errors import ModelError
from edgemem.files import atomic_write
from edgemem.formats import Model
from edgemem.runtime.feeds import example_feeds
from edgemem.runtime.onnxruntime.optimise import Baked, bake, split
from edgemem.runtime.onnxruntime.prepared import profiled_forms
from edgemem.schedule.order import find_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.targets import Target

__all__ = ["bake_sized"]


def bake_sized(
    model_path: Path,
    out_path: Path,
    level: str,
    *,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    reorder: Target | None = None,
) -> Baked:
    """Write ONNX Runtime's optimised graph with the size of every tensor, so that it can be planned like any model.

    Shape inference does not know the operators that ONNX Runtime makes; one profiled run does.

    Args:
        model_path: an .onnx file.
        out_path: the file to write, atomically; it takes inputs of these shapes only.
        level: how far to optimise: none, basic, extended, all.
        feeds: inputs of the profiled run; made up otherwise.
        dims: values for symbolic dimensions.
        input_shapes: shapes of inputs, by name.
        reorder: find an order with a lower peak under this target's rules.

    Raises:
        ModelError: the file cannot be read, or its sizes depend on data.
        UnknownShapeError: an input's size is unknown.
        MissingDependencyError: onnxruntime is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        file = Path(folder) / "baked.onnx"
        note = bake(model_path, file, level, dims=dims)
        parts = split().Parts(file.read_bytes(), file.parent)
        values = dict(feeds) if feeds else example_feeds(parts.input_forms(), dims=dims, input_shapes=input_shapes)
        forms = {name: (str(value.dtype.name), value.shape) for name, value in values.items()}
        if refusals := parts.refusals():
            raise ModelError(
                f"{model_path.name} cannot be baked with its sizes: {refusals[0]}; plan it without --optimize"
            )
        if missing := profiled_forms(parts, values, None, forms):
            raise ModelError(f"ONNX Runtime's profile of {model_path.name} does not show {missing!r}")
        file.write_bytes(split().with_forms(file.read_bytes(), forms))
        if reorder is not None:
            model = formats.load(file)
            assert isinstance(model, Model)
            bake(file, file, level, order=find_order(model.graph(), reorder))
        with atomic_write(out_path) as out:
            out.write(file.read_bytes())
    return note
