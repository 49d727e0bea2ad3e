"""A description of a network that has shapes only: a Graph without weights, for searches that read nothing else.

Dimensions are [batch, channels, height, width]. A layer that runtimes run as one operator is one operator here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from edgemem.model.graph import Graph, Op, Tensor

__all__ = ["Sketch", "SketchTensor"]


@dataclass(frozen=True, slots=True)
class SketchTensor:
    """A tensor of the network: its number, channels, height and width."""

    index: int
    channels: int
    height: int
    width: int


@dataclass
class Sketch:
    """Collects operators; every method adds one and returns its result. `dtype` is that of all tensors."""

    name: str
    dtype: str = "int8"
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)

    def input(self, channels: int, side: int) -> SketchTensor:
        """An input of the network."""
        value = self._tensor("input", channels, side, side)
        self.inputs.append(value.index)
        return value

    def op(self, kind: str, *reads: SketchTensor, channels: int = 0, side: int = 0, height: int = 0) -> SketchTensor:
        """An operator. Its result is as large as the first value that it reads, but for what is given.

        `side` is height and width, `height` only the one.
        """
        first = reads[0]
        made = self._tensor(
            kind.lower(), channels or first.channels, height or side or first.height, side or first.width
        )
        name = self.tensors[made.index].name
        self.ops.append(Op(name, kind, tuple(v.index for v in reads), (made.index,)))
        return made

    def concat(self, *reads: SketchTensor) -> SketchTensor:
        """The channels of all values."""
        return self.op("Concat", *reads, channels=sum(v.channels for v in reads))

    def graph(self, *outputs: SketchTensor) -> Graph:
        """The network, with these outputs, in the order in which its operators were added."""
        wanted = tuple(v.index for v in outputs)
        return Graph(self.name, tuple(self.tensors), tuple(self.ops), tuple(self.inputs), wanted, layout="nchw")

    def _tensor(self, kind: str, channels: int, height: int, width: int) -> SketchTensor:
        index = len(self.tensors)
        self.tensors.append(Tensor(f"{kind}_{index}", self.dtype, (1, channels, height, width)))
        return SketchTensor(index, channels, height, width)
