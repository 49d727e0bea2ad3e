"""What is given to the GPU for one tensor operation: a kernel, tensors, parameters, constants and a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import Function

__all__ = ["SMALL", "Dispatch"]

SMALL: Final = 32  # workgroups of 64 that keep a small GPU busy, and a processor that acts as one


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dispatch:
    """One run of a kernel.

    Attributes:
        kernel: the name of a file in kernels/gpu, without its suffix.
        inputs: tensors that it loads from, as `load_0(b, y, x, slice)` and so on; one may be there twice.
        output: the tensor that it stores to, as `store(b, y, x, slice, value)`.
        workgroups: the grid, in workgroups.
        own: the kernel's own parameters, in the order of the members of its `struct Own`: int as i32, float as f32.
        defines: constants of the kernel's text, `const NAME: i32 = value;`, or functions where a value is text.
        function: what `finish(value)` is: applied to a result before it is stored.
        weights: up to two arrays that it reads as `weights_0: array<vec4<f32>>`, of a multiple of four elements.
        in_place: positions of the inputs that may have the output's place, because the kernel reads each texel before
            it writes the same one and never looks back.
    """

    kernel: str
    inputs: tuple[int, ...]
    output: int
    workgroups: tuple[int, int, int]
    own: tuple[int | float, ...] = ()
    defines: tuple[tuple[str, int | str], ...] = ()
    function: Function | None = None
    weights: tuple[NDArray[np.float32], ...] = ()
    in_place: tuple[int, ...] = ()
