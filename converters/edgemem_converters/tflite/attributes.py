"""What decides which bytes an operator of a .tflite file reads and writes: `Op.attributes`.

An attribute is left out where the file does not tell it, or tells nonsense: a kernel refuses such a file, or nobody
knows what it does.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem_converters.tflite.names import DTYPES, OPTIONS
from edgemem_converters.tflite.reader import read_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.model.graph import Attribute, Tensor
    from edgemem_converters.tflite.reader import FileModel, FileOperator, FileSubgraph

__all__ = ["attributes_of"]

_SAME: Final = 0  # of the schema's enumeration Padding
_MOST_CONSTANT: Final = 1 << 10  # bytes of a constant that says how a tensor is cut or padded


def attributes_of(
    model: FileModel, subgraph: FileSubgraph, operator: FileOperator, tensors: Sequence[Tensor]
) -> Mapping[str, Attribute]:
    """The attributes of an operator; {} for a type that has none.

    Args:
        model: the file.
        subgraph: the one that the operator is in.
        operator: the operator.
        tensors: of the subgraph, with the shapes that hold.
    """
    if operator.type == "VAR_HANDLE":
        return {"variable": "/".join(read_variable(model.data, operator))}
    rule = _RULES.get(operator.type)
    if rule is None or (operator.type in OPTIONS and not operator.options):
        return {}
    if not operator.inputs or not operator.outputs or min(operator.inputs[0], operator.outputs[0]) < 0:
        return {}
    return rule(_Case(model, subgraph, operator, tensors))


class _Case:
    """An operator with its shapes and constants."""

    def __init__(
        self, model: FileModel, subgraph: FileSubgraph, operator: FileOperator, tensors: Sequence[Tensor]
    ) -> None:
        self.operator = operator
        self.options = operator.options
        self.output = tensors[operator.outputs[0]].shape
        self.dtype = tensors[operator.outputs[0]].dtype
        self._model, self._subgraph, self._tensors = model, subgraph, tensors

    def shape(self, position: int) -> tuple[int, ...] | None:
        """Of an input; None if it is absent."""
        index = self._index(position)
        return None if index < 0 else self._tensors[index].shape

    def scales(self, position: int) -> int:
        """How many scales the quantisation of an input has; 0 if it is absent."""
        index = self._index(position)
        return 0 if index < 0 else self._subgraph.tensors[index].scales

    def constant(self, position: int) -> tuple[int, ...] | None:
        """The integers of a constant input; None if it is not a small constant of integers."""
        index = self._index(position)
        if index < 0:
            return None
        tensor = self._subgraph.tensors[index]
        kind = DTYPES[tensor.type] if 0 <= tensor.type < len(DTYPES) else ""
        buffer = self._model.buffers[tensor.buffer] if tensor.buffer < len(self._model.buffers) else None
        if kind not in ("int32", "int64") or buffer is None or not 0 < buffer.size <= _MOST_CONSTANT:
            return None
        dtype = np.dtype(kind).newbyteorder("<")
        if tensor.variable or tensor.external or buffer.size != dtype.itemsize * prod(tensor.shape):
            return None
        data = self._model.data[buffer.start : buffer.start + buffer.size]
        return tuple(np.frombuffer(data, dtype).tolist())

    def _index(self, position: int) -> int:
        return self.operator.inputs[position] if position < len(self.operator.inputs) else -1


def _convolution(case: _Case) -> Mapping[str, Attribute]:
    weights = case.shape(1)
    if weights is None or len(weights) != 4:
        return {}
    return _window(case, weights[1:3], (case.options["dilation_h"], case.options["dilation_w"]))


def _transposed_convolution(case: _Case) -> Mapping[str, Attribute]:
    stride = case.options["stride_h"], case.options["stride_w"]
    return {"stride": stride} if min(stride) > 0 else {}


def _pool(case: _Case) -> Mapping[str, Attribute]:
    return _window(case, (case.options["filter_h"], case.options["filter_w"]), (1, 1))


def _window(case: _Case, kernel: Sequence[int], dilation: tuple[int, int]) -> Mapping[str, Attribute]:
    """Of an operator that slides a window over [batch, height, width, channels]."""
    shape, stride = case.shape(0), (case.options["stride_h"], case.options["stride_w"])
    if shape is None or len(shape) != 4 or len(case.output) != 4 or min(*kernel, *stride, *dilation) < 1:
        return {}
    before, after = [], []
    for k in range(2):
        reach = (kernel[k] - 1) * dilation[k] + 1
        given, made = shape[1 + k], case.output[1 + k]
        padded = max((made - 1) * stride[k] + reach - given, 0) if case.options["padding"] == _SAME else 0
        before.append(padded // 2)
        after.append(padded - padded // 2)
        if made != (given + padded - reach) // stride[k] + 1:
            return {}
    return {"kernel": tuple(kernel), "stride": stride, "dilation": dilation, "pads": (*before, *after)}


def _padding(case: _Case) -> Mapping[str, Attribute]:
    paddings, shape = case.constant(1), case.shape(0) or ()
    if paddings is None or len(paddings) != 2 * len(shape) or min(paddings, default=0) < 0:
        return {}
    grown = tuple(d + a + b for d, a, b in zip(shape, paddings[::2], paddings[1::2], strict=True))
    return {"paddings": paddings} if grown == case.output else {}


def _slice(case: _Case) -> Mapping[str, Attribute]:
    begin, shape = case.constant(1), case.shape(0) or ()
    if begin is None or len(begin) != len(shape) or len(case.output) != len(shape):
        return {}
    inside = all(b >= 0 and b + s <= d for b, s, d in zip(begin, case.output, shape, strict=True))
    return {"begin": begin, "size": case.output} if inside and case.constant(2) is not None else {}


def _axis_of_split(position: int) -> Callable[[_Case], Mapping[str, Attribute]]:
    def rule(case: _Case) -> Mapping[str, Attribute]:
        axis = case.constant(position)
        return _axis(axis[0], len(case.output)) if axis is not None and len(axis) == 1 else {}

    return rule


def _concatenation(case: _Case) -> Mapping[str, Attribute]:
    if case.options["activation"] or case.dtype == "uint8":
        return {}  # it may change what it copies: uint8 is scaled where quantisation differs
    return _axis(case.options["axis"], len(case.output))


def _axis(axis: int, rank: int) -> Mapping[str, Attribute]:
    return {"axis": axis % rank} if rank and -rank <= axis < rank else {}


def _transposition(case: _Case) -> Mapping[str, Attribute]:
    permutation = case.constant(1) or ()
    return {"permutation": permutation} if sorted(permutation) == list(range(len(case.output))) else {}


def _reduction(case: _Case) -> Mapping[str, Attribute]:
    axes, rank = case.constant(1), len(case.shape(0) or ())
    if axes is None or any(not -rank <= a < rank for a in axes):
        return {}
    return {"axes": tuple(sorted({a % rank for a in axes}))}


def _dense(case: _Case) -> Mapping[str, Attribute]:
    return {"scales": case.scales(1)} if case.scales(1) > 1 else {}


def _product(case: _Case) -> Mapping[str, Attribute]:
    return {name: int(bool(case.options[name])) for name in ("adj_x", "adj_y")}


def _resize(case: _Case) -> Mapping[str, Attribute]:
    return {name: case.options[name] for name in ("align_corners", "half_pixel_centers")}


_RULES: Final[Mapping[str, Callable[[_Case], Mapping[str, Attribute]]]] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "MAX_POOL_2D": _pool,
    "AVERAGE_POOL_2D": _pool,
    "TRANSPOSE_CONV": _transposed_convolution,
    "PAD": _padding,
    "PADV2": _padding,
    "SLICE": _slice,
    "SPLIT": _axis_of_split(0),
    "SPLIT_V": _axis_of_split(2),
    "CONCATENATION": _concatenation,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "TRANSPOSE": _transposition,
    "BATCH_MATMUL": _product,
    "FULLY_CONNECTED": _dense,
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"), _reduction),
}
