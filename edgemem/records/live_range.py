"""Live ranges of a graph's tensors, and which tensors may share memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.model.graph import Tensor
    from edgemem.records.problem import Kind

__all__ = ["Life", "Sharing"]


@dataclass(slots=True, eq=False)
class Life:
    """A tensor's interval, or an alias class's once tensors are merged into it.

    Attributes:
        tensor: the tensor, or the first one of the class.
        first: the first step that needs its memory.
        last: the last one, inclusive.
        kind: what its usage record is to the model.
        outside: why it has no place in the plan; "" if it has one.
        fixed: its memory is shared with nothing but views of it, if at all: graph inputs and outputs, variables, and
            what a body takes in or gives back.
        present: it is there before the first step, whatever the order; in bodies so are variables alone.
        kept: it stays to the end of the run.
        names: all tensors in it.
        offset: where it is pinned, in bytes; then its memory is shared with nothing. None: anywhere.
    """

    tensor: Tensor
    first: int
    last: int
    kind: Kind = "tensor"
    outside: str = ""
    fixed: bool = False
    present: bool = False
    kept: bool = False
    names: list[str] = field(default_factory=list)
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which tensors may share memory, in whatever order the operators run. Tensors are named.

    Attributes:
        root: every tensor's memory by its first tensor: a view's is that of the tensor it is a view of, and any other
            tensor's is its own.
        views: for each step the memory that its first result is a view of; "" if it is none.
        over: for each step the memory that its first result may take, in order of preference. It takes the first one
            that nothing needs after the step.
        readers: how many inputs of operators each tensor is.
        sole_reader: a step looks no further once it meets memory that nothing needs afterwards, but whose first tensor
            has several readers.
    """

    root: Mapping[str, str]
    views: tuple[str, ...]
    over: tuple[tuple[str, ...], ...]
    readers: Mapping[str, int]
    sole_reader: bool
