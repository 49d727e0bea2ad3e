"""Products of matrices, with weights and of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import Convolution, FullyConnected, MatMul
from edgemem.model.texture_layout import SLICE, stored
from edgemem.runtime.webgpu.dispatch import Dispatch
from edgemem.runtime.webgpu.lowering.blocks import bias_texels, parts
from edgemem.runtime.webgpu.lowering.registry import lower, lowers
from edgemem.runtime.webgpu.packing import pack
from edgemem.runtime.webgpu.shaders import grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.texture_layout import Stored
    from edgemem.runtime.webgpu.lowering.registry import Lowering

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
    if result.channels != units or (result.channels_first and result.height * result.width > 1):
        return [_units_apart(op, context, rows)]
    same = source.dims[:3] == result.dims[:3] and source.channels == elements
    if same and rows >= _MANY and not result.channels_first and not source.channels_first:
        weights = op.weights.reshape(units, 1, 1, elements)
        whole = Convolution(input=op.input, output=op.output, weights=weights, bias=op.bias, function=op.function)
        return lower(whole, context)
    return rows_product(op, context)


def _units_apart(op: FullyConnected, context: Lowering, rows: int) -> Dispatch:
    """Units that are not along the output's channels, as where channels come first: in width, or anywhere."""
    source, result = context.stored(op.input), context.stored(op.output)
    units, elements = op.weights.shape
    weights = np.zeros((-(-units // SLICE) * SLICE, elements), np.float32)
    weights[:units] = op.weights
    bias = bias_texels(op.bias, units, weights.shape[0] // SLICE, 1)
    if (source.width, result.width) == (elements, units) and source.channels_first and result.channels_first:
        by_column = weights.reshape(-1, SLICE, elements).transpose(0, 2, 1)
        return Dispatch(
            kernel="matmul_heads",
            inputs=(op.input,),
            output=op.output,
            workgroups=grid(-(-result.height // 4) * -(-units // 4) * result.slices * result.batch),
            own=(result.height, units, elements, 0, 0, 1.0),
            defines=(
                ("SIDE", 4),
                ("left", _LEFT.format(place="row, k")),
                ("right", _RIGHT_WEIGHTS),
                ("bias", _COLUMN_BIAS),
            ),
            weights=(np.ascontiguousarray(by_column), bias),
            function=op.function,
        )
    return Dispatch(
        kernel="matmul",
        inputs=(op.input,),
        output=op.output,
        workgroups=grid(result.texels),
        own=(units, rows, elements, 1, 1, 1, *(0,) * 8, elements, 1, elements, 1, 1.0),
        defines=(("second", _SECOND_WEIGHTS), ("bias", _UNIT_BIAS)),
        weights=(weights, bias),
        function=op.function,
    )


def rows_product(op: FullyConnected, context: Lowering) -> list[Dispatch]:
    """Rows times the transpose of the weights, for few rows: the threads of a workgroup share a row's elements."""
    source = context.stored(op.input)
    units, elements = op.weights.shape
    rows = _rows(op, context)
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


_BIAS: Final = """fn bias_at(place: vec4<i32>) -> vec4<f32> {{
    let b = min(place.x, {batch} - 1);
    let y = min(place.y, {height} - 1);
    let x = min(place.z, {width} - 1);
    return weights_0(((place.w * {height} + y) * {width} + x) * {batch} + b);
}}"""
_NO_BIAS: Final = "fn bias_at(place: vec4<i32>) -> vec4<f32> { return vec4<f32>(); }"

# Four rows of the first operand, four inner elements each; four inner rows of the second, four columns each.
_FOUR_ROWS: Final = """fn left(matrix: i32, row: i32, k: i32) -> factors {{
    return {left}(factors({a}));
}}
fn right(matrix: i32, slice: i32, k: i32) -> factors {{
    return {right}(factors({b}));
}}"""
_LEFT: Final = """fn left(b: i32, row: i32, k: i32, slice: i32) -> vec4<f32> {{
    let value = load_0(min(b, p.input_0.batch - 1), {place}, slice * (1 - p.own.a_splat));
    return select(value, value.xxxx, p.own.a_splat != 0);
}}"""
_RIGHT: Final = """fn right(b: i32, k: i32, column: i32, slice: i32) -> vec4<f32> {{
    let value = load_1(min(b, p.input_1.batch - 1), {place}, slice * (1 - p.own.b_splat));
    return select(value, value.xxxx, p.own.b_splat != 0);
}}"""
_RIGHT_WEIGHTS: Final = """fn right(b: i32, k: i32, column: i32, slice: i32) -> vec4<f32> {
    let value = weights_0(column / 4 * p.own.inner + k);
    return vec4<f32>(value[column % 4]);
}"""
_COLUMN_BIAS: Final = """fn bias_at(place: vec4<i32>) -> vec4<f32> {
    let value = weights_1(place.z / 4);
    return vec4<f32>(value[place.z % 4]);
}"""
_SECOND: Final = "fn second(index: i32) -> f32 { return at_1(index); }"
_SECOND_WEIGHTS: Final = """fn second(index: i32) -> f32 {
    let value = weights_0(index / 4);
    return value[index % 4];
}"""
_UNIT_BIAS: Final = """fn bias_at(place: vec4<i32>) -> vec4<f32> {
    var result = vec4<f32>();
    for (var k = 0; k < min(4, p.output.channels - place.w * 4); k++) {
        let unit = index_of(p.output, place.x, place.y, place.z, place.w * 4 + k) % p.own.columns;
        let value = weights_1(unit / 4);
        result[k] = value[unit % 4];
    }
    return result;
}"""


@dataclass(frozen=True, slots=True)
class _Product:
    """Sizes of a product of matrices.

    Attributes:
        rows, columns, inner: of one product.
        leading: the output's axes before them.
        a, b: sizes of the operands' leading axes.
    """

    rows: int
    columns: int
    inner: int
    leading: tuple[int, ...]
    a: tuple[int, ...]
    b: tuple[int, ...]


@lowers(MatMul)
def matmul(op: MatMul, context: Lowering) -> list[Dispatch]:
    """A product of matrices: by rows of channels, by heads in the channels, or element by element."""
    if op.a_shape is not None or op.b_shape is not None:
        return [_by_elements(op, context, _sizes(op, context))]
    factors = _as_rows(op, context)
    if factors is not None:
        return fully_connected(factors, context)
    sizes = _sizes(op, context)
    operands = [context.stored(t) for t in (op.a, op.b, op.output)]
    ranks = [len(context.shape(t)) for t in (op.a, op.b, op.output)]
    if min(ranks) >= 2 and not any(s.channels_first for s in operands):
        return [_by_rows(op, context, sizes)]
    if min(ranks) == 4 and all(s.channels_first for s in operands):
        return [_by_heads(op, context, sizes)]
    return [_by_elements(op, context, sizes)]


def _as_rows(op: MatMul, context: Lowering) -> FullyConnected | None:
    """The product as rows times constant weights, where it is one."""
    if not context.is_constant(op.b) or context.is_constant(op.a) or op.transpose_a or len(context.shape(op.a)) < 1:
        return None
    shape = context.shape(op.b)
    if len(shape) < 2 or prod(shape[:-2]) != 1:
        return None
    weights = context.value(op.b).reshape(shape[-2:])
    weights = np.ascontiguousarray(weights if op.transpose_b else weights.T) * np.float32(op.alpha)
    units = weights.shape[0]
    bias = op.bias
    if bias is not None:
        if bias.size not in (1, units) or (bias.size == units and bias.shape[-1:] != (units,)):
            return None
        bias = np.broadcast_to(bias.reshape(-1), (units,))
    return FullyConnected(input=op.a, output=op.output, weights=weights, bias=bias, function=op.function)


def _seen(op: MatMul, context: Lowering) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes that the operands are seen in."""
    return op.a_shape or context.shape(op.a), op.b_shape or context.shape(op.b)


def _sizes(op: MatMul, context: Lowering) -> _Product:
    """The sizes. Raises UnsupportedError unless they fit together."""
    a, b, out = *_seen(op, context), context.shape(op.output)
    leading = tuple(np.broadcast_shapes(a[:-2], b[:-2]))
    first = (1, *a)[-2:]  # a vector has one row, or one column
    second = (*b, 1) if len(b) == 1 else b[-2:]
    rows, inner = reversed(first) if op.transpose_a and len(a) > 1 else first
    also, columns = reversed(second) if op.transpose_b and len(b) > 1 else second
    if len(leading) > _LEADING or also != inner or prod(leading) * rows * columns != prod(out):
        raise UnsupportedError(f"a product of matrices {a} times {b} to {out}")
    return _Product(rows, columns, inner, (1,) * (_LEADING - len(leading)) + leading, a[:-2], b[:-2])


def _by_rows(op: MatMul, context: Lowering, sizes: _Product) -> Dispatch:
    """The output's columns are channels: four rows and four columns for each thread."""
    result = context.stored(op.output)
    bias, text = _bias(op, context)
    matrices = prod(sizes.leading)
    row = [f"a_at(matrix, row + {r}, k / 4, p.own.rows)" for r in range(4)]
    inner = [f"a_at(matrix, k + {j}, row / 4, p.own.inner)" for j in range(4)]
    below = [f"b_at(matrix, k + {j}, slice, p.own.inner)" for j in range(4)]
    column = [f"b_at(matrix, slice * 4 + {c}, k / 4, p.own.columns)" for c in range(4)]
    loads = _FOUR_ROWS.format(
        left="transpose" if op.transpose_a else "",
        a=", ".join(inner if op.transpose_a else row),
        right="transpose" if op.transpose_b else "",
        b=", ".join(column if op.transpose_b else below),
    )
    along = [int(len(context.shape(t)) == 2) for t in (op.a, op.b, op.output)]
    return Dispatch(
        kernel="matmul_rows",
        inputs=(op.a, op.b),
        output=op.output,
        workgroups=grid(-(-sizes.rows // 4) * result.slices * matrices),
        own=(
            *(sizes.rows, sizes.columns, sizes.inner, matrices),
            *sizes.leading[1:],
            *_steps(sizes.a, 1),
            *_steps(sizes.b, 1),
            *along,
            op.alpha,
        ),
        defines=(("ROWS", 4), ("loads", loads), ("bias", text)),
        weights=bias,
        function=op.function,
    )


def _by_heads(op: MatMul, context: Lowering, sizes: _Product) -> Dispatch:
    """Matrices in height and width: four rows, four columns and four channels for each thread."""
    result = context.stored(op.output)
    bias, text = _bias(op, context)
    left = _LEFT.format(place="k, row" if op.transpose_a else "row, k")
    right = _RIGHT.format(place="column, k" if op.transpose_b else "k, column")
    splat = [int(context.stored(t).channels < result.channels) for t in (op.a, op.b)]
    return Dispatch(
        kernel="matmul_heads",
        inputs=(op.a, op.b),
        output=op.output,
        workgroups=grid(-(-sizes.rows // 4) * -(-sizes.columns // 4) * result.slices * result.batch),
        own=(sizes.rows, sizes.columns, sizes.inner, *splat, op.alpha),
        defines=(("SIDE", 4), ("left", left), ("right", right), ("bias", text)),
        weights=bias,
        function=op.function,
    )


def _by_elements(op: MatMul, context: Lowering, sizes: _Product) -> Dispatch:
    """Tensors in any order of axes."""
    a, b = _seen(op, context)
    a_row, a_inner = _strides(a, transposed=op.transpose_a)
    b_column, b_inner = _strides(b, transposed=not op.transpose_b)
    bias, text = _bias(op, context)
    return Dispatch(
        kernel="matmul",
        inputs=(op.a, op.b),
        output=op.output,
        workgroups=grid(context.stored(op.output).texels),
        own=(
            *(sizes.columns, sizes.rows, sizes.inner),
            *sizes.leading[1:],
            *_steps(a[:-2], prod(a[-2:])),
            *_steps(b[:-2], prod(b[-2:])),
            *(a_row, a_inner, b_column, b_inner, op.alpha),
        ),
        defines=(("second", _SECOND), ("bias", text)),
        weights=bias,
        function=op.function,
    )


def _strides(shape: tuple[int, ...], *, transposed: bool) -> tuple[int, int]:
    """Elements from one row of an operand to the next, and along what is summed over. A vector has one row."""
    if len(shape) == 1:
        return 0, 1
    return (1, shape[-1]) if transposed else (shape[-1], 1)


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
        return (), _NO_BIAS
    full = np.broadcast_to(op.bias, context.shape(op.output))
    channels = 1 if result.channels_first else full.ndim - 1
    broadcast = [full.ndim <= _LEADING and step == 0 and axis != channels for axis, step in enumerate(full.strides)]
    own = full[tuple(slice(0, 1) if b else slice(None) for b in broadcast)]
    kept = stored(own.shape, context.layout)
    text = _BIAS.format(batch=kept.batch, height=kept.height, width=kept.width)
    return (pack(own, kept),), text
