"""Random operators as esp-tflite-micro's kernels hand them to ESP-NN in plain C, with the workspace that counts."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.micro_workspace import written_by
from tests.oracle.kernel_guard.draws import Call, channels, slid, window
from tests.oracle.kernel_guard.image import Image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

__all__ = ["OPERATORS"]

_PROFILE: Final = "esp-nn"
_LIMITS: Final = -128, 127


def _scales(rng: Random, image: Image, count: int) -> tuple[int, int]:
    """Addresses of a shift and a multiplier for each channel."""
    shifts = image.words(*(rng.randint(-9, 1) for _ in range(count)))
    return shifts, image.words(*(rng.randint(1 << 30, (1 << 31) - 1) for _ in range(count)))


def _convolution(rng: Random) -> Call | None:
    """One image: the kernel is called for each. Dilated ones go to the reference kernels."""
    given, kernel, stride, _ = window(rng)
    depth, outputs, found = channels(rng), channels(rng), slid(rng, given, kernel, stride, (1, 1))
    if found is None:
        return None
    (made, before), image = found, Image(rng)
    arguments = (
        image.words(*given[::-1], depth, 1),
        image.given("x", prod(given) * depth),
        image.words(*kernel[::-1], depth, 0),
        image.given("w", outputs * prod(kernel) * depth),
        image.given("bias", 4 * outputs),
        image.words(*made[::-1], outputs, 1),
        image.room("y", prod(made) * outputs),
        image.words(5, 3, *stride[::-1], *before[::-1], 1, 1, *_LIMITS),
        image.words(*_scales(rng, image, outputs)),
    )
    return Call("esp_nn_conv_s8_opt", arguments, image, f"{given} {depth} {kernel} {stride} {before} {made} {outputs}")


def _depthwise(rng: Random) -> Call | None:
    given, kernel, stride, _ = window(rng)
    depth, times, found = channels(rng), rng.choice((1, 1, 2, 3, 4, 8)), slid(rng, given, kernel, stride, (1, 1))
    if found is None:
        return None
    (made, before), image, outputs = found, Image(rng), depth * times
    arguments = (
        image.words(*given[::-1], depth, 1),
        image.given("x", prod(given) * depth),
        image.words(*kernel[::-1], outputs, 0),
        image.given("w", prod(kernel) * outputs),
        image.given("bias", 4 * outputs),
        image.words(*made[::-1], outputs, 1),
        image.room("y", prod(made) * outputs),
        image.words(5, 3, times, *stride[::-1], *before[::-1], 1, 1, *_LIMITS),
        image.words(*_scales(rng, image, outputs)),
    )
    about = f"{given} {depth} {times} {kernel} {stride} {before} {made}"
    return Call("esp_nn_depthwise_conv_s8_opt", arguments, image, about)


def _pool(rng: Random, kind: str) -> Call | None:
    given, kernel, stride, _ = window(rng)
    depth, found = channels(rng), slid(rng, given, kernel, stride, (1, 1))
    if found is None:
        return None
    (made, before), image = found, Image(rng)
    ends = image.given("x", prod(given) * depth), image.room("y", prod(made) * depth)
    sizes = (*made[::-1], *stride[::-1], *kernel[::-1], *before[::-1])
    arguments = (ends[0], *given[::-1], ends[1], *sizes, *_LIMITS, depth)
    return Call(f"esp_nn_{kind}_pool_s8_ansi", arguments, image, f"{given} {depth} {kernel} {stride} {before} {made}")


def _dense(rng: Random) -> Call:
    depth, outputs, image = channels(rng), channels(rng), Image(rng)
    ends = image.given("x", depth), image.given("w", depth * outputs), image.given("bias", 4 * outputs)
    made = image.room("y", outputs)
    before = (ends[0], 4, depth, ends[1], 0, ends[2], made, outputs, 3)
    if rng.random() < 0.5:
        arguments = (*before, *_scales(rng, image, outputs), *_LIMITS)
        return Call("esp_nn_fully_connected_per_ch_s8_ansi", arguments, image, f"{depth} {outputs}")
    return Call("esp_nn_fully_connected_s8_ansi", (*before, -4, 1 << 30, *_LIMITS), image, f"{depth} {outputs}")


def _elementwise(rng: Random, kind: str) -> Call:
    count, image = rng.randint(1, 200), Image(rng)
    first, second, made = image.given("x", count), image.given("z", count), image.room("y", count)
    scales = (0, 0, 1 << 30, 1 << 30, -2, -2, 10) if kind == "add" else (0, 0)
    arguments = (first, second, *scales, made, 0, 1 << 30, -8, *_LIMITS, count)
    return Call(f"esp_nn_{kind}_elementwise_s8_ansi", arguments, image, str(count))


def _softmax(rng: Random) -> Call:
    shape, image = tuple(rng.randint(1, 12) for _ in range(rng.randint(2, 4))), Image(rng)
    ends = Tensor("x", "int8", shape), Tensor("y", "int8", shape)
    graph = Graph("one", ends, (Op("op", "SOFTMAX", (0,), (1,)),), (0,), (1,))
    (size,) = written_by(graph, graph.ops[0], 4, _PROFILE)
    given, made, room = image.given("x", prod(shape)), image.room("y", prod(shape)), image.room("workspace", size)
    arguments = (given, prod(shape[:-1]), shape[-1], 1 << 30, 22, -100, made)
    return Call("esp_nn_softmax_s8_opt", arguments, image, str(shape), ("esp_nn_set_softmax_scratch_buf_opt", room))


OPERATORS: Final[Mapping[str, Callable[[Random], Call | None]]] = {
    "convolution": _convolution,
    "depthwise": _depthwise,
    "mean of windows": lambda rng: _pool(rng, "avg"),
    "maximum of windows": lambda rng: _pool(rng, "max"),
    "dense": _dense,
    "add": lambda rng: _elementwise(rng, "add"),
    "mul": lambda rng: _elementwise(rng, "mul"),
    "softmax": _softmax,
}
