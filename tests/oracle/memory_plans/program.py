"""A model as the checker sees it: values with their dtypes and shapes, and calls in the order of the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BITS", "Block", "Call", "Program", "Role", "Unknown", "Value", "layout_of", "texture_of"]

Role = Literal["activation", "constant", "variable", "opaque"]

BITS = {
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 64),
    **dict.fromkeys(("int32", "uint32", "float32"), 32),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 16),
    **dict.fromkeys(("int8", "uint8", "bool", "float8e4m3fn", "float8e5m2", "float8e4m3fnuz", "float8e5m2fnuz"), 8),
    **dict.fromkeys(("int4", "uint4", "float4e2m1"), 4),
    **dict.fromkeys(("int2", "uint2"), 2),
    "complex128": 128,
}


class Unknown(Exception):  # noqa: N818 -- not an error of the model, but the end of what the checker knows
    """The checker cannot say what a model does."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor. `opaque`: no dense tensor, or of a size that depends on data; `place`: (subgraph, index) in TFLite."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Role = "activation"
    place: tuple[int, int] | None = None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def size(self, *, unpacked: bool = False) -> int:
        """Bytes; `unpacked`: elements narrower than a byte take one each."""
        bits = BITS[self.dtype]
        return (self.elements * (max(bits, 8) if unpacked else bits) + 7) // 8


@dataclass(frozen=True, slots=True)
class Call:
    """An operator: names of what it reads and writes, "" where absent.

    `captured` is what its bodies read of the values around them; `rows` is how many last inputs a Scan goes through.
    """

    label: str
    type: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    bodies: tuple[Block, ...] = ()
    captured: tuple[str, ...] = ()
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """The main graph, or a branch or loop body of an operator."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A model. `values` has every tensor of every block by its name in plans; no run gets to those `unreached`."""

    form: Literal["onnx", "tflite"]
    main: Block
    values: dict[str, Value]
    unreached: frozenset[str] = frozenset()
    steps: tuple[Call, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(_walk(self.main)))

    @property
    def has_control(self) -> bool:
        return any(call.bodies for call in self.steps)


def _walk(block: Block) -> Iterator[Call]:
    for call in block.calls:
        for body in call.bodies:
            yield from _walk(body)
        yield call


def layout_of(value: Value, form: str) -> tuple[int, int, int, int] | None:
    """Batch, height, width and channels of a value in a texture; None for what is no texture."""
    if value.dtype not in ("float32", "float16") or len(value.shape) > 4 or not value.elements:
        return None
    shape = value.shape
    if len(shape) == 4:
        return (shape[0], shape[2], shape[3], shape[1]) if form == "onnx" else (shape[0], shape[1], shape[2], shape[3])
    # Batch first, channels last, and what lies between them is the width.
    batch = shape[0] if len(shape) > 1 else 1
    return batch, 1, shape[1] if len(shape) == 3 else 1, shape[-1] if shape else 1


def texture_of(value: Value, form: str) -> tuple[int, int] | None:
    """Width and height in texels of four channels; None for what is no texture."""
    layout = layout_of(value, form)
    if layout is None:
        return None
    batch, height, width, channels = layout
    return width * batch, height * -(-channels // 4)
