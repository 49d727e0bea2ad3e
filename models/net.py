"""One description of a network, from which both its ONNX file and its usage records are derived.

A layer is one operator at the granularity of Pisarchyk & Lee 2020 (convolution, bias and activation together); it
makes one ONNX node or several. Shapes are NCHW. Weights are drawn when the ONNX model is made, so that records cost
nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

Dim: TypeAlias = int | str
Shape: TypeAlias = tuple[Dim, ...]
Record: TypeAlias = tuple[str, int, int, int]
Padding: TypeAlias = Literal["same", "valid"]
Activation: TypeAlias = Literal["none", "relu", "relu6", "sigmoid", "tanh"]

OPSET = 17
IR_VERSION = 8
BIAS_STD = 0.05


@dataclass(frozen=True, slots=True)
class NetTensor:
    """A tensor of the network; `shape` may hold symbols.

    `rectified` says that it comes out of a ReLU: half its second moment is gone, which the next layer's weights
    make up for.
    """

    name: str
    shape: Shape
    rectified: bool = False
    dtype: int = TensorProto.FLOAT

    @property
    def channels(self) -> int:
        """The channel count: axis 1 of NCHW, otherwise the last axis."""
        return self.dim(1 if len(self.shape) == 4 else -1)

    def dim(self, axis: int) -> int:
        """One dimension as a number. Raises ValueError where it is a symbol."""
        value = self.shape[axis]
        if isinstance(value, int):
            return value
        raise ValueError(f"dimension {axis} of {self.name} is the symbol {value}; it has no size")

    def info(self) -> ValueInfoProto:
        """The tensor as ONNX declares it."""
        return helper.make_tensor_value_info(self.name, self.dtype, list(self.shape))


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator of the records: what it writes and the layers' tensors that it reads."""

    outputs: tuple[NetTensor, ...]
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight still to be drawn from a normal distribution."""

    name: str
    shape: tuple[int, ...]
    std: float
    mean: float = 0.0


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int, int]:
    """Output size and the padding before and after, so that the output is ceil(size / stride)."""
    out = -(-size // stride)
    total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return out, total // 2, total - total // 2


class Net:
    """Collects layers; every method adds one and returns its output.

    `batch` is the leading dimension, a number or a symbol's name; `seed` draws the weights, and the topology where
    that is random. `name=""` numbers the layer.
    """

    def __init__(self, name: str, *, batch: Dim = 1, seed: int = 0) -> None:
        self.name = name
        self.batch = batch
        self.seed = seed
        self.inputs: list[NetTensor] = []
        self.outputs: list[NetTensor] = []
        self.layers: list[Layer] = []
        self.nodes: list[NodeProto] = []
        self.weights: list[Weight] = []
        self.constants: dict[str, NDArray[Any]] = {}

    # What a layer is made of

    def input(self, name: str, *shape: Dim, dtype: int = TensorProto.FLOAT) -> NetTensor:
        """A network input; `shape` is without the batch."""
        tensor = NetTensor(name, (self.batch, *shape), dtype=dtype)
        self.inputs.append(tensor)
        return tensor

    def output(self, *tensors: NetTensor) -> None:
        """Declare outputs of the network; they get no usage record, as in the paper."""
        self.outputs.extend(tensors)

    def weight(self, name: str, shape: tuple[int, ...], std: float, mean: float = 0.0) -> str:
        """A weight to be drawn later; returns its name."""
        self.weights.append(Weight(name, shape, std, mean))
        return name

    def constant(self, values: ArrayLike, dtype: type[np.generic]) -> str:
        """An initialiser with these values; equal ones are stored once. Returns its name."""
        array = np.array(values, dtype=dtype)
        for name, known in self.constants.items():
            if known.dtype == array.dtype and np.array_equal(known, array) and known.shape == array.shape:
                return name
        name = f"const_{len(self.constants)}"
        self.constants[name] = array
        return name

    def fresh(self, kind: str) -> str:
        """The name of the next layer that was given none."""
        return f"{kind}_{len(self.layers)}"

    def node(self, kind: str, inputs: Sequence[str], output: str | Sequence[str], **attributes: Any) -> None:
        """One ONNX node, not yet a layer."""
        outputs = [output] if isinstance(output, str) else list(output)
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=outputs[0], **attributes))

    def layer(self, output: NetTensor, reads: Sequence[NetTensor]) -> NetTensor:
        """Close a layer whose nodes were added."""
        self.layer_of([output], reads)
        return output

    def layer_of(self, outputs: Sequence[NetTensor], reads: Sequence[NetTensor]) -> None:
        """Close a layer with several outputs. `reads` include what its subgraphs capture."""
        self.layers.append(Layer(tuple(outputs), tuple(t.name for t in reads)))

    def op(
        self,
        kind: str,
        reads: Sequence[NetTensor],
        shape: Shape,
        *,
        extra: Sequence[str] = (),
        name: str = "",
        rectified: bool = False,
        **attributes: Any,
    ) -> NetTensor:
        """A layer of one node; `extra` are the constant inputs after the tensors."""
        out = NetTensor(name or self.fresh(kind.lower()), shape, rectified)
        self.node(kind, [*(t.name for t in reads), *extra], out.name, **attributes)
        return self.layer(out, reads)

    def _finish(self, name: str, shape: Shape, act: Activation, reads: Sequence[NetTensor]) -> NetTensor:
        """Close a layer whose last node wrote `_raw(name, act)`: the activation belongs to the same layer."""
        raw = _raw(name, act)
        if act == "relu6":
            self.node("Clip", [raw, self.constant(0.0, np.float32), self.constant(6.0, np.float32)], name)
        elif act != "none":
            self.node(act.capitalize(), [raw], name)
        return self.layer(NetTensor(name, shape, rectified=act.startswith("relu")), reads)

    # Layers

    def conv(
        self,
        x: NetTensor,
        channels: int,
        kernel: int | tuple[int, int] = 1,
        *,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        padding: Padding = "same",
        act: Activation = "relu",
        gain: float = 1.0,
        name: str = "",
    ) -> NetTensor:
        """Convolution, bias and activation. `gain` scales the weights, below 1 to keep residual sums small."""
        name = name or self.fresh("conv")
        kernels = (kernel, kernel) if isinstance(kernel, int) else kernel
        out, pads = [], []
        for axis, k in enumerate(kernels):
            size = x.dim(axis + 2)
            if padding == "same":
                o, before, after = same_padding(size, k, stride, dilation)
            else:
                o, before, after = (size - (k - 1) * dilation - 1) // stride + 1, 0, 0
            out.append(o)
            pads.append((before, after))
        shape = (channels, x.channels // groups, *kernels)
        inputs = [x.name, self._fan_in_weight(name, shape, math.prod(shape[1:]), x, gain), self._bias(name, channels)]
        self.node(
            "Conv",
            inputs,
            _raw(name, act),
            kernel_shape=list(kernels),
            strides=[stride, stride],
            dilations=[dilation, dilation],
            group=groups,
            pads=[p[0] for p in pads] + [p[1] for p in pads],
        )
        return self._finish(name, (x.shape[0], channels, *out), act, [x])

    def depthwise(self, x: NetTensor, kernel: int = 3, **options: Any) -> NetTensor:
        """Depthwise convolution; the options are those of `conv`."""
        return self.conv(x, x.channels, kernel, groups=x.channels, **options)

    def upconv(
        self, x: NetTensor, channels: int, factor: int = 2, *, act: Activation = "relu", name: str = ""
    ) -> NetTensor:
        """Transposed convolution whose kernel equals its stride: the map grows by `factor`."""
        name = name or self.fresh("upconv")
        weight = self._fan_in_weight(name, (x.channels, channels, factor, factor), x.channels, x, 1.0)
        inputs = [x.name, weight, self._bias(name, channels)]
        self.node("ConvTranspose", inputs, _raw(name, act), kernel_shape=[factor] * 2, strides=[factor] * 2)
        return self._finish(name, (x.shape[0], channels, x.dim(2) * factor, x.dim(3) * factor), act, [x])

    def dense(
        self, x: NetTensor, units: int, *, act: Activation = "none", gain: float = 1.0, name: str = ""
    ) -> NetTensor:
        """Fully connected over the last axis, bias and activation."""
        name = name or self.fresh("dense")
        weight = self._fan_in_weight(name, (x.dim(-1), units), x.dim(-1), x, gain)
        self.node("MatMul", [x.name, weight], f"{name}.product")
        self.node("Add", [f"{name}.product", self._bias(name, units)], _raw(name, act))
        return self._finish(name, (*x.shape[:-1], units), act, [x])

    def pool(
        self,
        x: NetTensor,
        kind: Literal["Max", "Average"],
        kernel: int,
        *,
        stride: int,
        padding: Padding = "same",
        name: str = "",
    ) -> NetTensor:
        """Pooling over a square window; padding does not count in an average."""
        pads, out = [], []
        for axis in (2, 3):
            size = x.dim(axis)
            o, *sides = (
                same_padding(size, kernel, stride) if padding == "same" else ((size - kernel) // stride + 1, 0, 0)
            )
            out.append(o)
            pads.append(sides)
        return self.op(
            f"{kind}Pool",
            [x],
            (x.shape[0], x.channels, *out),
            name=name or self.fresh(f"{kind.lower()}pool"),
            rectified=x.rectified,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[s[0] for s in pads] + [s[1] for s in pads],
        )

    def global_pool(self, x: NetTensor, *, name: str = "") -> NetTensor:
        """Average over the whole map."""
        return self.op("GlobalAveragePool", [x], (x.shape[0], x.channels, 1, 1), name=name, rectified=x.rectified)

    def add(self, *reads: NetTensor, act: Activation = "none", name: str = "") -> NetTensor:
        """Sum of tensors of one shape, with an activation."""
        name = name or self.fresh("add")
        self.node("Add" if len(reads) == 2 else "Sum", [t.name for t in reads], _raw(name, act))
        return self._finish(name, reads[0].shape, act, reads)

    def concat(self, *reads: NetTensor, axis: int = 1, name: str = "") -> NetTensor:
        """Tensors end to end along `axis`."""
        shape = (*reads[0].shape[:axis], sum(t.dim(axis) for t in reads), *reads[0].shape[axis + 1 :])
        return self.op("Concat", reads, shape, name=name, rectified=all(t.rectified for t in reads), axis=axis)

    def split(self, x: NetTensor, parts: int) -> list[NetTensor]:
        """Equal parts of the last axis."""
        name, shape = self.fresh("split"), (*x.shape[:-1], x.dim(-1) // parts)
        outs = [NetTensor(f"{name}.{i}", shape) for i in range(parts)]
        self.node("Split", [x.name], [t.name for t in outs], axis=-1)
        self.layer_of(outs, [x])
        return outs

    def reshape(self, x: NetTensor, *shape: int, name: str = "") -> NetTensor:
        """A new shape behind the batch."""
        # Zero copies the input's dimension: the batch may be a symbol.
        return self.op("Reshape", [x], (x.shape[0], *shape), extra=[self.constant([0, *shape], np.int64)], name=name)

    def transpose(self, x: NetTensor, *perm: int, name: str = "") -> NetTensor:
        """Axes in another order."""
        return self.op("Transpose", [x], tuple(x.shape[p] for p in perm), name=name, perm=list(perm))

    def softmax(self, x: NetTensor, *, name: str = "") -> NetTensor:
        """Softmax over the last axis."""
        return self.op("Softmax", [x], x.shape, name=name, axis=-1)

    def resize(self, x: NetTensor, height: int, width: int, *, name: str = "") -> NetTensor:
        """Bilinear resize, corners aligned."""
        # By scales, because sizes would have to name the batch; half a pixel on top keeps floor(size * scale) exact.
        scales = [1.0, 1.0, (height + 0.5) / x.dim(2), (width + 0.5) / x.dim(3)]
        extra = ["", self.constant(scales, np.float32)]
        shape = (x.shape[0], x.channels, height, width)
        corners = "align_corners"
        return self.op(
            "Resize", [x], shape, extra=extra, name=name, mode="linear", coordinate_transformation_mode=corners
        )

    def _fan_in_weight(self, name: str, shape: tuple[int, ...], fan_in: int, x: NetTensor, gain: float) -> str:
        # He et al. 2015: unit variance through the layer, twice the variance behind a ReLU.
        return self.weight(f"{name}.weight", shape, gain * math.sqrt((2.0 if x.rectified else 1.0) / fan_in))

    def _bias(self, name: str, size: int) -> str:
        return self.weight(f"{name}.bias", (size,), BIAS_STD)

    # What is derived

    def records(self, *, channel_multiple: int = 1) -> list[Record]:
        """Usage records: (tensor, first_op, last_op, size), inclusive, float32 bytes.

        Inputs and outputs of the network have none. `channel_multiple` rounds the channels up. Raises ValueError
        where a dimension is a symbol.
        """
        last = {t.name: k for k, layer in enumerate(self.layers) for t in layer.outputs}
        for k, layer in enumerate(self.layers):
            last.update((name, k) for name in layer.reads if name in last)
        outputs = {t.name for t in self.outputs}
        return [
            (t.name, k, last[t.name], _bytes(t, channel_multiple))
            for k, layer in enumerate(self.layers)
            for t in layer.outputs
            if t.name not in outputs
        ]

    def model(self) -> ModelProto:
        """The ONNX model with its weights; the same description gives the same bytes."""
        rng = np.random.default_rng(self.seed)
        initialisers = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        for w in self.weights:
            values = rng.standard_normal(w.shape, dtype=np.float32)
            values *= np.float32(w.std)
            values += np.float32(w.mean)
            initialisers.append(numpy_helper.from_array(values, w.name))
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [t.info() for t in self.inputs],
            [t.info() for t in self.outputs],
            initializer=initialisers,
        )
        return wrap(graph)


def wrap(graph: GraphProto) -> ModelProto:
    """A model around a graph, at the opset and IR version of every network here."""
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, producer_name="edgemem", opset_imports=[opset], ir_version=IR_VERSION)


def _raw(name: str, act: Activation) -> str:
    return name if act == "none" else f"{name}.raw"


def _bytes(tensor: NetTensor, channel_multiple: int) -> int:
    dims = [tensor.dim(i) for i in range(len(tensor.shape))]
    axis = 1 if len(dims) == 4 else -1
    dims[axis] = -(-dims[axis] // channel_multiple) * channel_multiple
    return 4 * math.prod(dims)
