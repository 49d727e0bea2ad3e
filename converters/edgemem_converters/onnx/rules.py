"""The output types of a model of one node: by onnx's rule, and by onnxruntime's."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx import ModelProto, TensorProto, TypeProto, shape_inference

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["dims_of", "first_line", "is_known", "onnx_types", "onnxruntime_types"]

# onnx's rule is complete for these; onnxruntime's tool would make a symbol for each of any number of entries.
_RANK_FROM_LENGTH = ("ConstantOfShape", "Reshape")


def dims_of(made: TypeProto | None) -> list[int | str | None] | None:
    """A tensor type's dimensions: a size, a symbol, or None; None for unknown rank or no tensor.

    Exporters write -1 and "?" for dimensions that have no name.
    """
    if made is None or not made.HasField("tensor_type") or not made.tensor_type.HasField("shape"):
        return None
    return [
        d.dim_value
        if d.HasField("dim_value") and d.dim_value >= 0
        else d.dim_param
        if d.dim_param not in ("", "?")
        else None
        for d in made.tensor_type.shape.dim
    ]


def is_known(made: TypeProto | None) -> bool:
    """Whether a type is complete: all dimensions of a tensor are known, or it is not a dense tensor."""
    if made is None or made.WhichOneof("value") is None:
        return False
    if not made.HasField("tensor_type"):
        return True
    if made.tensor_type.elem_type == TensorProto.STRING:
        return True  # it has no size whatever its shape
    dims = dims_of(made)
    return bool(made.tensor_type.elem_type) and dims is not None and all(isinstance(d, int) for d in dims)


def onnx_types(model: ModelProto) -> tuple[list[TypeProto | None], str]:
    """What onnx infers for a model of one node, a type or None for each output; and why it failed, or ""."""
    reason = ""
    try:
        made = shape_inference.infer_shapes(model, strict_mode=True)
    except Exception as e:  # noqa: BLE001 - foreign C++ code, which throws what it likes at nodes without sense
        reason = first_line(e)
        try:
            made = shape_inference.infer_shapes(model)
        except Exception:  # noqa: BLE001
            return _outputs(model, None), reason
    return _outputs(model, made), reason


def _outputs(model: ModelProto, inferred: ModelProto | None) -> list[TypeProto | None]:
    outputs = inferred.graph.output if inferred is not None else ()
    types = {o.name: o.type for o in outputs if o.HasField("type")}
    return [types.get(n) for n in model.graph.node[0].output]


def first_line(error: Exception) -> str:
    """What an error says first, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    sink = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def onnxruntime_types(model: ModelProto) -> list[TypeProto | None]:
    """What onnxruntime's tool infers for a model of one node: it knows onnxruntime's own operators too.

    All unknown when onnxruntime or sympy is not installed. Nothing is printed, logged or written.
    """
    unknown = _outputs(model, None)
    if model.graph.node[0].op_type in _RANK_FROM_LENGTH:
        return unknown
    with _silence():
        module = _onnxruntime_tool()
        if module is None:
            return unknown
        # Its public function writes a file into the working directory when it cannot finish; its steps do not.
        tool = module.SymbolicShapeInference(2**31 - 1, False, False, 0)
        try:
            tool._preprocess(model)  # noqa: SLF001
            while tool.run_:
                tool._infer_impl()  # noqa: SLF001
            tool._update_output_from_vi()  # noqa: SLF001
        except Exception:  # noqa: BLE001 - it asserts and indexes freely; what it cannot infer is only unknown
            return unknown
    return _outputs(model, tool.out_mp_)


@functools.cache
def _onnxruntime_tool() -> Any:
    """The module of onnxruntime's tool by itself, or None: its package imports PyTorch, where that is installed."""
    package = importlib.util.find_spec("onnxruntime")
    if package is None or package.origin is None:
        return None
    file = Path(package.origin).with_name("tools") / "symbolic_shape_infer.py"
    spec = importlib.util.spec_from_file_location("edgemem_converters.onnx.onnxruntime_tool", file)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (ImportError, OSError):  # sympy is not installed, or this onnxruntime has no such file
        return None
    return module
