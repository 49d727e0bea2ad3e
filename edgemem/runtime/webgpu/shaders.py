"""The WGSL text of a dispatch: its sizes as constants, accessors for how each tensor is reached, then the kernel.

Bindings of group 0: 1 to 5 the inputs, 6 the output, 7 and 8 the weights. An input that has the output's place is
reached through binding 6, and one that has another input's place through that input's binding: no two writable bindings
overlap. A kernel's text has, besides its `struct Own` and `fn main`:

    p.input_0, ..., p.output: Tensor    batch, height, width, channels, slices, channels_first, linear, row (i32)
    p.own                               the members of `struct Own`, where the kernel has it; all of p is constant
    load_0(b, y, x, slice) -> vec4f     four channels; nothing is checked, unused channels hold anything
    clean_0(b, y, x, slice) -> vec4f    the same with 0 in unused channels
    element_0(b, y, x, c) -> f32
    position_0(i) -> vec4i              (b, y, x, c) of an index in the tensor's own order; `position_out`
    at_0(i) -> f32                      the element at an index in the tensor's own order
    store(b, y, x, slice, value)
    no_number(v) -> vec4<bool>          by the bits: drivers hold v != v to be never true
    texels(t) -> i32                    texels of a tensor, such as p.output
    texel_place(t, i) -> vec4i          (b, y, x, slice) of the i-th texel of its buffer
    index_of(t, b, y, x, c) -> i32      of an element in the tensor's own order
    finish(value) -> vec4f              the dispatch's function
    weights_0(i), weights_1(i) -> vec4f
    weight(i, slice) -> vec4f           weights_0, times the scales of a slice of the output where they are int8
    factor, factors                     types of four factors of products, and of four times four: halves where a plan
                                        in fp16 runs on a device that has them. Sums of more than four products are f32
    serial(group, groups, local, size)  the number of an invocation in a grid of `grid(count, size)` workgroups
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.runtime.webgpu.kernel_texts import (
    FORMS,
    finish_text,
    kernel_text,
    texture_load,
    texture_store,
    texture_type,
    unroll,
    without_unused,
)
from edgemem.runtime.webgpu.size_constants import Reach, own_numbers, size_constants, with_infinities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.dispatch import Dispatch

__all__ = [
    "MOST_INPUTS",
    "MOST_WORKGROUPS",
    "OUTPUT",
    "WEIGHTS",
    "Precision",
    "Reach",
    "Shader",
    "assemble",
    "grid",
    "layout_entries",
]

Precision: TypeAlias = Literal["fp32", "fp16"]
BindingKind: TypeAlias = Literal["storage", "read-only-storage", "texture", "texture-array", "write", "write-array"]

OUTPUT: Final = 6  # a binding
WEIGHTS: Final = 7  # and 8
MOST_INPUTS: Final = 5
MOST_WEIGHTS: Final = 2
MOST_WORKGROUPS: Final = 65535  # of a grid in one dimension: the least that WebGPU promises

_COMPUTE: Final = 4  # GPUShaderStage.COMPUTE


@dataclass(frozen=True, slots=True)
class Shader:
    """What a dispatch needs besides the tensors themselves.

    Attributes:
        text: WGSL to be put behind a `prelude`; dispatches with equal texts may share a pipeline. The entry point is
            `main`.
        layout: each binding's number and what WebGPU's layouts of bind groups say of it.
        inputs: the binding of each input of the dispatch; `OUTPUT` for one that is written over.
    """

    text: str
    layout: tuple[tuple[int, BindingKind], ...]
    inputs: tuple[int, ...]


def grid(count: int, size: int = 64) -> tuple[int, int, int]:
    """Workgroups of `size` invocations for `count` of them, in two dimensions where one is too short.

    `serial` in the kernel numbers the invocations; those from `count` on must do nothing.
    """
    groups = max(1, -(-count // size))
    rows = -(-groups // MOST_WORKGROUPS)
    return -(-groups // rows), rows, 1


def assemble(dispatch: Dispatch, inputs: Sequence[Reach], output: Reach, precision: Precision = "fp32") -> Shader:
    """The text and the bindings of a dispatch.

    Args:
        dispatch: what is to run.
        inputs: how each of its inputs is reached.
        output: how its output is reached.
        precision: of the elements in buffers and textures; constants are float32, weights as their arrays are.

    Raises:
        UnsupportedError: an operand has the output's place, and the kernel cannot run in place; or the dispatch asks
            for more than the bindings hold; or a number of it is too large.
    """
    _check(dispatch, inputs, output)
    bindings = _bindings(inputs, output)
    text = kernel_text(dispatch.kernel)
    numbers = own_numbers(text, dispatch)
    parts = [_factors(dispatch, inputs, precision), size_constants(dispatch, inputs, output, numbers), _COMMON]
    layout: list[tuple[int, BindingKind]] = []
    for k, (reach, binding) in enumerate(zip(inputs, bindings, strict=True)):
        if binding == k + 1:
            parts.append(_declaration(reach, binding, precision))
            layout.append((binding, _binding_kind(reach)))
        parts.append(_loads(k, reach, binding, precision))
    parts.append(_output(output, precision))
    layout.append((OUTPUT, _binding_kind(output, is_output=True)))
    for k, array in enumerate(dispatch.weights):
        parts.append(_weights(k, array))
        layout.append((WEIGHTS + k, "read-only-storage"))
    parts += [_weight(dispatch.weights)] if dispatch.weights else []
    parts.append(finish_text(dispatch.function))
    parts += [f"const {n}: i32 = {v};\n" if isinstance(v, int) else f"{v}\n" for n, v in dispatch.defines]
    parts.append(unroll(text, {n: v for n, v in dispatch.defines if isinstance(v, int)}))
    made = without_unused("".join(parts))
    return Shader(with_infinities(made, dispatch, numbers), tuple(layout), bindings)


def layout_entries(layout: Sequence[tuple[int, BindingKind]], precision: Precision) -> list[dict[str, Any]]:
    """The entries of a layout of bind groups, as wgpu takes them."""
    resources: dict[BindingKind, dict[str, Any]] = {
        "storage": {"buffer": {"type": "storage"}},
        "read-only-storage": {"buffer": {"type": "read-only-storage"}},
    }
    for suffix, dimension in (("", "2d"), ("-array", "2d-array")):
        read = {"sample_type": "unfilterable-float", "view_dimension": dimension}
        write = {"access": "write-only", "format": FORMS[precision], "view_dimension": dimension}
        resources[f"texture{suffix}"] = {"texture": read}  # type: ignore[index]
        resources[f"write{suffix}"] = {"storage_texture": write}  # type: ignore[index]
    return [{"binding": binding, "visibility": _COMPUTE, **resources[kind]} for binding, kind in layout]


def _check(dispatch: Dispatch, inputs: Sequence[Reach], output: Reach) -> None:
    kernel = dispatch.kernel
    if len(inputs) != len(dispatch.inputs) or len(inputs) > MOST_INPUTS or len(dispatch.weights) > MOST_WEIGHTS:
        raise UnsupportedError(f"kernel {kernel} has at most {MOST_INPUTS} inputs and {MOST_WEIGHTS} weights")
    if not all(1 <= n <= MOST_WORKGROUPS for n in dispatch.workgroups):
        raise UnsupportedError(f"kernel {kernel} would need a grid of {dispatch.workgroups} workgroups")
    for k, reach in enumerate(inputs):
        if reach.kind == "constant" or reach.place != output.place:
            continue
        if reach.kind == "texture":
            raise UnsupportedError(f"kernel {kernel} would read and write one texture")
        if k not in dispatch.in_place:
            raise UnsupportedError(f"kernel {kernel} cannot write over its input {k}")


def _bindings(inputs: Sequence[Reach], output: Reach) -> tuple[int, ...]:
    """The binding of each input: the output's, that of an input before it, or its own."""
    found: list[int] = []
    for k, reach in enumerate(inputs):
        same = [found[i] for i in range(k) if (inputs[i].kind, inputs[i].place) == (reach.kind, reach.place)]
        if reach.kind == "buffer" and reach.place == output.place:
            found.append(OUTPUT)
        else:
            found.append(same[0] if same else k + 1)
    return tuple(found)


