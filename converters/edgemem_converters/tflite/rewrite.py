"""Writes a rewritten graph as a .tflite file.

Operators that have a source take its code, options and constants; operators of their own (SLICE, CONCATENATION, PAD)
get what their attributes say. New tensors have the dtype and quantisation of the tensor that they are made of, which is
all that PAD needs to fill in the right value: its kernels take the zero point of the result. Tensors that nothing
uses are left out, because TensorFlow Lite Micro allocates memory for them, too. Sizes that the old file leaves open,
such as the batch, are fixed as the graph has them: a slice of one image would drop the others in silence. Parts that
are equal (options, quantisation, shapes, constants) are stored once.
"""

from __future__ import annotations

import copy
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.dtypes import DTYPE_BITS
from edgemem.model.rewrite import NEW
from edgemem_converters.tflite.names import DTYPES, OPERATOR_CODES
from edgemem_converters.tflite.objects import drop_buffers, listed, packed, read_errors, unpacked
from edgemem_converters.tflite.reader import read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from edgemem.model.graph import Graph, Op, Tensor
    from edgemem.model.rewrite import ConstantPart, Rewrite

__all__ = ["rewrite_file"]

_WINDOWS: Final = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D"})
_PADDINGS: Final = frozenset({"PAD", "PADV2"})
_RESIZES: Final = frozenset({"RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"})
# New operator -> its options, and the least version that has a dtype; 1 for those that are not named.
_OPTIONS: Final = {
    "SLICE": "SliceOptions",
    "CONCATENATION": "ConcatenationOptions",
    "PAD": "PadOptions",
    "PADV2": "PadV2Options",
}
_VERSIONS: Final[Mapping[str, Mapping[str, int]]] = {
    "SLICE": {"int8": 2, "int16": 4},
    "CONCATENATION": {"int8": 2, "int16": 3},
    "PAD": {"int8": 2, "int16": 3},
    "PADV2": {"int8": 2, "int16": 3},
}
# Where a largest value begins before it has seen any.
_LEAST: Final[Mapping[str, bytes]] = {
    "float32": np.array(np.finfo(np.float32).min, "<f4").tobytes(),
    "int8": np.array(-128, "i1").tobytes(),
    "uint8": bytes(1),
    "int16": np.array(-32768, "<i2").tobytes(),
}


def rewrite_file(data: bytes, graph: Graph, rewrite: Rewrite, metadata: Mapping[str, bytes | None]) -> bytes:
    """The file with the operators of a rewrite of its main graph. The other subgraphs stay.

    Args:
        data: the file.
        graph: of it, whose indices are the file's.
        rewrite: of that graph.
        metadata: entries to replace (bytes) or to leave out (None).

    Raises:
        MissingDependencyError: ai-edge-litert, which has the TFLite schema, is not installed.
        ModelError: the file is damaged, or the rewrite is not of this graph.
        UnsupportedError: the format cannot say what an operator is to do.
    """
    file = read(data)
    with read_errors():
        schema, model = unpacked(data, file, "rewriting", "rewritten")
        _replace_metadata(schema, model, metadata)
        _Writer(schema, model, graph, rewrite).write()
        return packed(schema, model)


def _replace_metadata(schema: ModuleType, model: Any, metadata: Mapping[str, bytes | None]) -> None:
    kept = [entry for entry in model.metadata or [] if entry.name.decode(errors="backslashreplace") not in metadata]
    gone = {entry.buffer for entry in model.metadata or []} - {entry.buffer for entry in kept}
    for name, content in sorted(metadata.items()):
        if content is not None:
            kept.append(schema.MetadataT(name.encode(), len(model.buffers)))
            model.buffers.append(schema.BufferT(np.frombuffer(content, np.uint8)))
    model.metadata = kept or None
    drop_buffers(model, gone)


class _Once:
    """A part of the file that is stored once, however many others refer to it."""

    def __init__(self, part: Any) -> None:
        self.part = part
        self._at: int | None = None

    def Pack(self, builder: Any) -> int:  # noqa: N802 -- the generated code calls it so
        if self._at is None:
            self._at = int(self.part.Pack(builder))
        return self._at


