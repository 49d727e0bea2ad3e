"""The buffers that TensorFlow Lite Micro places in the head of its arena when it is left alone, and for how long.

It counts *scopes*: one for the start of every subgraph that an operator runs, and one for every operator. An operator's
outputs begin in its scope, before the scopes of the subgraphs that it runs, and its inputs end after them. What nothing
uses is in no scope, but has a place all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.records.sizes import padded, tensor_bytes
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from edgemem.model.graph import Graph, Tensor

__all__ = ["Buffer", "buffers_of"]

_RUN_BODIES: Final = frozenset(("IF", "WHILE", "CALL_ONCE"))
_RESOURCE: Final = 4  # bytes of the number of a resource
_NOWHERE: Final = -1


@dataclass(slots=True)
class Buffer:
    """A tensor's memory.

    Attributes:
        name: of the tensor, where its subgraph runs for the first time.
        size: bytes, a multiple of 16.
        first, last: its scopes, inclusive; -1 if nothing uses it.
    """

    name: str
    size: int
    first: int = _NOWHERE
    last: int = _NOWHERE


def buffers_of(graph: Graph) -> tuple[Buffer, ...]:
    """All buffers of the graph of a .tflite file, in the order in which TensorFlow Lite Micro asks for their places.

    That is the order of subgraphs and tensors in the file. Constants and variables are kept elsewhere. Kernels'
    workspace comes after these buffers.
    """
    counter = _Scopes()
    counter.visit(graph)
    return tuple(
        buffer for _, buffers in sorted(counter.of.items()) for buffer in buffers if buffer is not None and buffer.size
    )


class _Scopes:
    """A walk through the operators as TensorFlow Lite Micro makes it.

    Attributes:
        of: the buffers of each subgraph by its number, one for each tensor; None for what is kept elsewhere.
    """

    def __init__(self) -> None:
        self.of: dict[int, list[Buffer | None]] = {}
        self._scope = 0

    def visit(self, graph: Graph) -> None:
        """Note the scopes of a subgraph's tensors, and of those in the subgraphs that it runs."""
        buffers = self._buffers(graph)

        def use(index: int) -> None:
            buffer = buffers[index] if index >= 0 else None
            if buffer is not None:
                buffer.first = self._scope if buffer.first == _NOWHERE else buffer.first
                buffer.last = self._scope

        for index in graph.inputs:
            use(index)
        for op in graph.ops:
            self._scope += 1
            for index in op.outputs:
                use(index)
            for body in op.bodies:
                if op.type in _RUN_BODIES:
                    self._scope += 1
                    self.visit(body)
                else:
                    self._buffers(body)
            for index in (*op.inputs, *op.outputs):
                use(index)
        for index in graph.outputs:
            use(index)

    def _buffers(self, graph: Graph) -> list[Buffer | None]:
        number = graph.number if graph.number >= 0 else len(self.of)
        if number not in self.of:
            made = {i for op in graph.ops if op.type != "VAR_HANDLE" for i in op.outputs} | set(graph.inputs)
            self.of[number] = [_buffer(t, made=i in made) for i, t in enumerate(graph.tensors)]
        return self.of[number]


def _buffer(tensor: Tensor, *, made: bool) -> Buffer | None:
    """None for what is kept elsewhere; `made` says whether the caller or an operator writes the tensor's memory."""
    if tensor.kind == "variable" or (tensor.kind == "constant" and not made):
        return None
    if tensor.dtype == "resource" and made:  # given to a body; VAR_HANDLE's own is not in the arena
        size = _RESOURCE * prod(tensor.shape)
    elif tensor.kind == "opaque":
        return None
    else:
        size = tensor_bytes(tensor, BUILT_IN["tflm"], "nhwc")
    return Buffer(tensor.name, padded(size, BUILT_IN["tflm"].alignment))
