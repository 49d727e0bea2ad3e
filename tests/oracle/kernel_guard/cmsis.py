"""Random operators as tflite-micro's kernels hand them to CMSIS-NN, with the workspace that the product counts."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.model.cmsis_workspace import cmsis_overrun
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.micro_workspace import written_by
from tests.oracle.kernel_guard.draws import Call, channels, pair, slid, window
from tests.oracle.kernel_guard.image import Image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from edgemem.model.graph import Attribute

__all__ = ["OPERATORS"]

_PROFILE: Final = "cmsis-nn-dsp"
_ENDS: Final = "int8", "int16"
_WIDE: Final = {"int8": 1, "int16": 2, "int4": 1}


def _graph(kind: str, *read: Tensor, made: Tensor, **attributes: Attribute) -> Graph:
    op = Op("op", kind, tuple(range(len(read))), (len(read),), attributes=attributes)
    inputs = tuple(k for k, tensor in enumerate(read) if tensor.kind == "activation")
    return Graph("one", (*read, made), (op,), inputs, (len(read),))


class _Memory:
    """The image of one operator."""

    def __init__(self, rng: Random, graph: Graph) -> None:
        self.image, self._rng = Image(rng), rng
        self.pieces = written_by(graph, graph.ops[0], 4, _PROFILE)

    def context(self, piece: int) -> int:
        """The address of a context with one of the pieces; a null pointer where there is no such piece."""
        size = self.pieces[piece] if piece < len(self.pieces) else 0
        return self.image.words(self.image.room(f"workspace {piece}", size) if size else 0, 0)

    def scales(self, channels: int) -> int:
        """A multiplier and a shift for each channel."""
        return self.image.words(self.numbers(channels, 1 << 30, (1 << 31) - 1), self.numbers(channels, -9, 1))

    def numbers(self, count: int, least: int, most: int) -> int:
        return self.image.words(*(self._rng.randint(least, most) for _ in range(count)))

    def dims(self, *shape: int) -> int:
        return self.image.words(*shape)


def _convolution(rng: Random, dtype: str, weights: str) -> Call | None:
    image, kernel, stride, spread = window(rng)
    group = rng.choice((1, 1, 1, 2, 3, 4)) if weights == "int8" and dtype == "int8" else 1
    depth, outputs, batch = channels(rng), channels(rng), rng.choice((1, 1, 2))
    found = slid(rng, image, kernel, stride, spread)
    if found is None:
        return None
    made, before = found
    outputs *= group
    graph = _graph(
        "CONV_2D",
        Tensor("x", dtype, (batch, *image, depth * group)),
        Tensor("w", weights, (outputs, *kernel, depth), "constant"),
        made=Tensor("y", dtype, (batch, *made, outputs)),
        stride=stride,
        dilation=spread,
        pads=(*before, *before),
    )
    here = _Memory(rng, graph)
    size = outputs * prod(kernel) * depth
    bias = here.image.given("bias", 4 * outputs)
    if dtype == "int16":
        bias = here.image.words(here.image.given("long bias", 8 * outputs), 0)
    params = here.image.words(
        rng.randint(-127, 128) if dtype == "int8" else 0, 3, *stride[::-1], *before[::-1], *spread[::-1], -128, 127
    )
    arguments = (
        here.context(0),
        params,
        here.scales(outputs),
        here.dims(batch, *image, depth * group),
        here.image.given("x", _WIDE[dtype] * batch * prod(image) * depth * group),
        here.dims(outputs, *kernel, depth),
        here.image.given("w", -(-size // 2) if weights == "int4" else size),
        here.dims(1, 1, 1, outputs),
        bias,
        here.dims(batch, *made, outputs),
        here.image.room("y", _WIDE[dtype] * batch * prod(made) * outputs),
    )
    name = {"int4": "s4", "int8": "s8"}[weights] if dtype == "int8" else "s16"
    return Call(f"arm_convolve_wrapper_{name}", arguments, here.image, f"{graph.tensors} {graph.ops[0].attributes}")


def _depthwise(rng: Random, dtype: str, weights: str) -> Call | None:
    image, kernel, stride, spread = window(rng)
    depth, times, batch = channels(rng), rng.choice((1, 1, 1, 2, 3, 4, 8)), rng.choice((1, 1, 2))
    outputs, found = depth * times, slid(rng, image, kernel, stride, spread)
    if found is None:
        return None
    made, before = found
    graph = _graph(
        "DEPTHWISE_CONV_2D",
        Tensor("x", dtype, (batch, *image, depth)),
        Tensor("w", weights, (1, *kernel, outputs), "constant"),
        made=Tensor("y", dtype, (batch, *made, outputs)),
        stride=stride,
        dilation=spread,
        pads=(*before, *before),
    )
    here = _Memory(rng, graph)
    size = prod(kernel) * outputs
    params = here.image.words(
        rng.randint(-127, 128) if dtype == "int8" else 0,
        3,
        times,
        *stride[::-1],
        *before[::-1],
        *spread[::-1],
        -128,
        127,
    )
    arguments = (
        here.context(0),
        params,
        here.scales(outputs),
        here.dims(batch, *image, depth),
        here.image.given("x", _WIDE[dtype] * batch * prod(image) * depth),
        here.dims(1, *kernel, outputs),
        here.image.given("w", -(-size // 2) if weights == "int4" else size),
        here.dims(1, 1, 1, outputs),
        here.image.given("bias", 8 * outputs),
        here.dims(batch, *made, outputs),
        here.image.room("y", _WIDE[dtype] * batch * prod(made) * outputs),
    )
    name = {"int4": "wrapper_s4", "int8": "wrapper_s8"}[weights] if dtype == "int8" else "s16"
    return Call(f"arm_depthwise_conv_{name}", arguments, here.image, f"{graph.tensors} {graph.ops[0].attributes}")


def _transposed(rng: Random) -> Call | None:
    given, kernel, stride = (rng.randint(1, 7), rng.randint(1, 7)), pair(rng, 1, 2, 3, 4, 5), pair(rng, 1, 2, 3, 4)
    depth, outputs, batch = rng.choice((1, 3, 4, 16, 17, 20)), rng.choice((1, 2, 3, 4, 8)), rng.choice((1, 1, 2))
    is_same, made, before = rng.random() < 0.5, [], []
    for size, reach, step in zip(given, kernel, stride, strict=True):
        least = (size - 1) * step + (1 if is_same else reach)
        extent = rng.choice((least, least + step - 1, least + rng.randint(0, step - 1)))
        if is_same and rng.random() < 0.6:
            extent = size * step
        made.append(extent)
        before.append(max(0, (size - 1) * step + reach - extent) // 2)
    graph = _graph(
        "TRANSPOSE_CONV",
        Tensor("shape", "int32", (4,), "constant"),
        Tensor("w", "int8", (outputs, *kernel, depth), "constant"),
        Tensor("x", "int8", (batch, *given, depth)),
        made=Tensor("y", "int8", (batch, *made, outputs)),
        stride=stride,
        pads=(*before, *before),
    )
    here = _Memory(rng, graph)
    params = here.image.words(5, 3, *stride[::-1], *before[::-1], 0, 0, 1, 1, -128, 127)
    overrun = cmsis_overrun(graph, graph.ops[0])  # the product refuses to plan these
    arguments = (
        here.context(0),
        here.context(1),
        params,
        here.scales(outputs),
        here.dims(batch, *given, depth),
        here.image.given("x", batch * prod(given) * depth),
        here.dims(outputs, *kernel, depth),
        here.image.given("w", outputs * prod(kernel) * depth),
        here.dims(1, 1, 1, outputs),
        here.image.given("bias", 4 * outputs) if rng.random() < 0.7 else 0,
        here.dims(batch, *made, outputs),
        here.image.room("y", batch * prod(made) * outputs + overrun),
    )
    return Call("arm_transpose_conv_wrapper_s8", arguments, here.image, f"{graph.tensors} {graph.ops[0].attributes}")


def _pool(rng: Random, kind: str, dtype: str) -> Call | None:
    image, kernel, stride, _ = window(rng)
    depth, found, batch = channels(rng), slid(rng, image, kernel, stride, (1, 1)), rng.choice((1, 1, 2))
    if found is None:
        return None
    made, before = found
    is_mean = kind == "mean"
    graph = _graph(
        "AVERAGE_POOL_2D" if is_mean else "MAX_POOL_2D",
        Tensor("x", dtype, (batch, *image, depth)),
        made=Tensor("y", dtype, (batch, *made, depth)),
    )
    here = _Memory(rng, graph)
    arguments = (
        here.context(0),
        here.image.words(*stride[::-1], *before[::-1], -128, 127),
        here.dims(batch, *image, depth),
        here.image.given("x", _WIDE[dtype] * batch * prod(image) * depth),
        here.dims(1, *kernel, 1),
        here.dims(batch, *made, depth),
        here.image.room("y", _WIDE[dtype] * batch * prod(made) * depth),
    )
    name = f"arm_{'avgpool' if is_mean else 'max_pool'}_s{8 * _WIDE[dtype]}"
    return Call(name, arguments, here.image, f"{graph.tensors} {graph.ops[0].attributes} {kernel} {stride} {before}")


def _dense(rng: Random, dtype: str, weights: str) -> Call:
    rows, depth, outputs = rng.choice(((rng.randint(1, 9),), (1, rng.randint(1, 9)))), channels(rng), channels(rng)
    is_scaled = dtype == "int8" and weights == "int8" and rng.random() < 0.5
    graph = _graph(
        "FULLY_CONNECTED",
        Tensor("x", dtype, (*rows, depth)),
        Tensor("w", weights, (outputs, depth), "constant"),
        made=Tensor("y", dtype, (*rows, outputs)),
        **({"scales": outputs} if is_scaled else {}),
    )
    here = _Memory(rng, graph)
    size, count = outputs * depth, prod(rows)
    is_product = len(rows) > 1 and depth % 4 == 0 and dtype == weights == "int8"
    data = (
        here.dims(count, 1, 1, depth),
        here.image.given("x", _WIDE[dtype] * count * depth),
        here.dims(depth, 1, 1, outputs),
        here.image.given("w", -(-size // 2) if weights == "int4" else size),
        here.dims(1, 1, 1, outputs),
        here.image.given("bias", (4 if dtype == "int8" else 8) * outputs),
        here.dims(count, 1, 1, outputs),
        here.image.room("y", _WIDE[dtype] * count * outputs),
    )
    if is_product:
        # The piece holds a multiplier and a shift for each channel where there is one; the kernel writes none.
        params = here.image.words(4, 3, 1, 1, 0, 0, 1, 1, -128, 127)
        arguments = (here.image.words(0, 0), params, here.scales(outputs), *data)
        return Call("arm_convolve_1x1_s8_fast", arguments, here.image, str(graph.tensors))
    params = here.image.words(4, 0, 3, -128, 127)
    if dtype == weights == "int8":
        quant = here.image.words(here.numbers(outputs, 1 << 30, (1 << 31) - 1), here.numbers(outputs, -9, 1), is_scaled)
        return Call("arm_fully_connected_wrapper_s8", (here.context(0), params, quant, *data), here.image, str(graph))
    quant = here.image.words(1 << 30, -4)
    name = "arm_fully_connected_s16" if dtype == "int16" else "arm_fully_connected_s4"
    return Call(name, (here.context(0), params, quant, *data), here.image, str(graph.tensors))


def _product(rng: Random, dtype: str) -> Call:
    batch, rows, depth, columns = rng.randint(1, 3), rng.randint(1, 9), rng.randint(1, 40), rng.randint(1, 20)
    graph = _graph(
        "BATCH_MATMUL",
        Tensor("x", dtype, (batch, rows, depth)),
        Tensor("w", dtype, (batch, depth, columns)),
        made=Tensor("y", dtype, (batch, rows, columns)),
    )
    here, wide = _Memory(rng, graph), _WIDE[dtype]
    arguments = (
        here.context(0),
        here.image.words(0, 4 if wide == 1 else 0, 5 if wide == 1 else 0, 3 if wide == 1 else 0, -128, 127),
        here.image.words(1 << 30, -4),
        here.dims(1, batch, rows, depth),
        here.image.given("x", wide * batch * rows * depth),
        here.dims(1, batch, columns, depth),
        here.image.given("w", wide * batch * columns * depth),
        here.dims(1, batch, rows, columns),
        here.image.room("y", wide * batch * rows * columns),
    )
    return Call(f"arm_batch_matmul_s{8 * wide}", arguments, here.image, str(graph.tensors))


def _svdf(rng: Random, state: str) -> Call:
    batch, depth, rank = rng.randint(1, 3), rng.randint(1, 30), rng.choice((1, 2, 3))
    units, memory = pair(rng, *range(1, 13))
    filters, wide = rank * units, _WIDE[state]
    graph = _graph(
        "SVDF",
        Tensor("x", "int8", (batch, depth)),
        Tensor("w", "int8", (filters, depth), "constant"),
        made=Tensor("y", "int8", (batch, units)),
    )
    here = _Memory(rng, graph)
    params = here.image.words(rank, 3, 4, -(1 << 15), (1 << 15) - 1, -128, 127)
    sums = (here.image.words(here.image.given("sums", 4 * filters), 0),) if wide == 1 else ()
    arguments = (
        *sums,
        here.context(0),
        here.context(1),
        params,
        here.image.words(1 << 30, -4),
        here.image.words(1 << 30, -4),
        here.dims(batch, depth, 0, 0),
        here.image.given("x", batch * depth),
        here.dims(units, 1, 0, 0),
        here.image.room("state", wide * batch * filters * memory),
        here.dims(filters, depth, 0, 0),
        here.image.given("w", filters * depth),
        here.dims(filters, memory, 0, 0),
        here.image.given("time", wide * filters * memory),
        here.dims(units, 0, 0, 0),
        here.image.given("bias", 4 * units),
        here.dims(batch, units, 0, 0),
        here.image.room("y", batch * units),
    )
    return Call("arm_svdf_s8" if wide == 1 else "arm_svdf_state_s16_s8", arguments, here.image, str(graph.tensors))


def _lstm(rng: Random, dtype: str) -> Call:
    batch, steps, depth, hidden = rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 20), rng.randint(1, 20)
    cells = Tensor("cells", "int16", (batch, hidden), "variable")
    others = (Tensor(f"i{k}", "int8", (hidden, hidden), "constant") for k in range(1, 19))
    graph = _graph(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        Tensor("x", dtype, (batch, steps, depth)),
        *others,
        cells,
        made=Tensor("y", dtype, (batch, steps, hidden)),
    )
    here, wide = _Memory(rng, graph), _WIDE[dtype]

    def gate(kind: int) -> tuple[int, ...]:
        weights = here.image.given("weights", hidden * depth), here.image.given("recurrent", hidden * hidden)
        sums = [here.image.given("sums", (4 if wide == 1 else 8) * hidden) for _ in range(2)]
        return (1 << 30, -6, weights[0], sums[0], 1 << 30, -6, weights[1], sums[1], 0, kind)

    gates = [number for kind in (0, 0, 1, 0) for number in gate(kind)]
    is_time_major = rng.randint(0, 1)
    params = here.image.words(
        is_time_major, batch, steps, depth, hidden, 3, 1 << 30, 0, 1 << 30, -8, 32767, -11, 1 << 30, -8, 4, *gates
    )
    rooms = [here.image.room(f"workspace {k}", size) for k, size in enumerate(here.pieces)]
    arguments = (
        here.image.given("x", wide * batch * steps * depth),
        here.image.room("y", wide * batch * steps * hidden),
        params,
        here.image.words(*rooms, 0),
    )
    return Call(f"arm_lstm_unidirectional_s{8 * wide}", arguments, here.image, str((batch, steps, depth, hidden)))


def _softmax(rng: Random, dtype: str, result: str) -> Call:
    rows, width = rng.randint(1, 9), rng.randint(1, 70)
    image = Image(rng)
    ends = image.given("x", _WIDE[dtype] * rows * width), image.room("y", _WIDE[result] * rows * width)
    if dtype == "int16":
        table = image.words(image.given("exp", 1026), image.given("one", 1026))
        return Call("arm_softmax_s16", (ends[0], rows, width, 1 << 30, 4, table, ends[1]), image, f"{rows, width}")
    name = "arm_softmax_s8" if result == "int8" else "arm_softmax_s8_s16"
    return Call(name, (ends[0], rows, width, 1 << 30, 22, -100, ends[1]), image, f"{rows, width}")


def _elementwise(rng: Random, kind: str, dtype: str) -> Call:
    count, image, wide = rng.randint(1, 200), Image(rng), _WIDE[dtype]
    first, second, made = image.given("x", wide * count), image.given("z", wide * count), image.room("y", wide * count)
    limits, scale = (-(1 << (8 * wide - 1)), (1 << (8 * wide - 1)) - 1), (0, 1 << 30, -2)
    scales = (0, 0, made) if kind == "mul" else (*scale, *scale, 10, made)
    arguments = (first, second, *scales, 0, 1 << 30, -8, *limits, count)
    return Call(f"arm_elementwise_{kind}_s{8 * wide}", arguments, image, str(count))


def _greatest(rng: Random, kind: str) -> Call:
    """The greater or the smaller of two numbers, one of which may be broadcast."""
    whole, image = [rng.randint(1, 5) for _ in range(4)], Image(rng)
    shapes = [[rng.choice((1, size)) for size in whole] for _ in range(2)]
    made = [max(sizes) for sizes in zip(*shapes, strict=True)]
    ends = [number for shape in shapes for number in (image.given("x", prod(shape)), image.words(*shape))]
    arguments = (image.words(0, 0), *ends, image.room("y", prod(made)), image.words(*made))
    return Call(f"arm_{kind}_s8", arguments, image, str(shapes))


def _pad(rng: Random) -> Call:
    image = Image(rng)
    shape, before, after = (tuple(rng.randint(low, 4) for _ in range(4)) for low in (1, 0, 0))
    full = prod(a + b + c for a, b, c in zip(shape, before, after, strict=True))
    ends = image.given("x", prod(shape)), image.room("y", full)
    return Call("arm_pad_s8", (*ends, 3, *(image.words(*row) for row in (shape, before, after))), image, str(shape))


def _moved(rng: Random) -> Call:
    image, rank = Image(rng), rng.randint(2, 4)
    shape, order = [rng.randint(1, 7) for _ in range(rank)], rng.sample(range(rank), rank)
    made = [shape[k] for k in order]
    ends = image.given("x", prod(shape)), image.room("y", prod(shape))
    dims = image.words(*shape, *(1,) * (4 - rank)), image.words(*made, *(1,) * (4 - rank))
    return Call("arm_transpose_s8", (*ends, *dims, image.words(rank, image.words(*order))), image, f"{shape} {order}")


OPERATORS: Final[Mapping[str, Callable[[Random], Call | None]]] = {
    "convolution": partial(_convolution, dtype="int8", weights="int8"),
    "convolution, int4": partial(_convolution, dtype="int8", weights="int4"),
    "convolution, int16": partial(_convolution, dtype="int16", weights="int8"),
    "depthwise": partial(_depthwise, dtype="int8", weights="int8"),
    "depthwise, int4": partial(_depthwise, dtype="int8", weights="int4"),
    "depthwise, int16": partial(_depthwise, dtype="int16", weights="int8"),
    "transposed": _transposed,
    **{f"{kind} of windows, {t}": partial(_pool, kind=kind, dtype=t) for kind in ("mean", "maximum") for t in _ENDS},
    "dense": partial(_dense, dtype="int8", weights="int8"),
    "dense, int4": partial(_dense, dtype="int8", weights="int4"),
    "dense, int16": partial(_dense, dtype="int16", weights="int8"),
    **{f"product, {dtype}": partial(_product, dtype=dtype) for dtype in _ENDS},
    **{f"SVDF, state of {dtype}": partial(_svdf, state=dtype) for dtype in _ENDS},
    **{f"LSTM, {dtype}": partial(_lstm, dtype=dtype) for dtype in _ENDS},
    "softmax": partial(_softmax, dtype="int8", result="int8"),
    "softmax, int8 to int16": partial(_softmax, dtype="int8", result="int16"),
    "softmax, int16": partial(_softmax, dtype="int16", result="int16"),
    **{f"{kind}, {dtype}": partial(_elementwise, kind=kind, dtype=dtype) for kind in ("add", "mul") for dtype in _ENDS},
    **{kind: partial(_greatest, kind=kind) for kind in ("maximum", "minimum")},
    "pad": _pad,
    "transpose": _moved,
}
