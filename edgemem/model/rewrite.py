"""A graph rewritten: other operators that compute the same outputs, and what each of them is made from.

Passes that tile or stream a model give one of these. It is planned as it stands, and a format writes it into a file
(`edgemem.formats.Rewritable`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from edgemem.model.graph import Graph

__all__ = ["NEW", "Rewrite"]

NEW: Final = -1


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A new graph with its origins in an old one. Raises ModelError for columns of another length.

    A tensor of the new graph that is also in the old one (inputs, outputs, constants, and what the pass left alone) has
    the same name there. What an operator of its own needs, such as `begin` and `size` of a SLICE, is in its
    `attributes`; its constant inputs are not in the graph.

    Attributes:
        graph: the new graph.
        sources: for each of its operators the operator of the old graph whose type, constants and options it takes;
            attributes of the new operator (`pads`) replace the old ones. NEW (-1): it is an operator of its own.
        likes: for each of its tensors the tensor of the old graph whose dtype and quantisation it has.
    """

    graph: Graph
    sources: tuple[int, ...]
    likes: tuple[int, ...]

    def __post_init__(self) -> None:
        """Checks the lengths."""
        if len(self.sources) != len(self.graph.ops) or len(self.likes) != len(self.graph.tensors):
            raise ModelError("a rewrite has a source for every operator and a likeness for every tensor")
