"""Elements that move: concatenations and affine maps of indices.

Where channels stay together, whole texels move; else each element is looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import IDENTITY, AffineMap, Concat
from edgemem.model.texture_layout import SLICE, is_same_storage, stored
from edgemem.runtime.webgpu.dispatch import Dispatch
from edgemem.runtime.webgpu.lowering.lines import parts
from edgemem.runtime.webgpu.lowering.registry import each_texel, lowers
from edgemem.runtime.webgpu.lowering.texels import TexelMap, position_map, texel_map
from edgemem.runtime.webgpu.shaders import MOST_INPUTS, grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.texture_layout import Stored
    from edgemem.runtime.webgpu.lowering.registry import Lowering

__all__ = ["affine_map", "concat"]

MOST_DIMS: Final = 6  # of a map

# Four channels from channel `c` of the first of two texels on; which of the channels from `c` on a tensor has.
_SHIFTED: Final = """fn shifted(low: vec4<f32>, high: vec4<f32>, c: i32) -> vec4<f32> {
    switch (c) {
        case 1: { return vec4<f32>(low.yzw, high.x); }
        case 2: { return vec4<f32>(low.zw, high.xy); }
        case 3: { return vec4<f32>(low.w, high.xyz); }
        default: { return low; }
    }
}
fn channels_within(c: i32, channels: i32) -> vec4<bool> {
    let all = vec4<i32>(0, 1, 2, 3) + c;
    return (all >= vec4<i32>()) & (all < vec4<i32>(channels));
}
"""
_PART: Final = """    {{
        let c = at.w * 4 - p.own.start_{k};
        if (c > -4 && c < p.input_{k}.channels) {{
            var own = load_{k}(at.x, at.y, at.z, max(c >> 2u, 0));
            if ((c & 3) != 0) {{
                own = shifted(own, load_{k}(at.x, at.y, at.z, min((c >> 2u) + 1, p.input_{k}.slices - 1)), c & 3);
            }}
            value = select(value, own, channels_within(c, p.input_{k}.channels));
        }}
    }}
"""
_PART_BY_ELEMENTS: Final = """    for (var k = 0; k < 4; k++) {{
        let b = at.x;
        let y = at.y;
        let x = at.z;
        let c = at.w * 4 + k - p.own.start_{k};
        if (c >= 0 && c < {channels}) {{
            value[k] = at_{k}({number});
        }}
    }}
