"""What the user says about sizes that a model's file leaves open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgemem.model.ranges import parse_dimension, resolve

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