def _check_scales(shared: Any, tensor: Tensor) -> None:
    """Raise UnsupportedError for a tensor that has a scale for each item of an axis of which it is a part."""
    old = shared.part if isinstance(shared, _Once) else shared
    if old is None or old.scale is None or len(old.scale) < 2:
        return
    axis = old.quantizedDimension
    if not 0 <= axis < len(tensor.shape) or tensor.shape[axis] != len(old.scale):
        raise UnsupportedError(f"{tensor.name!r} is a part of a tensor with scales along axis {axis}")


def _striped(schema: ModuleType) -> Any:
    """The class of tensors that hold a part of an old one."""
    shapes: dict[tuple[int, ...], int] = {}

    class Striped(schema.TensorT):  # type: ignore[misc, name-defined]
        """A tensor with the dtype and quantisation of another, whose shape is stored once."""

        def __init__(self, shape: tuple[int, ...], like: Any, name: str) -> None:
            super().__init__(None, like.type, 0, name, like.quantization, hasRank=like.hasRank)
            self._shape = shape

        def Pack(self, builder: Any) -> int:  # noqa: N802 -- the generated code calls it so
            if self._shape not in shapes:
                shapes[self._shape] = builder.CreateNumpyVector(np.array(self._shape, "<i4"))
            name = builder.CreateString(self.name)
            quantization = None if self.quantization is None else self.quantization.Pack(builder)
            schema.TensorStart(builder)
            schema.TensorAddShape(builder, shapes[self._shape])
            schema.TensorAddType(builder, self.type)
            schema.TensorAddBuffer(builder, 0)
            schema.TensorAddName(builder, name)
            if quantization is not None:
                schema.TensorAddQuantization(builder, quantization)
            schema.TensorAddHasRank(builder, self.hasRank)
            return int(schema.TensorEnd(builder))

    return Striped


