"""The buffers that TensorFlow Lite Micro places in the head of its arena, and for how long.

It counts *scopes*: one for the start of every subgraph that an operator runs, and one for every operator. An operator's
outputs begin in its scope, before the scopes of the subgraphs that it runs, and its inputs end after them. What nothing
uses is in no scope, but has a place all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.model.micro_workspace import workspace_of, written_by
from edgemem.model.steps import body_path, scratch_name
from edgemem.records.sizes import padded, tensor_bytes
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from edgemem.model.graph import Graph, Tensor

__all__ = ["Buffer", "buffers_of"]

# TensorFlow Lite Micro has no CALL, as read in 90b983c2b3f1: no kernel, and no scopes of its body. It is counted as if
# it had, so that plans of such files are compared fairly.
_RUN_BODIES: Final = frozenset(("IF", "WHILE", "CALL", "CALL_ONCE"))
_RESOURCE: Final = 4  # bytes of the number of a resource
_NOWHERE: Final = -1


@dataclass(slots=True)
class Buffer:
    """The memory of a tensor or of a piece of workspace.

    Attributes:
        name: of the tensor, or of the workspace's record, where its subgraph runs for the first time.
        size: bytes, a multiple of 16.
        first, last: its scopes, inclusive; -1 if nothing uses it.
        is_workspace: of a kernel; it has no offset in any file.
        behind: bytes that a kernel writes behind it, which the planner does not know of.
        also: names of the workspace's records where its subgraph runs again.
    """

    name: str
    size: int
    first: int = _NOWHERE
    last: int = _NOWHERE
    is_workspace: bool = False
    behind: int = 0
    also: tuple[str, ...] = ()


def buffers_of(graph: Graph, pointer: int = 4, kernels: str = "none") -> tuple[Buffer, ...]:
    """All buffers of the graph of a .tflite file, in the order in which TensorFlow Lite Micro asks for their places.

    That is the order of subgraphs and tensors in the file, and then that of subgraphs and operators for the workspace
    of their kernels. Constants and variables are kept elsewhere. Graphs that no operator runs have places, too.

    Args:
        graph: of the file.
        pointer: bytes of the device's pointers.
        kernels: the kernel profile that says which workspace there is.
    """
    counter = _Scopes(pointer, kernels)
    counter.visit(graph)
    for other in graph.others:
        counter.keep(other)
    tensors = (buffer for _, buffers in sorted(counter.of.items()) for buffer in buffers if buffer is not None)
    workspace = (buffer for _, buffer in sorted(counter.workspace.items(), key=lambda entry: entry[0]))
    return tuple(buffer for buffer in (*tensors, *workspace) if buffer.size or buffer.is_workspace)


class _Scopes:
    """A walk through the operators as TensorFlow Lite Micro makes it.

    Attributes:
        of: the buffers of each subgraph by its number, one for each tensor; None for what is kept elsewhere.
        workspace: by the number of the subgraph, the operator's place in it, and the number of the piece.
    """

    def __init__(self, pointer: int, kernels: str) -> None:
        self.of: dict[int, list[Buffer | None]] = {}
        self.workspace: dict[tuple[int, int, int], Buffer] = {}
        self._scope = 0
        self._device = pointer, kernels

    def visit(self, graph: Graph, path: str = "") -> None:
        """Note the scopes of a subgraph's tensors, and of those in the subgraphs that it runs."""
        number, buffers = self._buffers(graph)

        def use(index: int) -> None:
            buffer = buffers[index] if index >= 0 else None
            if buffer is not None:
                buffer.first = self._scope if buffer.first == _NOWHERE else buffer.first
                buffer.last = self._scope

        for index in graph.inputs:
            use(index)
        for place, op in enumerate(graph.ops):
            self._scope += 1
            label = f"{path}{op.name or op.type}"
            for index in op.outputs:
                use(index)
            sizes = zip(workspace_of(graph, op, *self._device), written_by(graph, op, *self._device), strict=True)
            for k, (asked, written) in enumerate(sizes):
                self._use_workspace((number, place, k), scratch_name(label, k), asked, written)
            for k, body in enumerate(op.bodies):
                if op.type in _RUN_BODIES:
                    self._scope += 1
                    self.visit(body, body_path(label, op, k))
                else:
                    self._buffers(body)
            for index in (*op.inputs, *op.outputs):
                use(index)
        for index in graph.outputs:
            use(index)

    def keep(self, graph: Graph) -> None:
        """Note the tensors of a graph that no operator runs, and of those that it runs: they are in no scope."""
        self._buffers(graph)
        for body in (body for op in graph.ops for body in op.bodies):
            self.keep(body)

    def _use_workspace(self, key: tuple[int, int, int], name: str, asked: int, written: int) -> None:
        buffer = self.workspace.get(key)
        if buffer is None:
            size, end = (padded(each, BUILT_IN["tflm"].alignment) for each in (asked, written))
            self.workspace[key] = Buffer(name, size, self._scope, self._scope, is_workspace=True, behind=end - size)
        else:
            buffer.last, buffer.also = self._scope, (*buffer.also, name)

    def _buffers(self, graph: Graph) -> tuple[int, list[Buffer | None]]:
        number = graph.number if graph.number >= 0 else len(self.of)
        if number not in self.of:
            made = {i for op in graph.ops if op.type != "VAR_HANDLE" for i in op.outputs} | set(graph.inputs)
            self.of[number] = [_buffer(t, made=i in made) for i, t in enumerate(graph.tensors)]
        return number, self.of[number]


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
