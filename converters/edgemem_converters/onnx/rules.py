"""The output types of one node from the types and known values of its inputs: onnx's rule, else onnxruntime's."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from typing import TYPE_CHECKING

from onnx import ModelProto, TensorProto, TypeProto, checker, defs, numpy_helper, shape_inference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem_converters.onnx.scopes import Node

__all__ = ["dims_of", "is_known", "malformed", "onnx_types", "onnxruntime_types", "single"]

_MAX_RANK = 64
_TAKES_LISTS = frozenset(
    (
        *("AffineGrid", "CenterCropPad", "Col2Im", "ConstantOfShape", "Expand", "MaxUnpool", "Reshape", "Squeeze"),
        *("Tile", "Unsqueeze", "Upsample"),
    )
)
# onnx's rule is complete for these; onnxruntime's tool would make a symbol for each of any number of entries.
_RANK_FROM_LENGTH = ("ConstantOfShape", "Reshape")
_FAILED = (
    *(checker.ValidationError, shape_inference.InferenceError),
    *(RuntimeError, ValueError, TypeError, MemoryError),
)
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
    """Whether a type is complete: all dimensions of a tensor are known, or it is not a dense tensor."""
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


def malformed(model: ModelProto) -> str:
    """Why a rule cannot be applied to the node of a model of one node, or "".

    Rules do not check that tensors have the declared length, that required inputs are present and that axes are in
    range, and they make a symbol for each entry of an unknown shape. Otherwise they crash or take all memory.
    """
    node = model.graph.node[0]
    context = checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {o.domain: o.version for o in model.opset_import}
    try:
        checker.check_node(node, context)
    except _FAILED as e:
        return _first_line(e)
    if any(a.name == "axis" and abs(a.i) > _MAX_RANK for a in node.attribute):
        return "its axis is beyond any rank"
    if node.domain in ("", "ai.onnx") and node.op_type in _TAKES_LISTS:
        lists = [i.type.tensor_type.shape.dim for i in model.graph.input]
        if any(len(d) == 1 and d[0].dim_value > _MAX_RANK for d in lists):
            return "it takes a list that is longer than any rank"
    known = {v.name for v in (*model.graph.input, *model.graph.initializer)}
    version = next((o.version for o in model.opset_import if o.domain == node.domain), 1)
    try:
        schema = defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return ""
    for name, formal in zip(node.input, schema.inputs, strict=False):
        if name not in known and formal.option == defs.OpSchema.FormalParameterOption.Single:
            return f"its input {formal.name!r} is absent or unknown"
    return ""


def onnx_types(model: ModelProto) -> tuple[list[TypeProto | None], str]:
    """What onnx infers for a model of one node, a type or None for each output; and why it failed, or ""."""
    reason = ""
    try:
        made = shape_inference.infer_shapes(model, strict_mode=True)
    except _FAILED as e:
        reason = _first_line(e)
        try:
            made = shape_inference.infer_shapes(model)
        except _FAILED:
            return _outputs(model, None), reason
    return _outputs(model, made), reason


def _outputs(model: ModelProto, inferred: ModelProto | None) -> list[TypeProto | None]:
    outputs = inferred.graph.output if inferred is not None else ()
    types = {o.name: o.type for o in outputs if o.HasField("type")}
    return [types.get(n) for n in model.graph.node[0].output]


def _first_line(error: Exception) -> str:
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
    return _outputs(model, tool.out_mp_)
