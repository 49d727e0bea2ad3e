"""A .tflite file with one operator of another, to run it elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.tflite.computation.constants import NotExpressibleError, TfliteConstants
from edgemem_converters.tflite.names import DTYPES
from edgemem_converters.tflite.objects import drop_buffers, listed, packed, read_errors, unpacked

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem_converters.tflite.reader import FileModel

__all__ = ["operator_file"]


def operator_file(data: bytes, file: FileModel, graph: Graph, number: int) -> bytes:
    """The operator with its options and constants; those that the model decompresses are stored decompressed.

    Args:
        data: the file.
        file: what `read` gives for it.
        graph: of the file, whose sizes the new one has.
        number: of the operator in the graph.

    Returns:
        A file whose inputs are those of the operator that are no constants, in order and each once, and whose outputs
        are the operator's.

    Raises:
        MissingDependencyError: ai-edge-litert, which has the TFLite schema, is not installed.
        ModelError: the file is damaged, or has no such operator.
        UnsupportedError: the operator has bodies, or keeps a state between runs, or has no fixed sizes.
    """
    if not 0 <= number < len(graph.ops):
        raise ModelError(f"there are {len(graph.ops)} operators, and none of number {number}")
    op = graph.ops[number]
    kinds = {graph.tensors[i].kind for i in (*op.inputs, *op.outputs) if i >= 0}
    if op.bodies or kinds & {"variable", "opaque", "captured"}:
        raise UnsupportedError(
            f"operator {op.name!r} cannot run alone: it runs subgraphs, or has a state or open sizes"
        )
    with read_errors():
        schema, model = unpacked(data, file, "copying an operator of", "copied")
        model.subgraphs, model.signatureDefs = model.subgraphs[:1], None
        model.metadata, model.metadataBuffer = None, None
        main = model.subgraphs[0]
        operator = main.operators[number]
        named = [i for i in (*op.inputs, *op.outputs, *listed(operator.intermediates)) if i >= 0]
        place = {-1: -1, **{old: new for new, old in enumerate(dict.fromkeys(named))}}
        dropped = {tensor.buffer for tensor in main.tensors}
        values = TfliteConstants(file, graph)
        main.tensors = [
            _tensor(schema, model, main.tensors[i], graph, i, values, is_input=i in op.inputs) for i in place if i >= 0
        ]
        for name in ("inputs", "outputs", "intermediates"):
            if getattr(operator, name) is not None:
                setattr(operator, name, np.array([place[i] for i in listed(getattr(operator, name))], "<i4"))
        inputs = [i for i in dict.fromkeys(op.inputs) if i >= 0 and not values.is_known(i)]
        main.inputs = np.array([place[i] for i in inputs], "<i4")
        main.outputs = np.array([place[i] for i in op.outputs if i >= 0], "<i4")
        model.operatorCodes = [model.operatorCodes[operator.opcodeIndex]]
        operator.opcodeIndex, main.operators = 0, [operator]
        drop_buffers(model, dropped)
        return packed(schema, model)


def _tensor(
    schema: Any, model: Any, tensor: Any, graph: Graph, index: int, values: TfliteConstants, *, is_input: bool
) -> Any:
    """The tensor with the size that it has in the graph, and with its value if that is known and the file lacks it."""
    known = graph.tensors[index]
    tensor.shape, tensor.shapeSignature = np.array(known.shape, "<i4"), None
    buffer = model.buffers[tensor.buffer] if tensor.buffer else None
    has_data = buffer is not None and buffer.data is not None and len(buffer.data)
    if is_input and values.is_known(index) and not has_data and 0 not in known.shape:
        try:
            value = values.value(index)
        except NotExpressibleError as e:
            raise UnsupportedError(f"the constant {known.name!r} cannot be read: {e}") from None
        tensor.buffer, tensor.type = len(model.buffers), DTYPES.index(value.dtype.name)
        made = schema.BufferT()
        made.data = np.frombuffer(value.tobytes(), np.uint8)
        model.buffers.append(made)
    return tensor
