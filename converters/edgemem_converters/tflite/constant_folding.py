"""Decompresses the constants that a .tflite file stores in float16 or in sparse form.

Files with weights in float16 or in sparse form decompress them by operators (DEQUANTIZE, DENSIFY) that TensorFlow
Lite Micro does not have, and of which LiteRT keeps a second, decompressed copy. Folding decompresses them here: the
operators, and the tensors and buffers that only they used, are removed from the file. Everything else stays, under the
same names.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.tflite.control import CONTROL
from edgemem_converters.tflite.names import DTYPES, OPERATOR_CODES
from edgemem_converters.tflite.objects import MOST, TIMES, drop_buffers, listed, packed, read_errors, unpacked
from edgemem_converters.tflite.reader import read
from edgemem_converters.tflite.sparse_constants import Level, densify

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from edgemem_converters.tflite.reader import FileModel

__all__ = ["dense", "fold"]

_DEQUANTIZE, _DENSIFY = OPERATOR_CODES["DEQUANTIZE"], OPERATOR_CODES["DENSIFY"]
_FLOAT16, _FLOAT32 = DTYPES.index("float16"), DTYPES.index("float32")
_WIDTHS: Final = {
    DTYPES.index(name): np.dtype(name) for name in ("float32", "float16", "int8", "uint8", "int16", "int32", "float64")
}


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
    with read_errors():
        return _folded(data, file)


def _folded(data: bytes, file: FileModel) -> bytes:
    schema, model = unpacked(data, file, "folding", "folded")
    if any(entry.name == CONTROL.encode() for entry in model.metadata or []):
        raise UnsupportedError("the model carries control dependencies by operator number, which folding would change")
    folding = _Folding(schema, model, TIMES * len(data) + MOST)
    if not sum(folding.subgraph(subgraph, number) for number, subgraph in enumerate(model.subgraphs)):
        return data
    folding.drop_buffers()
    return packed(schema, model)


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
            inputs, outputs = listed(op.inputs), listed(op.outputs)
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
        drop_buffers(self._model, self._emptied)

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
            self._reserve(prod(listed(source.shape)) * _WIDTHS[source.type].itemsize)
            result.buffer = self._add(dense(source, buffer).tobytes())
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
                f"limit is {TIMES} times the file and {MOST:,} bytes. Leave fold out"
            )

    def _add(self, data: bytes) -> int:
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(data, np.uint8)
        self._model.buffers.append(buffer)
        return len(self._model.buffers) - 1

    def _drop_tensors(self, subgraph: Any, number: int, candidates: set[int]) -> None:
        """Remove the candidates without references, and renumber the remaining tensors."""
        maps = self._named.get(number, [])
        named = {*listed(subgraph.inputs), *listed(subgraph.outputs), *(m.tensorIndex for m in maps)}
        for op in subgraph.operators:
            named.update(listed(op.inputs) + listed(op.outputs) + listed(op.intermediates))
        dropped = candidates - named
        self._emptied |= {subgraph.tensors[i].buffer for i in dropped}
        kept = [i for i in range(len(subgraph.tensors)) if i not in dropped]
        place = {-1: -1, **{old: new for new, old in enumerate(kept)}}
        subgraph.tensors = [subgraph.tensors[i] for i in kept]
        for holder, names in ((subgraph, ("inputs", "outputs")), *((o, _OPERATOR_LISTS) for o in subgraph.operators)):
            for name in names:
                if getattr(holder, name) is not None:
                    setattr(holder, name, np.array([place[i] for i in listed(getattr(holder, name))], dtype="<i4"))
        for entry in maps:
            entry.tensorIndex = place[entry.tensorIndex]


_OPERATOR_LISTS: Final = ("inputs", "outputs", "intermediates")


def dense(tensor: Any, buffer: Any) -> NDArray[Any]:
    """The values of a tensor that has a sparsity, from the buffer that holds them, both as generated objects.

    To be called within `read_errors`. Raises KeyError for a dtype that nothing stores so.
    """
    sparsity = tensor.sparsity
    levels = []
    for level in sparsity.dimMetadata or []:
        if level.format:
            segments, indices = (_vector(v) for v in (level.arraySegments, level.arrayIndices))
            levels.append(Level(0, segments, indices))
        else:
            levels.append(Level(int(level.denseSize)))
    values = np.frombuffer(bytes(bytearray(buffer.data)), _WIDTHS[tensor.type].newbyteorder("<"))
    return densify(values, listed(tensor.shape), listed(sparsity.traversalOrder), listed(sparsity.blockMap), levels)


def _vector(table: Any) -> NDArray[np.int64]:
    """The numbers of an Int32Vector, Uint16Vector or Uint8Vector."""
    values = None if table is None else table.values
    return np.zeros(0, np.int64) if values is None else np.asarray(values).astype(np.int64).reshape(-1)
