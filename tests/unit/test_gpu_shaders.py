"""The text, the bindings and the parameters of dispatches; tensors as texels; how convolutions are cut. No GPU."""

from __future__ import annotations

import re
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import ToolError, UnsupportedError
from edgemem.model.tensor_ops import Function
from edgemem.model.texture_layout import Stored, stored
from edgemem.runtime.webgpu.dispatch import Dispatch
from edgemem.runtime.webgpu.kernel_texts import finish_text, kernel_text, kernels, unroll
from edgemem.runtime.webgpu.lowering.blocks import WORKGROUP, choose, pack_weights, parts, reading
from edgemem.runtime.webgpu.packing import from_image, pack, to_image, unpack
from edgemem.runtime.webgpu.shaders import MOST_WORKGROUPS, assemble, grid, layout_entries
from edgemem.runtime.webgpu.size_constants import Reach

SMALL = Stored(1, 4, 4, 8)
POOL = Dispatch(kernel="pool", inputs=(0,), output=1, workgroups=(1, 1, 1), own=(2, 2, 2, 2, 1, 1, 0, 0, 4, 4, 0, 1))
SUM = Dispatch(kernel="convolution", inputs=(0, 1), output=2, workgroups=(1, 1, 1), own=(0,) * 14, in_place=(1,))


def buffer(place: object, shape: Stored = SMALL) -> Reach:
    return Reach("buffer", shape, place)


def test_activations_are_bound_writable_and_constants_are_not() -> None:
    shader = assemble(POOL, [buffer("a")], buffer("b"))
    assert shader.inputs == (1,)
    assert shader.layout == ((1, "storage"), (6, "storage"))
    constant = assemble(POOL, [Reach("constant", SMALL, "a")], buffer("b"), "fp16")
    assert constant.layout[0] == (1, "read-only-storage")
    assert "data_0: array<vec4<f32>>" in constant.text
    assert "data_out: array<packed>" in constant.text


def test_textures_have_the_format_of_their_precision() -> None:
    texture = Reach("texture", SMALL, "a")
    shader = assemble(POOL, [texture], replace(texture, place="b"), "fp16")
    output = layout_entries(shader.layout, "fp16")[-1]
    written = {"access": "write-only", "format": "rgba16float", "view_dimension": "2d"}
    assert (output["binding"], output["storage_texture"]) == (6, written)
    assert "texture_storage_2d<rgba16float, write>" in shader.text


def test_two_writable_bindings_never_overlap() -> None:
    assert assemble(SUM, [buffer("a"), buffer("a")], buffer("b")).inputs == (1, 1)
    within = assemble(SUM, [buffer("a"), buffer("b")], buffer("b"))
    assert within.inputs == (1, 6)
    assert within.layout == ((1, "storage"), (6, "storage"))
    with pytest.raises(UnsupportedError, match="convolution cannot write over its input 0"):
        assemble(SUM, [buffer("b"), buffer("a")], buffer("b"))
    texture = Reach("texture", SMALL, "a")
    with pytest.raises(UnsupportedError, match="pool would read and write one texture"):
        assemble(replace(POOL, in_place=(0,)), [texture], texture)


def test_the_text_has_the_shapes_and_what_the_kernel_has_of_its_own() -> None:
    first = Reach("texture", Stored(2, 3, 5, 7, channels_first=True), "a", linear=True, row=64)
    dispatch = replace(POOL, function=Function("clip", (-1.0, 6.0)))
    text = assemble(dispatch, [first], Reach("texture", Stored(2, 2, 3, 7), "b")).text
    assert "uniform" not in text
    (line,) = re.findall(r"^const p = .*$", text, re.MULTILINE)
    assert line == (
        "const p = Parameters(Tensor(2, 3, 5, 7, 2, 1, 1, 64), Tensor(2, 2, 3, 7, 2, 0, 0, 0), "
        "vec4<f32>(-1.0f, 6.0f, 0.0f, 0.0f), Own(2, 2, 2, 2, 1, 1, 0, 0, 4, 4, 0, 1));"
    )


def test_infinite_numbers_are_made_of_their_bits_and_what_no_parameter_holds_is_refused() -> None:
    least = replace(POOL, function=Function("clip", (-np.inf, 0.1)))
    text = assemble(least, [buffer("a")], buffer("b")).text
    bits = struct.unpack("<I", struct.pack("<f", -np.inf))[0]
    assert f"vec4<f32>(bitcast<f32>({bits}u | no_bits), 0.10000000149011612f, 0.0f, 0.0f)" in text
    with pytest.raises(UnsupportedError, match="too large for a kernel's parameters"):
        assemble(replace(POOL, own=(2**31, *POOL.own[1:])), [buffer("a")], buffer("b"))
    with pytest.raises(UnsupportedError, match="too large for a kernel's parameters"):
        assemble(replace(POOL, function=Function("clip", (0.0, 1e39))), [buffer("a")], buffer("b"))


def test_what_does_not_fit_the_kernel_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="pool has 12 parameters of its own, not 1"):
        assemble(replace(POOL, own=(1,)), [buffer("a")], buffer("b"))
    with pytest.raises(UnsupportedError, match=r"would need a grid of \(65536, 1, 1\)"):
        assemble(replace(POOL, workgroups=(65536, 1, 1)), [buffer("a")], buffer("b"))
    with pytest.raises(UnsupportedError, match="at most 5 inputs and 2 weights"):
        assemble(replace(POOL, inputs=(0,) * 6), [buffer("a")] * 6, buffer("b"))
    with pytest.raises(ToolError, match=r"no GPU kernel nothing in .*; there are "):
        kernel_text("nothing")
    with pytest.raises(UnsupportedError, match="no GPU kernel has the function nothing"):
        finish_text(Function("nothing"))


