"""Tiny graphs, run byte by byte in the order in which the loops of TensorFlow Lite Micro's reference kernels run.

Each byte of memory holds a label instead of a value: the tensor and the byte that it was computed as, or copied from.
A kernel that reads a byte with another label than it has without any sharing computes something else: the plan is
wrong. The loops are written down here from the kernels' description, and share nothing with edgemem's own rules.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from edgemem.model.graph import Graph, Op

__all__ = ["first_difference"]

WIDTH = {"int8": 1, "float32": 4, "float16": 2}

# (position of an input, element) that is read; then (output, element, where it is copied from) that is written.
Read = tuple[int, int]
Write = tuple[int, int, Read | None]
Step = tuple[list[Read], list[Write]]

ELEMENTWISE = {"RELU": 1, "LOGISTIC": 1, "QUANTIZE": 1, "DEQUANTIZE": 1, "ADD": 2, "MUL": 2}


def first_difference(graph: Graph, offsets: Mapping[str, int]) -> str:
    """What is read that is not what it is without sharing; "" if the graph computes the same in these places.

    Args:
        graph: without bodies; its activations have the dtypes of WIDTH.
        offsets: of every activation in bytes.
    """
    memory: dict[int, Any] = {}
    right: dict[int, list[Any]] = {}  # labels of a tensor's bytes

    def place(index: int) -> int:
        return offsets[graph.tensors[index].name]

    def check(index: int, low: int, high: int) -> bool:
        at = place(index)
        return all(memory.get(at + k) == right[index][k] for k in range(low, high))

    for index in graph.inputs:
        right[index] = [(index, k) for k in range(_bytes(graph, index))]
        memory.update((place(index) + k, label) for k, label in enumerate(right[index]))
    for op in graph.ops:
        for index in op.outputs:
            right[index] = [(index, k) for k in range(_bytes(graph, index))]
        steps = list(_steps(graph, op))
        for _, writes in steps:  # copies have the labels of what they are copied from
            for number, element, source in writes:
                if source is not None:
                    index, width = op.outputs[number], _width(graph, op.outputs[number])
                    given = right[op.inputs[source[0]]][source[1] * width : (source[1] + 1) * width]
                    right[index][element * width : (element + 1) * width] = given
        for reads, writes in steps:
            for position, element in reads:
                index = op.inputs[position]
                width = _width(graph, index)
                if not check(index, element * width, (element + 1) * width):
                    return f"{op.name} reads something else from {graph.tensors[index].name}"
            if op.type in ("CONCATENATION", "RESHAPE") and _is_undefined(graph, op, writes, place):
                return f"{op.name} copies memory onto a part of itself"
            for number, element, _ in writes:
                index = op.outputs[number]
                width, at = _width(graph, index), place(index)
                for k in range(element * width, (element + 1) * width):
                    memory[at + k] = right[index][k]
    for index in graph.outputs:
        if not check(index, 0, _bytes(graph, index)):
            return f"{graph.tensors[index].name} is something else at the end"
    return ""


def _width(graph: Graph, index: int) -> int:
    return WIDTH[graph.tensors[index].dtype]


def _bytes(graph: Graph, index: int) -> int:
    return prod(graph.tensors[index].shape) * _width(graph, index)


def _is_undefined(graph: Graph, op: Op, writes: Sequence[Write], place: Callable[[int], int]) -> bool:
    """Whether one call of memcpy has a source and a destination that overlap without being one."""
    number, first, source = writes[0]
    assert source is not None
    width = _width(graph, op.outputs[number])
    to = place(op.outputs[number]) + first * width
    given = place(op.inputs[source[0]]) + source[1] * width
    return to != given and abs(to - given) < len(writes) * width


def _steps(graph: Graph, op: Op) -> Iterator[Step]:
    """What the kernel reads and writes, in order of time."""
    shapes = [graph.tensors[index].shape for index in op.inputs]
    made = graph.tensors[op.outputs[0]].shape
    about: Any = op.attributes
    if op.type in ELEMENTWISE and all(shape == made for shape in shapes):
        for k in range(prod(made)):
            yield [(position, k) for position in range(len(shapes))], [(0, k, None)]
    elif op.type == "CONV_2D":
        for y, x in product(range(made[1]), range(made[2])):
            window = [(0, e + c) for e in _taps(shapes[0], about, y, x) for c in range(shapes[0][3])]
            for c in range(made[3]):
                yield window, [(0, (y * made[2] + x) * made[3] + c, None)]
    elif op.type in ("DEPTHWISE_CONV_2D", "MAX_POOL_2D"):
        times = made[3] // shapes[0][3]
        for y, x in product(range(made[1]), range(made[2])):
            taps = _taps(shapes[0], about, y, x)
            for c in range(made[3]):
                at = (y * made[2] + x) * made[3] + c
                yield [(0, e + c // times) for e in taps], [(0, at, None)]
    elif op.type == "PAD":
        inner = 0
        for at, where in enumerate(product(*map(range, made))):
            begin = about["paddings"][::2]
            if all(b <= k < b + extent for k, b, extent in zip(where, begin, shapes[0], strict=True)):
                yield [(0, inner)], [(0, at, (0, inner))]
                inner += 1
            else:
                yield [], [(0, at, None)]
    elif op.type == "SLICE":
        for at, where in enumerate(product(*map(range, made))):
            source = 0
            for k, b, extent in zip(where, about["begin"], shapes[0], strict=True):
                source = source * extent + b + k
            yield [(0, source)], [(0, at, (0, source))]
    elif op.type == "SPLIT":
        outer, inner = prod(made[: about["axis"]]), prod(made[about["axis"] :])
        for k, number in product(range(outer), range(len(op.outputs))):
            for j in range(inner):
                source = (k * len(op.outputs) + number) * inner + j
                yield [(1, source)], [(number, k * inner + j, (1, source))]
    elif op.type == "CONCATENATION":
        axis, at = about["axis"], 0
        for k in range(prod(made[:axis])):
            for position, shape in enumerate(shapes):
                run = prod(shape[axis:])
                given = [(position, k * run + j) for j in range(run)]
                yield given, [(0, at + j, source) for j, source in enumerate(given)]
                at += run
    elif op.type == "RESHAPE":
        given = [(0, k) for k in range(prod(made))]
        yield given, [(0, k, source) for k, source in enumerate(given)]
    elif op.type == "FULLY_CONNECTED":
        depth = shapes[1][1]
        for row, c in product(range(prod(made) // made[-1]), range(made[-1])):
            yield [(0, row * depth + k) for k in range(depth)], [(0, row * made[-1] + c, None)]
    else:  # nothing is known of it: it may read everything again at any time
        everything = [(position, k) for position, shape in enumerate(shapes) for k in range(prod(shape))]
        for number, index in enumerate(op.outputs):
            for k in range(prod(graph.tensors[index].shape)):
                yield everything, [(number, k, None)]
        yield everything, []


def _taps(shape: Sequence[int], about: Any, y: int, x: int) -> list[int]:
    """The first elements of the pixels under a window, those outside left out."""
    found = []
    for ky, kx in product(*map(range, about["kernel"])):
        row = y * about["stride"][0] - about["pads"][0] + ky * about["dilation"][0]
        column = x * about["stride"][1] - about["pads"][1] + kx * about["dilation"][1]
        if 0 <= row < shape[1] and 0 <= column < shape[2]:
            found.append((row * shape[2] + column) * shape[3])
    return found