class _Writer:
    """Replaces the operators and tensors of a model's main subgraph, in place."""

    def __init__(self, schema: ModuleType, model: Any, graph: Graph, rewrite: Rewrite) -> None:
        self._schema = schema
        self._model = model
        self._main = model.subgraphs[0]
        self._old = graph
        self._new = rewrite.graph
        self._rewrite = rewrite
        self._tensors: list[Any] = []
        self._places: dict[int, int] = {}  # old tensor -> its new index
        self._constants: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self._least: dict[tuple[str, int], int] = {}
        self._codes: dict[tuple[str, str], int] = {}
        self._shared: dict[int, _Once] = {}  # parts of the old file by identity
        self._valid: dict[int, _Once] = {}  # options without padding, by the identity of those with it
        self._added: dict[tuple[str, int], tuple[int, _Once]] = {}  # options of new operators by type and axis

    def write(self) -> None:
        main, rewrite = self._main, self._rewrite
        if not (
            all(0 <= like < len(self._old.tensors) for like in rewrite.likes)
            and all(NEW <= source < len(self._old.ops) for source in rewrite.sources)
        ):
            raise ModelError("the rewrite is not of the graph of this file")
        operators = main.operators or []
        striped = _striped(self._schema)
        for index, (tensor, like) in enumerate(zip(self._new.tensors, rewrite.likes, strict=True)):
            old = main.tensors[like]
            old.quantization = self._share(old.quantization)
            if index in rewrite.parts:
                self._tensors.append(self._part(tensor, like, rewrite.parts[index]))
            elif tensor.name == self._old.tensors[like].name:
                self._places[like] = index
                old.shapeSignature = None  # slices fix all sizes: the runtime is to refuse others
                self._tensors.append(old)
            else:
                _check_scales(old.quantization, tensor)
                self._tensors.append(striped(tensor.shape, old, tensor.name))
        made = [
            self._operator(op, None if source == NEW else operators[source])
            for op, source in zip(self._new.ops, rewrite.sources, strict=True)
        ]
        main.operators = made
        if {self._places.get(i, -1) for i in listed(main.outputs) if i >= 0} == set(self._new.outputs):
            main.outputs = np.array([self._place(i) for i in listed(main.outputs)], "<i4")
        else:  # a part of the model, to which its signatures do not apply
            main.outputs = np.array(self._new.outputs, "<i4")
            self._model.signatureDefs = [s for s in self._model.signatureDefs or [] if s.subgraphIndex]
        main.inputs = np.array([self._place(i) for i in listed(main.inputs)], "<i4")
        for signature in self._model.signatureDefs or []:
            if not signature.subgraphIndex:
                for end in (*(signature.inputs or []), *(signature.outputs or [])):
                    end.tensorIndex = self._place(end.tensorIndex)
        dropped = {t.buffer for i, t in enumerate(main.tensors) if i not in self._places}
        main.tensors = self._tensors
        drop_buffers(self._model, dropped)

    def _part(self, tensor: Tensor, like: int, part: ConstantPart) -> Any:
        """A constant that is a part of an old one, with its share of the scales."""
        old, shape = self._main.tensors[like], self._old.tensors[like].shape
        content, bits = self._model.buffers[old.buffer].data, DTYPE_BITS[tensor.dtype]
        if content is None or old.sparsity is not None or bits % 8 or len(content) != prod(shape) * bits // 8:
            name = self._old.tensors[like].name
            raise UnsupportedError(f"the constant {name!r} is stored in a way that cannot be cut")
        end = part.begin + tensor.shape[part.axis]
        items = np.asarray(content, np.uint8).reshape(*shape, bits // 8)
        cut = np.ascontiguousarray(items[(slice(None),) * part.axis + (slice(part.begin, end),)])
        made = self._schema.TensorT(np.array(tensor.shape, "<i4"), old.type, len(self._model.buffers), tensor.name)
        made.hasRank = old.hasRank
        self._model.buffers.append(self._schema.BufferT(cut.reshape(-1)))
        made.quantization = self._quantization_part(old.quantization, part.axis, part.begin, end)
        return made

    def _quantization_part(self, shared: Any, axis: int, begin: int, end: int) -> Any:
        old = shared.part if isinstance(shared, _Once) else shared
        if old is None or old.quantizedDimension != axis or old.scale is None or len(old.scale) < 2:
            return shared
        made = copy.copy(old)
        for name in ("scale", "zeroPoint", "min", "max"):
            values = getattr(old, name)
            if values is not None and len(values) > 1:
                setattr(made, name, values[begin:end])
        return made

    def _operator(self, op: Op, source: Any | None) -> Any:
        made = self._schema.OperatorT() if source is None else copy.copy(source)
        made.inputs = self._inputs(op)
        made.outputs = np.array(op.outputs, "<i4")
        if source is None:
            made.opcodeIndex = self._code(op.type, self._new.tensors[op.outputs[0]].dtype)
            made.builtinOptionsType, made.builtinOptions = self._options(op)
            return made
        if source.intermediates is not None:
            made.intermediates = np.array([self._place(i) for i in listed(source.intermediates)], "<i4")
        made.builtinOptions = self._share(source.builtinOptions)
        if op.type == "RESHAPE" and len(op.inputs) == 1 and source.builtinOptions is not None:
            made.builtinOptions = copy.copy(source.builtinOptions)
            made.builtinOptions.newShape = np.array(self._new.tensors[op.outputs[0]].shape, "<i4")
        elif op.type in _WINDOWS and op.attributes.get("pads") == (0, 0, 0, 0):
            made.builtinOptions = self._without_padding(source.builtinOptions)
        return made

    def _inputs(self, op: Op) -> Any:
        """The inputs of an operator, with the constants that its attributes or shapes say in place of absent ones."""
        inputs = list(op.inputs)
        if not op.outputs or op.outputs[0] < 0:  # such as ASSIGN_VARIABLE
            return np.array(inputs, "<i4")
        shape = self._new.tensors[op.outputs[0]].shape
        if op.type == "SLICE" and len(inputs) == 1:
            inputs += [self._numbers(op, name, (len(shape),)) for name in ("begin", "size")]
        elif op.type in _PADDINGS and (len(inputs) == 1 or inputs[1] < 0):
            inputs[1:2] = [self._numbers(op, "paddings", (len(shape), 2))]
            if op.type == "PADV2" and op.attributes.get("value") == "lowest":
                inputs.append(self._lowest(op.inputs[0]))
        elif op.type == "RESHAPE" and len(inputs) == 1:
            inputs.append(self._constant(shape, (len(shape),)))
        elif op.type in _RESIZES and len(inputs) == 1:
            inputs.append(self._constant(shape[1:3], (2,)))
        return np.array(inputs, "<i4")

    def _numbers(self, op: Op, name: str, shape: tuple[int, ...]) -> int:
        values = op.attributes.get(name)
        if not isinstance(values, tuple):
            raise UnsupportedError(f"operator {op.name!r} has no {name}, which a .tflite file needs of {op.type}")
        return self._constant(values, shape)

    def _constant(self, values: tuple[int, ...], shape: tuple[int, ...]) -> int:
        """A constant tensor; the same for equal ones."""
        key = values, shape
        if key not in self._constants:
            buffer = len(self._model.buffers)
            self._model.buffers.append(self._schema.BufferT(np.frombuffer(np.array(values, "<i4").tobytes(), np.uint8)))
            self._constants[key] = len(self._tensors)
            self._tensors.append(self._schema.TensorT(np.array(shape, "<i4"), DTYPES.index("int32"), buffer))
        return self._constants[key]

    def _lowest(self, index: int) -> int:
        """A constant tensor with the least number of the dtype of a tensor, and its quantisation."""
        dtype = self._new.tensors[index].dtype
        quantised = self._main.tensors[self._rewrite.likes[index]].quantization
        key = dtype, id(quantised)
        if key not in self._least:
            if dtype not in _LEAST:
                raise UnsupportedError(f"the least number of {dtype} is unknown; leave padded pools out of the stages")
            tensor = self._schema.TensorT(np.array([1], "<i4"), DTYPES.index(dtype), len(self._model.buffers))
            tensor.quantization = quantised
            self._model.buffers.append(self._schema.BufferT(np.frombuffer(_LEAST[dtype], np.uint8)))
            self._least[key] = len(self._tensors)
            self._tensors.append(tensor)
        return self._least[key]

    def _code(self, op_type: str, dtype: str) -> int:
        """The operator code for a type with this dtype: one of the file if its version is high enough."""
        key = op_type, dtype
        if key not in self._codes:
            if op_type not in _OPTIONS:
                raise UnsupportedError(f"a pass adds {op_type} operators, which are not known in .tflite files")
            code, version = OPERATOR_CODES[op_type], _VERSIONS[op_type].get(dtype, 1)
            codes = self._model.operatorCodes
            for index, entry in enumerate(codes):
                if max(entry.builtinCode, entry.deprecatedBuiltinCode) == code and entry.version >= version:
                    self._codes[key] = index
                    return index
            self._codes[key] = len(codes)
            codes.append(self._schema.OperatorCodeT(min(code, 127), None, version, code))
        return self._codes[key]

    def _options(self, op: Op) -> tuple[int, _Once]:
        """Type and content of the options of an operator without a source."""
        axis = op.attributes.get("axis", 0)
        if not isinstance(axis, int) or (op.type == "CONCATENATION" and "axis" not in op.attributes):
            raise UnsupportedError(f"operator {op.name!r} has no axis, which a .tflite file needs of {op.type}")
        key = op.type, axis
        if key not in self._added:
            name = _OPTIONS[op.type]
            options = getattr(self._schema, f"{name}T")()
            if op.type == "CONCATENATION":
                options.axis = axis
            self._added[key] = getattr(self._schema.BuiltinOptions, name), _Once(options)
        return self._added[key]

    def _without_padding(self, options: Any) -> _Once:
        if id(options) not in self._valid:
            valid = copy.copy(options)
            valid.padding = self._schema.Padding.VALID
            self._valid[id(options)] = _Once(valid)
        return self._valid[id(options)]

    def _share(self, part: Any) -> Any:
        """A part of the old file, to be stored once."""
        if part is None or isinstance(part, _Once):
            return part
        return self._shared.setdefault(id(part), _Once(part))

    def _place(self, index: int) -> int:
        """Where a tensor of the old file is."""
        if index >= 0 and index not in self._places:
            raise UnsupportedError(
                f"the model names tensor {index} as an input or output of a signature, and the rewritten model has no "
                "such tensor; leave the operators around it out of the stages"
            )
        return self._places.get(index, -1)
