"""One number for many elements: reductions, softmax, the index of the largest element."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Final

from edgemem.model.tensor_ops import ArgMax, Reduce, Softmax
from edgemem.runtime.webgpu.dispatch import Dispatch
from edgemem.runtime.webgpu.lowering.elementwise import LARGER, SMALLER
from edgemem.runtime.webgpu.lowering.lines import Lines, share
from edgemem.runtime.webgpu.lowering.registry import each_texel, lowers
from edgemem.runtime.webgpu.shaders import grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.runtime.webgpu.lowering.registry import Lowering

__all__ = ["arg_max", "reduce", "softmax"]

# kind -> (start, what counts of each element v, how a and b are joined, what comes last)
_KINDS: Final = {
    "sum": (0.0, "v", "a + b", "v"),
    "mean": (0.0, "v", "a + b", "v / p.own.count"),
    "max": (-inf, "v", LARGER, "v"),
    "min": (inf, "v", SMALLER, "v"),
    "prod": (1.0, "v", "a * b", "v"),
    "l2": (0.0, "v * v", "a + b", "sqrt(v)"),
    "sum_square": (0.0, "v * v", "a + b", "v"),
}


@lowers(Reduce)
def reduce(op: Reduce, context: Lowering) -> list[Dispatch]:
    """One number for all elements along axes."""
    shape, result = context.shape(op.input), context.stored(op.output)
    axes = {a % len(shape) for a in op.axes}
    lines = Lines.along(shape, context.stored(op.input), axes)
    kept = [a for a in range(len(shape)) if a not in axes]
    if lines.has_channels:
        steps, values = lines.steps, f"{lines.spot()}\n{_JOINED}"
    elif _keeps_channels(op, lines, kept, context):
        steps, values = lines.steps, f"{lines.spot()}\n{_WHOLE}"
    else:
        steps, values = lines.elements, _by_elements(shape, sorted(axes), kept)
    start, each, combine, last = _KINDS[op.kind]
    together = share(result.texels, steps)
    return [
        Dispatch(
            kernel="reduce",
            inputs=(op.input,),
            output=op.output,
            workgroups=grid(result.texels * together),
            own=(steps, start, lines.elements),
            defines=(
                ("SHARE", together),
                ("each", f"fn each(v: vec4<f32>) -> vec4<f32> {{ return {each}; }}"),
                ("combine", f"fn combine(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {{ return {combine}; }}"),
                ("last", f"fn last(v: vec4<f32>) -> vec4<f32> {{ return {last}; }}"),
                ("values", values),
            ),
        )
    ]


# A texel of the output is made of texels of the input.
_WHOLE: Final = """fn values(at: vec4<i32>, step: i32) -> vec4<f32> {
    let place = spot((at.x * p.output.height + at.y) * p.output.width + at.z, at.w, step);
    return each(load_0(place.x, place.y, place.z, place.w));
}
"""
# An element of the output is made of texels of the input, whose channels are joined.
_JOINED: Final = """fn values(at: vec4<i32>, step: i32) -> vec4<f32> {
    var result = vec4<f32>(p.own.start);
    for (var k = 0; k < min(4, p.output.channels - at.w * 4); k++) {
        let place = spot(index_of(p.output, at.x, at.y, at.z, at.w * 4 + k), 0, step);
        let loaded = each(load_0(place.x, place.y, place.z, place.w));
        let v = select(vec4<f32>(p.own.start), loaded, used_of(p.input_0.channels, place.w));
        result[k] = combine(combine(v.xxxx, v.yyyy), combine(v.zzzz, v.wwww)).x;
    }
    return result;
}
"""


def _keeps_channels(op: Reduce, lines: Lines, kept: Sequence[int], context: Lowering) -> bool:
    """Whether the input's channels, which are kept, are the output's, with the other kept axes in the same order."""
    result = context.stored(op.output)
    if result.channels_first == lines.stored.channels_first:
        return True
    return not result.channels_first and lines.parts[kept[-1]] == "channels"


def _by_elements(shape: Sequence[int], axes: Sequence[int], kept: Sequence[int]) -> str:
    """An element of the output is made of elements of the input, which are looked up by their numbers."""
    lines = ["fn source(number: i32, step: i32) -> i32 {", "var index = number;", "var rest = step;", "var found = 0;"]
    for name, which in (("index", kept), ("rest", axes)):
        for axis in reversed(which):
            lines.append(f"found += {name} % {shape[axis]} * {prod(shape[axis + 1 :])};")
            lines.append(f"{name} /= {shape[axis]};")
    lines += ["return found;", "}", _ELEMENTS]
    return "\n".join(lines)


_ELEMENTS: Final = """fn values(at: vec4<i32>, step: i32) -> vec4<f32> {
    var result = vec4<f32>(p.own.start);
    for (var k = 0; k < min(4, p.output.channels - at.w * 4); k++) {
        result[k] = at_0(source(index_of(p.output, at.x, at.y, at.z, at.w * 4 + k), step));
    }
    return each(result);
}
"""


@lowers(Softmax)
def softmax(op: Softmax, context: Lowering) -> list[Dispatch]:
    """Softmax or its logarithm along one axis."""
    shape = context.shape(op.input)
    lines = Lines.along(shape, context.stored(op.input), {op.axis % max(len(shape), 1)} if shape else ())
    together = share(lines.groups, lines.steps)
    return [
        Dispatch(
            kernel="softmax",
            inputs=(op.input,),
            output=op.output,
            workgroups=grid(lines.groups * together),
            own=(lines.steps, lines.positions, lines.groups, op.beta),
            defines=(
                ("SHARE", together),
                ("CHANNELS", int(lines.has_channels)),
                ("LOGARITHM", int(op.is_log)),
                ("spot", lines.spot()),
            ),
        )
    ]


@lowers(ArgMax)
def arg_max(op: ArgMax, context: Lowering) -> list[Dispatch]:
    """The index of the largest or the smallest element along an axis."""
    shape = context.shape(op.input) or (1,)
    axis = op.axis % len(shape)
    own = shape[axis], prod(shape[axis + 1 :])
    defines = ("LEAST", int(op.is_min)), ("LAST", int(op.last))
    return [each_texel("arg_max", (op.input,), op.output, context, own=own, defines=defines)]
