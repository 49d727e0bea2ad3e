"""What the user says about sizes that a model's file leaves open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgemem.model.ranges import Sum, parse_dimension, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.ranges import Dimension

__all__ = ["Bindings"]


@dataclass(frozen=True, slots=True)
class Bindings:
    """What the user says about unknown sizes.

    Attributes:
        dims: symbols by name; one that has a range is at its highest.
        input_shapes: whole shapes by graph input.
        ranges: symbols that are not one number.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ranges: Mapping[str, Dimension] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        dims: Mapping[str, int | str | Dimension] | None = None,
        input_shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> Bindings:
        """Bindings with numbers, and ranges as they are or as text: 8, `1..8`, `past+1`.

        Raises ModelError for text that is none of these, and for sums of dimensions that have no value.
        """
        made = {n: parse_dimension(d) if isinstance(d, str) else d for n, d in (dims or {}).items()}
        numbers = {name: d for name, d in made.items() if isinstance(d, int)}
        ranges = {name: d for name, d in made.items() if not isinstance(d, int)}
        shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
        return cls(resolve(numbers, ranges, {}), shapes, ranges)

    @property
    def options(self) -> tuple[str, ...]:
        """As the command line takes them: --dim NAME=VALUE and --input-shape NAME=D0,D1,..."""
        dims = (("--dim", f"{name}={self.ranges.get(name, value)}") for name, value in self.dims.items())
        shapes = (("--input-shape", f"{n}={','.join(map(str, shape))}") for n, shape in self.input_shapes.items())
        return tuple(word for option in (*dims, *shapes) for word in option)

    @property
    def fixed(self) -> dict[str, int]:
        """The symbols that have one value: those without a range, and sums of such symbols alone."""
        moving = {name for name, made in self.ranges.items() if not isinstance(made, Sum)}
        while True:
            sums = {n for n, made in self.ranges.items() if isinstance(made, Sum) and moving & {*made.names}}
            if sums <= moving:
                return {name: value for name, value in self.dims.items() if name not in moving}
            moving |= sums

    @property
    def left_open(self) -> Bindings:
        """What is to be bound in a file of the same model in which `fixed` and the input shapes are written down."""
        fixed = self.fixed
        ranges = {name: _less(made, fixed) for name, made in self.ranges.items() if name not in fixed}
        return Bindings({name: value for name, value in self.dims.items() if name in ranges}, {}, ranges)


def _less(made: Dimension, fixed: Mapping[str, int]) -> Dimension:
    """A range; a sum with the terms that have one value added up."""
    if not isinstance(made, Sum):
        return made
    rest = tuple(term for term in made.names if term not in fixed)
    return Sum(rest, made.plus + sum(fixed[term] for term in made.names if term in fixed))
