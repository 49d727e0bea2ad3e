"""The pass that runs operators of an ONNX model in tiles.

    file ─ optimise (extended) ─ tiles ─ optimise (all) ─► the graph that is planned and run

Tiles are cut in the graph of the level `extended`, because that of `all`, which sessions run by default, keeps channels
in blocks that cannot be cut into rows. What was cut is then optimised again, so that it runs the kernels of a default
session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

from edgemem.errors import ModelError, TilingError
from edgemem.formats import Ranged, Rewritable, Stateful
from edgemem.model.ranges import samples_of
from edgemem.passes.protocol import Guarantee
from edgemem.passes.tiling.stage import parse_stages
from edgemem.passes.tiling.tile import tile
from edgemem.runtime.onnxruntime.baked_file import LEVELS, baked_note
from edgemem.runtime.onnxruntime.optimise_pass import optimised_again

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.passes.protocol import PassContext
    from edgemem.passes.tiling.stage import TileStage

__all__ = ["TILED_LEVEL", "TileOperators"]

TILED_LEVEL: Final = "extended"  # the highest level whose graph can be cut


@dataclass(frozen=True, slots=True)
class TileOperators:
    """Computes runs of operators tile by tile in ONNX Runtime's optimised graph.

    Attributes:
        stages: counted in the graph that is cut.
        level: to which ONNX Runtime optimises the tiled graph once more; "" leaves it at the level it was cut at.

    At the level `all` the outputs may differ from those of a default session as ONNX Runtime's own levels differ from
    each other, because another graph has other fusions.
    """

    stages: tuple[TileStage, ...]
    level: str = ""

    name: ClassVar[str] = "tile"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx"})
    requires: ClassVar[Mapping[str, str]] = {".onnx": "optimize"}
    guarantee: ClassVar[Guarantee] = Guarantee(
        "close",
        "every part is computed from the same values; kernels may add them in other blocks, as they do at other levels "
        "of optimisation",
    )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The pass of FIRST:LAST:ROWSxCOLUMNS[+...][@LEVEL]. Raises ModelError for any other text."""
        stages, _, level = text.partition("@")
        if level and level not in LEVELS:
            raise ModelError(f"no level {level!r}; there are {', '.join(LEVELS)}")
        return cls(parse_stages(stages), level)

    def apply(self, model: Model, context: PassContext) -> Model:
        """The tiled model. Raises TilingError for stages that cannot be tiled, and as ONNX Runtime's optimiser."""
        if isinstance(model, Stateful) and model.noted_states():
            raise ModelError(f"{context.path.name}: tiles fix the sizes of a model, and its states keep them open")
        if not isinstance(model, Rewritable):
            raise ModelError(f"{context.path.name}: its format cannot be tiled")
        if not self.stages:
            return model
        graph = model.graph()
        _check_blocks(graph, context)
        if model.bindings.ranges and isinstance(model, Ranged):
            points = samples_of(model.bindings.dims, model.bindings.ranges)
            _check_sides(list(model.graphs(points)), self.stages)
        made = model.rewritten(tile(graph, self.stages))
        note = baked_note(model.content())
        return optimised_again(made, self.level, context) if self.level and note and note.level != self.level else made

    def __str__(self) -> str:
        return f"{self.name}={'+'.join(map(str, self.stages))}" + (f"@{self.level}" if self.level else "")


def _check_sides(graphs: Sequence[Graph], stages: Iterable[TileStage]) -> None:
    """Raise TilingError for an operator whose tensors have other rows or columns at other sizes: tiles are cut at some.

    `graphs` are of one model at several sizes.
    """
    for k in (k for stage in stages for k in range(stage.first, stage.last + 1)):
        sides = [
            [graph.tensors[i].shape[2:] for i in (*graph.ops[k].inputs, *graph.ops[k].outputs) if i >= 0]
            for graph in graphs
        ]
        if any(each != sides[0] for each in sides):
            op = graphs[0].ops[k]
            raise TilingError(
                op.name, "its rows or columns follow a dimension that has a range, and tiles are for one size of them"
            )


def _check_blocks(graph: Graph, context: PassContext) -> None:
    """Raise TilingError for a graph whose tensors are laid out in blocks of channels."""
    blocked = next((op for op in graph.ops if op.type.startswith("com.microsoft.nchwc::")), None)
    if blocked is not None:
        why = "its graph was optimised to the level `all` and keeps channels in blocks, which cannot be cut into rows"
        raise TilingError(context.path.name, f"{why}; tile the model that it was made from")
