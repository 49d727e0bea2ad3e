"""One operator with its shapes, and what the planner gets to see of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.model.graph import Graph, Op, Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Attribute

Shape = tuple[int, ...]

WIDTHS: Final = {"int8": 1, "uint8": 1, "bool": 1, "int16": 2, "int32": 4, "float32": 4, "int64": 8}


@dataclass(frozen=True)
class Case:
    """An operator whose input at `position` may overlap its output.

    Attributes:
        type: of the operator.
        shapes: of the inputs.
        made: the output's shape.
        dtype: of the input, and of all other activations.
        made_dtype: of the output.
        position: of the input among the inputs.
        constants: positions of the inputs that are constants.
        attributes: `Op.attributes`, as the reader of .tflite files gives them.
        hidden: what the file says besides; the planner is not told.
    """

    type: str
    shapes: tuple[Shape, ...]
    made: Shape
    dtype: str
    made_dtype: str
    position: int = 0
    constants: frozenset[int] = frozenset()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    hidden: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        return self.shapes[self.position]

    @property
    def read_size(self) -> int:
        return prod(self.shape)

    @property
    def made_size(self) -> int:
        return prod(self.made)

    @property
    def widths(self) -> tuple[int, int]:
        return WIDTHS[self.dtype], WIDTHS[self.made_dtype]

    @property
    def disjoint(self) -> int:
        """The distance from which on nothing overlaps."""
        return self.made_size * self.widths[1]

    def numbers(self, name: str) -> Shape:
        """An attribute of several integers."""
        value = self.attributes[name]
        if not isinstance(value, tuple):
            raise TypeError(name)
        return value

    def number(self, name: str) -> int:
        """An attribute of one integer."""
        value = self.attributes[name]
        if not isinstance(value, int):
            raise TypeError(name)
        return value

    def graph(self) -> Graph:
        """The operator alone in a graph."""
        tensors = [
            Tensor(f"input{k}", self._dtype(k), shape, "constant" if k in self.constants else "activation")
            for k, shape in enumerate(self.shapes)
        ]
        count = len(tensors)
        tensors.append(Tensor("output", self.made_dtype, self.made))
        op = Op("op", self.type, tuple(range(count)), (count,), attributes=self.attributes)
        given = tuple(k for k in range(count) if k not in self.constants)
        return Graph("one operator", tuple(tensors), (op,), given, (count,))

    def _dtype(self, position: int) -> str:
        if position not in self.constants:
            return self.dtype
        if self.type in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            if self.dtype == "float32":
                return "float32"
            return "int8" if position == 1 else "int64" if self.dtype == "int16" else "int32"
        return "int32"

    def __str__(self) -> str:
        inputs = ", ".join("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        told = ", ".join(f"{name}={value}" for name, value in {**self.attributes, **self.hidden}.items())
        return (
            f"{self.type} {self.dtype}->{self.made_dtype} ({inputs}) -> {'x'.join(map(str, self.made))} "
            f"input {self.position} {told}"
        )


@dataclass(frozen=True)
class Window:
    """A window that slides over [batch, height, width, channels]."""

    given: Shape
    made: Shape
    kernel: Shape
    stride: Shape
    dilation: Shape
    pads: Shape

    @classmethod
    def of(cls, case: Case) -> Window:
        names = ("kernel", "stride", "dilation", "pads")
        return cls(case.shape, case.made, *(case.numbers(name) for name in names))

    def taps(self, y: int, x: int) -> NDArray[np.int64]:
        """The pixels of the image that the window of an output pixel covers, in the kernels' order."""
        _, height, width, _ = self.given
        ys = y * self.stride[0] - self.pads[0] + np.arange(self.kernel[0]) * self.dilation[0]
        xs = x * self.stride[1] - self.pads[1] + np.arange(self.kernel[1]) * self.dilation[1]
        ys, xs = ys[(ys >= 0) & (ys < height)], xs[(xs >= 0) & (xs < width)]
        return (ys[:, None] * width + xs[None, :]).ravel()

    def pixels(self) -> list[tuple[int, NDArray[np.int64], int]]:
        """(batch, elements that begin the pixels it covers, first element of the output's pixel), in order."""
        n, height, width, depth = self.given
        _, rows, columns, channels = self.made
        found = []
        for batch in range(n):
            for y in range(rows):
                for x in range(columns):
                    starts = (self.taps(y, x) + batch * height * width) * depth
                    found.append((batch, starts, ((batch * rows + y) * columns + x) * channels))
        return found


def span(start: int, count: int) -> NDArray[np.int64]:
    """[start, start + count)."""
    return np.arange(start, start + count)


def grid(starts: Sequence[int] | NDArray[np.int64], first: int, count: int) -> NDArray[np.int64]:
    """Elements [first, first + count) after each start."""
    return (np.asarray(starts, np.int64)[:, None] + np.arange(first, first + count)[None, :]).ravel()
