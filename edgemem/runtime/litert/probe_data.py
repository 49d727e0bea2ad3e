"""What LiteRT does with a model's memory, as data.

Probe            a model inside LiteRT with its builtin kernels: its tensors, the workspace of each operator, its arena
ProbedTensor     shape, size, and where LiteRT has it
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Place", "Probe", "ProbedTensor", "decode_probe", "encode_probe"]

Place: TypeAlias = Literal["none", "arena", "kept", "dynamic"]


@dataclass(frozen=True, slots=True)
class ProbedTensor:
    """A tensor inside LiteRT.

    Attributes:
        shape: its dimensions.
        size: in bytes.
        place: `arena`; `kept` from run to run, outside the arena; `dynamic`: allocated as the model runs; `none`.
    """

    shape: tuple[int, ...]
    size: int
    place: Place


@dataclass(frozen=True, slots=True)
class Probe:
    """The main subgraph of a model inside LiteRT.

    Attributes:
        tensors: those of the file, by index.
        workspace: for each operator the bytes of each workspace that its kernel has in the arena.
        kept: bytes that LiteRT keeps from run to run besides the constants of the file: variables, decompressed
            weights, workspace.
        arena: bytes of the arena for one run, as measured.
        shapes: of all tensors, a row a subgraph; None where only a run tells.
    """

    tensors: tuple[ProbedTensor, ...]
    workspace: tuple[tuple[int, ...], ...]
    kept: int
    arena: int
    shapes: tuple[tuple[tuple[int, ...] | None, ...], ...]

    @property
    def dynamic(self) -> int:
        """Bytes that LiteRT allocated in a run on zeros."""
        return sum(t.size for t in self.tensors if t.place == "dynamic")


def encode_probe(probe: Probe) -> dict[str, Any]:
    """A probe as plain data for JSON, which `decode_probe` reads."""
    return {
        "tensors": [(t.shape, t.size, t.place) for t in probe.tensors],
        "workspace": probe.workspace,
        "kept": probe.kept,
        "arena": probe.arena,
        "shapes": probe.shapes,
    }


def decode_probe(data: Mapping[str, Any]) -> Probe:
    """The probe that `encode_probe` has written."""
    return Probe(
        tuple(ProbedTensor(tuple(shape), size, place) for shape, size, place in data["tensors"]),
        tuple(map(tuple, data["workspace"])),
        data["kept"],
        data["arena"],
        tuple(tuple(None if shape is None else tuple(shape) for shape in row) for row in data["shapes"]),
    )