_COMMON: Final = """fn serial(group: vec3<u32>, groups: vec3<u32>, local: u32, size: u32) -> i32 {
    return i32((group.y * groups.x + group.x) * size + local);
}
fn used_of(channels: i32, slice: i32) -> vec4<bool> {
    return vec4<i32>(0, 1, 2, 3) + vec4<i32>(slice * 4) < vec4<i32>(channels);
}
fn texel_of(t: Tensor, b: i32, y: i32, x: i32, slice: i32) -> i32 {
    return ((slice * t.height + y) * t.width + x) * t.batch + b;
}
fn no_number(v: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
fn texels(t: Tensor) -> i32 {
    return t.slices * t.height * t.width * t.batch;
}
fn texel_place(t: Tensor, texel: i32) -> vec4<i32> {
    let column = texel / t.batch;
    let row = column / t.width;
    return vec4<i32>(texel % t.batch, row % t.height, column % t.width, row / t.height);
}
fn index_of(t: Tensor, b: i32, y: i32, x: i32, c: i32) -> i32 {
    if (t.channels_first != 0) {
        return ((b * t.channels + c) * t.height + y) * t.width + x;
    }
    return ((b * t.height + y) * t.width + x) * t.channels + c;
}
fn pixel_of(t: Tensor, b: i32, y: i32, x: i32, slice: i32) -> vec2<i32> {
    if (t.linear != 0) {
        let i = texel_of(t, b, y, x, slice);
        return vec2<i32>(i % t.row, i / t.row);
    }
    return vec2<i32>(x * t.batch + b, y * t.slices + slice);
}
fn position_of(t: Tensor, index: i32) -> vec4<i32> {
    if (t.channels_first != 0) {
        let x = index % t.width;
        let row = index / t.width;
        let y = row % t.height;
        let plane = row / t.height;
        return vec4<i32>(plane / t.channels, y, x, plane % t.channels);
    }
    let c = index % t.channels;
    let column = index / t.channels;
    let x = column % t.width;
    let row = column / t.width;
    return vec4<i32>(row / t.height, row % t.height, x, c);
}
"""


