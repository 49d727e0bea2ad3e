"""WGSL text: the files of kernels/gpu, functions that finish a result, access to texels, and unrolled loops.

A loop `for (var r = 0; r < NAME; r++) {  // unroll`, where NAME is a constant of the dispatch, becomes NAME blocks with
the number in place of the variable, for drivers that keep an array in memory unless its indices are constants. Measured
on SwiftShader, this makes convolutions three times as fast; lavapipe unrolls such loops by itself.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.errors import ToolError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.model.tensor_ops import Function

__all__ = [
    "FORMS",
    "finish_text",
    "folder",
    "kernel_text",
    "kernels",
    "prelude",
    "texture_load",
    "texture_store",
    "texture_type",
    "unroll",
    "without_unused",
]

_HERE: Final = Path(__file__).resolve().parent
_ITEM: Final = re.compile(r"^(?=fn |struct |const |var|@|//)", re.MULTILINE)
_FUNCTION: Final = re.compile(r"fn (\w+)\(")
_LOOP: Final = re.compile(r"for \(var (\w+) = 0; \1 < (\w+); \1\+\+\) \{  // unroll\n")
FORMS: Final = {"fp32": "rgba32float", "fp16": "rgba16float"}


def folder() -> Path:
    """Where the kernels' texts are: in a checkout, or in an installed wheel. Raises ToolError if they are missing."""
    for place in (_HERE / "kernels" / "gpu", _HERE.parents[2] / "kernels" / "gpu"):
        if (place / "functions.wgsl").is_file():
            return place
    raise ToolError("this edgemem has no kernels for GPUs (kernels/gpu); install a wheel or a checkout that has them")


def kernels() -> tuple[str, ...]:
    """Names of all kernels, sorted."""
    return tuple(sorted(f.stem for f in folder().glob("*.wgsl") if f.stem != "functions"))


_INVOCATION: Final = "fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {"
_ENTRY: Final = """@compute @workgroup_size(64) fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {"""
_EACH_TEXEL: Final = f"""
{_ENTRY}
    let texel = serial(group, groups, local, 64u);
    if (texel < texels(p.output)) {{
        each_texel(texel_place(p.output, texel));
    }}
}}
"""
_SHARED: Final = re.compile(r"^// shared: fn (\w+)\(a, b\) = (.*)$", re.MULTILINE)
_MEMORY: Final = "var<workgroup> shared_values: array<vec4<f32>, 64>;\n"
_JOIN: Final = """fn {name}(value: vec4<f32>, local: u32) -> vec4<f32> {{
    if (SHARE == 1) {{
        return value;
    }}
    let lane = i32(local) % SHARE;
    workgroupBarrier();
    shared_values[local] = value;
    for (var half = SHARE / 2; half > 0; half /= 2) {{
        workgroupBarrier();
        if (lane < half) {{
            let a = shared_values[local];
            let b = shared_values[local + u32(half)];
            shared_values[local] = {joined};
        }}
    }}
    workgroupBarrier();
    return shared_values[i32(local) - lane];
}}"""


@cache
def kernel_text(kernel: str) -> str:
    """The text of a kernel's file, with what stands in it in short.

    `each_invocation`, or `each_texel(at)` for each (b, y, x, slice) of the output, becomes the entry point.
    `// shared: fn NAME(a, b) = TEXT` becomes NAME(value, local): what joins the values of the SHARE invocations that
    work on one result, two at a time.

    Raises ToolError for a kernel that there is not.
    """
    file = folder() / f"{kernel}.wgsl"
    if not file.is_file():
        raise ToolError(f"no GPU kernel {kernel} in {file.parent}; there are {', '.join(kernels())}")
    text = file.read_text(encoding="utf-8")
    made = _SHARED.sub(lambda found: _JOIN.format(name=found[1], joined=found[2]), text)
    if made != text:
        made = _MEMORY + made
    return made + _EACH_TEXEL if "fn each_texel(at: vec4<i32>)" in made else made.replace(_INVOCATION, _ENTRY)


_PACK: Final = "vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw))"
_UNPACK: Final = "vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y))"


