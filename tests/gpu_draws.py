"""What random tensor operations are drawn from, and what a test is told of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.model.tensor_ops import (
    Function,
    TensorOp,
)
from tests.oracle.tensor_ops import evaluate, reads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Layout

__all__ = ["AFTER", "OUTPUT", "Case", "Draw"]

OUTPUT: Final = 9
AFTER: Final = tuple(
    Function(name, parameters)
    for name, parameters in (
        ("identity", ()),
        ("relu", ()),
        ("clip", (0.0, 6.0)),
        ("leaky_relu", (0.2,)),
        ("elu", (1.5,)),
        ("sigmoid", ()),
        ("hard_swish", ()),
        ("silu", ()),
        ("tanh", ()),
        ("gelu", ()),
    )
)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """An operation and all that it reads.

    Attributes:
        op: its output is `OUTPUT`.
        values: of its inputs by index.
        constants: the inputs that are constants.
        shape: of the output. layout: of the graph.
        in_place: the input that the output may overwrite; -1: none.
    """

    op: TensorOp
    values: Mapping[int, NDArray[np.float32]]
    shape: tuple[int, ...]
    layout: Layout
    constants: frozenset[int] = frozenset()
    in_place: int = -1

    def expected(self, precision: str) -> NDArray[np.float32]:
        """What the oracle says; tensors that are no constants are of a precision."""
        form = np.float32 if precision == "fp32" else np.float16
        values = {
            i: v if i in self.constants else v.astype(form).astype(np.float32)
            for i, v in self.values.items()
            if i in reads(self.op)
        }
        return evaluate(self.op, values, self.shape, self.layout)


class Draw:
    """Random choices of one case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.layout: Layout = self.one_of(("nchw", "nhwc"))

    def one_of(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def below(self, low: int, high: int) -> int:
        """Low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def two(self, low: int, high: int) -> tuple[int, int]:
        return self.below(low, high), self.below(low, high)

    def chance(self, part: float = 0.5) -> bool:
        return bool(self.rng.random() < part)

    def values(self, *shape: int) -> NDArray[np.float32]:
        return self.rng.normal(size=shape).astype(np.float32)

    def shape(self, least: int = 0, most: int = 5) -> tuple[int, ...]:
        rank = self.below(least, most)
        return tuple(self.one_of((1, 2, 3, 4, 5, 7, 8) if rank > 2 else (1, 2, 5, 8, 9, 31)) for _ in range(rank))

    def image(self, batch: int, height: int, width: int, channels: int) -> tuple[int, ...]:
        shape = batch, height, width, channels
        return (batch, channels, height, width) if self.layout == "nchw" else shape

    def axes(self, rank: int) -> tuple[int, ...]:
        chosen = tuple(d for d in range(rank) if self.chance())
        return chosen or (self.below(0, rank - 1),)
