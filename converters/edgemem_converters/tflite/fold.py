"""Decompresses the constants that a .tflite file stores in float16 or in sparse form.

Files with weights in float16 or in sparse form decompress them by operators (DEQUANTIZE, DENSIFY) that TensorFlow
Lite Micro does not have, and of which LiteRT keeps a second, decompressed copy. Folding decompresses them here: the
operators, and the tensors and buffers that only they used, are removed from the file. Everything else stays, under the
same names.
"""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.tflite.control import CONTROL
from edgemem_converters.tflite.names import DTYPES, OPERATOR_CODES
from edgemem_converters.tflite.reader import IDENTIFIER, read
from edgemem_converters.tflite.schema import load_schema
from edgemem_converters.tflite.sparse import Level, densify

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from edgemem_converters.tflite.reader import FileModel

__all__ = ["fold"]

_DEQUANTIZE, _DENSIFY = OPERATOR_CODES["DEQUANTIZE"], OPERATOR_CODES["DENSIFY"]
_FLOAT16, _FLOAT32 = DTYPES.index("float16"), DTYPES.index("float32")
_WIDTHS: Final = {
    DTYPES.index(name): np.dtype(name) for name in ("float32", "float16", "int8", "uint8", "int16", "int32", "float64")
}
# Limits of the decompressed constants, so that a small file cannot become a large one.
_MOST: Final = 1 << 24  # bytes, beyond _TIMES the length of the file
_TIMES: Final = 64


