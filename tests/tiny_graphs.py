"""Random small graphs of the operators that may share memory with their inputs, and random places for their tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from edgemem.model.graph import Graph, Op, Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

__all__ = ["random_graph", "random_places"]

_KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "RELU", "ADD", "PAD", "SLICE", "SPLIT", "CONCATENATION")
_RARE = ("FULLY_CONNECTED", "RESHAPE", "SOFTMAX", "DEQUANTIZE")


class _Maker:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []

    def draw(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def tensor(self, shape: tuple[int, ...], dtype: str, kind: str = "activation") -> int:
        self.tensors.append(Tensor(f"{'w' if kind == 'constant' else 't'}{len(self.tensors)}", dtype, shape, kind))  # type: ignore[arg-type]
        return len(self.tensors) - 1

    def add(self, kind: str, inputs: tuple[int, ...], shape: tuple[int, ...], dtype: str, **about: Any) -> int:
        made = self.tensor(shape, dtype)
        self.ops.append(Op(f"op{len(self.ops)}", kind, inputs, (made,), attributes=about))
        return made

    def window(self, shape: tuple[int, ...]) -> tuple[dict[str, Any], tuple[int, int]]:
        kernel = self.draw(1, 3), self.draw(1, 3)
        stride = self.draw(1, 2), self.draw(1, 2)
        dilation = (self.draw(1, 2), 1) if self.draw(0, 4) == 0 else (1, 1)
        pads = tuple(self.draw(0, min(1, kernel[k % 2] - 1)) for k in range(4))
        made = tuple(
            (shape[1 + k] + pads[k] + pads[2 + k] - (kernel[k] - 1) * dilation[k] - 1) // stride[k] + 1
            for k in range(2)
        )
        about = {"kernel": kernel, "stride": stride, "dilation": dilation, "pads": pads}
        return about, (made[0], made[1])

    def step(self, known: list[int]) -> list[int]:
        """Adds an operator; the tensors that it makes, or none if it does not fit."""
        kind = str(self.rng.choice(_KINDS if self.draw(0, 5) else _RARE))
        recent = known[-4:]
        x = int(self.rng.choice(recent))
        shape, dtype = self.tensors[x].shape, self.tensors[x].dtype
        alike = [i for i in known if self.tensors[i].dtype == dtype and self.tensors[i].shape == shape]
        if kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D"):
            about, (height, width) = self.window(shape)
            if min(height, width) < 1:
                return []
            channels = self.draw(1, 3) if kind == "CONV_2D" else shape[3] * (self.draw(1, 2) if kind[0] == "D" else 1)
            weights: tuple[int, ...] = ()
            if kind == "CONV_2D":
                weights = (self.tensor((channels, *about["kernel"], shape[3]), dtype, "constant"),)
            elif kind[0] == "D":
                weights = (self.tensor((1, *about["kernel"], channels), dtype, "constant"),)
            return [self.add(kind, (x, *weights), (1, height, width, channels), dtype, **about)]
        if kind in ("RELU", "SOFTMAX"):
            return [self.add(kind, (x,), shape, dtype)]
        if kind == "RESHAPE":
            return [self.add(kind, (x,), (1, shape[2], shape[1], shape[3]), dtype)]
        if kind == "DEQUANTIZE":
            return [self.add(kind, (x,), shape, "float32")] if dtype == "int8" else []
        if kind == "ADD":
            return [self.add(kind, (x, int(self.rng.choice(alike))), shape, dtype)]
        if kind == "PAD":
            paddings = (0, 0, *(self.draw(0, 1) for _ in range(6)))
            made = tuple(d + paddings[2 * k] + paddings[2 * k + 1] for k, d in enumerate(shape))
            return [self.add(kind, (x,), made, dtype, paddings=paddings)]
        if kind == "SLICE":
            begin = [0, self.draw(0, shape[1] - 1), 0, 0]
            size = [1, self.draw(1, shape[1] - begin[1]), shape[2], shape[3]]
            if self.draw(0, 4) == 0:
                begin[2] = self.draw(0, shape[2] - 1)
                size[2] = self.draw(1, shape[2] - begin[2])
            return [self.add(kind, (x,), tuple(size), dtype, begin=tuple(begin), size=tuple(size))]
        if kind == "SPLIT":
            if shape[1] % 2:
                return []
            outputs = [self.tensor((1, shape[1] // 2, shape[2], shape[3]), dtype) for _ in range(2)]
            axis = self.tensor((), "int32", "constant")
            self.ops.append(Op(f"op{len(self.ops)}", kind, (axis, x), tuple(outputs), attributes={"axis": 1}))
            return outputs
        if kind == "FULLY_CONNECTED":
            weights = (self.tensor((self.draw(1, 3), shape[3]), dtype, "constant"),)
            out = (*shape[:3], self.tensors[weights[0]].shape[0])
            return [self.add(kind, (x, *weights), out, dtype)]
        axis = 1 if self.draw(0, 3) else 3
        fits = [
            i
            for i in known[-8:]
            if self.tensors[i].dtype == dtype
            and all(k == axis or d == shape[k] for k, d in enumerate(self.tensors[i].shape))
        ]
        inputs = tuple(int(i) for i in self.rng.permutation(fits)[: self.draw(1, 4)])
        total = sum(self.tensors[i].shape[axis] for i in inputs)
        whole = tuple(total if k == axis else d for k, d in enumerate(shape))
        return [self.add("CONCATENATION", inputs, whole, dtype, axis=axis)]


def random_graph(rng: np.random.Generator, operators: int = 6) -> Graph:
    """A graph of so many operators on [1, height, width, channels], whose last results are its outputs."""
    maker = _Maker(rng)
    dtype = "int8" if rng.random() < 0.5 else "float32"
    shape = (1, maker.draw(2, 5), maker.draw(1, 3), maker.draw(1, 3))
    inputs = tuple(maker.tensor(shape, dtype) for _ in range(maker.draw(1, 2)))
    known = list(inputs)
    while len(maker.ops) < operators:
        known += [i for i in maker.step(known) if prod(maker.tensors[i].shape) < 400]
    read = {i for op in maker.ops for i in op.inputs}
    written = [i for op in maker.ops for i in op.outputs]
    outputs = tuple(i for i in written if i not in read)
    return Graph("random", tuple(maker.tensors), tuple(maker.ops), inputs, outputs)


def random_places(
    rng: np.random.Generator, graph: Graph, reach: Mapping[tuple[str, str], int], unit: int = 1
) -> dict[str, int]:
    """Offsets of all activations, most of them where sharing is about to become wrong.

    Args:
        rng: decides.
        graph: the graph.
        reach: (input, output) -> a distance `offset_in - offset_out` that may be the least safe one.
        unit: offsets are multiples of it.
    """
    last = {i: k for k, op in enumerate(graph.ops) for i in op.inputs}
    last |= dict.fromkeys(graph.outputs, len(graph.ops))
    tensors = graph.tensors
    alive: list[tuple[int, int, int]] = []  # offset, end, tensor
    at: dict[int, int] = {}
    slots: dict[int, list[tuple[int, int]]] = {}  # tensor -> (another one, offset of the first minus the other's)
    for op in graph.ops:
        if op.type == "CONCATENATION":
            delta = 0
            for i in op.inputs:
                slots.setdefault(op.outputs[0], []).append((i, -delta))
                for j, other in slots.get(op.outputs[0], []):
                    slots.setdefault(i, []).append((j, delta + other))
                delta += tensors[i].size
        if op.type in ("SLICE", "SPLIT"):
            x = op.inputs[-1] if op.type == "SPLIT" else op.inputs[0]
            row = tensors[x].size // tensors[x].shape[1]
            begin = op.attributes.get("begin")
            first = begin[1] if isinstance(begin, tuple) else 0
            for number, i in enumerate(op.outputs):
                slots.setdefault(i, []).append((x, (first + number * tensors[i].shape[1]) * row))

    def first_fit(size: int) -> int:
        offset = 0
        for low, high, _ in sorted(alive):
            if low < offset + size and offset < high:
                offset = -(-high // unit) * unit
        return offset

    def put(index: int, op: Op | None, number: int) -> None:
        size = tensors[index].size
        options = [first_fit(size)]
        tight = [at[j] + d for j, d in slots.get(index, []) if j in at]
        for i in op.inputs if op else ():
            if i in at and last[i] == number:
                d = reach.get((tensors[i].name, tensors[index].name))
                tight += [at[i]] if d is None else [at[i] - d, at[i] - d, at[i] - d + unit * int(rng.integers(-2, 3))]
        options += [t // unit * unit for t in tight if t >= 0] * 2
        if rng.random() < 0.05:
            options.append(int(rng.integers(0, 200)) // unit * unit)
        chosen = options[int(rng.integers(len(options)))]
        at[index] = chosen
        alive.append((chosen, chosen + size, index))

    for index in graph.inputs:
        put(index, None, -1)
    for number, op in enumerate(graph.ops):
        for index in op.outputs:
            put(index, op, number)
        alive[:] = [entry for entry in alive if last.get(entry[2], -1) > number]
    return {tensors[index].name: offset for index, offset in at.items()}