def _factors(dispatch: Dispatch, inputs: Sequence[Reach], precision: Precision) -> str:
    """The types of the factors of products: halves, on devices that have them, where float16 holds all factors."""
    is_half = precision == "fp16" and all(reach.kind != "constant" for reach in inputs)
    is_half = is_half and all(array.dtype != np.float32 for array in dispatch.weights[:1])
    made = ("half4", "half4x4") if is_half else ("vec4<f32>", "mat4x4<f32>")
    return f"alias factor = {made[0]};\nalias factors = {made[1]};\n"


def _name(binding: int) -> str:
    return "data_out" if binding == OUTPUT else f"data_{binding - 1}"


def _element(*, is_half: bool) -> str:
    return "packed" if is_half else "vec4<f32>"


def _declaration(reach: Reach, binding: int, precision: Precision) -> str:
    variable = f"@group(0) @binding({binding}) var"
    if reach.kind == "texture":
        return f"{variable} {_name(binding)}: {texture_type(reach.layer_rows)};\n"
    if reach.kind == "constant":
        return f"{variable}<storage, read> {_name(binding)}: array<vec4<f32>>;\n"
    return f"{variable}<storage, read_write> {_name(binding)}: array<{_element(is_half=precision == 'fp16')}>;\n"


def _loads(k: int, reach: Reach, binding: int, precision: Precision) -> str:
    """The functions that read input k."""
    data = _name(binding)
    at = f"(p.input_{k}, b, y, x, slice)"
    if reach.kind == "texture":
        value = f"texel_{k}(pixel_of{at})"
    elif reach.kind == "constant" or precision == "fp32":
        value = f"{data}[texel_of{at}]"
    else:
        value = f"unpack({data}[texel_of{at}])"
    before = texture_load(f"texel_{k}", data, reach.layer_rows) if reach.kind == "texture" else ""
    return f"""{before}fn load_{k}(b: i32, y: i32, x: i32, slice: i32) -> vec4<f32> {{
    return {value};
}}
fn clean_{k}(b: i32, y: i32, x: i32, slice: i32) -> vec4<f32> {{
    return select(vec4<f32>(), load_{k}(b, y, x, slice), used_of(p.input_{k}.channels, slice));
}}
fn element_{k}(b: i32, y: i32, x: i32, c: i32) -> f32 {{
    let value = load_{k}(b, y, x, c / 4);
    return value[c % 4];
}}
fn position_{k}(index: i32) -> vec4<i32> {{
    return position_of(p.input_{k}, index);
}}
fn at_{k}(index: i32) -> f32 {{
    let at = position_{k}(index);
    return element_{k}(at.x, at.y, at.z, at.w);
}}
"""


