"""The pass that runs operators of a model in parts along channels, heads, tokens or any other axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from edgemem.errors import ModelError
from edgemem.passes.protocol import Guarantee, sampled_graphs
from edgemem.passes.splitting.split import check_sizes, split
from edgemem.passes.splitting.stage import parse_stages
from edgemem.runtime.onnxruntime.cut_graph import cut_model, level_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext
    from edgemem.passes.splitting.stage import SplitStage

__all__ = ["SplitOperators"]


@dataclass(frozen=True, slots=True)
class SplitOperators:
    """Computes runs of operators part by part, which computes nothing twice; weights are cut with them.

    Attributes:
        stages: counted in the graph that is cut.
        level: for ONNX, to which ONNX Runtime optimises the graph once more; "" leaves it at the level it was cut at.
    """

    stages: tuple[SplitStage, ...]
    level: str = ""

    name: ClassVar[str] = "split"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx", ".tflite"})
    requires: ClassVar[Mapping[str, str]] = {".onnx": "optimize"}
    guarantee: ClassVar[Guarantee] = Guarantee(
        "close",
        "every value is computed once, from the same values; TensorFlow Lite Micro adds them in the same order, ONNX "
        "Runtime may add those of a part in other blocks, as it does at other levels of optimisation",
    )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The pass of FIRST:LAST:PARTS/AXIS[+...][@LEVEL]. Raises ModelError for any other text."""
        stages, level = level_of(text)
        return cls(parse_stages(stages), level)

    def apply(self, model: Model, context: PassContext) -> Model:
        """The model in parts, without the plan it had.

        Raises TilingError for operators that cannot be computed in parts, or not in the same at all sizes; ModelError
        for a level where the model is no ONNX file, and as ONNX Runtime's optimiser.
        """
        if not self.stages:
            return model
        if self.level and ".onnx" not in model.suffixes:
            raise ModelError(f"{context.path.name}: levels are of ONNX Runtime; leave @{self.level} out")
        if model.bindings.ranges:
            check_sizes(list(sampled_graphs(model)), self.stages)
        return cut_model(model, lambda graph: split(graph, self.stages), self.level, context)

    def __str__(self) -> str:
        return f"{self.name}={'+'.join(map(str, self.stages))}" + (f"@{self.level}" if self.level else "")
