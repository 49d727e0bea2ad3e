"""Random .tflite models of operators that compute their outputs row by row, float32 or int8, and their runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SCALE, ZERO_POINT = 0.05, -3  # of all int8 activations: many kernels want them equal
UNARY = ("RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "ABS", "SOFTMAX", "LOGISTIC", "TANH")
UNARY_INT8 = ("RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH")
KINDS = (*("conv", "conv", "depthwise", "depthwise", "pool", "pad", "unary", "binary", "channels", "concatenation"),)


@dataclass
class RowNet:
    """Collects operators; every method appends one and returns the index of its output: (height, width, channels)."""

    int8: bool
    rng: np.random.Generator
    tensors: list[Any] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=lambda: [schema.BufferT()])
    inputs: list[int] = field(default_factory=list)

    def shape(self, tensor: int) -> tuple[int, int, int]:
        _, height, width, channels = (int(d) for d in self.tensors[tensor].shape)
        return height, width, channels

    def activation(self, height: int, width: int, channels: int) -> int:
        tensor = self._tensor((1, height, width, channels), "INT8" if self.int8 else "FLOAT32", f"t{len(self.tensors)}")
        if self.int8:
            tensor.quantization = schema.QuantizationParametersT(scale=[SCALE], zeroPoint=[ZERO_POINT])
        return len(self.tensors) - 1

    def input(self, height: int, width: int, channels: int) -> int:
        self.inputs.append(self.activation(height, width, channels))
        return self.inputs[-1]

    def conv(
        self,
        x: int,
        channels: int,
        kernel: tuple[int, int],
        stride: tuple[int, int],
        dilation: tuple[int, int],
        *,
        same: bool,
        depthwise: bool,
    ) -> int:
        height, width, given = self.shape(x)
        made = given * channels if depthwise else channels  # of a depthwise one, `channels` is the multiplier
        weights = (1, *kernel, made) if depthwise else (made, *kernel, given)
        options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
        if depthwise:
            options.depthMultiplier = channels
        options.strideH, options.strideW = stride
        options.dilationHFactor, options.dilationWFactor = dilation
        options.padding = schema.Padding.SAME if same else schema.Padding.VALID
        options.fusedActivationFunction = int(self.rng.choice([0, 1, 3]))  # none, RELU, RELU6
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        rows, columns = (
            -(-size // s) if same else (size - r) // s + 1
            for size, s, r in zip((height, width), stride, reach, strict=True)
        )
        out = self.activation(rows, columns, made)
        steps = [0.02] * made
        if self.int8:
            held: list[NDArray[Any]] = [
                self.rng.integers(-127, 128, weights).astype(np.int8),
                self.rng.integers(-300, 300, made).astype(np.int32),
            ]
            quantised = [(steps, 3 if depthwise else 0), ([SCALE * s for s in steps], 0)]
        else:
            held = [(self.rng.standard_normal(n) / 2).astype(np.float32) for n in (weights, (made,))]
            quantised = [None, None]  # type: ignore[list-item]
        constants = [self.constant(values, q) for values, q in zip(held, quantised, strict=True)]
        return self._add("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [x, *constants], out, options)

    def pool(self, x: int, kernel: tuple[int, int], stride: tuple[int, int], *, largest: bool, same: bool) -> int:
        height, width, channels = self.shape(x)
        padding = schema.Padding.SAME if same else schema.Padding.VALID
        options = schema.Pool2DOptionsT(padding, stride[1], stride[0], kernel[1], kernel[0])
        rows, columns = (
            -(-size // s) if same else (size - k) // s + 1
            for size, s, k in zip((height, width), stride, kernel, strict=True)
        )
        out = self.activation(rows, columns, channels)
        return self._add("MAX_POOL_2D" if largest else "AVERAGE_POOL_2D", [x], out, options)

    def pad(self, x: int, paddings: Sequence[int]) -> int:
        """By (top, bottom, left, right)."""
        height, width, channels = self.shape(x)
        top, bottom, left, right = paddings
        values = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
        out = self.activation(height + top + bottom, width + left + right, channels)
        return self._add("PAD", [x, self.constant(values)], out, schema.PadOptionsT())

    def unary(self, name: str, x: int) -> int:
        options = schema.LeakyReluOptionsT(0.3) if name == "LEAKY_RELU" else None
        if name == "SOFTMAX":
            options = schema.SoftmaxOptionsT(1.0)
        return self._add(name, [x], self.activation(*self.shape(x)), options)

    def binary(self, name: str, x: int, y: int) -> int:
        options = {"ADD": schema.AddOptionsT, "MUL": schema.MulOptionsT, "SUB": schema.SubOptionsT}[name]()
        return self._add(name, [x, y], self.activation(*self.shape(x)), options)

    def with_channels(self, name: str, x: int) -> int:
        """A binary operator or PRELU with a constant for each channel."""
        channels = self.shape(x)[2]
        if self.int8:
            values = self.constant(self.rng.integers(-50, 50, (1, 1, channels)).astype(np.int8), ([0.03], 0))
        else:
            values = self.constant(self.rng.standard_normal((1, 1, channels)).astype(np.float32))
        if name == "PRELU":
            return self._add(name, [x, values], self.activation(*self.shape(x)), None)
        return self.binary(name, x, values)

    def concatenate(self, *parts: int) -> int:
        height, width, _ = self.shape(parts[0])
        out = self.activation(height, width, sum(self.shape(p)[2] for p in parts))
        return self._add("CONCATENATION", list(parts), out, schema.ConcatenationOptionsT(3))

    def resize(self, x: int, factor: int, kind: str) -> int:
        height, width, channels = (d * f for d, f in zip(self.shape(x), (factor, factor, 1), strict=True))
        size = self.constant(np.array([height, width], np.int32))
        out = self.activation(height, width, channels)
        if kind == "nearest":
            return self._add("RESIZE_NEAREST_NEIGHBOR", [x, size], out, schema.ResizeNearestNeighborOptionsT())
        options = schema.ResizeBilinearOptionsT(halfPixelCenters=kind == "half pixel")
        return self._add("RESIZE_BILINEAR", [x, size], out, options)

    def decompressed(self, like: int) -> int:
        """A float16 constant of the size of a value, which an operator makes float32."""
        height, width, channels = self.shape(like)
        values = self.rng.standard_normal((1, height, width, channels)).astype(np.float16)
        return self._add("DEQUANTIZE", [self.constant(values)], self.activation(height, width, channels), None)

    def constant(self, values: NDArray[Any], quantised: tuple[list[float], int] | None = None) -> int:
        """Quantised with (steps, dimension) and a zero point of 0."""
        kind = {"float32": "FLOAT32", "float16": "FLOAT16", "int8": "INT8", "int32": "INT32"}[str(values.dtype)]
        tensor = self._tensor(values.shape, kind, f"k{len(self.tensors)}")
        tensor.buffer = len(self.buffers)
        self.buffers.append(schema.BufferT(np.frombuffer(values.tobytes(), np.uint8)))
        if quantised is not None:
            steps, dimension = quantised
            tensor.quantization = schema.QuantizationParametersT(
                scale=steps, zeroPoint=[0] * len(steps), quantizedDimension=dimension
            )
        return len(self.tensors) - 1

    def content(self, outputs: Sequence[int]) -> bytes:
        names = [getattr(schema.BuiltinOperator, code) for code in self.codes]
        codes = [schema.OperatorCodeT(code, None, 1, code) for code in names]
        graph = schema.SubGraphT(
            self.tensors, np.array(self.inputs, np.int32), np.array(outputs, np.int32), self.operators, "main"
        )
        builder = flatbuffers.Builder(1 << 16)
        model = schema.ModelT(3, codes, [graph], "rows", self.buffers)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _tensor(self, shape: tuple[int, ...], kind: str, name: str) -> Any:
        tensor = schema.TensorT(np.array(shape, np.int32), getattr(schema.TensorType, kind), 0, name)
        self.tensors.append(tensor)
        return tensor

    def _add(self, name: str, inputs: list[int], output: int, options: Any) -> int:
        if name not in self.codes:
            self.codes.append(name)
        operator = schema.OperatorT(
            self.codes.index(name), np.array(inputs, np.int32), np.array([output], np.int32), builtinOptions=options
        )
        if options is not None:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
        self.operators.append(operator)
        return output


@st.composite
def row_models(draw: st.DrawFn, unary: Sequence[str] = UNARY, *, float_sums: bool = True) -> bytes:
    """A model of up to ten operators, any of whose results may be an output; int8 or float32.

    Without `float_sums` no float32 model has an operator that adds over channels.
    """
    int8 = draw(st.booleans())
    net = RowNet(int8, np.random.default_rng(draw(st.integers(0, 999))))
    values = [
        net.input(draw(st.integers(4, 14)), draw(st.integers(2, 5)), draw(st.integers(1, 5)))
        for _ in range(draw(st.integers(1, 2)))
    ]
    given = len(values)
    for _ in range(draw(st.integers(1, 10))):
        x = draw(st.sampled_from(values[-3:]))
        kinds = KINDS if int8 or float_sums else tuple(k for k in KINDS if k != "conv")
        values.append(_appended(draw, net, x, values, kinds, [u for u in unary if u in UNARY_INT8 or not int8]))
    read = {int(i) for operator in net.operators for i in operator.inputs}
    made = values[given:]
    outputs = [v for v in made if v not in read or draw(st.integers(0, 4)) == 0]
    return net.content(outputs)


def _appended(
    draw: st.DrawFn, net: RowNet, x: int, values: Sequence[int], kinds: Sequence[str], unary: Sequence[str]
) -> int:
    """One more operator, on x and maybe others of the values."""
    height, width, channels = net.shape(x)
    peers = [v for v in values if net.shape(v)[:2] == (height, width)]
    equal = [v for v in peers if net.shape(v)[2] == channels]
    few = height * width * channels <= 400
    kind = draw(st.sampled_from([*kinds, *(["resize"] if few else [])]))
    kernel = draw(st.integers(1, min(4, height))), draw(st.integers(1, min(3, width)))
    stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    if kind in ("conv", "depthwise"):
        same = draw(st.booleans())
        dilation = (
            draw(st.integers(1, 2 if same or 2 * kernel[0] - 1 <= height else 1)),
            draw(st.integers(1, 2 if same or 2 * kernel[1] - 1 <= width else 1)),
        )
        stride = stride if dilation == (1, 1) else (1, 1)
        made = draw(st.integers(1, 2 if kind == "depthwise" and few else 5 if kind == "conv" else 1))
        return net.conv(x, made, kernel, stride, dilation, same=same, depthwise=kind == "depthwise")
    if kind == "pool":
        largest = draw(st.booleans())
        return net.pool(x, kernel, stride, largest=largest, same=largest and draw(st.booleans()))
    if kind == "pad":
        return net.pad(x, [draw(st.integers(0, 3)) for _ in range(4)])
    if kind == "unary":
        return net.unary(draw(st.sampled_from(unary)), x)
    if kind == "binary":
        return net.binary(draw(st.sampled_from(("ADD", "MUL", "SUB"))), x, draw(st.sampled_from(equal)))
    if kind == "channels":
        return net.with_channels(draw(st.sampled_from(("ADD", "MUL", "PRELU"))), x)
    if kind == "concatenation" and few:
        return net.concatenate(*draw(st.lists(st.sampled_from(peers), min_size=1, max_size=3)))
    if kind == "resize":
        factor = draw(st.sampled_from((2, 4) if height * width * channels <= 60 else (2,)))
        return net.resize(x, factor, draw(st.sampled_from(("nearest", "corner", "half pixel"))))
    return net.unary("RELU", x)


def run_litert(data: bytes, *, reference: bool, runs: int = 3) -> list[bytes]:
    """The outputs of several runs in one interpreter, without delegates."""
    resolver = OpResolverType.BUILTIN_REF if reference else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, num_threads=1, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    out = []
    for run in range(runs):
        for number, details in enumerate(interpreter.get_input_details()):
            interpreter.set_tensor(details["index"], _drawn(details, run, number))
        interpreter.invoke()
        out += [interpreter.get_tensor(details["index"]).tobytes() for details in interpreter.get_output_details()]
    return out


def run_micro(data: bytes, inputs: int, outputs: int, runs: int = 3, arena: int = 4 << 20) -> list[bytes]:
    """The outputs of several runs in one interpreter of TensorFlow Lite Micro, with an arena of so many bytes."""
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(data, arena_size=arena)
    out = []
    for run in range(runs):
        for number in range(inputs):
            interpreter.set_input(_drawn(interpreter.get_input_details(number), run, number), number)
        interpreter.invoke()
        out += [interpreter.get_output(number).tobytes() for number in range(outputs)]
    return out


def _drawn(details: Any, run: int, number: int) -> NDArray[Any]:
    rng = np.random.default_rng((run, number))
    shape = tuple(details["shape"])
    if np.dtype(details["dtype"]) == np.float32:
        return rng.standard_normal(shape).astype(np.float32)
    return rng.integers(-128, 128, shape).astype(np.int8)
