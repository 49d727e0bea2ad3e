"""Writes ONNX Runtime's optimised graph of a model with the size of every tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError
from edgemem.formats import Bindings, onnx_editor
from edgemem.model.ranges import open_shape, samples_of
from edgemem.runtime.feeds import complete_feeds
from edgemem.runtime.onnxruntime.baked_file import Baked, bake, onnxruntime
from edgemem.runtime.onnxruntime.profile import kernels_run
from edgemem.runtime.onnxruntime.split_model import node_options
from edgemem.system.files import atomic_write, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Form, OpenForm, Parts

    Forms = dict[str, Form]

__all__ = ["bake_sized"]


def bake_sized(
    model_path: Path,
    out_path: Path,
    level: str,
    *,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    bindings: Bindings | None = None,
    disabled: Sequence[str] = (),
) -> Baked:
    """Write ONNX Runtime's optimised graph with the size of every tensor, so that it can be planned like any model.

    Shape inference does not know the operators that ONNX Runtime inserts, so a profiled run gives the sizes. Symbols
    with ranges stay open: runs at the ends and in the middle tell which sizes follow them.

    Args:
        model_path: an .onnx file.
        out_path: the file to write, atomically; it takes inputs of these shapes only, or of the ranges.
        level: how far to optimise: none, basic, extended, all.
        feeds: inputs of the profiled run; made up otherwise, and where there are ranges.
        bindings: values for symbolic dimensions and shapes of inputs.
        disabled: names of ONNX Runtime's transformations that are left out.

    Raises:
        ModelError: the file cannot be read, or its sizes depend on data.
        UnknownShapeError: an input's size is unknown.
        MissingDependencyError: onnxruntime is not installed.
    """
    known = bindings or Bindings()
    with temporary_folder() as folder:
        file = folder / "baked.onnx"
        note = bake(model_path, file, level, dims=known.fixed, disabled=disabled)
        parts = onnx_editor().parts(file.read_bytes(), file.parent)
        if refusals := parts.refusals():
            raise ModelError(f"{model_path.name} cannot be written with all its sizes: {refusals[0]}")
        points = samples_of(known.dims, known.ranges)
        given = feeds if not known.ranges else None
        found = [_forms_at(model_path, parts, Bindings(point, known.input_shapes), given) for point in points]
        symbols = known.left_open.ranges
        forms: dict[str, OpenForm] = {
            name: (dtype, open_shape([each[name][1] for each in found], points, symbols))
            for name, (dtype, _) in found[0].items()
        }
        for name, (dtype, declared) in parts.input_forms().items():  # by the names that it has them
            sizes = zip(declared, found[0][name][1], strict=True)
            if name not in known.input_shapes:
                forms[name] = dtype, tuple(d if isinstance(d, str) and d in symbols else size for d, size in sizes)
        with atomic_write(out_path) as out:
            out.write(onnx_editor().with_forms(file.read_bytes(), forms))
    return note


def _forms_at(model_path: Path, parts: Parts, bindings: Bindings, feeds: Mapping[str, NDArray[Any]] | None) -> Forms:
    """Dtype and shape of every input and result in a run at these sizes."""
    values = complete_feeds(parts.input_forms(), feeds, bindings)
    forms: Forms = {name: (str(value.dtype.name), value.shape) for name, value in values.items()}
    options = node_options()
    options.execution_order = onnxruntime().ExecutionOrder.PRIORITY_BASED
    ran = {kernel.node: kernel.outputs for kernel in kernels_run(parts.named(), [values], options)}
    for node, outputs in zip(parts.names, parts.node_outputs, strict=True):
        present = [name for name in outputs if name]
        if len(ran.get(node, ())) != len(present):
            raise ModelError(f"ONNX Runtime's profile of {model_path.name} does not show {node!r}")
        forms |= zip(present, ran[node], strict=True)
    return forms
