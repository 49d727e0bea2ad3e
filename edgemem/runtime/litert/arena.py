"""The arena that LiteRT really uses, measured through the public interface of its interpreter.

`Interpreter.tensor` gives an array that lies on a tensor's own memory, and `get_tensor_details` lists the workspace of
kernels behind the tensors of the file, so that addresses tell where LiteRT has put what. Tensors in its arena begin
where another one ends, at the next multiple of 64 bytes: what is farther away lies in memory of another kind, such as
the arena for what lives from run to run, or the heap.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from edgemem.formats.wiring import Wiring

__all__ = ["LitertArena", "SeenTensor", "arena_of", "computed_tensors", "find_arena", "see_tensors"]

_ALIGNMENT: Final = 64  # of everything in LiteRT's arena
_SEEN: Final = "fiubc"  # kinds of NumPy's dtypes; LiteRT crashes when it shows others, such as strings


@dataclass(frozen=True, slots=True)
class SeenTensor:
    """A tensor as LiteRT shows it.

    Attributes:
        shape: its dimensions.
        dtype: NumPy's description of its type.
        size: in bytes.
        address: 0 where it has no memory yet; -1 where it has some and LiteRT does not show where: a scalar.
    """

    shape: tuple[int, ...]
    dtype: str
    size: int
    address: int


@dataclass(frozen=True, slots=True)
class LitertArena:
    """The arena for the tensors of one run, workspace included.

    LiteRT does not show where scalars are: where one is the first or the last in the arena, the arena is larger than
    this by up to 64 bytes for each such scalar.

    Attributes:
        size: bytes from the first to the last of its tensors.
        begin: the address of the first one.
        tensors: index -> offset, of those that lie in it and that LiteRT shows.
    """

    size: int
    begin: int
    tensors: Mapping[int, int]


def arena_of(interpreter: Any, wiring: Wiring) -> LitertArena:
    """The arena of an interpreter's main subgraph. Raises ValueError if no tensors are allocated."""
    inputs = [int(details["index"]) for details in interpreter.get_input_details()]
    seen = see_tensors(interpreter, wiring, computed_tensors(wiring, inputs))
    if seen and not any(tensor.address for tensor in seen.values()):
        raise ValueError("no tensors are allocated")
    return find_arena(seen, inputs)


def computed_tensors(wiring: Wiring, inputs: Iterable[int]) -> frozenset[int]:
    """The inputs, and what operators compute; without variables."""
    return frozenset({*inputs, *(i for results in wiring.results for i in results)} - set(wiring.variables))


def see_tensors(interpreter: Any, wiring: Wiring, indices: Iterable[int]) -> dict[int, SeenTensor]:
    """Tensors of an interpreter's main subgraph as they are now, and what kernels have added, by index.

    Those of types without a fixed size are left out.
    """
    wanted = frozenset(indices)
    seen = {}
    for details in interpreter.get_tensor_details():
        index = details["index"]
        if (index in wanted or index >= wiring.tensors) and np.dtype(details["dtype"]).kind in _SEEN:
            seen[index] = _see(interpreter, index, details, wiring.bits.get(index))
    return seen


def _see(interpreter: Any, index: int, details: Mapping[str, Any], bits: int | None) -> SeenTensor:
    """A tensor; LiteRT shows elements that are narrower than a byte as bytes."""
    shape, dtype = tuple(map(int, details["shape"])), np.dtype(details["dtype"])
    size = -(-prod(shape) * (bits or 8 * dtype.itemsize) // 8)
    try:
        # No array may outlive this call: LiteRT does not run while there is one.
        view = interpreter.tensor(index)()
    except ValueError:  # it has no memory
        return SeenTensor(shape, dtype.str, size, 0)
    return SeenTensor(shape, dtype.str, size, view.ctypes.data if isinstance(view, np.ndarray) else -1)


def find_arena(seen: Mapping[int, SeenTensor], inputs: Iterable[int]) -> LitertArena:
    """The arena among tensors that operators compute, workspace and inputs.

    Args:
        seen: none of them constants or variables.
        inputs: those of the graph, which LiteRT always keeps in the arena. Where there are none, the arena is what most
            tensors lie in.
    """
    placed = sorted((t.address, t.address + t.size, i) for i, t in seen.items() if t.address > 0 and t.size)
    # Each scalar, of which only LiteRT knows the place, may be alone in its multiple of the alignment.
    most_gap = _ALIGNMENT * sum(t.address < 0 for t in seen.values()) + _ALIGNMENT - 1
    blocks: list[list[tuple[int, int, int]]] = []
    end = 0
    for low, high, index in placed:
        if not blocks or low - end > most_gap:
            blocks.append([])
        blocks[-1].append((low, high, index))
        end = max(end, high)
    known = frozenset(inputs)
    block = max(blocks, key=lambda b: (any(i in known for _, _, i in b), len(b)), default=[])
    if not block:
        return LitertArena(0, 0, {})
    begin = block[0][0]
    return LitertArena(max(high for _, high, _ in block) - begin, begin, {i: low - begin for low, _, i in block})
