"""Kernels that move elements, against the oracle: concatenations, and affine maps by texels and by elements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from edgemem.model import affine
from edgemem.model.tensor_ops import AffineMap, Concat, Function
from edgemem.runtime.webgpu.lowering import Lowering, lower
from tests.extent import run_for_seeds
from tests.oracle.tensor_ops import evaluate
from tests.webgpu import compute
from tests.webgpu_checks import agree, kernels, numbers

if TYPE_CHECKING:
    from edgemem.model.graph import Layout

LAYOUTS: tuple[Layout, ...] = ("nchw", "nhwc")
FOUR = (2, 6, 8, 10)
FIVE = (1, 5, 3, 2, 7)
# A map, the shapes it is between, and the kernel in the layouts nchw and nhwc.
MAPS = {
    "reshape to a matrix": (affine.reshape(0, 1, FOUR, (2, 480)), FOUR, (2, 480), "reshape", "reshape"),
    "reshape to rank three": (affine.reshape(0, 1, FOUR, (12, 8, 10)), FOUR, (12, 8, 10), "reshape", "affine_texels"),
    "reshape to rows": (affine.reshape(0, 1, FOUR, (2, 48, 10)), FOUR, (2, 48, 10), "reshape", "affine_texels"),
    "reshape of rank three": (affine.reshape(0, 1, (2, 48, 10), FOUR), (2, 48, 10), FOUR, "reshape", "move"),
    "tile of rows": (affine.tile(0, 1, FOUR, (1, 3, 1, 1)), FOUR, (2, 18, 8, 10), "affine", "affine_texels"),
    "reshape to itself": (affine.reshape(0, 1, FOUR, FOUR), FOUR, FOUR, "unary", "unary"),
    "flatten one position": (affine.reshape(0, 1, (2, 7, 1, 1), (2, 7)), (2, 7, 1, 1), (2, 7), "unary", "reshape"),
    "transpose 0231": (affine.transpose(0, 1, FOUR, (0, 2, 3, 1)), FOUR, (2, 8, 10, 6), "affine", "affine"),
    "transpose 2103": (affine.transpose(0, 1, FOUR, (2, 1, 0, 3)), FOUR, (8, 6, 2, 10), "move", "move"),
    "transpose 0213": (affine.transpose(0, 1, FOUR, (0, 2, 1, 3)), FOUR, (2, 8, 6, 10), "affine", "move"),
    "transpose 0132": (affine.transpose(0, 1, FOUR, (0, 1, 3, 2)), FOUR, (2, 6, 10, 8), "move", "affine"),
    "transpose of five": (
        affine.transpose(0, 1, FIVE, (0, 2, 1, 3, 4)),
        FIVE,
        (1, 3, 5, 2, 7),
        "affine_texels",
        "affine_texels",
    ),
    "slice of all axes": (
        affine.slice_(0, 1, FOUR, (0, 1, 2, 3), (1,) * 4, (2, 4, 5, 6)),
        FOUR,
        (2, 4, 5, 6),
        "move",
        "move",
    ),
    "slice from a slice on": (
        affine.slice_(0, 1, FOUR, (0, 4, 0, 4), (1,) * 4, (2, 2, 8, 6)),
        FOUR,
        (2, 2, 8, 6),
        "move",
        "move",
    ),
    "slice with steps": (
        affine.slice_(0, 1, FOUR, (1, 5, 7, 9), (-1, -1, -2, -3), (2, 6, 4, 4)),
        FOUR,
        (2, 6, 4, 4),
        "affine",
        "affine",
    ),
    "slice backwards": (
        affine.slice_(0, 1, FOUR, (1, 0, 7, 0), (-1, 1, -2, 1), (2, 6, 4, 10)),
        FOUR,
        (2, 6, 4, 10),
        "move",
        "move",
    ),
    "slice of five": (
        affine.slice_(0, 1, FIVE, (0, 1, 0, 0, 0), (1,) * 5, (1, 3, 3, 2, 7)),
        FIVE,
        (1, 3, 3, 2, 7),
        "move",
        "move",
    ),
    "tile": (affine.tile(0, 1, FOUR, (1, 2, 1, 2)), FOUR, (2, 12, 8, 20), "affine", "affine"),
    "expand axis 1": (affine.expand(0, 1, (2, 1, 8, 10), FOUR), (2, 1, 8, 10), FOUR, "affine", "move"),
    "expand axis 3": (affine.expand(0, 1, (2, 6, 8, 1), FOUR), (2, 6, 8, 1), FOUR, "move", "affine"),
    "batch to space": (
        affine.batch_to_space(0, 1, (4, 3, 5, 7), (2, 2), (1, 0), (1, 4, 9, 7)),
        (4, 3, 5, 7),
        (1, 4, 9, 7),
        "affine",
        "affine_texels",
    ),
    "space to batch": (
        affine.space_to_batch(0, 1, (1, 3, 5, 7), (2, 2), (1, 1), (4, 3, 4, 7)),
        (1, 3, 5, 7),
        (4, 3, 4, 7),
        "affine",
        "affine_texels",
    ),
    "six dimensions": (
        affine.transpose(0, 1, (2, 3, 2, 2, 3, 5), (5, 3, 4, 1, 2, 0)),
        (2, 3, 2, 2, 3, 5),
        (5, 2, 3, 3, 2, 2),
        "affine",
        "affine",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MAPS)
def test_affine_maps(name: str, layout: Layout) -> None:
    op, source, result, first, last = MAPS[name]
    assert kernels(op, {0: source, 1: result}, layout) == [first if layout == "nchw" else last]
    agree(op, {0: numbers(*source)}, result, layout, tolerance=0, half=0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("border", ["value", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("before", [(0, 0, 2, 1), (1, 2, 2, 3), (0, 3, 0, 0), (0, -1, 1, -2)], ids=str)
def test_borders(before: tuple[int, ...], border: affine.Border, layout: Layout) -> None:
    shape = (2, 6, 8, 10)
    ends = tuple(n + 2 * b for n, b in zip(shape, before, strict=True))
    op = affine.pad(0, 1, shape, before, ends, border, value=1.5)
    x = numbers(*shape)
    found = compute(op, {0: x}, ends, layout=layout)
    np.testing.assert_array_equal(found, evaluate(op, {0: x}, ends, layout))


@pytest.mark.parametrize("border", ["value", "edge", "reflect", "symmetric"])
def test_remainders_are_taken_of_numbers_that_cannot_be_negative(border: affine.Border) -> None:
    """Vulkan leaves others undefined: software drivers give what is meant, and NVIDIA's does not."""
    padded = affine.pad(0, 1, FOUR, (0, 3, 2, 2), (2, 12, 12, 14), border)
    blocks, source, result, _, _ = MAPS["space to batch"]
    shapes = ((padded, FOUR, (2, 12, 12, 14)), (blocks, source, result))
    made = [d for op, old, new in shapes for d in lower(op, Lowering({0: old, 1: new}, "nchw"))]
    texts = [str(text) for dispatch in made for _, text in dispatch.defines]
    remainders = re.findall(r"(\w+) %", "\n".join(texts))
    assert set(remainders) == {"rest"}  # of the number of an element or a position


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_padding_of_channels_moves_whole_texels(layout: Layout) -> None:
    before = (0, 3, 1, 0) if layout == "nchw" else (0, 1, 0, 3)
    op = affine.pad(0, 1, FOUR, before, (2, 12, 12, 15), value=-2)
    assert kernels(op, {0: FOUR, 1: (2, 12, 12, 15)}, layout) == ["move"]
    agree(op, {0: numbers(*FOUR)}, (2, 12, 12, 15), layout, tolerance=0, half=0)


