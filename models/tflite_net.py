"""One description of a network as a .tflite file, float32 or int8, with random weights at the scales of a trained one.

Shapes are NHWC. While layers are added, a few random images are computed through them in numpy. Each convolution's
weights are divided by the standard deviation that its results have there, and its bias takes their mean away, as
batch normalisation folded into a trained network does. The ranges of the same values decide an int8 network's scales.
So activations neither saturate nor vanish, however deep the network is.

The statistics are rounded, so that another machine's order of additions does not change a byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

SEEN_PIXELS = 2 * 224 * 224  # of the input images that the statistics are from
MOST_IMAGES = 16
INPUT_LIMIT = math.sqrt(3)  # uniform values between this and its negative have a variance of 1
BIAS_STD = 0.3
RANGE_MARGIN = 1.1  # other inputs go beyond the range that was seen
SIGNIFICANT_BITS = 10
SCHEMA_VERSION = 3
RELU6_LIMIT = 6.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How int8 values stand for real ones: real = step * (value - zero_point)."""

    step: float
    zero_point: int


RELU6_SCALE = Scale(RELU6_LIMIT / 255, -128)
LOGITS_SCALE = Scale(12 / 255, 0)  # six standard deviations to either side


@dataclass(frozen=True, slots=True, eq=False)
class LayerTensor:
    """A tensor that layers read and write.

    Attributes:
        index: of the tensor in the file.
        seen: its real values for the images that the statistics are from, [images, height, width, channels].
        scale: of an int8 network.
    """

    index: int
    seen: Reals
    scale: Scale

    @property
    def channels(self) -> int:
        """How many it has."""
        return int(self.seen.shape[3])


