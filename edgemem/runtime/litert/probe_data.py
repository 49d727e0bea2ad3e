"""What LiteRT does with a model's memory, as data.

Probe            a model inside LiteRT: its subgraphs
ProbedSubgraph   its tensors, and the workspace of each operator
ProbedTensor     name, shape, size, where LiteRT allocates it, and its address
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

__all__ = ["ALLOCATIONS", "Allocation", "Probe", "ProbedSubgraph", "ProbedTensor", "decode_probe", "encode_probe"]

Allocation: TypeAlias = Literal[
    "none", "constant", "arena", "persistent", "dynamic", "folded", "custom", "variant", "elsewhere"
]
# In the order of TfLiteAllocationType. `folded` is computed once while the model is prepared.
ALLOCATIONS: Final[tuple[Allocation, ...]] = (
    *("none", "constant", "arena", "persistent", "dynamic", "folded", "custom", "variant", "elsewhere"),
)


@dataclass(frozen=True, slots=True)
class ProbedTensor:
    """A tensor inside LiteRT; `size` in bytes, `address` 0 while it has no memory."""

    name: str
    shape: tuple[int, ...]
    size: int
    allocation: Allocation
    address: int


@dataclass(frozen=True, slots=True)
class ProbedSubgraph:
    """A subgraph inside LiteRT, after its tensors were allocated.

    Attributes:
        number: its index in the file.
        tensors: those of the file by index, then those that kernels added.
        scratch: for each operator the tensors (indices) that its kernel added as workspace.
    """

    number: int
    tensors: tuple[ProbedTensor, ...]
    scratch: tuple[tuple[int, ...], ...]

    @property
    def arena(self) -> int:
        """Bytes from the first to the last byte of the arena for one run."""
        placed = [t for t in self.tensors if t.allocation == "arena" and t.address and t.size]
        if not placed:
            return 0
        return max(t.address + t.size for t in placed) - min(t.address for t in placed)

    def total(self, allocation: Allocation) -> int:
        """Bytes of all tensors that are allocated in this way, whether they share memory or not."""
        return sum(t.size for t in self.tensors if t.allocation == allocation)


@dataclass(frozen=True, slots=True)
class Probe:
    """A model inside LiteRT with its builtin kernels: the subgraphs that LiteRT showed, the main one first."""

    subgraphs: tuple[ProbedSubgraph, ...]

    @property
    def main(self) -> ProbedSubgraph:
        """The subgraph that runs."""
        return self.subgraphs[0]


def encode_probe(probe: Probe) -> list[dict[str, Any]]:
    """A probe as plain data for JSON, which `decode_probe` reads."""
    return [
        {
            "number": subgraph.number,
            "tensors": [(t.name, t.shape, t.size, t.allocation, t.address) for t in subgraph.tensors],
            "scratch": subgraph.scratch,
        }
        for subgraph in probe.subgraphs
    ]


def decode_probe(data: list[dict[str, Any]]) -> Probe:
    """The probe that `encode_probe` has written."""
    return Probe(
        tuple(
            ProbedSubgraph(
                row["number"],
                tuple(
                    ProbedTensor(name, tuple(shape), size, allocation, address)
                    for name, shape, size, allocation, address in row["tensors"]
                ),
                tuple(tuple(indices) for indices in row["scratch"]),
            )
            for row in data
        )
    )
