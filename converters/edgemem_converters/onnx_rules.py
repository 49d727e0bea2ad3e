"""The output types of one node from the types and known values of its inputs: onnx's rule, else onnxruntime's."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from typing import TYPE_CHECKING

from onnx import ModelProto, TensorProto, TypeProto, numpy_helper, shape_inference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem_converters.onnx_scopes import Node

__all__ = ["dims_of", "is_known", "onnx_types", "onnxruntime_types", "single"]

_IR_VERSION = 10  # of the models of one node: initializers need not be inputs


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
    """Whether a type says all that there is to say: the dimensions of a tensor, or that it is no dense tensor."""
    if made is None or made.WhichOneof("value") is None:
        return False
    if not made.HasField("tensor_type"):
        return True
    if made.tensor_type.elem_type == TensorProto.STRING:
        return True  # it has no size whatever its shape
    dims = dims_of(made)
    return bool(made.tensor_type.elem_type) and dims is not None and all(isinstance(d, int) for d in dims)


def single(
    node: Node, model: ModelProto, types: Sequence[TypeProto | None], values: Sequence[NDArray[np.generic] | None]
) -> ModelProto:
    """A model of this node alone, inputs `i0, i1, ...`, outputs `o0, o1, ...`; known values are initializers."""
    made = ModelProto(ir_version=_IR_VERSION, functions=model.functions)
    made.opset_import.extend(model.opset_import)
    made.graph.name = "single"
    copy = made.graph.node.add()
    copy.CopyFrom(node.proto)
    del copy.input[:], copy.output[:]
    for k, (name, known, value) in enumerate(zip(node.inputs, types, values, strict=True)):
        copy.input.append(f"i{k}" if name else "")
        if name and value is not None:
            made.graph.initializer.append(numpy_helper.from_array(value, f"i{k}"))
        elif name and known is not None:
            made.graph.input.add(name=f"i{k}").type.CopyFrom(known)
    for k, name in enumerate(node.outputs):
        copy.output.append(f"o{k}" if name else "")
        if name:
            made.graph.output.add(name=f"o{k}")
    return made


def onnx_types(model: ModelProto) -> tuple[list[TypeProto | None], str]:
    """What onnx infers for a model of one node, one type an output that has a name; and why it failed, or ""."""
    reason = ""
    try:
        made = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError, TypeError) as e:
        reason = str(e).strip().splitlines()[-1] if str(e).strip() else type(e).__name__
        try:
            made = shape_inference.infer_shapes(model, data_prop=True)
        except (shape_inference.InferenceError, RuntimeError, ValueError, TypeError):
            return [None] * len(model.graph.output), reason
    return [o.type if o.HasField("type") else None for o in made.graph.output], reason


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
    unknown: list[TypeProto | None] = [None] * len(model.graph.output)
    with _silence():
        try:
            from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference
        except ImportError:
            return unknown
        # Its public function writes a file into the working directory when it cannot finish; its steps do not.
        tool = SymbolicShapeInference(2**31 - 1, False, False, 0)
        try:
            tool._preprocess(model)  # noqa: SLF001
            while tool.run_:
                tool._infer_impl()  # noqa: SLF001
            tool._update_output_from_vi()  # noqa: SLF001
        except Exception:  # noqa: BLE001 - it asserts and indexes freely; what it cannot infer is only unknown
            return unknown
    return [o.type if o.HasField("type") else None for o in tool.out_mp_.graph.output]
