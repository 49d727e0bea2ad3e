"""How the operators of a file are wired, whatever the sizes of its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Wiring"]


@dataclass(frozen=True, slots=True)
class Wiring:
    """The main subgraph.

    Attributes:
        tensors: how many it has.
        operands: the tensors (indices; -1 for an absent one) that each operator reads, in the order of the file.
        results: those that it computes.
        variables: tensors that keep their values from run to run.
        bits: of an element, for the tensors whose elements are narrower than a byte.
    """

    tensors: int
    operands: tuple[tuple[int, ...], ...]
    results: tuple[tuple[int, ...], ...]
    variables: tuple[int, ...]
    bits: Mapping[int, int]
