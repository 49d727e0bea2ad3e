"""Tensors of a graph at their places in an arena that other models may use, too, in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import Arena

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

__all__ = ["TensorMemory"]


class TensorMemory:
    """The memory of some tensors of a graph, its inputs and outputs among them.

    Attributes:
        arena: where they are. If it grows for another user, they stay where they are.
    """

    def __init__(self, graph: Graph, places: Mapping[int, int], size: int, arena: Arena | None) -> None:
        """Reserve the memory.

        Args:
            graph: the model.
            places: the offset of each tensor in bytes, by its index.
            size: bytes that all of them take.
            arena: where; one of its own if None.
        """
        self.arena = arena or Arena()
        self.arena.reserve(size)
        self._graph, self._places = graph, places
        self._block, self._turn = self.arena.memory, object()

    def address(self, index: int) -> int:
        """Where a tensor begins."""
        return int(self._block.ctypes.data) + self._places[index]

    def run(self, inputs: Sequence[NDArray[Any]], invoke: Callable[[], None]) -> list[NDArray[Any]]:
        """Put the inputs into their places, invoke the model and take the outputs, both in the graph's order.

        Raises RuntimeBindError for an input of another size, and what `invoke` raises.
        """
        tensors = self._graph.tensors
        with self.arena.lock:
            self.arena.holder = self._turn
            for i, value in zip(self._graph.inputs, inputs, strict=True):
                if value.nbytes != tensors[i].size:
                    raise RuntimeBindError(f"input {tensors[i].name!r} has {tensors[i].size} bytes, not {value.nbytes}")
                self._of(i)[:] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            invoke()
            return [self._of(i).view(tensors[i].dtype).reshape(tensors[i].shape).copy() for i in self._graph.outputs]

    def _of(self, index: int) -> NDArray[np.uint8]:
        offset = self._places[index]
        return self._block[offset : offset + self._graph.tensors[index].size]
