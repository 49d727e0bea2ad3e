"""Functions of one element and of two: an invocation computes four channels of one position."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import Binary, Unary
from edgemem.model.texture_layout import Stored, is_same_storage, stored
from edgemem.runtime.webgpu.lowering.registry import each_texel, lowers
from edgemem.runtime.webgpu.packing import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.dispatch import Dispatch
    from edgemem.runtime.webgpu.lowering.registry import Lowering

__all__ = ["LARGER", "SMALLER", "binary", "stride", "unary"]

MOST_DIMS: Final = 6  # of a broadcast, after dimensions are merged

# What is no number stays so: max, min and pow of WGSL may give something else.
_OR_NO_NUMBER: Final = "select(select({}, a, no_number(a)), b, no_number(b))"
LARGER: Final = _OR_NO_NUMBER.format("max(a, b)")
SMALLER: Final = _OR_NO_NUMBER.format("min(a, b)")
_ONE: Final = "select(vec4<f32>(), vec4<f32>(1.0), {})"
_ZERO: Final = "vec4<f32>()"
_OPERATIONS: Final = {
    "add": "a + b",
    "sub": "a - b",
    "mul": "a * b",
    "div": "a / b",
    "max": LARGER,
    "min": SMALLER,
    "pow": _OR_NO_NUMBER.format("power_of(a, b)"),
    "squared_difference": "(a - b) * (a - b)",
    "prelu": f"select(a * b, a, a >= {_ZERO})",
    "less": _ONE.format("a < b"),
    "less_equal": _ONE.format("a <= b"),
    "greater": _ONE.format("a > b"),
    "greater_equal": _ONE.format("a >= b"),
    "equal": _ONE.format("a == b"),
    "not_equal": _ONE.format("a != b"),
    "and": _ONE.format(f"(a != {_ZERO}) & (b != {_ZERO})"),
    "or": _ONE.format(f"(a != {_ZERO}) | (b != {_ZERO})"),
    "xor": _ONE.format(f"(a != {_ZERO}) != (b != {_ZERO})"),
}
# WGSL's pow knows no negative bases, and squares and roots are exact without it.
_POWER: Final = """fn power_of(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let is_odd = abs(b - floor(b * 0.5) * 2.0) == vec4<f32>(1.0);
    let is_whole = b == floor(b);
    var value = pow(abs(a), b);
    value = select(value, sqrt(abs(a)), b == vec4<f32>(0.5));
    value = select(value, abs(a), b == vec4<f32>(1.0));
    value = select(value, a * a, b == vec4<f32>(2.0));
    value = select(value, abs(a * a * a), b == vec4<f32>(3.0));
    value = select(value, vec4<f32>(), (a == vec4<f32>()) & (b > vec4<f32>()));
    value = select(value, vec4<f32>(1.0), b == vec4<f32>());
    value = select(value, -value, is_odd & (a < vec4<f32>()));
    return select(value, sqrt(a), (a < vec4<f32>()) & !is_whole);  // no number
}
"""


@lowers(Unary)
def unary(op: Unary, context: Lowering) -> list[Dispatch]:
    """A function of each element."""
    return [each_texel("unary", (op.input,), op.output, context, function=op.function, in_place=(0,))]


@lowers(Binary)
def binary(op: Binary, context: Lowering) -> list[Dispatch]:
    """A function of two elements: by texels where stored dimensions are broadcast, else by elements."""
    if op.name not in _OPERATIONS:
        raise UnsupportedError(f"no GPU kernel has the function {op.name} of two elements")
    result = context.stored(op.output)
    shape = context.shape(op.output)
    for tensor in (op.a, op.b):
        own = context.shape(tensor)
        if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1], strict=False)):
            raise UnsupportedError(f"shape {own} cannot be broadcast to {shape}")
    forms = [_form(context, t, len(shape)) for t in (op.a, op.b)]
    if not all(_is_broadcast(form, result) for form in forms) or not all(
        context.is_constant(t) or is_same_storage(form, context.stored(t))
        for t, form in zip((op.a, op.b), forms, strict=True)
    ):
        return [_by_elements(op, context)]
    inputs: list[int] = []
    weights: list[NDArray[np.float32]] = []
    texts: list[tuple[str, int | str]] = []
    for k, (tensor, form) in enumerate(zip((op.a, op.b), forms, strict=True)):
        if is_same_storage(form, context.stored(tensor)):
            texts.append((f"operand_{k}", _tensor(k, len(inputs))))
            inputs.append(tensor)
        else:
            texts.append((f"operand_{k}", _weights(k, len(weights), form)))
            weights.append(pack(context.value(tensor), form))
    return [
        each_texel(
            "binary",
            tuple(inputs),
            op.output,
            context,
            own=tuple(int(own == full) for form in forms for own, full in zip(form.dims, result.dims, strict=True)),
            defines=(*texts, *_operate(op.name)),
            function=op.function,
            weights=tuple(weights),
            in_place=tuple(k for k, t in enumerate(inputs) if context.stored(t).dims == result.dims),
        )
    ]


def _form(context: Lowering, tensor: int, rank: int) -> Stored:
    """How an operand would be kept if it had as many axes as the output."""
    shape = context.shape(tensor)
    return stored((1,) * (rank - len(shape)) + shape, context.layout)


def _is_broadcast(form: Stored, result: Stored) -> bool:
    return all(own in (1, full) for own, full in zip(form.dims, result.dims, strict=True))


def _tensor(k: int, position: int) -> str:
    return f"""fn operand_{k}(at: vec4<i32>) -> vec4<f32> {{
    return load_{position}(at.x, at.y, at.z, at.w);
}}
"""


def _weights(k: int, position: int, form: Stored) -> str:
    """An operand among the weights: a constant of other dimensions than its tensor's."""
    batch, height, width, _ = form.dims
    return f"""fn operand_{k}(at: vec4<i32>) -> vec4<f32> {{
    return weights_{position}(((at.w * {height} + at.y) * {width} + at.z) * {batch} + at.x);
}}
"""


