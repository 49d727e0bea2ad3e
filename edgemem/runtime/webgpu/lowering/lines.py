"""Elements along some axes of a tensor as texels: what reductions, softmax and normalizations go through.

The axes in question make the *steps* of a *group*; the other ones tell the groups apart. A group has a position, which
counts the kept batches, rows and columns in the tensor's order, and a slice, where the channels are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.model.texture_layout import Stored

__all__ = ["INVOCATIONS", "Lines", "Part", "parts", "share"]

INVOCATIONS: Final = 64  # of one workgroup
_BUSY: Final = 65536  # invocations that give each core of a large GPU something to do

Part: TypeAlias = Literal["batch", "height", "width", "channels"]


def parts(rank: int, *, channels_first: bool) -> tuple[Part, ...]:
    """For each axis of a tensor the stored dimension that it is, or that it is a part of."""
    if channels_first:
        return ("batch", "channels", "height", "width")
    if rank <= 1:
        return ("channels",) if rank else ()
    if rank == 2:
        return ("batch", "channels")
    between: list[Part] = ["height"] * (rank - 3)
    return ("batch", *between, "width", "channels")


def share(groups: int, steps: int) -> int:
    """Invocations for one group, a power of two: fewer where groups are enough to keep a GPU busy."""
    most = min(INVOCATIONS, steps // 4, _BUSY // max(groups, 1))
    return 1 << most.bit_length() - 1 if most else 1


@dataclass(frozen=True, slots=True)
class Lines:
    """The groups and the steps along axes of a tensor.

    Attributes:
        shape: of the tensor.
        stored: how it is kept.
        axes: the steps' axes, 0 or more.
    """

    shape: tuple[int, ...]
    stored: Stored
    axes: frozenset[int]

    @classmethod
    def along(cls, shape: Sequence[int], stored: Stored, axes: Collection[int]) -> Lines:
        """Those along axes of a tensor."""
        return cls(tuple(shape), stored, frozenset(axes))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The stored dimension of each axis."""
        return parts(len(self.shape), channels_first=self.stored.channels_first)

    @property
    def has_channels(self) -> bool:
        """Whether the channels are among the steps."""
        return any(self.parts[a] == "channels" for a in self.axes)

    @property
    def steps(self) -> int:
        """Texels in a group."""
        return self._count(are_steps=True) * (self.stored.slices if self.has_channels else 1)

    @property
    def positions(self) -> int:
        """Groups in one slice."""
        return self._count(are_steps=False)

    @property
    def groups(self) -> int:
        """All groups."""
        return self.positions * (1 if self.has_channels else self.stored.slices)

    @property
    def elements(self) -> int:
        """Elements of the tensor for each number that is made of a group."""
        return prod(self.shape[a] for a in self.axes)

    def _count(self, *, are_steps: bool) -> int:
        dims = zip(self.shape, self.parts, range(len(self.shape)), strict=True)
        return prod(n for n, part, a in dims if part != "channels" and (a in self.axes) == are_steps)

    def spot(self) -> str:
        """WGSL: `spot(position, slice, step) -> vec4<i32>`, the place (b, y, x, slice) of a texel of the input."""
        lines = ["fn spot(position: i32, slice: i32, step: i32) -> vec4<i32> {", "var kept = position;"]
        lines += ["var rest = step;", "var y = 0;"]
        factor = 1
        for is_step, size in reversed(self._digits("width")):
            lines += _digit("let x", is_step=is_step, size=size, factor="")
        if "width" not in self.parts:
            lines.append("let x = 0;")
        heights = self._digits("height")
        for is_step, number in reversed(heights):
            size = "p.input_0.height" if len(heights) == 1 else number
            lines += _digit("y +", is_step=is_step, size=size, factor=f" * {factor}")
            factor *= int(number)
        for is_step, size in self._digits("batch"):
            lines += _digit("let b", is_step=is_step, size=size, factor="")
        if "batch" not in self.parts:
            lines.append("let b = 0;")
        lines += [f"return vec4<i32>(b, y, x, {'rest' if self.has_channels else 'slice'});", "}"]
        return "\n".join(lines)

    def _digits(self, part: Part) -> list[tuple[bool, str]]:
        """For each run of axes of a stored dimension: whether they are steps, and their size."""
        axes = [a for a, p in enumerate(self.parts) if p == part]
        if part != "height":
            return [(a in self.axes, f"p.input_0.{part}") for a in axes]
        runs = groupby(axes, key=lambda a: a in self.axes)
        return [(is_step, str(prod(self.shape[a] for a in run))) for is_step, run in runs]


def _digit(target: str, *, is_step: bool, size: str, factor: str) -> list[str]:
    """Statements that take the last digit off the number of the group or of the step."""
    source = "rest" if is_step else "kept"
    return [f"{target}= ({source} % {size}){factor};", f"{source} = {source} / {size};"]
