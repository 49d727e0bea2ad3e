"""Which function lowers which tensor operation, and what it may ask about tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from edgemem.errors import UnsupportedError
from edgemem.model.texture_layout import stored
from edgemem.runtime.webgpu.dispatch import SMALL, Dispatch
from edgemem.runtime.webgpu.shaders import grid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.graph import Layout
    from edgemem.model.tensor_ops import TensorOp, TensorProgram
    from edgemem.model.texture_layout import Stored

__all__ = ["Lowering", "each_texel", "lower", "lowers"]

T = TypeVar("T")

_LOWERINGS: Final[dict[type, Callable[..., list[Dispatch]]]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Lowering:
    """The tensors that tensor operations name.

    Attributes:
        shapes: by index, as the graph has them.
        layout: the graph's.
        constants: values of constant operands, by index.
        busy: workgroups that keep the GPU busy.
    """

    shapes: Mapping[int, tuple[int, ...]]
    layout: Layout = ""
    constants: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    busy: int = SMALL

    @classmethod
    def of(cls, program: TensorProgram, busy: int = SMALL) -> Lowering:
        """What a program says."""
        shapes = {i: t.shape for i, t in enumerate(program.graph.tensors)}
        return cls(shapes, program.graph.layout, program.constants, busy)

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Its dimensions as the graph has them."""
        return self.shapes[tensor]

    def stored(self, tensor: int) -> Stored:
        """Its dimensions as kernels see them."""
        return stored(self.shapes[tensor], self.layout)

    def is_constant(self, tensor: int) -> bool:
        """Whether its value is known."""
        return tensor in self.constants

    def value(self, tensor: int) -> NDArray[np.float32]:
        """The value of a constant, of its shape."""
        return self.constants[tensor].reshape(self.shapes[tensor])


def each_texel(kernel: str, inputs: tuple[int, ...], output: int, context: Lowering, **more: Any) -> Dispatch:
    """The dispatch of a kernel with an invocation for each texel of the output; `more` are its other attributes."""
    return Dispatch(kernel=kernel, inputs=inputs, output=output, workgroups=grid(context.stored(output).texels), **more)


def lowers(
    kind: type[T],
) -> Callable[[Callable[[T, Lowering], list[Dispatch]]], Callable[[T, Lowering], list[Dispatch]]]:
    """Register the function that makes the dispatches of one type of tensor operation."""

    def register(function: Callable[[T, Lowering], list[Dispatch]]) -> Callable[[T, Lowering], list[Dispatch]]:
        _LOWERINGS[kind] = function
        return function

    return register


def lower(op: TensorOp, context: Lowering) -> list[Dispatch]:
    """The dispatches of a tensor operation, which together write the whole output.

    Raises UnsupportedError, which says why, for what no kernel computes.
    """
    function = _LOWERINGS.get(type(op))
    if function is None:
        raise UnsupportedError(f"no GPU kernel computes {type(op).__name__}")
    return function(op, context)