def _output(reach: Reach, precision: Precision) -> str:
    """The declaration of the output, and what writes it."""
    at = "(p.output, b, y, x, slice)"
    if reach.kind == "texture":
        declared = f"@group(0) @binding({OUTPUT}) var data_out: {texture_type(reach.layer_rows, precision)};\n"
        declared += texture_store("store_texel", "data_out", reach.layer_rows)
        write = f"store_texel(pixel_of{at}, value)"
    else:
        declared = _declaration(reach, OUTPUT, precision)
        write = f"data_out[texel_of{at}] = {'value' if precision == 'fp32' else 'pack(value)'}"
    return f"""{declared}fn store(b: i32, y: i32, x: i32, slice: i32, value: vec4<f32>) {{
    {write};
}}
fn position_out(index: i32) -> vec4<i32> {{
    return position_of(p.output, index);
}}
"""


_INT8: Final = "vec4<f32>((vec4<i32>(bitcast<i32>({value})) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u))"
_STORED: Final = {
    np.dtype(np.float32): ("vec4<f32>", "{value}"),
    np.dtype(np.float16): ("packed", "unpack({value})"),
    np.dtype(np.int8): ("u32", _INT8),
}


def _weights(k: int, array: NDArray[Any]) -> str:
    """Weights k, of which 32 bits hold one float32, two float16 or four int8."""
    element, read = _STORED[array.dtype]
    declared = f"@group(0) @binding({WEIGHTS + k}) var<storage, read> stored_{k}: array<{element}>;\n"
    value = read.format(value=f"stored_{k}[i]")
    return f"{declared}fn weights_{k}(i: i32) -> vec4<f32> {{ return {value}; }}\n"


def _weight(weights: Sequence[NDArray[Any]]) -> str:
    """A texel of weights for an output slice, whose scales are behind the bias if the weights are int8."""
    scale = f" * weights_1({weights[1].size // 8} + slice)" if weights[0].dtype == np.int8 else ""
    return f"fn weight(i: i32, slice: i32) -> vec4<f32> {{ return weights_0(i){scale}; }}\n"


def _binding_kind(reach: Reach, *, is_output: bool = False) -> BindingKind:
    if reach.kind == "constant":
        return "read-only-storage"
    if reach.kind == "buffer":
        return "storage"
    if is_output:
        return "write-array" if reach.layer_rows else "write"
    return "texture-array" if reach.layer_rows else "texture"
