"""Products of matrices, with weights and of tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.model.stored import SLICE, stored
from edgemem.model.tensor_ops import Convolution, FullyConnected, MatMul
from edgemem.runtime.webgpu.dispatch import Dispatch
from edgemem.runtime.webgpu.lower.blocks import bias_texels, parts
from edgemem.runtime.webgpu.lower.registry import lower, lowers
from edgemem.runtime.webgpu.packing import pack
from edgemem.runtime.webgpu.shaders import grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.stored import Stored
    from edgemem.runtime.webgpu.lower.registry import Lowering

__all__ = ["fully_connected", "matmul", "rows_product"]

_MANY: Final = 16  # rows, for which the kernel of convolutions is faster
_LEADING: Final = 4  # axes of matrices that are broadcast

# Four elements of a row of the input: a row along the channels, all of a batch, or any.
_OPERANDS: Final = {
    "channels": """    let at = position_0(row * p.input_0.channels);
    return clean_0(at.x, at.y, at.z, texel);""",
    "batch": """    let column = texel % (p.input_0.height * p.input_0.width);
    let slice = texel / (p.input_0.height * p.input_0.width);
    return clean_0(row, column / p.input_0.width, column % p.input_0.width, slice);""",
    "any": """    var value = vec4<f32>();
    for (var k = 0; k < min(4, p.own.elements - texel * 4); k++) {
        value[k] = at_0(row * p.own.elements + texel * 4 + k);
    }
    return value;""",
}


@lowers(FullyConnected)
def fully_connected(op: FullyConnected, context: Lowering) -> list[Dispatch]:
    """Rows times the transpose of the weights: as a convolution where there are many."""
    source, result = context.stored(op.input), context.stored(op.output)
    units, elements = op.weights.shape
    rows = _rows(op, context)
    if not result.channels_first and not source.channels_first:
        same = source.dims[:3] == result.dims[:3] and (source.channels, result.channels) == (elements, units)
        if same and rows >= _MANY:
            weights = op.weights.reshape(units, 1, 1, elements)
            return lower(
                Convolution(input=op.input, output=op.output, weights=weights, bias=op.bias, function=op.function),
                context,
            )
    return rows_product(op, context)


def rows_product(op: FullyConnected, context: Lowering) -> list[Dispatch]:
    """Rows times the transpose of the weights, for few rows: the threads of a workgroup share a row's elements."""
    source, result = context.stored(op.input), context.stored(op.output)
    units, elements = op.weights.shape
    rows = _rows(op, context)
    if result.channels != units:
        raise UnsupportedError(f"a product of {units} units whose tensor has {result.channels} channels")
    kind, columns = _columns(source, rows, elements)
    slices = -(-units // SLICE)
    packed = np.zeros((slices * SLICE, columns.size), np.float32)
    packed[:units] = np.where(columns >= 0, op.weights[:, columns], 0)
    cut = packed.reshape(slices, SLICE, -1, SLICE).transpose(2, 0, 3, 1)
    bias = bias_texels(op.bias, units, slices, 1)
    at_once = 1 if rows == 1 else 4
    return [
        Dispatch(
            kernel="fully_connected",
            inputs=(op.input,),
            output=op.output,
            workgroups=grid(-(-(end - first) // 8) * -(-rows // at_once), 1),
            own=(rows, cut.shape[0], elements, units, first, end - first),
            defines=(
                ("ROWS", at_once),
                ("operand", f"fn operand(row: i32, texel: i32) -> vec4<f32> {{\n{_OPERANDS[kind]}\n}}"),
            ),
            weights=(np.ascontiguousarray(cut[:, first:end]), bias[first:end]),
            function=op.function,
        )
        for first, end in parts(slices, cut[:, :1].nbytes)
    ]


def _rows(op: FullyConnected, context: Lowering) -> int:
    """Rows of the input. Raises UnsupportedError unless input, weights and output fit together."""
    units, elements = op.weights.shape
    rows, rest = divmod(prod(context.shape(op.input)), max(int(elements), 1))
    if rest or rows * units != prod(context.shape(op.output)):
        shapes = f"{context.shape(op.input)} times {units} x {elements} to {context.shape(op.output)}"
        raise UnsupportedError(f"a product of {shapes}: they do not fit")
    return rows


def _columns(source: Stored, rows: int, elements: int) -> tuple[str, NDArray[np.intp]]:
    """How a row's elements are read, and which of them, in that order; -1 where a texel has none."""
    if source.channels == elements and (not source.channels_first or source.height * source.width == 1):
        kind, used = "channels", np.arange(elements)
    elif source.batch == rows:
        one = type(source)(1, source.height, source.width, source.channels, source.channels_first)
        return "batch", pack(np.arange(elements), one, fill=-1).ravel().astype(np.intp)
    else:
        kind, used = "any", np.arange(elements)
    columns = np.full(-(-elements // SLICE) * SLICE, -1, np.intp)
    columns[:elements] = used
    return kind, columns


@lowers(MatMul)
def matmul(op: MatMul, context: Lowering) -> list[Dispatch]:
    """A product of matrices."""
    factors = _as_rows(op, context)
    if factors is not None:
        return fully_connected(factors, context)
    return [_any_product(op, context)]


def _as_rows(op: MatMul, context: Lowering) -> FullyConnected | None:
    """The product as rows times constant weights, where it is one."""
    result = context.stored(op.output)
    if not context.is_constant(op.b) or context.is_constant(op.a) or op.transpose_a or len(context.shape(op.a)) < 1:
        return None
    shape = context.shape(op.b)
    if len(shape) < 2 or prod(shape[:-2]) != 1:
        return None
    weights = context.value(op.b).reshape(shape[-2:])
    weights = np.ascontiguousarray(weights if op.transpose_b else weights.T) * np.float32(op.alpha)
    units = weights.shape[0]
    if result.channels != units or (result.channels_first and result.height * result.width > 1):
        return None
    bias = op.bias
    if bias is not None:
        if bias.size not in (1, units) or (bias.size == units and bias.shape[-1:] != (units,)):
            return None
        bias = np.broadcast_to(bias.reshape(-1), (units,))
    return FullyConnected(input=op.a, output=op.output, weights=weights, bias=bias, function=op.function)


def _any_product(op: MatMul, context: Lowering) -> Dispatch:
    """A product of any two tensors."""
    a, b, out = context.shape(op.a), context.shape(op.b), context.shape(op.output)
    a_rows, a_inner = _matrix(a, is_second=False, transposed=op.transpose_a)
    b_columns, b_inner = _matrix(b, is_second=True, transposed=op.transpose_b)
    leading = np.broadcast_shapes(a[:-2], b[:-2])
    inner, rows, columns = a_inner[0], a_rows[0], b_columns[0]
    if len(leading) > _LEADING or b_inner[0] != inner or prod(leading) * rows * columns != prod(out):
        raise UnsupportedError(f"a product of matrices {a} times {b} to {out}")
    sizes = (1,) * (_LEADING - len(leading)) + tuple(leading)
    steps = [_steps(shape[:-2], prod(shape[-2:])) for shape in (a, b)]
    bias, text = _bias(op, context)
    return Dispatch(
        kernel="matmul",
        inputs=(op.a, op.b),
        output=op.output,
        workgroups=grid(context.stored(op.output).texels),
        own=(
            columns,
            rows,
            inner,
            *sizes,
            *steps[0],
            *steps[1],
            a_rows[1],
            a_inner[1],
            b_columns[1],
            b_inner[1],
            op.alpha,
        ),
        defines=(("bias", text),),
        weights=bias,
        function=op.function,
    )


def _matrix(shape: tuple[int, ...], *, is_second: bool, transposed: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """(Size, step) of an operand's own axis and of the one that is summed over. A vector has a matrix of one row."""
    if len(shape) == 1:
        return (1, 0), (shape[0], 1)
    first, last = (shape[-2], shape[-1]), (shape[-1], 1)
    return (last, first) if is_second != transposed else (first, last)


def _steps(leading: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Elements from one matrix to the next along each of the leading axes; 0 along those of size 1."""
    steps: list[int] = []
    for extent in reversed(leading):
        steps.append(size if extent > 1 else 0)
        size *= extent
    steps += [0] * (_LEADING - len(steps))
    return tuple(reversed(steps))


def _bias(op: MatMul, context: Lowering) -> tuple[tuple[NDArray[np.float32], ...], str]:
    """The bias as weights, in slices as the output has, and the function that reads it at a place of a texel."""
    result = context.stored(op.output)
    if op.bias is None:
        return (), "fn bias_at(place: vec4<i32>) -> vec4<f32> { return vec4<f32>(); }"
    full = np.broadcast_to(op.bias, context.shape(op.output))
    channels = 1 if result.channels_first else full.ndim - 1
    broadcast = [full.ndim <= _LEADING and step == 0 and axis != channels for axis, step in enumerate(full.strides)]
    own = full[tuple(slice(0, 1) if b else slice(None) for b in broadcast)]
    kept = stored(own.shape, context.layout)
    text = f"""fn bias_at(place: vec4<i32>) -> vec4<f32> {{
    let b = min(place.x, {kept.batch - 1});
    let y = min(place.y, {kept.height - 1});
    let x = min(place.z, {kept.width - 1});
    return weights_0[((place.w * {kept.height} + y) * {kept.width} + x) * {kept.batch} + b];
}}"""
    return (pack(own, kept),), text
