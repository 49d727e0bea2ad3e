"""What decides which bytes an operator of an ONNX file reads and writes: `Op.attributes`.

An attribute is left out where the file does not tell it, or tells nonsense: a runtime refuses such a file, or nobody
knows what it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from onnx import AttributeProto, TensorProto

from edgemem_converters.onnx.scopes import op_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.model.graph import Attribute
    from edgemem_converters.onnx.constants import Constant
    from edgemem_converters.onnx.scopes import ScopeNode

__all__ = ["attributes_of"]

Shape: TypeAlias = "tuple[int, ...]"

_FAR: Final = 1 << 62  # what exporters give as the end of a slice is this or more
_NONE: Final[Mapping[str, Attribute]] = {}


def attributes_of(
    node: ScopeNode, shapes: Mapping[str, Shape], constants: Mapping[str, Constant]
) -> Mapping[str, Attribute]:
    """The attributes of a node; {} for a type that has none.

    Args:
        node: the node.
        shapes: of the values in its graph, by name.
        constants: those in its graph, by name.
    """
    rule = _RULES.get(op_type(node.proto))
    if rule is None or not node.inputs or not node.outputs:
        return _NONE
    if node.inputs[0] not in shapes or node.outputs[0] not in shapes:
        return _NONE
    return rule(_Case(node, shapes, constants))


class _Case:
    """A node with its attributes, shapes and constants."""

    def __init__(self, node: ScopeNode, shapes: Mapping[str, Shape], constants: Mapping[str, Constant]) -> None:
        self.given = shapes[node.inputs[0]]
        self.made = shapes[node.outputs[0]]
        self.outputs = len(node.outputs)
        self._node, self._shapes, self._constants = node, shapes, constants
        self._attributes = {a.name: a for a in node.proto.attribute}

    def shape(self, position: int) -> Shape | None:
        """Of an input; None if it is absent or captured."""
        return self._shapes.get(self._node.inputs[position]) if self.has_input(position) else None

    def has_input(self, position: int) -> bool:
        return position < len(self._node.inputs) and bool(self._node.inputs[position])

    def constant(self, position: int) -> Shape | None:
        """The integers of a constant input; None if it is not a small constant list of integers."""
        found = self._constants.get(self._node.inputs[position]) if self.has_input(position) else None
        if found is None or found.values is None or found.elem_type not in (TensorProto.INT32, TensorProto.INT64):
            return None
        return tuple(int(v) for v in found.values.reshape(-1).tolist())

    def scalars(self, position: int) -> Sequence[float] | None:
        """The numbers of a constant input of floats; None if it is not a small one."""
        found = self._constants.get(self._node.inputs[position]) if self.has_input(position) else None
        if found is None or found.values is None or found.elem_type not in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return None
        return [float(v) for v in found.values.reshape(-1).tolist()]

    def number(self, name: str, default: int) -> int:
        found = self._attributes.get(name)
        return found.i if found is not None and found.type == AttributeProto.INT else default

    def numbers(self, name: str) -> Shape | None:
        found = self._attributes.get(name)
        return tuple(found.ints) if found is not None and found.type == AttributeProto.INTS else None

    def text(self, name: str, default: str) -> str:
        found = self._attributes.get(name)
        if found is None or found.type != AttributeProto.STRING:
            return default
        return bytes(found.s).decode(errors="replace") or default


def _convolution(weights: int) -> Callable[[_Case], Mapping[str, Attribute]]:
    """Of a convolution whose weights are the input at this position."""

    def rule(case: _Case) -> Mapping[str, Attribute]:
        shape = case.shape(weights)
        if shape is None or len(shape) != 4:
            return _NONE
        kernel = case.numbers("kernel_shape") or shape[2:]
        return {**_window(case, kernel), "group": case.number("group", 1)} if kernel == shape[2:] else _NONE

    return rule


def _pool(case: _Case) -> Mapping[str, Attribute]:
    kernel = case.numbers("kernel_shape")
    if kernel is None or case.outputs > 1 or case.number("storage_order", 0):
        return _NONE  # the indices of the maxima count from the first row
    return _window(case, kernel)


def _window(case: _Case, kernel: Shape) -> Mapping[str, Attribute]:
    """Of an operator that slides a window over [batch, channels, height, width], with explicit paddings."""
    stride, dilation = case.numbers("strides") or (1, 1), case.numbers("dilations") or (1, 1)
    if len(case.given) != 4 or len(case.made) != 4 or any(len(v) != 2 for v in (kernel, stride, dilation)):
        return _NONE
    if min(*kernel, *stride, *dilation) < 1:
        return _NONE
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = case.numbers("pads") or (0, 0, 0, 0)
    match case.text("auto_pad", "NOTSET"):
        case "VALID":
            pads = (0, 0, 0, 0)
        case "SAME_UPPER" | "SAME_LOWER" as kind:
            total = [
                max((case.made[2 + k] - 1) * stride[k] + reach[k] - case.given[2 + k], 0) for k in range(len(reach))
            ]
            less, more = [t // 2 for t in total], [t - t // 2 for t in total]
            pads = (*less, *more) if kind == "SAME_UPPER" else (*more, *less)
        case "NOTSET":
            pass
        case _:
            return _NONE
    if len(pads) != 4 or min(pads) < 0:
        return _NONE
    for k in range(len(reach)):  # rounding up, as ceil_mode asks for, may make a row more
        if case.made[2 + k] != (case.given[2 + k] + pads[k] + pads[2 + k] - reach[k]) // stride[k] + 1:
            return _NONE
    return {"kernel": kernel, "stride": stride, "dilation": dilation, "pads": pads}


def _transposed(case: _Case) -> Mapping[str, Attribute]:
    weights, kernel = case.shape(1), case.numbers("kernel_shape")
    if weights is None or len(weights) != 4 or len(case.given) != 4 or len(case.made) != 4:
        return _NONE
    kernel = kernel or weights[2:]
    stride, dilation = case.numbers("strides") or (1, 1), case.numbers("dilations") or (1, 1)
    pads = case.numbers("pads") or (0, 0, 0, 0)
    if any(len(v) != 2 for v in (kernel, stride, dilation)) or len(pads) != 4 or kernel != weights[2:]:
        return _NONE
    if min(*kernel, *stride, *dilation) < 1 or any(case.numbers("output_padding") or ()):
        return _NONE
    if case.text("auto_pad", "NOTSET") != "NOTSET" or case.numbers("output_shape") is not None:
        return _NONE
    for k in range(2):
        reach = (kernel[k] - 1) * dilation[k] + 1
        if case.made[2 + k] != (case.given[2 + k] - 1) * stride[k] + reach - pads[k] - pads[2 + k]:
            return _NONE
    group = case.number("group", 1)
    return {"kernel": kernel, "stride": stride, "dilation": dilation, "pads": pads, "group": group}


def _named_axis(case: _Case) -> Mapping[str, Attribute]:
    """The axis where the node names it: there is no default, or another one in each operator set."""
    return _axis(case, None)


def _scaled(case: _Case) -> Mapping[str, Attribute]:
    """The axis that scales lie along; none for scales of blocks."""
    return _NONE if case.number("block_size", 0) else _axis(case, 1)


def _split(case: _Case) -> Mapping[str, Attribute]:
    return _axis(case, 0)


def _gather(case: _Case) -> Mapping[str, Attribute]:
    axis, rank = case.number("axis", 0), len(case.given)
    return {"axis": axis % rank} if rank and -rank <= axis < rank else _NONE


def _normalization(case: _Case) -> Mapping[str, Attribute]:
    return _axis(case, -1)


def _product(case: _Case) -> Mapping[str, Attribute]:
    names = ("transA", "transB", "transBatchA", "transBatchB")
    return {name: int(bool(case.number(name, 0))) for name in names}


def _transpose(case: _Case) -> Mapping[str, Attribute]:
    permutation = case.numbers("perm") or tuple(reversed(range(len(case.given))))
    is_one = len(case.given) == len(case.made) and sorted(permutation) == list(range(len(case.given)))
    return {"permutation": permutation} if is_one else _NONE


def _reduction(case: _Case) -> Mapping[str, Attribute]:
    """The axes that are summed up; all of them where the node names none."""
    rank = len(case.given)
    axes = case.numbers("axes") or (case.constant(1) if case.has_input(1) else None)
    if axes is None and (case.has_input(1) or case.number("noop_with_empty_axes", 0)):
        return _NONE
    axes = axes or tuple(range(rank))
    return {"axes": tuple(sorted(a % rank for a in axes))} if all(-rank <= a < rank for a in axes) else _NONE


def _axis(case: _Case, default: int | None) -> Mapping[str, Attribute]:
    rank = len(case.made)
    axis = case.number("axis", rank if default is None else default)
    return {"axis": axis % rank} if rank and -rank <= axis < rank else _NONE


def _slice(case: _Case) -> Mapping[str, Attribute]:
    rank = len(case.given)
    starts = case.numbers("starts") or case.constant(1)
    ends = case.numbers("ends") or case.constant(2)
    if starts is None or ends is None or len(case.made) != rank:
        return _NONE
    axes = case.numbers("axes") or (case.constant(3) if case.has_input(3) else tuple(range(len(starts))))
    steps = case.constant(4) if case.has_input(4) else (1,) * len(starts)
    if axes is None or steps is None or not len(starts) == len(ends) == len(axes) == len(steps):
        return _NONE
    if any(step != 1 for step in steps) or any(not -rank <= axis < rank for axis in axes):
        return _NONE
    begin = [0] * rank
    for start, axis in zip(starts, axes, strict=True):
        size = case.given[axis]
        begin[axis] = min(max(start + size if start < 0 else min(start, _FAR), 0), size)
    inside = all(b + m <= g for b, m, g in zip(begin, case.made, case.given, strict=True))
    return {"begin": tuple(begin), "size": case.made} if inside else _NONE


def _pad(case: _Case) -> Mapping[str, Attribute]:
    rank = len(case.given)
    pads = case.numbers("pads") or case.numbers("paddings") or case.constant(1)
    if pads is None or case.text("mode", "constant") != "constant" or case.has_input(3):
        return _NONE
    if len(pads) != 2 * rank or len(case.made) != rank or min(pads) < 0:
        return _NONE
    paddings = tuple(p for k in range(rank) for p in (pads[k], pads[rank + k]))
    grown = tuple(d + a + b for d, a, b in zip(case.given, paddings[::2], paddings[1::2], strict=True))
    return {"paddings": paddings} if grown == case.made else _NONE


def _resize(case: _Case) -> Mapping[str, Attribute]:
    """Of a resize of [batch, channels, height, width] by whole factors, the same along both sides for `linear`.

    `nearest` is told only where row r of the result is a copy of row r // factor.
    """
    if len(case.given) != 4 or len(case.made) != 4 or case.given[:2] != case.made[:2] or min(case.given[2:]) < 1:
        return _NONE
    factors = [made // given for made, given in zip(case.made[2:], case.given[2:], strict=True)]
    if any(made != given * f or f < 1 for made, given, f in zip(case.made[2:], case.given[2:], factors, strict=True)):
        return _NONE
    scales = case.scalars(2)
    if scales and list(scales) != [1.0, 1.0, *map(float, factors)]:
        return _NONE
    if case.numbers("axes") is not None or case.number("antialias", 0):
        return _NONE
    if case.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return _NONE  # the scale is not that of the sizes, which are rounded
    mode, where = case.text("mode", "nearest"), case.text("coordinate_transformation_mode", "half_pixel")
    rounding = case.text("nearest_mode", "round_prefer_floor")
    if where not in ("half_pixel", "asymmetric"):
        return _NONE
    if mode == "nearest":
        # (r + 1/2) / factor - 1/2 rounds to r // factor; so does r / factor rounded down.
        copies = rounding == "floor" if where == "asymmetric" else rounding.startswith("round_prefer")
        # At even factors no coordinate lies halfway between two rows, at odd ones none does either.
        return {"mode": "nearest", "align_corners": 0, "half_pixel_centers": 0} if copies else _NONE
    if mode == "linear":
        return {"mode": "linear", "align_corners": 0, "half_pixel_centers": int(where == "half_pixel")}
    return _NONE


_RULES: Final[Mapping[str, Callable[[_Case], Mapping[str, Attribute]]]] = {
    "Conv": _convolution(1),
    "com.microsoft::FusedConv": _convolution(1),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "Concat": _named_axis,
    "DequantizeLinear": _scaled,
    "QuantizeLinear": _scaled,
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
    "Resize": _resize,
    "Gather": _gather,
    "Transpose": _transpose,
    **dict.fromkeys(("Softmax", "LogSoftmax"), _named_axis),
    **dict.fromkeys(("LayerNormalization", "SimplifiedLayerNormalization"), _normalization),
    **dict.fromkeys(("MatMul", "Gemm", "QLinearMatMul"), _product),
    **dict.fromkeys(("com.microsoft::FusedMatMul", "com.microsoft::FusedGemm"), _product),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"), _reduction),
    **dict.fromkeys(("ReduceProd", "ReduceSum", "ReduceSumSquare"), _reduction),
}
