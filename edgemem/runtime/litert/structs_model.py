"""A small model that shows all that edgemem reads of LiteRT's structures and writes to them.

It has tensors of several types, sizes and ranks; constants, a tensor that LiteRT keeps (a decompressed constant), one
whose size depends on the data, and an operator with workspace. What it computes is known.

    x [2, 3] ── SUM over axis 1 ──────────────► sum [2]
    x ── MUL by weights ── ADD of wide ───────► scaled [2, 3]     wide = DEQUANTIZE(half)
    bytes [5, 7] ── MAXIMUM with itself ──────► same [5, 7]
    x ── WHERE it is not zero ────────────────► open              of a size that LiteRT finds as it runs
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import flatbuffers
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from edgemem.runtime.litert.probe_data import Allocation

__all__ = ["OPERATORS", "TENSORS", "KnownTensor", "model_bytes", "results"]


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A tensor: its name, NumPy's dtype, shape, value if it is a constant, and where LiteRT allocates it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    allocation: Allocation
    constant: tuple[float, ...] = ()

    @property
    def type(self) -> int:
        """Its TfLiteType."""
        return _TYPES[self.dtype][1]

    @property
    def data(self) -> bytes:
        """The bytes of a constant."""
        return np.array(self.constant, self.dtype).tobytes()


@dataclass(frozen=True, slots=True)
class _KnownOperator:
    """An operator: its code, tensors, and the type and fields (number, value) of its options."""

    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: tuple[int, tuple[tuple[int, int], ...]] = (0, ())


TENSORS: Final = (
    KnownTensor("x", "<f4", (2, 3), "arena"),
    KnownTensor("bytes", "i1", (5, 7), "arena"),
    KnownTensor("axis", "<i4", (1,), "constant", (1,)),
    KnownTensor("weights", "<f4", (3,), "constant", (0.5, 1.5, -2.5)),
    KnownTensor("half", "<f2", (3,), "constant", (1, -2, 4)),
    KnownTensor("wide", "<f4", (3,), "persistent"),
    KnownTensor("sum", "<f4", (2,), "arena"),
    KnownTensor("product", "<f4", (2, 3), "arena"),
    KnownTensor("scaled", "<f4", (2, 3), "arena"),
    KnownTensor("same", "i1", (5, 7), "arena"),
    KnownTensor("open", "<i8", (1, 2), "dynamic"),
)
_INDEX: Final = {tensor.name: index for index, tensor in enumerate(TENSORS)}
# NumPy's name -> the number in the schema, and the TfLiteType.
_TYPES: Final = {"<f4": (0, 1), "<f2": (1, 10), "<i4": (2, 2), "<i8": (4, 4), "i1": (9, 9)}


def _at(*names: str) -> tuple[int, ...]:
    return tuple(_INDEX[name] for name in names)


OPERATORS: Final = (
    _KnownOperator(6, _at("half"), _at("wide")),  # DEQUANTIZE
    _KnownOperator(74, _at("x", "axis"), _at("sum"), (27, ())),  # SUM, ReducerOptions
    _KnownOperator(18, _at("x", "weights"), _at("product"), (21, ())),  # MUL, MulOptions
    _KnownOperator(0, _at("product", "wide"), _at("scaled"), (11, ())),  # ADD, AddOptions
    _KnownOperator(55, _at("bytes", "bytes"), _at("same"), (38, ())),  # MAXIMUM, MaximumMinimumOptions
    _KnownOperator(109, _at("x"), _at("open")),  # WHERE
)
_INPUTS: Final = _at("x", "bytes")
_OUTPUTS: Final = _at("sum", "scaled", "same", "open")


def results(x: NDArray[np.float32], given: NDArray[np.int8]) -> dict[str, bytes]:
    """The bytes of every tensor in the arena that the model computes from `x` and `bytes`, by name."""
    product = x * np.array(TENSORS[_INDEX["weights"]].constant, np.float32)
    scaled = product + np.array(TENSORS[_INDEX["half"]].constant, np.float32)
    return {
        "sum": x.sum(1).tobytes(),
        "product": product.tobytes(),
        "scaled": scaled.tobytes(),
        "same": given.tobytes(),
    }


def model_bytes() -> bytes:
    """The model as a .tflite file."""
    b = flatbuffers.Builder(2048)
    # Buffer 0 is that of all tensors without data.
    constants = [tensor for tensor in TENSORS if tensor.constant]
    buffers = [_table(b, [])]
    for tensor in constants:
        b.StartVector(1, len(tensor.data), 16)
        for byte in reversed(tensor.data):
            b.PrependByte(byte)
        data = b.EndVector()
        buffers.append(_table(b, [(0, b.PrependUOffsetTRelativeSlot, data)]))
    tensors = []
    for tensor in TENSORS:
        name, shape = b.CreateString(tensor.name), _numbers(b, tensor.shape)
        buffer = constants.index(tensor) + 1 if tensor.constant else 0
        fields = [(0, b.PrependUOffsetTRelativeSlot, shape), (1, b.PrependInt8Slot, _TYPES[tensor.dtype][0])]
        fields += [(2, b.PrependUint32Slot, buffer), (3, b.PrependUOffsetTRelativeSlot, name)]
        tensors.append(_table(b, fields))
    operators, codes = [], []
    for number, operator in enumerate(OPERATORS):
        kind, values = operator.options
        inputs, outputs = _numbers(b, operator.inputs), _numbers(b, operator.outputs)
        fields = [(0, b.PrependUint32Slot, number)]
        if kind:
            options = _table(b, [(field, b.PrependInt32Slot, value) for field, value in values])
            fields += [(3, b.PrependUint8Slot, kind), (4, b.PrependUOffsetTRelativeSlot, options)]
        fields += [(1, b.PrependUOffsetTRelativeSlot, inputs), (2, b.PrependUOffsetTRelativeSlot, outputs)]
        operators.append(_table(b, fields))
        code = [(0, b.PrependInt8Slot, operator.code), (3, b.PrependInt32Slot, operator.code)]
        codes.append(_table(b, [*code, (2, b.PrependInt32Slot, 1)]))
    parts = (_references(b, tensors), _numbers(b, _INPUTS), _numbers(b, _OUTPUTS), _references(b, operators))
    subgraph = _table(b, [(field, b.PrependUOffsetTRelativeSlot, part) for field, part in enumerate(parts)])
    lists = {1: _references(b, codes), 2: _references(b, [subgraph]), 4: _references(b, buffers)}
    model = [(field, b.PrependUOffsetTRelativeSlot, at) for field, at in lists.items()]
    b.Finish(_table(b, [(0, b.PrependUint32Slot, 3), *model]), b"TFL3")
    return bytes(b.Output())


def _table(b: flatbuffers.Builder, fields: Sequence[tuple[int, Callable[[int, int, int], None], int]]) -> int:
    b.StartObject(12)
    for field, put, value in fields:
        put(field, value, 0)
    return int(b.EndObject())


def _numbers(b: flatbuffers.Builder, values: Sequence[int]) -> int:
    b.StartVector(4, len(values), 4)
    for value in reversed(values):
        b.PrependInt32(value)
    return int(b.EndVector())


def _references(b: flatbuffers.Builder, tables: Sequence[int]) -> int:
    b.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        b.PrependUOffsetTRelative(table)
    return int(b.EndVector())