@run_for_seeds(range(24), quick=4)
def test_random_maps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layout = LAYOUTS[seed % 2]
    shape = tuple(int(n) for n in rng.integers(1, 7, size=1 + seed % 6))
    op, ends = _random_map(rng, shape)
    x = numbers(*shape, seed=seed)
    found = compute(op, {0: x}, ends, layout=layout, storage=("buffer", "texture2d", "texture-linear")[seed % 3])
    np.testing.assert_array_equal(found, evaluate(op, {0: x}, ends, layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "first", [(2, 6, 5, 4), (1, 2, 3, 5, 8), (48, 5), (240,), (3, 5, 16), (2, 2, 3, 4, 5)], ids=str
)
def test_reshapes(first: tuple[int, ...], layout: Layout) -> None:
    x = numbers(*first)
    for last in (
        (2, 6, 5, 4),
        (2, 3, 2, 5, 4),
        (1, 2, 3, 5, 8),
        (12, 20),
        (240,),
        (1, 60, 2, 2),
        (80, 3),
        (2, 1, 1, 120),
    ):
        op = affine.reshape(0, 1, first, last)
        np.testing.assert_array_equal(compute(op, {0: x}, last, layout=layout), x.reshape(last))


def _random_map(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[AffineMap, tuple[int, ...]]:
    kind = rng.integers(4)
    if kind == 0:
        perm = tuple(int(i) for i in rng.permutation(len(shape)))
        return affine.transpose(0, 1, shape, perm), tuple(shape[i] for i in perm)
    if kind == 1:
        begin = tuple(int(rng.integers(n)) for n in shape)
        step = tuple(int(rng.choice([-2, -1, 1, 2])) for _ in shape)
        ends = tuple(1 + ((n - 1 - b) if s > 0 else b) // abs(s) for n, b, s in zip(shape, begin, step, strict=True))
        return affine.slice_(0, 1, shape, begin, step, ends), ends
    if kind == 2:
        before = tuple(int(rng.integers(-n + 1, 4)) for n in shape)
        ends = tuple(n + b + int(rng.integers(3)) for n, b in zip(shape, before, strict=True))
        return affine.pad(0, 1, shape, before, ends, value=0.5), ends
    repeats = tuple(int(rng.integers(1, 4)) for _ in shape)
    return affine.tile(0, 1, shape, repeats), tuple(n * r for n, r in zip(shape, repeats, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_pixel_shuffles(mode: Literal["DCR", "CRD"], blocks: int, layout: Layout) -> None:
    first = layout == "nchw"
    deep, wide = 3 * blocks * blocks, (4, 5)
    shape = (2, deep, *wide) if first else (2, *wide, deep)
    large = tuple(n * blocks for n in wide)
    ends = (2, 3, *large) if first else (2, *large, 3)
    op = affine.depth_to_space(0, 1, shape, blocks, mode=mode, channels_first=first)
    np.testing.assert_array_equal(
        compute(op, {0: numbers(*shape)}, ends, layout=layout), evaluate(op, {0: numbers(*shape)}, ends, layout)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", range(4))
def test_concatenations(axis: int, layout: Layout) -> None:
    shapes = [[2, 3, 5, 6] for _ in range(3)]
    for k, shape in enumerate(shapes):
        shape[axis] = (3, 1, 4)[k]
    feeds = {k: numbers(*shape, seed=k) for k, shape in enumerate(shapes)}
    ends = [2, 3, 5, 6]
    ends[axis] = 11
    op = Concat(inputs=(0, 1, 0, 2), output=3, axis=axis, function=Function("relu"))
    agree(op, feeds, ends, layout, tolerance=0, half=0)


@pytest.mark.parametrize("channels", [(8, 4, 12), (1,) * 11, (3, 5, 2, 1, 1, 1, 1, 1, 17, 4, 6), (2, 9)], ids=str)
def test_concatenations_of_channels(channels: tuple[int, ...]) -> None:
    feeds = {k: numbers(2, 3, n, seed=k) for k, n in enumerate(channels[1:], 1)}
    constant = {0: numbers(2, 3, channels[0])}
    op = Concat(inputs=tuple(range(len(channels))), output=50, axis=-1)
    ends = (2, 3, sum(channels))
    shapes = {k: (2, 3, n) for k, n in enumerate(channels)} | {50: ends}
    dispatches = lower(op, Lowering(shapes, "nhwc", constant))
    assert all(len(d.inputs) <= 5 for d in dispatches)
    ranges = [(d.own[0], d.own[0] + d.own[1]) for d in dispatches]
    assert [s for first, last in ranges for s in range(int(first), int(last))] == list(range(-(-sum(channels) // 4)))
    agree(op, feeds, ends, constants=constant, tolerance=0, half=0)


@pytest.mark.parametrize("axis", range(5))
def test_concatenations_of_five_axes(axis: int) -> None:
    shapes = [[2, 3, 2, 3, 5], [2, 3, 2, 3, 5]]
    shapes[1][axis] = 4
    ends = list(shapes[0])
    ends[axis] += 4
    feeds = {k: numbers(*shape, seed=k) for k, shape in enumerate(shapes)}
    op = Concat(inputs=(0, 1), output=2, axis=axis)
    found = compute(op, feeds, tuple(ends))
    np.testing.assert_array_equal(found, np.concatenate([feeds[0], feeds[1]], axis))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (6,), (3, 5), (3, 2, 5), (2, 3, 2, 5)], ids=str)
def test_tensors_that_lack_the_axis(shape: tuple[int, ...], layout: Layout) -> None:
    feeds = {k: numbers(*shape, seed=k) for k in range(3)}
    for axis in range(len(shape) + 1):
        expected = np.stack([feeds[k] for k in (0, 1, 2, 0, 1, 2, 1)], axis)
        op = Concat(inputs=(0, 1, 2, 0, 1, 2, 1), output=3, axis=axis)
        np.testing.assert_array_equal(compute(op, feeds, expected.shape, layout=layout), expected)


def test_grids_of_many_texels() -> None:
    x = np.arange(3 * 4 * 70000, dtype=np.float32).reshape(3, 70000, 4)  # more than 65535 columns
    op = affine.slice_(0, 1, x.shape, (0, 1, 0), (1, 1, 1), (3, 69999, 4))
    np.testing.assert_array_equal(compute(op, {0: x}, (3, 69999, 4)), x[:, 1:])