class TfliteNet:
    """Collects layers; every method adds one and returns its output. `seed` draws weights and statistics' images."""

    def __init__(self, *, int8: bool, seed: int = 0) -> None:
        self._int8 = int8
        self._rng = np.random.default_rng(seed)
        self._graph = schema.SubGraphT()
        self._graph.name = "main"
        self._graph.tensors, self._graph.operators = [], []
        self._model = schema.ModelT()
        self._model.version = SCHEMA_VERSION
        self._model.description = "random weights"
        self._model.buffers, self._model.operatorCodes = [schema.BufferT()], []
        self._model.subgraphs = [self._graph]
        self._inputs: list[int] = []

    def input(self, name: str, height: int, width: int, channels: int) -> LayerTensor:
        """An input of batch 1."""
        images = min(max(SEEN_PIXELS // (height * width), 2), MOST_IMAGES)
        seen = self._rng.uniform(-INPUT_LIMIT, INPUT_LIMIT, (images, height, width, channels))
        value = self._value(name, seen, Scale(2 * INPUT_LIMIT / 255, 0))
        self._inputs.append(value.index)
        return value

    def conv(
        self,
        name: str,
        x: LayerTensor,
        channels: int,
        kernel: int = 1,
        *,
        stride: int = 1,
        relu6: bool,
        one_scale: bool = False,
    ) -> LayerTensor:
        """A convolution with batch normalisation folded into it; its padding is `SAME`.

        `one_scale`: all channels are normalised together, where one pixel an image tells too little of each.
        """
        drawn = self._rng.standard_normal((channels, kernel, kernel, x.channels))
        windows = _windows(x.seen, kernel, stride)
        raw = sum(window @ drawn[:, dy, dx].T for (dy, dx), window in windows)
        options = schema.Conv2DOptionsT()
        return self._normalised(
            name, "CONV_2D", options, x, drawn, 0, np.asarray(raw), stride=stride, relu6=relu6, one_scale=one_scale
        )

    def depthwise(
        self, name: str, x: LayerTensor, kernel: int = 3, *, stride: int = 1, dilation: int = 1, relu6: bool
    ) -> LayerTensor:
        """A depthwise convolution with batch normalisation folded into it; its padding is `SAME`."""
        drawn = self._rng.standard_normal((1, kernel, kernel, x.channels))
        raw = sum(window * drawn[0, dy, dx] for (dy, dx), window in _windows(x.seen, kernel, stride, dilation))
        options = schema.DepthwiseConv2DOptionsT()
        options.depthMultiplier = 1
        options.dilationHFactor = options.dilationWFactor = dilation
        return self._normalised(
            name, "DEPTHWISE_CONV_2D", options, x, drawn, 3, np.asarray(raw), stride=stride, relu6=relu6
        )

    def logits(self, name: str, x: LayerTensor, classes: int) -> LayerTensor:
        """A 1x1 convolution as classifiers end in; over the images its results have a mean of 0 and a variance of 1."""
        spread = _rounded(np.sqrt(x.seen.var(0).sum(-1).mean()) + 1e-6)
        weights = self._rng.standard_normal((classes, 1, 1, x.channels)) / spread
        raw = x.seen @ weights[:, 0, 0].T
        bias = -_rounded(raw.mean((0, 1, 2)))
        options = schema.Conv2DOptionsT()
        return self._convolution(
            name, "CONV_2D", options, x, weights, 0, bias, raw + bias, stride=1, relu6=False, scale=LOGITS_SCALE
        )

    def add(self, name: str, a: LayerTensor, b: LayerTensor) -> LayerTensor:
        """The sum of two tensors of one shape."""
        seen = a.seen + b.seen
        sum_ = self._value(name, seen, _scale_of(seen))
        self._operator("ADD", schema.AddOptionsT(), [a.index, b.index], sum_.index, version=2 if self._int8 else 1)
        return sum_

    def average_pool(self, name: str, x: LayerTensor) -> LayerTensor:
        """The mean over all pixels; an int8 one has the scale of what it is of, as the operator wants it."""
        mean = self._value(name, x.seen.mean((1, 2), keepdims=True), x.scale)
        options = schema.Pool2DOptionsT()
        options.padding = schema.Padding.VALID
        options.strideH = options.strideW = 1
        options.filterHeight, options.filterWidth = x.seen.shape[1:3]
        self._operator("AVERAGE_POOL_2D", options, [x.index], mean.index, version=2 if self._int8 else 1)
        return mean

    def concat(self, name: str, *parts: LayerTensor) -> LayerTensor:
        """Tensors of one height and width behind each other along the channels; float32 only."""
        joined = self._value(name, np.concatenate([part.seen for part in parts], axis=3), parts[0].scale)
        options = schema.ConcatenationOptionsT()
        options.axis = 3
        self._operator("CONCATENATION", options, [part.index for part in parts], joined.index, version=1)
        return joined

    def resize(self, name: str, x: LayerTensor, height: int, width: int) -> LayerTensor:
        """Bilinear, corner on corner; float32 only."""
        seen = _interpolated(_interpolated(x.seen, 1, height), 2, width)
        resized = self._value(name, seen, x.scale)
        size = self._constant(f"{name}/size", np.array((height, width), np.int32))
        options = schema.ResizeBilinearOptionsT()
        options.alignCorners = True
        self._operator("RESIZE_BILINEAR", options, [x.index, size], resized.index, version=1)
        return resized

    def softmax(self, name: str, x: LayerTensor) -> LayerTensor:
        """Over the channels; float32 only."""
        powers = np.exp(x.seen - x.seen.max(3, keepdims=True))
        value = self._value(name, powers / powers.sum(3, keepdims=True), Scale(1 / 256, -128))
        options = schema.SoftmaxOptionsT()
        options.beta = 1.0
        self._operator("SOFTMAX", options, [x.index], value.index, version=1)
        return value

    def content(self, *outputs: LayerTensor) -> bytes:
        """The .tflite file with these outputs."""
        self._graph.inputs = np.array(self._inputs, np.int32)
        self._graph.outputs = np.array([value.index for value in outputs], np.int32)
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self._model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    # What a layer is made of

    def _normalised(
        self,
        name: str,
        operator: str,
        options: Any,
        x: LayerTensor,
        drawn: Reals,
        channel_axis: int,
        raw: Reals,
        *,
        stride: int,
        relu6: bool,
        one_scale: bool = False,
    ) -> LayerTensor:
        """A convolution whose results have the mean of a small random bias and a variance of 1; `raw` without both."""
        over = (0, 1, 2, 3) if one_scale else (0, 1, 2)
        gain = np.broadcast_to(_rounded(1 / np.maximum(raw.std(over), 1e-6)), raw.shape[3])
        bias = _rounded(self._rng.standard_normal(raw.shape[3]) * BIAS_STD - raw.mean(over) * gain)
        along = [-1 if axis == channel_axis else 1 for axis in range(4)]
        seen = raw * gain + bias
        if relu6:
            seen = np.clip(seen, 0, RELU6_LIMIT)
        weights = drawn * gain.reshape(along)
        return self._convolution(
            name, operator, options, x, weights, channel_axis, bias, seen, stride=stride, relu6=relu6
        )

    def _convolution(
        self,
        name: str,
        operator: str,
        options: Any,
        x: LayerTensor,
        weights: Reals,
        channel_axis: int,
        bias: Reals,
        seen: Reals,
        *,
        stride: int,
        relu6: bool,
        scale: Scale | None = None,
    ) -> LayerTensor:
        options.padding = schema.Padding.SAME
        options.strideH = options.strideW = stride
        kind = schema.ActivationFunctionType
        options.fusedActivationFunction = kind.RELU6 if relu6 else kind.NONE
        if self._int8:
            others = tuple(axis for axis in range(4) if axis != channel_axis)
            steps = (np.abs(weights).max(others) / 127).astype(np.float32)
            along = [-1 if axis == channel_axis else 1 for axis in range(4)]
            held = np.round(weights / steps.reshape(along)).astype(np.int8)
            bias_steps = (np.float32(x.scale.step) * steps).astype(np.float32)
            constants = [
                self._constant(f"{name}/weights", held, steps, channel_axis),
                self._constant(f"{name}/bias", np.round(bias / bias_steps).astype(np.int32), bias_steps),
            ]
        else:
            constants = [
                self._constant(f"{name}/weights", weights.astype(np.float32)),
                self._constant(f"{name}/bias", bias.astype(np.float32)),
            ]
        output = self._value(name, seen, scale or (RELU6_SCALE if relu6 else _scale_of(seen)))
        self._operator(operator, options, [x.index, *constants], output.index, version=3 if self._int8 else 1)
        return output

    def _value(self, name: str, seen: Reals, scale: Scale) -> LayerTensor:
        kind = schema.TensorType.INT8 if self._int8 else schema.TensorType.FLOAT32
        tensor = self._tensor(name, kind, (1, *seen.shape[1:]))
        if self._int8:
            tensor.quantization = _quantisation(np.array([scale.step], np.float32), scale.zero_point)
        return LayerTensor(len(self._graph.tensors) - 1, seen, scale)

    def _constant(
        self, name: str, data: NDArray[Any], steps: NDArray[np.float32] | None = None, channel_axis: int = 0
    ) -> int:
        kinds = {"int8": schema.TensorType.INT8, "int32": schema.TensorType.INT32}
        tensor = self._tensor(name, kinds.get(data.dtype.name, schema.TensorType.FLOAT32), data.shape)
        if steps is not None:
            tensor.quantization = _quantisation(steps, 0, channel_axis)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(data.tobytes(), np.uint8)
        tensor.buffer = len(self._model.buffers)
        self._model.buffers.append(buffer)
        return len(self._graph.tensors) - 1

    def _tensor(self, name: str, kind: int, shape: Sequence[int]) -> Any:
        tensor = schema.TensorT()
        tensor.name, tensor.type, tensor.shape, tensor.buffer = name, kind, np.array(shape, np.int32), 0
        self._graph.tensors.append(tensor)
        return tensor

    def _operator(self, kind: str, options: Any, inputs: Sequence[int], output: int, *, version: int) -> None:
        operator = schema.OperatorT()
        operator.opcodeIndex = self._code(getattr(schema.BuiltinOperator, kind), version)
        operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array([output], np.int32)
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        operator.builtinOptions = options
        self._graph.operators.append(operator)

    def _code(self, builtin: int, version: int) -> int:
        codes = self._model.operatorCodes
        for place, code in enumerate(codes):
            if code.builtinCode == builtin:
                return place
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = builtin
        code.version = version
        codes.append(code)
        return len(codes) - 1


def _windows(x: Reals, kernel: int, stride: int, dilation: int = 1) -> list[tuple[tuple[int, int], Reals]]:
    """For each place in the kernel what lies under it at every output pixel; the padding is TFLite's `SAME`."""
    pads, sizes = [], []
    for size in x.shape[1:3]:
        out = -(-size // stride)
        total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
        pads.append((total // 2, total - total // 2))
        sizes.append((out - 1) * stride + 1)
    padded = np.pad(x, ((0, 0), *pads, (0, 0)))
    height, width = sizes
    return [
        ((dy, dx), padded[:, y : y + height : stride, x_ : x_ + width : stride])
        for dy, y in enumerate(range(0, kernel * dilation, dilation))
        for dx, x_ in enumerate(range(0, kernel * dilation, dilation))
    ]


def _interpolated(x: Reals, axis: int, size: int) -> Reals:
    """Linear along one axis, the first and the last element kept."""
    last = x.shape[axis] - 1
    places = np.linspace(0, last, size) if size > 1 else np.zeros(1)
    low = np.floor(places).astype(np.int64)
    part = (places - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    mixed: Reals = x.take(low, axis) * (1 - part) + x.take(np.minimum(low + 1, last), axis) * part
    return mixed


def _scale_of(seen: Reals) -> Scale:
    """A scale for the range of these values with a margin; it contains 0."""
    low, high = min(seen.min(), 0.0) * RANGE_MARGIN, max(seen.max(), 0.0) * RANGE_MARGIN
    step = float(_rounded(max(high - low, 1e-6) / 255))
    return Scale(step, int(np.clip(round(float(_rounded(-low / step))) - 128, -128, 127)))


def _quantisation(steps: NDArray[np.float32], zero_point: int, channel_axis: int = 0) -> Any:
    made = schema.QuantizationParametersT()
    made.scale, made.zeroPoint = steps, np.full(len(steps), zero_point, np.int64)
    made.quantizedDimension = channel_axis
    return made


def _rounded(values: Any) -> Reals:
    """With ten significant bits."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    rounded: Reals = np.ldexp(np.round(np.ldexp(mantissa, SIGNIFICANT_BITS)), exponent - SIGNIFICANT_BITS)
    return rounded