def fold(data: bytes) -> bytes:
    """The file with float16 and sparse constants decompressed; the file itself if it has none.

    The results of the remaining operators stay the same, bit for bit.

    Raises:
        MissingDependencyError: ai-edge-litert, which has the TFLite schema, is not installed.
        ModelError: the file is damaged.
        UnsupportedError: it numbers its operators or holds data in a way that folding would break.
    """
    file = read(data)
    if not any(op.type in ("DEQUANTIZE", "DENSIFY") for s in file.subgraphs for op in s.operators):
        return data
    schema = load_schema(len(data))
    try:
        return _folded(schema, schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0)), data, file)
    except (struct.error, AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as e:
        # The strict reader does not read these fields, and the generated reader does not check them.
        raise ModelError(f"damaged TFLite file: {e or type(e).__name__}") from None


def _folded(schema: ModuleType, model: Any, data: bytes, file: FileModel) -> bytes:
    if any(entry.name == CONTROL.encode() for entry in model.metadata or []):
        raise UnsupportedError("the model carries control dependencies by operator number, which folding would change")
    if sum(place.size for place in file.buffers) > _TIMES * len(data) + _MOST:
        raise ModelError("damaged TFLite file: its buffers overlap so often that it cannot be folded")
    for buffer, place in zip(model.buffers, file.buffers, strict=True):
        if buffer.offset > 1 or buffer.size > 1:  # data behind the flatbuffer come into it
            buffer.data = np.frombuffer(data, np.uint8, place.size, place.start) if place.size else None
            buffer.offset = buffer.size = 0
    if any(op.largeCustomOptionsSize for s in model.subgraphs for op in s.operators or []):
        raise UnsupportedError("the model has operator options behind the flatbuffer, which folding would lose")
    folding = _Folding(schema, model, _TIMES * len(data) + _MOST)
    if not sum(folding.subgraph(subgraph, number) for number, subgraph in enumerate(model.subgraphs)):
        return data
    folding.drop_buffers()
    return _packed(schema, model)


def _indices(vector: Any) -> list[int]:
    return [] if vector is None else [int(i) for i in vector]


class _Folding:
    """A model whose constants are being folded, in place."""

    def __init__(self, schema: ModuleType, model: Any, most: int) -> None:
        """For constants of `most` bytes in all, once they are decompressed."""
        self._schema = schema
        self._model = model
        self._most = self._left = most
        self._widened: dict[int, int] = {}  # float16 buffer -> the float32 one made of it
        self._emptied: set[int] = set()
        self._named: dict[int, list[Any]] = {}  # subgraph -> the tensors that its signatures name
        for signature in model.signatureDefs or []:
            named = self._named.setdefault(signature.subgraphIndex, [])
            named += [*(signature.inputs or []), *(signature.outputs or [])]

    def subgraph(self, subgraph: Any, number: int) -> int:
        """Fold one subgraph; returns the operators that were removed."""
        kept, sources = [], set()
        for op in subgraph.operators or []:
            inputs, outputs = _indices(op.inputs), _indices(op.outputs)
            if self._code(op) in (_DEQUANTIZE, _DENSIFY) and self._fold(subgraph, self._code(op), inputs, outputs):
                sources.update(inputs)
            else:
                kept.append(op)
        gone = len(subgraph.operators or []) - len(kept)
        if gone:
            subgraph.operators = kept
            self._drop_tensors(subgraph, number, sources)
        return gone

    def drop_buffers(self) -> None:
        """Remove the buffers that only dropped tensors had."""
        model = self._model
        used = {0, *(t.buffer for s in model.subgraphs for t in s.tensors or [])}
        used |= {entry.buffer for entry in model.metadata or []}
        used |= set(_indices(model.metadataBuffer))
        kept = [i for i in range(len(model.buffers)) if i in used or i not in self._emptied]
        place = {old: new for new, old in enumerate(kept)}
        model.buffers = [model.buffers[i] for i in kept]
        for subgraph in model.subgraphs:
            for tensor in subgraph.tensors or []:
                tensor.buffer = place[tensor.buffer]
        for entry in model.metadata or []:
            entry.buffer = place[entry.buffer]
        if model.metadataBuffer is not None:
            model.metadataBuffer = [place[i] for i in _indices(model.metadataBuffer)]

    def _code(self, op: Any) -> int:
        code = self._model.operatorCodes[op.opcodeIndex]
        return int(max(code.builtinCode, code.deprecatedBuiltinCode))

    def _fold(self, subgraph: Any, code: int, inputs: list[int], outputs: list[int]) -> bool:
        if not inputs or not outputs or inputs[0] < 0 or outputs[0] < 0:
            return False
        source, result = subgraph.tensors[inputs[0]], subgraph.tensors[outputs[0]]
        buffer = self._model.buffers[source.buffer]
        if buffer.data is None or not len(buffer.data) or source.isVariable or source.externalBuffer:
            return False
        if code == _DENSIFY:
            if source.sparsity is None or source.type not in _WIDTHS or source.type != result.type:
                return False
            self._reserve(prod(_indices(source.shape)) * _WIDTHS[source.type].itemsize)
            result.buffer = self._add(_dense(source, buffer).tobytes())
        elif source.type == _FLOAT16 and result.type == _FLOAT32 and source.sparsity is None:
            if source.buffer not in self._widened:
                self._reserve(2 * len(buffer.data))
                half = np.frombuffer(bytes(bytearray(buffer.data)), "<f2")
                self._widened[source.buffer] = self._add(half.astype("<f4").tobytes())
            result.buffer = self._widened[source.buffer]
        else:
            return False
        # The new constant needs a shape; where the result has none, it is that of the source.
        result.shape = source.shape if result.shape is None else result.shape
        return True

    def _reserve(self, size: int) -> None:
        """Count the bytes of a decompressed constant before they are allocated."""
        self._left -= max(size, 0)
        if self._left < 0:
            raise ModelError(
                f"the constants of the TFLite file take more than {self._most:,} bytes once decompressed: the "
                f"limit is {_TIMES} times the file and {_MOST:,} bytes. Plan the model without --fold"
            )

    def _add(self, data: bytes) -> int:
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(data, np.uint8)
        self._model.buffers.append(buffer)
        return len(self._model.buffers) - 1

    def _drop_tensors(self, subgraph: Any, number: int, candidates: set[int]) -> None:
        """Remove the candidates without references, and renumber the remaining tensors."""
        maps = self._named.get(number, [])
        named = {*_indices(subgraph.inputs), *_indices(subgraph.outputs), *(m.tensorIndex for m in maps)}
        for op in subgraph.operators:
            named.update(_indices(op.inputs) + _indices(op.outputs) + _indices(op.intermediates))
        dropped = candidates - named
        self._emptied |= {subgraph.tensors[i].buffer for i in dropped}
        kept = [i for i in range(len(subgraph.tensors)) if i not in dropped]
        place = {-1: -1, **{old: new for new, old in enumerate(kept)}}
        subgraph.tensors = [subgraph.tensors[i] for i in kept]
        for holder, names in ((subgraph, ("inputs", "outputs")), *((o, _OPERATOR_LISTS) for o in subgraph.operators)):
            for name in names:
                if getattr(holder, name) is not None:
                    setattr(holder, name, np.array([place[i] for i in _indices(getattr(holder, name))], dtype="<i4"))
        for entry in maps:
            entry.tensorIndex = place[entry.tensorIndex]


_OPERATOR_LISTS: Final = ("inputs", "outputs", "intermediates")


def _dense(tensor: Any, buffer: Any) -> NDArray[Any]:
    sparsity = tensor.sparsity
    levels = []
    for level in sparsity.dimMetadata or []:
        if level.format:
            segments, indices = (_vector(v) for v in (level.arraySegments, level.arrayIndices))
            levels.append(Level(0, segments, indices))
        else:
            levels.append(Level(int(level.denseSize)))
    values = np.frombuffer(bytes(bytearray(buffer.data)), _WIDTHS[tensor.type].newbyteorder("<"))
    return densify(
        values, _indices(tensor.shape), _indices(sparsity.traversalOrder), _indices(sparsity.blockMap), levels
    )


def _vector(table: Any) -> NDArray[np.int64]:
    """The numbers of an Int32Vector, Uint16Vector or Uint8Vector."""
    values = None if table is None else table.values
    return np.zeros(0, np.int64) if values is None else np.asarray(values).astype(np.int64).reshape(-1)


def _packed(schema: ModuleType, model: Any) -> bytes:
    import flatbuffers

    class Aligned(schema.BufferT):  # type: ignore[misc, name-defined]
        """A buffer with data at a multiple of 16, which the schema requires and the generated code does not do."""

        def __init__(self, buffer: Any) -> None:
            super().__init__(buffer.data, buffer.offset, buffer.size)

        def Pack(self, builder: Any) -> int:  # noqa: N802 -- the generated code calls it so
            data = None
            if self.data is not None and len(self.data):
                raw = bytes(bytearray(self.data))
                builder.StartVector(1, len(raw), 16)
                builder.head -= len(raw)
                builder.Bytes[builder.head : builder.head + len(raw)] = raw
                data = builder.EndVector()
            schema.BufferStart(builder)
            if data is not None:
                schema.BufferAddData(builder, data)
            return int(schema.BufferEnd(builder))

    model.buffers = [Aligned(b) for b in model.buffers]
    builder = flatbuffers.Builder(sum(len(b.data) for b in model.buffers if b.data is not None) + (1 << 16))
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())
