""".tflite files of one operator with any options, and what LiteRT computes with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import flatbuffers
import numpy as np

from edgemem_converters.tflite.names import CUSTOM, DTYPES, OPERATOR_CODES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Input", "build", "random_feeds", "run"]


@dataclass(frozen=True, eq=False)
class Input:
    """A tensor that the operator reads: a constant if it has a value; absent if it has no shape either.

    Its numbers are counts of `scales`, one for all or one for each place along `axis`.
    """

    shape: tuple[int, ...] | None = None
    dtype: str = "float32"
    value: NDArray[Any] | None = None
    scales: Sequence[float] = ()
    axis: int = 0

    @classmethod
    def of(cls, value: Any, dtype: str = "float32") -> Input:
        """A constant."""
        array = np.asarray(value, dtype)
        return cls(array.shape, dtype, array)


@dataclass
class _File:
    """A model under construction."""

    schema: Any
    model: Any
    graph: Any
    inputs: list[int] = field(default_factory=list)

    def tensor(self, shape: Sequence[int], dtype: str, value: NDArray[Any] | None = None) -> int:
        made = self.schema.TensorT()
        index = len(self.graph.tensors)
        made.name, made.shape, made.type, made.buffer = f"t{index}", np.array(shape, "<i4"), DTYPES.index(dtype), 0
        if value is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(value.tobytes(), np.uint8)
            made.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(made)
        return index


def build(
    kind: str,
    inputs: Sequence[Input],
    outputs: Sequence[tuple[tuple[int, ...], str]],
    options: tuple[str, Mapping[str, Any]] | None = None,
    *,
    custom: bytes = b"",
    version: int = 1,
) -> bytes:
    """A file of one operator.

    Args:
        kind: the operator; a name that the schema does not have is a custom one.
        inputs: what it reads.
        outputs: shape and dtype of what it writes.
        options: the table of the schema (`Conv2DOptions`) and its fields by the names of the generated class.
        custom: options of a custom operator.
        version: of the operator.
    """
    from ai_edge_litert import schema_py_generated as schema

    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.description, model.buffers, model.subgraphs = 3, "", [schema.BufferT()], [graph]
    graph.name, graph.tensors = "main", []
    file = _File(schema, model, graph)
    op, code = schema.OperatorT(), schema.OperatorCodeT()
    places = [-1 if i.shape is None else file.tensor(i.shape, i.dtype, i.value) for i in inputs]
    for place, given in zip(places, inputs, strict=True):
        if given.scales:
            scaled = graph.tensors[place].quantization = schema.QuantizationParametersT()
            scaled.scale, scaled.quantizedDimension = np.array(given.scales, np.float32), given.axis
            scaled.zeroPoint = np.zeros(len(given.scales), np.int64)
    op.opcodeIndex, op.inputs = 0, np.array(places, "<i4")
    graph.inputs = np.array([p for p, i in zip(places, inputs, strict=True) if p >= 0 and i.value is None], "<i4")
    op.outputs = graph.outputs = np.array([file.tensor(*o) for o in outputs], "<i4")
    if options is not None:
        name, fields = options
        op.builtinOptionsType, op.builtinOptions = getattr(schema.BuiltinOptions, name), getattr(schema, f"{name}T")()
        for key, value in fields.items():
            assert hasattr(op.builtinOptions, key), key
            setattr(op.builtinOptions, key, value)
    if custom:
        op.customOptions = np.frombuffer(custom, np.uint8)
    graph.operators = [op]
    code.builtinCode, code.version = OPERATOR_CODES.get(kind, CUSTOM), version
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    if code.builtinCode == CUSTOM:
        code.customCode = kind
    model.operatorCodes = [code]
    builder = flatbuffers.Builder(1 << 12)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def random_feeds(data: bytes, seed: int = 0, low: float = -2.0, high: float = 2.0) -> dict[int, NDArray[Any]]:
    """Values of the inputs by tensor index, of their dtypes."""
    from ai_edge_litert.interpreter import Interpreter

    rng = np.random.default_rng(seed)
    details = Interpreter(model_content=data).get_input_details()
    return {d["index"]: _random(rng, tuple(d["shape"]), np.dtype(d["dtype"]), low, high) for d in details}


def _random(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], low: float, high: float
) -> NDArray[Any]:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def run(data: bytes, feeds: Mapping[int, NDArray[Any]], *, every: bool = False) -> dict[int, NDArray[Any]]:
    """The outputs by tensor index, by LiteRT's own kernels; `every` tensor that holds a value with it."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=data,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=every,
    )
    interpreter.allocate_tensors()
    for index, value in feeds.items():
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    found = {d["index"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}
    if every:
        for d in interpreter.get_tensor_details():
            if d["index"] not in found and d["shape"].size and d["dtype"] is not np.bytes_:
                try:
                    found[d["index"]] = interpreter.get_tensor(d["index"])
                except ValueError:  # without memory: a temporary tensor of a kernel
                    continue
    return found