def _operate(name: str) -> tuple[tuple[str, str], ...]:
    text = f"fn operate(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {{\n    return {_OPERATIONS[name]};\n}}\n"
    return (("operate", text), ("power_of", _POWER)) if name == "pow" else (("operate", text),)


def _by_elements(op: Binary, context: Lowering) -> Dispatch:
    """Each element of the output through its operands' strides."""
    shape = context.shape(op.output)
    dims = _merged(shape, [context.shape(op.a), context.shape(op.b)])
    if len(dims) > MOST_DIMS:
        raise UnsupportedError(f"a broadcast to {shape} along more than {MOST_DIMS} dimensions")
    dims = [(1, 0, 0)] * (MOST_DIMS - len(dims)) + dims
    return each_texel(
        "broadcast",
        (op.a, op.b),
        op.output,
        context,
        own=tuple(d[0] for d in dims[1:]) + tuple(d[1] for d in dims) + tuple(d[2] for d in dims),
        defines=_operate(op.name),
        function=op.function,
        in_place=tuple(k for k, t in enumerate((op.a, op.b)) if context.shape(t) == shape),
    )


def _merged(shape: Sequence[int], operands: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """Each dimension with its strides in both operands, neighbours as one where both strides allow it."""
    merged: list[tuple[int, int, int]] = []
    for axis, size in reversed(list(enumerate(shape))):
        if size == 1:
            continue
        strides = [stride(shape, own, axis) for own in operands]
        last = merged[-1] if merged else None
        if last and strides == [last[0] * last[1], last[0] * last[2]]:
            merged[-1] = (size * last[0], last[1], last[2])
        else:
            merged.append((size, strides[0], strides[1]))
    return merged[::-1]


def stride(shape: Sequence[int], own: Sequence[int], axis: int) -> int:
    """Elements of an operand from one index of an axis of the output to the next; 0 where it has one."""
    place = axis - (len(shape) - len(own))
    if place < 0 or own[place] == 1:
        return 0
    return prod(own[place + 1 :])
