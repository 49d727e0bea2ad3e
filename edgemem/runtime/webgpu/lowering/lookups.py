"""Elements that are looked up by the values of others: one of two, or one at a computed place."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import Gather, Select
from edgemem.runtime.webgpu.lowering.elementwise import stride
from edgemem.runtime.webgpu.lowering.registry import each_texel, lowers

if TYPE_CHECKING:
    from edgemem.runtime.webgpu.dispatch import Dispatch
    from edgemem.runtime.webgpu.lowering.registry import Lowering

__all__ = ["gather", "select"]


@lowers(Select)
def select(op: Select, context: Lowering) -> list[Dispatch]:
    """Each element of the output through the strides of the three operands."""
    shape, operands = context.shape(op.output), (op.condition, op.a, op.b)
    lines = ["fn chosen(number: i32) -> f32 {", "var rest = number;", "var places = vec3<i32>();"]
    for axis in reversed(range(len(shape))):
        strides = ", ".join(str(stride(shape, context.shape(t), axis)) for t in operands)
        lines += [f"places += rest % {shape[axis]} * vec3<i32>({strides});", f"rest /= {shape[axis]};"]
    lines += ["if (at_0(places.x) != 0.0) { return at_1(places.y); }", "return at_2(places.z);", "}"]
    over = tuple(k for k, t in enumerate(operands) if context.shape(t) == shape)
    return [
        each_texel("elements", operands, op.output, context, defines=(("chosen", "\n".join(lines)),), in_place=over)
    ]


@lowers(Gather)
def gather(op: Gather, context: Lowering) -> list[Dispatch]:
    """Each element of the output through its index or indices."""
    count = prod(context.shape(op.output)) // (op.before * op.after)
    given = count * len(op.sizes) if not op.of_each else prod(context.shape(op.output))
    sized = prod(context.shape(op.input)) == op.before * prod(op.sizes) * op.after
    if not sized or prod(context.shape(op.indices)) != given or (op.of_each and len(op.sizes) != 1):
        raise UnsupportedError("elements are taken by indices of another number than its output needs")
    lines = ["fn chosen(number: i32) -> f32 {", f"let k = number / {op.after} % {count};", "var place = 0;"]
    for axis, size in enumerate(op.sizes):
        index = "number" if op.of_each else f"k * {len(op.sizes)} + {axis}"
        lines.append(f"let i_{axis} = i32(round(at_1({index})));")
        inside = f"clamp(select(i_{axis}, i_{axis} + {size}, i_{axis} < 0), 0, {size - 1})"
        lines.append(f"place = place * {size} + {inside};")
    before, after = f"number / {count * op.after}", f"number % {op.after}"
    lines += [f"return at_0(({before} * {prod(op.sizes)} + place) * {op.after} + {after});", "}"]
    defines = (("chosen", "\n".join(lines)),)
    return [each_texel("elements", (op.input, op.indices), op.output, context, defines=defines)]
