"""A model as LiteRT runs it: the tensors and operators of its main subgraph, read from the interpreter."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from edgemem.runtime.litert.slots import slots_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.model.slots import Slot
    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.probe_data import Probe, ProbedTensor

__all__ = ["SUBGRAPHS", "WITH_SUBGRAPHS", "LitertOperator", "Structure", "checksum", "refusal", "structure_of"]

_OPEN: Final = ("dynamic", "variant")  # allocated as the model runs
WITH_SUBGRAPHS: Final = frozenset({"IF", "WHILE", "CALL", "STABLEHLO_WHILE", "STABLEHLO_CASE"})
SUBGRAPHS: Final = "it runs branches or loops, whose subgraphs share tensors with the main one"


@dataclass(frozen=True, slots=True)
class LitertOperator:
    """An operator: its type, indices of tensors (-1 for an absent one), and which of these may lie inside others."""

    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    workspace: tuple[int, ...]
    slots: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class Structure:
    """The main subgraph.

    Attributes:
        tensors: those of the file, then those that kernels added.
        own: how many of them are in the file.
        operators: in the order in which they run.
        inputs, outputs: indices of tensors.
    """

    tensors: tuple[ProbedTensor, ...]
    own: int
    operators: tuple[LitertOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def structure_of(native: Any, delegate: Delegate, probed: Probe) -> Structure:
    """The main subgraph of a native interpreter that runs builtin kernels alone."""
    tensors = probed.main.tensors
    operators = []
    for number, (inputs, outputs, workspace) in enumerate(delegate.operators()):
        kind = str(native.NodeName(number))
        slots = slots_of(native, tensors, kind, inputs, outputs)
        operators.append(LitertOperator(kind, inputs, outputs, workspace, slots))
    inputs, outputs = (tuple(map(int, found)) for found in (native.InputIndices(), native.OutputIndices()))
    return Structure(tensors, delegate.own, tuple(operators), inputs, outputs)


def refusal(structure: Structure, delegate: Delegate) -> str:
    """Why the tensors of a model cannot have memory before it runs, or "".

    LiteRT places all tensors anew when it finds a size in the middle of a run. It prepares no operator that comes after
    one with such an output, so that the tensors behind it have no memory either.
    """
    tensors = structure.tensors
    unshaped = set(delegate.unshaped())
    dynamic = [t.name for i, t in enumerate(tensors[: structure.own]) if t.allocation in _OPEN or i in unshaped]
    if dynamic:
        more = f" and {len(dynamic) - 3} more" if len(dynamic) > 3 else ""
        return f"LiteRT decides the size of {', '.join(map(repr, dynamic[:3]))}{more} as it runs"
    written = (tensors[i] for i in sorted({i for op in structure.operators for i in op.outputs if i >= 0}))
    waiting = [t.name for t in written if t.allocation == "arena" and t.size and not t.address]
    if waiting:
        return f"LiteRT places {waiting[0]!r} and {len(waiting) - 1} more only as it runs, when it knows other sizes"
    if any(op.type in WITH_SUBGRAPHS for op in structure.operators):
        return SUBGRAPHS
    return ""


def checksum(structure: Structure) -> str:
    """A checksum of all that decides a plan: sizes, where LiteRT allocates, operators and their tensors."""
    first = second = 0
    for row in _rows(structure):
        text = repr(row).encode()
        first, second = zlib.crc32(text, first), zlib.adler32(text, second)
    return f"{first:08x}{second:08x}"


def _rows(structure: Structure) -> Iterator[tuple[Any, ...]]:
    yield structure.own, structure.inputs, structure.outputs, len(structure.tensors)
    for t in structure.tensors:
        yield t.name, t.size, t.allocation
    for op in structure.operators:
        yield op.type, op.inputs, op.outputs, op.workspace
