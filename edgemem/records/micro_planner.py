"""Where TensorFlow Lite Micro's memory planner puts what no offset in the file places, and how large the head is then.

The planner takes large buffers first, and each goes into the first gap between those that are alive at the same time.
Workspace never has an offset in the file: it goes around the tensors that have one.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.records.micro_buffers import buffers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgemem.model.graph import Graph
    from edgemem.records.micro_buffers import Buffer

__all__ = ["MicroHead", "place_buffers", "predicted_head"]


@dataclass(frozen=True, slots=True)
class MicroHead:
    """The head of an arena, in bytes.

    Attributes:
        total: all of it.
        tensors: what it would be without workspace.
        is_overwritten: whether a kernel writes behind its workspace, onto a buffer in use: results are wrong then.
    """

    total: int
    tensors: int
    is_overwritten: bool = False

    @property
    def workspace(self) -> int:
        """What workspace adds."""
        return self.total - self.tensors


def predicted_head(graph: Graph, offline: Mapping[str, int], pointer: int = 4, kernels: str = "none") -> MicroHead:
    """The head with the kernels of a profile.

    Args:
        graph: of a .tflite file.
        offline: offsets that the file decides, by tensor.
        pointer: bytes of the device's pointers.
        kernels: the profile; `none` for the reference kernels.
    """
    buffers = buffers_of(graph, pointer, kernels)
    tensors = [buffer for buffer in buffers if not buffer.is_workspace]
    places = place_buffers(buffers, offline)
    total = max((offset + buffer.size + buffer.behind for buffer, offset in places), default=0)
    alone = max((offset + buffer.size for buffer, offset in place_buffers(tensors, offline)), default=0)
    return MicroHead(total, min(total, alone), any(_is_overwritten(*place, places) for place in places))


def _is_overwritten(buffer: Buffer, offset: int, places: Sequence[tuple[Buffer, int]]) -> bool:
    """Whether what a kernel writes behind its workspace hits another buffer that is in use then."""
    end = offset + buffer.size
    return bool(buffer.behind) and any(
        at < end + buffer.behind and end < at + other.size and other.first <= buffer.last and buffer.first <= other.last
        for other, at in places
        if other is not buffer
    )


def place_buffers(buffers: Iterable[Buffer], offline: Mapping[str, int]) -> list[tuple[Buffer, int]]:
    """The offset of every buffer in the head.

    Args:
        buffers: in the order of `buffers_of`.
        offline: offsets that the file decides, by tensor.
    """
    made, free = [], []
    for buffer in buffers:
        if buffer.name in offline:
            made.append((buffer, offline[buffer.name]))
        else:
            free.append(buffer)
    placed = [(offset, offset + b.size, b.first, b.last) for b, offset in made]
    placed.sort()
    free.reverse()  # among equals the last one first
    for buffer in sorted(free, key=lambda b: -b.size):
        offset = 0
        for start, end, first, last in placed:
            if first <= buffer.last and buffer.first <= last:
                if start - offset >= buffer.size:
                    break
                offset = max(offset, end)
        insort(placed, (offset, offset + buffer.size, buffer.first, buffer.last))
        made.append((buffer, offset))
    return made
