"""A graph rewritten: other operators that compute the same outputs, and what each of them is made from.

Passes that tile or stream a model give one of these. It is planned as it stands, and a format writes it into a file
(`edgemem.formats.Rewritable`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.model.graph import Graph

__all__ = ["NEW", "ConstantPart", "Rewrite"]

NEW: Final = -1


class ConstantPart(NamedTuple):
    """Which part of an old constant a new one is; its shape says how many items it has.

    Attributes:
        axis: along which it was cut.
        begin: the first of its items in the old constant.
    """

    axis: int
    begin: int


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
        parts: new constants that are parts of the old ones in `likes`. An old constant that nothing reads any more
            leaves the file.
    """

    graph: Graph
    sources: tuple[int, ...]
    likes: tuple[int, ...]
    parts: Mapping[int, ConstantPart] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Checks the lengths."""
        if len(self.sources) != len(self.graph.ops) or len(self.likes) != len(self.graph.tensors):
            raise ModelError("a rewrite has a source for every operator and a likeness for every tensor")
