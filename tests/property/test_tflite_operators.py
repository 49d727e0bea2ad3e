"""Random operators of .tflite files, whose sizes LiteRT says: tensor operations in NumPy against its kernels."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem_converters.tflite.model import TfliteConverter
from tests.oracle.tensor_ops import run_program
from tests.tflite_operators import Input, build, random_feeds, run

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("ai_edge_litert")

SEEDS = 25
Drawn = tuple[str, list[Input], tuple[str, dict[str, Any]]]


def image(chance: random.Random, channels: int = 0) -> Input:
    return Input((chance.randint(1, 2), chance.randint(1, 9), chance.randint(1, 9), channels or chance.randint(1, 6)))


def values(*shape: int) -> Input:
    return Input.of(np.random.default_rng(sum(shape)).uniform(-1, 1, shape))


def whole(numbers: Any) -> Input:
    return Input.of(numbers, "int32")


def window(chance: random.Random) -> dict[str, Any]:
    strides = {"strideH": chance.randint(1, 3), "strideW": chance.randint(1, 3)}
    return {**strides, "padding": chance.randint(0, 1), "fusedActivationFunction": chance.choice((0, 0, 1, 2, 3))}


def convolution(chance: random.Random) -> Drawn:
    groups, kept = chance.choice(((1, 3), (1, 5), (2, 2), (3, 1)))
    out = groups * chance.randint(1, 4)
    kernel = chance.randint(1, 4), chance.randint(1, 4)
    dilation = {"dilationHFactor": chance.randint(1, 3), "dilationWFactor": chance.randint(1, 3)}
    inputs = [image(chance, groups * kept), values(out, *kernel, kept), values(out)]
    return "CONV_2D", inputs, ("Conv2DOptions", {**window(chance), **dilation})


def depthwise(chance: random.Random) -> Drawn:
    x = image(chance)
    times = chance.randint(1, 3)
    channels = (x.shape or ())[3] * times
    dilation = {"dilationHFactor": chance.randint(1, 2), "dilationWFactor": chance.randint(1, 2)}
    inputs = [x, values(1, chance.randint(1, 4), chance.randint(1, 4), channels), values(channels)]
    options = {**window(chance), **dilation, "depthMultiplier": times}
    options["strideW"] = options["strideH"]  # the kernel takes no others
    return "DEPTHWISE_CONV_2D", inputs, ("DepthwiseConv2DOptions", options)


def transposed(chance: random.Random) -> Drawn:
    x, out = image(chance), chance.randint(1, 5)
    n, height, width, channels = x.shape or ()
    kernel = chance.randint(1, 4), chance.randint(1, 4)
    options = window(chance)
    sizes = []
    for size, step, reach in zip((height, width), (options["strideH"], options["strideW"]), kernel, strict=True):
        # Several sizes of the output have the input's size: any of them may be asked for.
        least = (size - 1) * step + (reach if options["padding"] else 1)
        sizes.append(least + chance.randrange(step))
    inputs = [whole([n, *sizes, out]), values(out, *kernel, channels), x]
    return "TRANSPOSE_CONV", inputs, ("TransposeConvOptions", options)


def pool(chance: random.Random) -> Drawn:
    kernel = {"filterHeight": chance.randint(1, 4), "filterWidth": chance.randint(1, 4)}
    return (
        chance.choice(("MAX_POOL_2D", "AVERAGE_POOL_2D")),
        [image(chance)],
        ("Pool2DOptions", {**window(chance), **kernel}),
    )


def resize(chance: random.Random) -> Drawn:
    kind = chance.choice((("RESIZE_BILINEAR", "Bilinear"), ("RESIZE_NEAREST_NEIGHBOR", "NearestNeighbor")))
    align, half = chance.choice(((False, False), (True, False), (False, True)))
    size = whole([chance.randint(1, 20), chance.randint(1, 20)])
    return (
        kind[0],
        [image(chance), size],
        (f"Resize{kind[1]}Options", {"alignCorners": align, "halfPixelCenters": half}),
    )


def strided_slice(chance: random.Random) -> Drawn:
    x = image(chance)
    count = chance.randint(1, 4)
    begin, end = ([chance.randint(-10, 10) for _ in range(count)] for _ in range(2))
    step = [chance.choice((1, 1, 2, 3, -1, -2)) for _ in range(count)]
    masks = {f"{name}Mask": chance.getrandbits(count) for name in ("begin", "end")}
    shrunk = chance.getrandbits(count) & chance.getrandbits(count)
    for axis in range(count):
        if shrunk >> axis & 1:
            size = (x.shape or ())[axis]
            begin[axis], step[axis] = chance.randrange(-size, size), 1
            end[axis] = begin[axis] + 1 or size
            masks = {name: mask & ~(1 << axis) for name, mask in masks.items()}
    special = {"shrinkAxisMask": shrunk, "ellipsisMask": 0, "newAxisMask": 0}
    if not shrunk and chance.random() < 0.3:
        special[chance.choice(("ellipsisMask", "newAxisMask"))] = 1 << chance.randrange(count)
    inputs = [x, whole(begin), whole(end), whole(step)]
    return "STRIDED_SLICE", inputs, ("StridedSliceOptions", {**masks, **special})


def mirrored(chance: random.Random) -> Drawn:
    x, mode = image(chance), chance.randint(0, 1)
    pads = [[chance.randint(0, d - 1 + mode), chance.randint(0, d - 1 + mode)] for d in x.shape or ()]
    return "MIRROR_PAD", [x, whole(pads)], ("MirrorPadOptions", {"mode": mode})


def reduced(chance: random.Random) -> Drawn:
    kind = chance.choice(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"))
    axes = chance.sample(range(-4, 4), chance.randint(1, 3))
    return kind, [image(chance), whole(axes)], ("ReducerOptions", {"keepDims": chance.random() < 0.5})


def batch_blocks(chance: random.Random) -> Drawn:
    x = image(chance)
    block = [chance.randint(1, 3), chance.randint(1, 3)]
    front = [chance.randint(0, 2), chance.randint(0, 2)]
    pads = [[a, a + -(d + 2 * a) % b] for d, a, b in zip((x.shape or ())[1:3], front, block, strict=True)]
    return "SPACE_TO_BATCH_ND", [x, whole(block), whole(pads)], ("SpaceToBatchNDOptions", {})


KINDS: tuple[Callable[[random.Random], Drawn], ...] = (
    *(convolution, depthwise, transposed, pool, resize, strided_slice, mirrored, reduced, batch_blocks),
)


def sized(kind: str, inputs: list[Input], options: tuple[str, dict[str, Any]]) -> bytes | None:
    """The file with the output's size that LiteRT gives it; None if LiteRT refuses the operator, or it has no size."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(
        model_content=build(kind, inputs, [((1,), "float32")], options), experimental_op_resolver_type=kernels
    )
    try:
        interpreter.allocate_tensors()
    except RuntimeError:
        return None
    shape = tuple(int(d) for d in interpreter.get_output_details()[0]["shape"])
    return build(kind, inputs, [(shape, "float32")], options) if 0 not in shape else None


@pytest.mark.parametrize("draw", KINDS)
def test_random_operators_are_what_litert_computes(draw: Callable[[random.Random], Drawn]) -> None:
    computed = 0
    for seed in range(SEEDS):
        data = sized(*draw(random.Random(seed)))
        if data is None:
            continue
        feeds = random_feeds(data, seed)
        expected = run(data, feeds)
        program = TfliteConverter.from_bytes(data).program()
        assert not isinstance(program.steps[0], str), (seed, program.steps)
        found = run_program(program, feeds)
        for index, value in expected.items():
            spread = float(value.std()) or 1.0
            np.testing.assert_allclose(found[index] / spread, value / spread, rtol=1e-5, atol=1e-5, err_msg=str(seed))
        computed += 1
    assert computed > SEEDS // 3
