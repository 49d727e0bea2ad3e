"""A graph while a pass writes it anew: old tensors keep their numbers until it is done, new ones come after them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.rewrite import NEW, Rewrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.model.graph import Attribute
    from edgemem.model.rewrite import ConstantPart

__all__ = ["Draft", "Sheet"]

_LONGEST: Final = 24  # characters of an old name in a new one; a file holds thousands of them


class Draft(NamedTuple):
    """An operator before its tensors have their final numbers; the fields are those of `Op`, and its source."""

    name: str
    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Attribute]
    scratch: tuple[int, ...] = ()
    source: int = NEW


class Sheet:
    """Tensors and operators of the new graph while it is written. Old tensors keep their index."""

    def __init__(self, graph: Graph) -> None:
        """Starts with the tensors of the graph, and no operators."""
        self.tensors = list(graph.tensors)
        self.likes = list(range(len(graph.tensors)))
        self.ops: list[Draft | tuple[int, Op]] = []  # new ones; old ones with their index
        self._taken = {tensor.name for tensor in graph.tensors}
        self._stems: set[str] = set()
        self._graph = graph
        self._parts: dict[int, ConstantPart] = {}

    def stem(self, name: str) -> str:
        """A short name for the parts of a tensor, which no other tensor has."""
        short = stem = name.partition(";")[0][-_LONGEST:]
        number = 1
        while stem in self._stems:
            number += 1
            stem = f"{short}.{number}"
        self._stems.add(stem)
        return stem

    def add_tensor(self, name: str, dtype: str, shape: tuple[int, ...], like: int) -> int:
        """Append a tensor; returns its index."""
        return self._add(Tensor(self._free(name), dtype, shape, scales=self.tensors[like].scales), like)

    def add_constant(self, name: str, like: int, shape: tuple[int, ...], part: ConstantPart) -> int:
        """Append a part of a constant; returns its index."""
        made = self._add(Tensor(self._free(name), self.tensors[like].dtype, shape, "constant"), like)
        self._parts[made] = part
        return made

    def copy(self, number: int) -> None:
        """Append an operator of the old graph as it is."""
        self.ops.append((number, self._graph.ops[number]))

    def rewrite(self, precedence: tuple[tuple[int, int], ...] = ()) -> Rewrite:
        """The new graph without unused tensors. Old ones keep their order, and come before new ones.

        `precedence` is that of the new graph.
        """
        old = self._graph
        used = {*old.inputs, *old.outputs}
        for entry in self.ops:
            op = entry if isinstance(entry, Draft) else entry[1]
            used.update(op.inputs)
            used.update(op.outputs)
        kept = sorted(used - {-1})
        place = {before: after for after, before in enumerate(kept)}
        place[-1] = -1
        ops, sources = [], []
        for entry in self.ops:
            op, source = (entry, entry.source) if isinstance(entry, Draft) else (entry[1], entry[0])
            inputs, made = tuple([place[i] for i in op.inputs]), tuple([place[i] for i in op.outputs])
            if isinstance(op, Draft):
                ops.append(Op(op.name, op.type, inputs, made, (), op.scratch, attributes=op.attributes))
            else:
                ops.append(replace(op, inputs=inputs, outputs=made))
            sources.append(source)
        graph = Graph(
            old.name,
            tuple(self.tensors[i] for i in kept),
            tuple(ops),
            tuple(place[i] for i in old.inputs),
            tuple(place[i] for i in old.outputs),
            old.layout,
            precedence,
            old.number,
        )
        parts = {place[i]: part for i, part in self._parts.items() if i in place}
        return Rewrite(graph, tuple(sources), tuple(self.likes[i] for i in kept), parts)

    def _add(self, tensor: Tensor, like: int) -> int:
        self.tensors.append(tensor)
        self.likes.append(like)
        return len(self.tensors) - 1

    def _free(self, name: str) -> str:
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name