"""
_BORDERS: Final = {
    "value": "index",
    "edge": "clamp(index, 0, size - 1)",
    "reflect": "select(size - 1 - abs(size - 1 - turn(index, max(2 * size - 2, 1))), 0, size == 1)",
    "symmetric": "min(turn(index, 2 * size), 2 * size - 1 - turn(index, 2 * size))",
}
# Without `%`, which Vulkan leaves undefined where a number is negative: NVIDIA's driver takes it as unsigned.
_TURN: Final = """fn turn(index: i32, period: i32) -> i32 {
    let rest = index - index / period * period;
    return select(rest, rest + period, rest < 0);
}
"""


@lowers(Concat)
def concat(op: Concat, context: Lowering) -> list[Dispatch]:
    """Tensors behind each other along an axis; one that lacks the axis has size 1 along it."""
    full, result = context.shape(op.output), context.stored(op.output)
    axis = op.axis % max(len(full), 1)
    boxes = []
    start = 0
    for tensor in op.inputs:
        shape = context.shape(tensor)
        if len(shape) < len(full):
            shape = (*shape[:axis], 1, *shape[axis:])
        if 0 not in shape:
            boxes.append(_Box(tensor, shape, stored(shape, context.layout), start))
        start += shape[axis]
    if parts(len(full), channels_first=result.channels_first)[axis] == "channels":
        return _by_channels(op, boxes, context)
    return [_copy(op, box, axis, context) for box in boxes]


@dataclass(frozen=True, slots=True)
class _Box:
    """An input of a concatenation, as a part of the output.

    Attributes:
        tensor: the input.
        shape: with as many axes as the output.
        form: how a tensor of this shape is kept.
        start: its first index along the axis of the concatenation.
    """

    tensor: int
    shape: tuple[int, ...]
    form: Stored
    start: int


def _copy(op: Concat, box: _Box, axis: int, context: Lowering) -> Dispatch:
    """One input into its part of the output, which begins at an index of an axis that is not the channels."""
    full, result = context.shape(op.output), context.stored(op.output)
    dims = parts(len(full), channels_first=result.channels_first)
    at = {"batch": 0, "height": 0, "width": 0}
    rows = [box.form.height, result.height]
    start = box.start
    if dims[axis] == "height":
        rows = [
            prod(n for n, d in zip(shape[axis:], dims[axis:], strict=True) if d == "height")
            for shape in (box.shape, full)
        ]
        start *= rows[0] // box.shape[axis]
    at[dims[axis]] = start
    return Dispatch(
        kernel="copy",
        inputs=(box.tensor,),
        output=op.output,
        workgroups=grid(box.form.texels),
        own=(*box.form.dims[:3], *at.values(), *rows),
        defines=(("part", _WHOLE_PART if is_same_storage(box.form, context.stored(box.tensor)) else _part(box.form)),),
        function=op.function,
    )


_WHOLE_PART: Final = """fn part(b: i32, y: i32, x: i32, slice: i32) -> vec4<f32> {
    return load_0(b, y, x, slice);
}
"""


def _part(form: Stored) -> str:
    """`part` where the input's elements are kept otherwise than the part's."""
    return f"""fn part(b: i32, y: i32, x: i32, slice: i32) -> vec4<f32> {{
    var value = vec4<f32>();
    for (var k = 0; k < min(4, {form.channels} - slice * 4); k++) {{
        let c = slice * 4 + k;
        value[k] = at_0({_number(form)});
    }}
    return value;
}}
"""


def _number(form: Stored) -> str:
    """The number of an element (b, y, x, c) in the own order of a tensor that is kept so."""
    if form.channels_first:
        return f"((b * {form.channels} + c) * {form.height} + y) * {form.width} + x"
    return f"((b * {form.height} + y) * {form.width} + x) * {form.channels} + c"


def _by_channels(op: Concat, boxes: Sequence[_Box], context: Lowering) -> list[Dispatch]:
    """Ranges of slices, each of which has channels of few inputs."""
    result = context.stored(op.output)
    dispatches = []
    first = 0
    while first < result.slices:
        used = [box for box in boxes if box.start + box.form.channels > first * SLICE][:MOST_INPUTS]
        end = used[-1].start + used[-1].form.channels
        last = result.slices if end >= result.channels else end // SLICE
        own = [box.start for box in used] + [0] * (MOST_INPUTS - len(used))
        body = "".join(
            _PART.format(k=k)
            if is_same_storage(box.form, context.stored(box.tensor))
            else _PART_BY_ELEMENTS.format(k=k, channels=box.form.channels, number=_number(box.form))
            for k, box in enumerate(used)
        )
        text = f"fn parts(at: vec4<i32>) -> vec4<f32> {{\n    var value = vec4<f32>();\n{body}    return value;\n}}\n"
        dispatches.append(
            Dispatch(
                kernel="concat",
                inputs=tuple(box.tensor for box in used),
                output=op.output,
                workgroups=grid(result.texels // result.slices * (last - first)),
                own=(first, last - first, *own),
                defines=(("shifted", _SHIFTED), ("parts", text)),
                function=op.function,
            )
        )
        first = last
    return dispatches


@lowers(AffineMap)
def affine_map(op: AffineMap, context: Lowering) -> list[Dispatch]:
    """Elements moved by an affine map of indices."""
    source, result = context.stored(op.input), context.stored(op.output)
    if max(len(op.out_dims), len(op.in_dims)) > MOST_DIMS:
        raise UnsupportedError(f"elements are moved along more than {MOST_DIMS} dimensions")
    moved = texel_map(op, source, result)
    if moved is not None:
        return [_by_texels(op, moved, context)]
    positions = position_map(op, source, result)
    if positions is not None:
        return [_looked_up("affine_texels", positions, context)]
    if _is_reshape(op):
        return [each_texel("reshape", (op.input,), op.output, context)]
    return [_looked_up("affine", op, context)]


def _is_reshape(op: AffineMap) -> bool:
    """Whether each element keeps its number."""
    same = op.out_dims == op.in_dims and len(op.out_dims) == 1
    return same and (op.shift, op.split, op.offset, op.quotients) == ((0,), (1,), (0,), ((1,),))


def _by_texels(op: AffineMap, moved: TexelMap, context: Lowering) -> Dispatch:
    result = context.stored(op.output)
    if moved.is_identity and context.stored(op.input).dims == result.dims:
        return each_texel("unary", (op.input,), op.output, context, function=IDENTITY, in_place=(0,))
    return each_texel(
        "move",
        (op.input,),
        op.output,
        context,
        own=(*moved.batch, *moved.height, *moved.width, moved.channel, op.value),
        defines=(("VALUE", int(op.border == "value")), ("shifted", _SHIFTED), *_bordered(op)),
    )


def _bordered(op: AffineMap) -> tuple[tuple[str, str], ...]:
    text = f"fn bordered(index: i32, size: i32) -> i32 {{\n    return {_BORDERS[op.border]};\n}}\n"
    return ("turn", _TURN), ("bordered", text)


def _looked_up(kernel: str, op: AffineMap, context: Lowering) -> Dispatch:
    """Each element or position through its number."""
    defines = (*_bordered(op), ("source", _source(op)))
    return each_texel(kernel, (op.input,), op.output, context, own=(op.value,), defines=defines)


def _source(op: AffineMap) -> str:
    """WGSL: `source(number) -> i32`, the number of the input's element (or position), or -1."""
    lines = ["fn source(number: i32) -> i32 {", "var rest = number;"]
    for d in reversed(range(len(op.out_dims))):
        size, shift, split = op.out_dims[d], op.shift[d], op.split[d]
        lines += [f"let i_{d} = rest % {size} + {shift};", f"rest /= {size};"]
        lines += [f"let q_{d} = i_{d} / {split};", f"let r_{d} = i_{d} - q_{d} * {split};"]
    lines.append("var found = 0;")
    for k, size in enumerate(op.in_dims):
        terms = [f"({n}) * q_{d}" for d, n in enumerate(op.quotients[k]) if n]
        terms += [f"({n}) * r_{d}" for d, n in enumerate(op.remainders[k]) if n and op.split[d] > 1]
        lines.append(f"let k_{k} = {' + '.join([str(op.offset[k]), *terms])};")
        if op.border == "value":
            lines.append(f"if (k_{k} < 0 || k_{k} >= {size}) {{ return -1; }}")
        lines.append(f"found = found * {size} + bordered(k_{k}, {size});")
    lines += ["return found;", "}"]
    return "\n".join(lines)
