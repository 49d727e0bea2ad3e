"""Targets for GPUs: sizes and places in slices of four channels, what shares memory there, and the proof of it."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem import planfile
from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.texture_layout import is_same_storage, stored
from edgemem.plans import SharedObjectsPlan
from edgemem.proof import verify_planset
from edgemem.proof.storage import gpu_bytes, has_same_places, texture_of
from edgemem.proof.violations import Cause
from edgemem.records.lifetime import lifetimes
from edgemem.records.problem import Problem
from edgemem.records.sizes import tensor_bytes
from edgemem.records.textures import TexelPlace, texel_extent, texel_place
from edgemem.targets import BUILT_IN, Target, find_target
from tests.oracle.memory_plans import gpu
from tests.oracle.memory_plans.program import Value

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.model.graph import Layout

BUFFER, TEXTURE, LINEAR = (BUILT_IN[name] for name in ("gpu-buffer", "gpu-texture", "gpu-texture-linear"))
ARRAY = BUILT_IN["gpu-texture-array"]
ARRAY_RULES = 'storage = "phwc4"\nbodies = "outside"\ntexel_row = 16\nlayer_rows = 4\n'
SHAPES = st.lists(st.integers(1, 9), max_size=6).map(tuple)
LAYOUTS: st.SearchStrategy[Layout] = st.sampled_from(["nchw", "nhwc"])


def net(*steps: tuple[str, str, str], layout: Layout = "nhwc", **shapes: tuple[int, ...]) -> Graph:
    """Operators as (type, letters read, letter written); x is the input, and the last one written the output."""
    names = list(shapes)
    tensors = tuple(Tensor(name, "float32", shape) for name, shape in shapes.items())
    ops = tuple(
        Op(f"{kind}{number}", kind, tuple(names.index(name) for name in read), (names.index(written),))
        for number, (kind, read, written) in enumerate(steps)
    )
    return Graph("net", tensors, ops, (0,), (names.index(steps[-1][2]),), layout)


def memories(graph: Graph, target: Target) -> list[str]:
    """The names of the tensors in each record, joined."""
    return ["".join(r.tensors) for r in lifetimes(graph, target).problem.records]


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        ('precision = "fp16"', 'precision is for storage = "phwc4"'),
        ("texels = true\ntexel_row = 64", 'texel_row is for storage = "phwc4"'),
        ('storage = "phwc4"\naliasing = "gpu"', "give bodies"),
        (
            'storage = "phwc4"\nbodies = "outside"',
            "alias rules of tensors .*, not 'elementwise'",
        ),
        ('storage = "phwc4"\nbodies = "outside"\naliasing = "gpu"\ntexels = true', "alias rules of textures"),
        ('storage = "phwc4"\nbodies = "outside"\naliasing = "gpu"\ntexel_row = 4', "texel_row is for textures"),
        ('storage = "phwc4"\nbodies = "outside"\naliasing = "gpu"\nslots = true', "cannot lie inside each other"),
        ('storage = "phwc4"\nkernels = "tflm-reference"', "cannot lie inside each other"),
        ('storage = "phwc4"\nbodies = "outside"\naliasing = "none"\nlayer_rows = 4', "layer_rows is 1 to texture_side"),
        (ARRAY_RULES + 'aliasing = "gpu"\nalignment = 1024', "alias rules of textures"),
        (ARRAY_RULES + 'aliasing = "none"\ntexels = true', "layer_rows is 1 to texture_side, and goes with"),
        ("layer_rows = 4", 'layer_rows is for storage = "phwc4"'),
        ('storage = "planar"', "storage is one of plain, phwc4"),
        ("texture_side = 0", "texture_side 0 is not 1 to"),
        ("texel_row = 9000", "texel_row 9000 is not 0 to texture_side, 8192"),
        ("binding = -1", "binding -1 is no number of bytes"),
    ],
)
def test_rules_that_exclude_each_other_are_refused(tmp_path: Path, rules: str, what: str) -> None:
    file = tmp_path / "gpu.toml"
    file.write_text(rules)
    with pytest.raises(ModelError, match=what):
        find_target(str(file))


def test_a_file_may_have_the_rules_of_a_gpu(tmp_path: Path) -> None:
    file = tmp_path / "phone.toml"
    file.write_text(
        'storage = "phwc4"\nprecision = "fp16"\nbodies = "outside"\naliasing = "gpu-views"\ntexels = true\n'
        "texel_row = 2048\ntexture_side = 4096\nalignment = 1\nbinding = 1024\n"
    )
    phone = find_target(str(file))
    assert (phone.precision, phone.element_bytes, phone.texel_row, phone.texture_side) == ("fp16", 2, 2048, 4096)
    assert not phone.is_dense
    with pytest.raises(ModelError, match="textures, which cannot lie inside each other"):
        phone.changed(slots=True)
    with pytest.raises(ModelError, match="slices of four channels, which cannot lie inside each other"):
        BUFFER.changed(kernels="tflm-reference")


@pytest.mark.parametrize(
    ("shape", "target", "place"),
    [
        ((1, 5, 7, 6), TEXTURE, TexelPlace(7, 10, linear=False, row=0)),
        ((2, 5, 7, 4), TEXTURE, TexelPlace(14, 5, linear=False, row=0)),
        ((9,), TEXTURE, TexelPlace(1, 3, linear=False, row=0)),
        ((), TEXTURE, TexelPlace(1, 1, linear=False, row=0)),
        ((2, 3, 4, 5, 6), TEXTURE, TexelPlace(10, 24, linear=False, row=0)),
        ((1, 8192, 8192, 4), TEXTURE, TexelPlace(8192, 8192, linear=False, row=0)),
        # One more column, or slice, than a texture has: rows of 1024, and of more where there are too many rows.
        ((1, 1, 8193, 4), TEXTURE, TexelPlace(1024, 9, linear=True, row=1024)),
        ((1, 4, 4, 65544), TEXTURE, TexelPlace(1024, 257, linear=True, row=1024)),
        ((1, 1024, 8193, 4), TEXTURE, TexelPlace(2048, 4097, linear=True, row=2048)),
        ((1, 4096, 16384, 4), TEXTURE, TexelPlace(8192, 8192, linear=True, row=8192)),
        ((1, 5, 7, 6), LINEAR, TexelPlace(70, 1, linear=True, row=1024)),
        ((1, 64, 64, 5), LINEAR, TexelPlace(1024, 8, linear=True, row=1024)),
        ((1, 1024, 8192, 8), LINEAR, TexelPlace(2048, 8192, linear=True, row=2048)),
        ((1, 1, 7, 4), replace(TEXTURE, texture_side=3), TexelPlace(3, 3, linear=True, row=3)),
    ],
)
def test_texels_have_places(shape: tuple[int, ...], target: Target, place: TexelPlace) -> None:
    assert texel_place(stored(shape, "nhwc"), target) == place


def test_more_texels_than_a_texture_has_are_an_error_that_names_the_tensor() -> None:
    for target in (TEXTURE, LINEAR):
        graph = net(("CONV_2D", "x", "a"), ("CONV_2D", "a", "y"), x=(1, 2), a=(1, 8192, 8193, 4), y=(1, 2))
        with pytest.raises(UnsupportedError, match="'a': its 67117056 texels are more than the 8192 x 8192"):
            edgemem.plan(graph, target=target)


def test_more_bytes_than_a_binding_has_are_an_error_that_names_the_tensor() -> None:
    graph = net(("CONV_2D", "x", "a"), ("CONV_2D", "a", "y"), x=(1, 2), a=(1, 1024, 8192, 5), y=(1, 2))
    with pytest.raises(UnsupportedError, match="'a' takes 268435456 bytes, and target 'gpu-buffer' binds 134217728"):
        edgemem.plan(graph, target=BUFFER)
    assert edgemem.plan(graph, target="gpu-texture-linear").best_shared_objects is not None
    half = net(("CONV_2D", "x", "a"), ("CONV_2D", "a", "y"), x=(1, 2), a=(1, 1024, 8192, 8), y=(1, 2))
    assert edgemem.plan(half, target=replace(BUFFER, precision="fp16", binding=2**27)).best_offsets is not None


@given(SHAPES, LAYOUTS, st.sampled_from([0, 1, 3, 16]), st.sampled_from([4, 32, 8192]))
def test_sizes_are_those_of_the_places_of_all_elements(
    shape: tuple[int, ...], layout: Layout, row: int, side: int
) -> None:
    tensor, value = Tensor("t", "float32", shape), Value("t", "float32", shape)
    form = "onnx" if layout == "nchw" else "tflite"
    for precision in ("fp32", "fp16"):
        target = BUILT_IN["gpu-buffer" if precision == "fp32" else "gpu-buffer-fp16"]
        # The last slice has room for the channels that it lacks.
        assert tensor_bytes(tensor, target, layout) == gpu.size_of(value, form, target)
        assert gpu_bytes(tensor, layout, target) == gpu.size_of(value, form, target)
    target = replace(TEXTURE, texture_side=side, texel_row=min(row, side))
    expected = gpu.extent_of(value, form, target)
    assert texture_of(tensor, layout, target) == expected
    if expected is None:
        with pytest.raises(UnsupportedError, match="'t': its"):
            texel_extent(tensor, layout, target)
    else:
        assert texel_extent(tensor, layout, target) == expected


@given(st.data(), LAYOUTS)
def test_equal_storage_is_equal_places(data: st.DataObject, layout: Layout) -> None:
    one = data.draw(SHAPES)
    other = data.draw(st.permutations([*one, 1]).map(tuple) | SHAPES)
    form = "onnx" if layout == "nchw" else "tflite"
    is_same = is_same_storage(stored(one, layout), stored(other, layout))
    assert has_same_places(one, other, layout) == is_same
    if is_same:
        for target in (BUFFER, TEXTURE, LINEAR):
            places = [gpu.places_of(Value("t", "float32", shape), form, target) for shape in (one, other)]
            assert places[0] == places[1]


def test_any_dtype_has_a_place_and_what_is_opaque_has_none() -> None:
    kinds = ("float32", "int64", "bool", "int4", "float16")
    tensors = (*(Tensor(f"t{k}", dtype, (5,)) for k, dtype in enumerate(kinds)), Tensor("s", "string", (1,), "opaque"))
    ops = tuple(Op(f"o{k}", "Conv", (k,), (k + 1,)) for k in range(len(kinds)))
    made = lifetimes(Graph("g", tensors, ops, (0,), (4,)), BUFFER)
    assert [r.size for r in made.problem.records] == [32] * 5
    assert [name for name, _ in made.unplanned] == ["s"]


@pytest.mark.parametrize("target", [BUFFER, TEXTURE, LINEAR])
@pytest.mark.parametrize(
    ("layout", "before", "after", "is_view"),
    [
        ("nhwc", (1, 1, 1, 8), (1, 8), True),
        ("nchw", (1, 8, 1, 1), (1, 8), True),
        ("nchw", (1, 1, 4, 6), (1, 4, 6, 1), False),
        ("nhwc", (1, 4, 6, 8), (1, 24, 8), False),  # another width
        ("nhwc", (1, 4, 4, 8), (1, 16, 8), False),
        ("nhwc", (1, 1, 16, 8), (1, 16, 8), True),
        ("nchw", (1, 8, 4, 4), (1, 4, 4, 8), False),
        ("nhwc", (1, 2, 2, 8), (1, 32), False),
    ],
)
def test_a_view_has_each_element_at_the_same_place(
    layout: Layout, before: tuple[int, ...], after: tuple[int, ...], is_view: bool, target: Target
) -> None:
    graph = net(
        *(("CONV_2D", "x", "a"), ("RESHAPE", "a", "b"), ("CONV_2D", "b", "y")),
        layout=layout,
        x=(1, 8),
        a=before,
        b=after,
        y=(1, 8),
    )
    assert ("ab" in memories(graph, target)) == is_view
    planset = edgemem.plan(graph, target=target)
    assert verify_planset(planset, graph) == ()
    if not is_view:
        # The plan of somebody who takes it for one.
        records = planset.problem.records
        a, b = (next(r for r in records if r.name == name) for name in "ab")
        size = (8192, 8192) if target.texels else 2**20
        joined = replace(a, last_op=b.last_op, size=size, tensors=("a", "b"))
        forged = [joined, *(replace(r, size=size) for r in records if r.name not in "ab")]
        found = verify_planset(_apart(planset, forged), graph)
        assert Cause.CLOBBERED_INPUT in {v.cause for v in found}


def _apart(planset: edgemem.PlanSet, records: list[edgemem.UsageRecord]) -> edgemem.PlanSet:
    """The plan set with other records, each in an object of its own."""
    problem = Problem(records, alignment=planset.problem.alignment)
    sizes = tuple(r.size for r in records)
    total = sum(size if isinstance(size, int) else prod(size) for size in sizes)
    plan = SharedObjectsPlan("forged", {}, np.arange(len(records)), sizes, total, optimal=False)
    return replace(planset, problem=problem, offsets=(), shared_objects=(plan,))


@pytest.mark.parametrize(
    ("kind", "shapes", "joined"),
    [
        ("ADD", {"a": (1, 4, 4, 8), "b": (1, 4, 4, 8), "y": (1, 4, 4, 8)}, "ay"),
        ("ADD", {"a": (1, 1, 1, 8), "b": (1, 4, 4, 8), "y": (1, 4, 4, 8)}, "by"),
        ("ADD", {"a": (1, 4, 4, 8), "b": (8,), "y": (1, 4, 4, 8)}, "ay"),
        ("LESS", {"a": (3, 8), "b": (3, 8), "y": (3, 8)}, "ay"),
        ("ADD", {"a": (8, 1), "b": (1, 8), "y": (8, 8)}, ""),
        # As many elements and bytes, but each is another one.
        ("ADD", {"a": (1, 16), "b": (4, 1, 16), "y": (4, 1, 16)}, "by"),
        ("SOFTMAX", {"a": (1, 8), "b": (1, 8), "y": (1, 8)}, ""),
    ],
)
def test_a_result_overwrites_an_input_of_its_shape(kind: str, shapes: dict[str, tuple[int, ...]], joined: str) -> None:
    steps = (("CONV_2D", "x", "a"), ("CONV_2D", "x", "b"), (kind, "ab", "y"), ("CONV_2D", "y", "z"))
    graph = net(*steps, x=(1, 8), z=(1, 8), **shapes)  # type: ignore[arg-type]
    shared = [names for names in memories(graph, BUFFER) if len(names) > 1]
    assert shared == ([joined] if joined else [])
    assert verify_planset(edgemem.plan(graph, target=BUFFER), graph) == ()
    assert all(len(names) == 1 for names in memories(graph, TEXTURE))


@pytest.mark.parametrize("overwritten", "ab")
def test_the_proof_refuses_a_broadcast_input_that_is_overwritten(overwritten: str) -> None:
    steps = (("CONV_2D", "x", "a"), ("CONV_2D", "x", "b"), ("ADD", "ab", "y"), ("CONV_2D", "y", "z"))
    graph = net(*steps, x=(1, 8), a=(1, 1, 1, 8), b=(1, 4, 4, 8), y=(1, 4, 4, 8), z=(1, 8))
    planset = edgemem.plan(graph, target=replace(BUFFER, aliasing="none"))
    planset = replace(planset, target=BUFFER)
    records = {r.name: r for r in planset.problem.records}
    source, y = records[overwritten], records["y"]
    joined = replace(source, last_op=y.last_op, size=256, tensors=(overwritten, "y"))
    rest = [r for name, r in records.items() if name not in (overwritten, "y")]
    found = {v.cause for v in verify_planset(_apart(planset, [joined, *rest]), graph)}
    assert (Cause.CLOBBERED_INPUT in found) == (overwritten == "a")


def test_a_result_is_not_written_over_an_input_that_a_view_of_another_shape_reads() -> None:
    # b is a, and lies along another axis of the sum.
    steps = (("CONV_2D", "x", "a"), ("RESHAPE", "a", "b"), ("ADD", "ab", "y"), ("CONV_2D", "y", "z"))
    graph = net(*steps, x=(1, 8), a=(1, 1, 1, 8), b=(1, 8), y=(1, 1, 1, 8), z=(1, 8))
    assert memories(graph, BUFFER) == ["x", "ab", "y", "z"]


def test_textures_of_both_kinds_share_an_object() -> None:
    wide, high = (1, 1, 9000, 4), (1, 10, 1000, 4)  # nine rows of 1024; 1000 x 10
    steps = (("CONV_2D", "x", "a"), ("CONV_2D", "a", "b"), ("CONV_2D", "b", "c"), ("CONV_2D", "c", "y"))
    graph = net(*steps, x=(1, 4), a=wide, b=(1, 4), c=high, y=(1, 4))
    planset = edgemem.plan(graph, target=TEXTURE)
    best = planset.best_shared_objects
    assert best is not None
    places = {r.name: number for r, number in zip(planset.problem.records, best.assignment, strict=True)}
    assert places["a"] == places["c"]
    assert best.objects[places["a"]] == (1024, 10)
    assert verify_planset(planset, graph) == ()


def test_an_array_of_textures_has_offsets_in_whole_layers() -> None:
    # Two layers and a bit, one texel, and two layers: of 1024 x 4 texels.
    shapes = {"x": (1, 4), "a": (1, 8, 1025, 4), "b": (1, 4), "c": (1, 8, 1024, 4), "y": (1, 4)}
    steps = (("CONV_2D", "x", "a"), ("CONV_2D", "a", "b"), ("CONV_2D", "b", "c"), ("CONV_2D", "c", "y"))
    graph = net(*steps, **shapes)  # type: ignore[arg-type]
    for target, layer in ((ARRAY, 65536), (BUILT_IN["gpu-texture-array-fp16"], 32768)):
        assert target.layer_bytes == layer
        planset = edgemem.plan(graph, target=target)
        assert [r.size for r in planset.problem.records] == [layer * n for n in (1, 3, 1, 2, 1)]
        assert planset.best_offsets is not None
        assert planset.best_offsets.size == 4 * layer == planset.bounds.offsets
        assert not (planset.best_offsets.offsets % layer).any()
        assert verify_planset(planset, graph) == ()
        low = replace(planset.best_offsets, offsets=planset.best_offsets.offsets // 2)
        assert verify_planset(replace(planset, offsets=(low,)), graph)
    assert texel_place(stored((1, 8, 1025, 4), "nhwc"), ARRAY) == TexelPlace(1024, 4, linear=True, row=1024, layers=3)


def test_offsets_within_layers_are_refused() -> None:
    graph = net(("CONV_2D", "x", "a"), ("CONV_2D", "a", "y"), x=(1, 4), a=(1, 5), y=(1, 4))
    with pytest.raises(ModelError, match="the alignment 256 is no multiple of the 65536 bytes of a layer"):
        edgemem.plan(graph, target=ARRAY, alignment=256)
    planset = edgemem.plan(graph, target=BUFFER)
    forged = replace(planset, target=replace(ARRAY, alignment=256))
    assert Cause.MISALIGNED in {v.cause for v in verify_planset(forged, graph)}


def test_the_proof_knows_the_layers_that_a_tensor_takes() -> None:
    graph = net(("CONV_2D", "x", "a"), ("CONV_2D", "a", "y"), x=(1, 4), a=(1, 8, 1025, 4), y=(1, 4))
    planset = edgemem.plan(graph, target=ARRAY)
    for name, layers in (("a", 2), ("y", 0)):  # one less than 8200 texels take, and one texel
        records = [replace(r, size=layers * 65536) if r.name == name else r for r in planset.problem.records]
        found = {v.message for v in edgemem.verify(_apart(planset, records), graph)}
        assert f"{name!r} needs {(layers + 1) * 65536}, its record has {layers * 65536}" in found


def test_no_object_is_larger_than_a_texture() -> None:
    graph = net(("CONV_2D", "x", "a"), ("CONV_2D", "a", "y"), x=(1, 4), a=(1, 3, 3, 4), y=(1, 4))
    planset = edgemem.plan(graph, target=TEXTURE)
    records = [replace(r, size=(8193, 3)) if r.name == "a" else r for r in planset.problem.records]
    found = {v.cause for v in verify_planset(_apart(planset, records), graph)}
    assert Cause.OVER_CAPACITY in found
    planset = edgemem.plan(graph, target=BUFFER)
    small = replace(planset, target=replace(BUFFER, binding=64))
    assert Cause.OVER_CAPACITY in {v.cause for v in verify_planset(small, graph)}


def test_plans_of_the_targets_before_are_what_they_were() -> None:
    """Older files have targets of the same names: dense bytes, and textures of floats."""
    graph = net(
        ("CONV_2D", "x", "a"),
        ("RELU", "a", "b"),
        ("CONV_2D", "b", "y"),
        x=(1, 4),
        a=(1, 3, 3, 5),
        b=(1, 3, 3, 5),
        y=(1, 4),
    )
    for target, size in (
        (Target("gpu-buffer", alignment=256), 180),
        (Target("gpu-texture", alignment=1, aliasing="none", texels=True), (3, 6)),
    ):
        planset = edgemem.plan(graph, target=target)
        data = planfile.encode(planset)
        assert b"storage" not in data
        back = planfile.decode(data)
        assert back.target == target
        assert back.problem.records[0].size == size
        assert verify_planset(back, graph) == ()