def prelude(*, has_f16: bool) -> str:
    """What a device puts before every text: how four halves are kept, and what the factors of products are.

    Only for a plan in fp16, and a device with the feature `shader-f16`, factors are halves.
    """
    enable, half, matrix = (
        ("enable f16;\n", "vec4<f16>", "mat4x4<f16>") if has_f16 else ("", "vec4<f32>", "mat4x4<f32>")
    )
    packed = half if has_f16 else "vec2<u32>"
    return f"""{enable}alias packed = {packed};
alias half4 = {half};
alias half4x4 = {matrix};
fn pack(v: vec4<f32>) -> packed {{ return {"packed(v)" if has_f16 else _PACK}; }}
fn unpack(v: packed) -> vec4<f32> {{ return {"vec4<f32>(v)" if has_f16 else _UNPACK}; }}
"""


def finish_text(function: Function | None) -> str:
    """`finish`, and what it may call. Raises UnsupportedError for a function that there is not."""
    if function is None or function.name == "identity":
        return "fn finish(value: vec4<f32>) -> vec4<f32> { return value; }\n"
    texts = _functions()
    name = f"function_{function.name}"
    if f"fn {name}(" not in texts:
        raise UnsupportedError(f"no GPU kernel has the function {function.name}")
    result = f"{name}(value, p.function)"
    if function.name != "not":  # what is no number stays so: max, min and clamp of WGSL may give the other operand
        result = f"select({result}, value, no_number(value))"
    return f"{texts}fn finish(value: vec4<f32>) -> vec4<f32> {{ return {result}; }}\n"


@cache
def _functions() -> str:
    return (folder() / "functions.wgsl").read_text(encoding="utf-8")


def without_unused(text: str) -> str:
    """The text without comments at the left margin, and without functions that the entry point never calls."""
    items = [item for item in _ITEM.split(text) if not item.startswith("//")]
    functions = {found[1]: item for item in items if (found := _FUNCTION.match(item))}
    queue = [item for item in items if not _FUNCTION.match(item)]
    needed: set[str] = set()
    while queue:
        called = {name for name in re.findall(r"\w+", queue.pop()) if name in functions} - needed
        needed |= called
        queue += [functions[name] for name in called]
    return "".join(item for item in items if not (found := _FUNCTION.match(item)) or found[1] in needed)


def texture_type(layer_rows: int, precision: str = "") -> str:
    """The type of a variable that is read, or written in a precision."""
    array = "_array" if layer_rows else ""
    return f"texture_storage_2d{array}<{FORMS[precision]}, write>" if precision else f"texture_2d{array}<f32>"


def texture_load(name: str, data: str, layer_rows: int) -> str:
    """A function of a texel's place as of one texture as high as needed: `name(at: vec2<i32>) -> vec4<f32>`."""
    return f"fn {name}(at: vec2<i32>) -> vec4<f32> {{ return textureLoad({data}, {_place(layer_rows)}, 0); }}\n"


def texture_store(name: str, data: str, layer_rows: int) -> str:
    """A function that writes: `name(at: vec2<i32>, value: vec4<f32>)`."""
    call = f"textureStore({data}, {_place(layer_rows)}, value)"
    return f"fn {name}(at: vec2<i32>, value: vec4<f32>) {{ {call}; }}\n"


def _place(layer_rows: int) -> str:
    return f"vec2<i32>(at.x, at.y % {layer_rows}), at.y / {layer_rows}" if layer_rows else "at"


def unroll(text: str, constants: Mapping[str, int]) -> str:
    """The text without its marked loops. A mark on a loop whose bound is not among the constants stays a comment."""
    start = 0
    while loop := _LOOP.search(text, start):
        if loop[2] not in constants:
            start = loop.end()
            continue
        end = _end(text, loop.end())
        body = text[loop.end() : end - 1]
        blocks = (re.sub(rf"\b{loop[1]}\b", str(k), body) for k in range(constants[loop[2]]))
        text = text[: loop.start()] + "".join(f"{{\n{block}}}\n" for block in blocks) + text[end:]
        start = loop.start()
    return text


def _end(text: str, start: int) -> int:
    """Where the block that is open at `start` ends, behind its brace."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[start], 0)
        start += 1
    return start
