"""The pass that runs operators of an ONNX model in tiles (`edgemem.runtime.onnxruntime.cut_graph`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from edgemem.errors import TilingError
from edgemem.passes.protocol import Guarantee, sampled_graphs
from edgemem.passes.tiling.stage import parse_stages
from edgemem.passes.tiling.tile import tile
from edgemem.runtime.onnxruntime.cut_graph import cut_model, level_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.passes.protocol import PassContext
    from edgemem.passes.tiling.stage import TileStage

__all__ = ["TileOperators"]


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
        stages, level = level_of(text)
        return cls(parse_stages(stages), level)

    def apply(self, model: Model, context: PassContext) -> Model:
        """The tiled model. Raises TilingError for stages that cannot be tiled, and as ONNX Runtime's optimiser."""
        if not self.stages:
            return model
        if model.bindings.ranges:
            _check_sides(list(sampled_graphs(model)), self.stages)
        return cut_model(model, lambda graph: tile(graph, self.stages), self.level, context)

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