def test_a_function_brings_what_it_calls_and_no_more() -> None:
    clip = replace(POOL, function=Function("clip", (0.0, 1.0)))
    text = assemble(clip, [buffer("a")], buffer("b")).text
    names = re.findall(r"^fn (\w+)\(", text, re.MULTILINE)
    assert [n for n in names if n.startswith(("function", "finish", "safe"))] == ["function_clip", "finish"]
    assert all(len(re.findall(rf"\b{n}\(", text)) > 1 for n in names)
    assert finish_text(None) == finish_text(Function("identity"))


def test_every_kernel_has_one_entry_and_members_of_four_bytes() -> None:
    assert len(kernels()) > 9
    for name in kernels():
        text = kernel_text(name)
        assert text.count("@compute") == 1, name
        assert "fn main(" in text, name
        own = re.search(r"^struct Own \{([^}]*)\}", text, re.MULTILINE)
        kinds = re.findall(r"(\w+): *([\w<>]+)", re.sub(r"//.*", "", own[1])) if own else []
        assert all(kind in ("i32", "f32") for _, kind in kinds), name


def test_a_grid_has_at_least_as_many_invocations_and_no_side_too_long() -> None:
    for count, size in (
        (0, 64),
        (1, 64),
        (64, 64),
        (65, 64),
        (MOST_WORKGROUPS * 64 + 1, 64),
        (10**7, 1),
        (3 << 28, 64),
    ):
        x, y, z = grid(count, size)
        assert x <= MOST_WORKGROUPS
        assert y <= MOST_WORKGROUPS
        assert z == 1
        assert count <= x * y * size < count + size * (y + 1)


def test_marked_loops_are_written_out() -> None:
    text = "for (var r = 0; r < N; r++) {  // unroll\nfor (var k = 0; k < 2; k++) { a[r] += k * bar; }\n}end"
    blocks = [f"{{\nfor (var k = 0; k < 2; k++) {{ a[{r}] += k * bar; }}\n}}\n" for r in range(2)]
    assert unroll(text, {"N": 2}) == "".join(blocks) + "end"
    assert unroll(text, {}) == text
    nested = "for (var r = 0; r < N; r++) {  // unroll\nfor (var k = 0; k < M; k++) {  // unroll\nf(r, k);\n}\n}\n"
    assert re.findall(r"f\(\d, \d\)", unroll(nested, {"N": 2, "M": 3})) == [
        f"f({r}, {k})" for r in range(2) for k in range(3)
    ]


@given(
    st.lists(st.integers(1, 5), min_size=0, max_size=5).map(tuple),
    st.sampled_from(("", "nchw", "nhwc")),
    st.integers(0, 9),
)
def test_texels_hold_each_element_at_its_place(shape: tuple[int, ...], layout: str, row: int) -> None:
    form = stored(shape, layout)  # type: ignore[arg-type]
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    texels = pack(values, form, fill=np.nan)
    assert texels.shape == (form.slices, form.height, form.width, form.batch, 4)
    assert np.isfinite(texels).sum() == values.size
    assert unpack(from_image(to_image(texels, form, row), form, row), form).ravel().tolist() == values.ravel().tolist()
    if len(shape) == 4:
        b, y, x, c = (n - 1 for n in form.dims)
        last = texels[c // 4, y, x, b, c % 4]
        assert last == (values[b, c, y, x] if layout == "nchw" else values[b, y, x, c])
        image = to_image(texels, form)
        assert image[y * form.slices + c // 4, x * form.batch + b, c % 4] == last


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.sampled_from((1, 2, 4)))
def test_packed_weights_stand_where_the_kernel_reads_them(groups: int, ins: int, outs: int, block: int) -> None:
    """Each weight once, at the slice of its input channel, counted from the first slice that its block reads."""
    weights = np.arange(1, groups * outs * ins + 1, dtype=np.float32).reshape(groups * outs, 1, 1, ins)
    packed = pack_weights(weights, groups, block)
    firsts, slices = reading(groups * outs, ins, groups, block)
    assert packed.shape == (len(firsts), 1, 1, slices, block, 4, 4)
    assert np.count_nonzero(packed) == weights.size
    for out in range(groups * outs):
        for k in range(ins):
            of, rest = divmod(out, block * 4)
            channel = out // outs * ins + k - firsts[of] * 4
            assert packed[of, 0, 0, channel // 4, rest // 4, channel % 4, rest % 4] == weights[out, 0, 0, k]


def test_tilings_leave_few_threads_idle() -> None:
    for positions, outs in ((1, 1000), (49, 1024), (12544, 32), (289, 192), (64, 3)):
        tiling = choose(positions, outs, 32, 1, busy=32)
        assert WORKGROUP % tiling.lanes == 0
        blocks = len(reading(outs, 32, 1, tiling.block)[0])
        done = tiling.workgroups(positions, blocks) * WORKGROUP * tiling.repeat * tiling.block
        assert done >= positions * -(-outs // 4)
        assert tiling.workgroups(positions, blocks) <= 32 or done <= 1.5 * positions * -(-outs // 4)


def test_weights_are_cut_where_a_binding_ends() -> None:
    assert list(parts(10, 1 << 25)) == [(0, 4), (4, 8), (8, 10)]
    assert list(parts(3, 1 << 28)) == [(0, 1), (1, 2), (2, 3)]
