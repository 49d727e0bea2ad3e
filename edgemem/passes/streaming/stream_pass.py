"""The pass that runs operators of a TFLite model in stripes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

from edgemem.errors import ModelError
from edgemem.formats import Rewritable
from edgemem.passes.protocol import Guarantee
from edgemem.passes.stage_order import stage_numbers
from edgemem.passes.streaming.region import StripeStage
from edgemem.passes.streaming.stream import stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext

__all__ = ["StreamOperators"]

_STAGE: Final = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class StreamOperators:
    """Runs stages of a model in stripes of rows, which computes nothing twice.

    Attributes:
        stages: in the order of the graph.
    """

    stages: tuple[StripeStage, ...]

    name: ClassVar[str] = "stream"
    suffixes: ClassVar[frozenset[str]] = frozenset({".tflite"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee(
        "identical", "every value is computed once, from the same values in the same order"
    )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The pass of stages FIRST:LAST:STRIPES with a + between them. Raises ModelError for any other text."""
        refusal = "a stage is FIRST:LAST:STRIPES, such as 0:5:56, not {part!r}"
        return cls(tuple(StripeStage(*numbers) for numbers in stage_numbers(text, _STAGE, refusal)))

    def apply(self, model: Model, context: PassContext) -> Model:
        """The streamed model without the plan it had. Raises TilingError for stages that cannot be streamed."""
        if not isinstance(model, Rewritable):
            raise ModelError(f"{context.path.name}: operators of this format cannot be replaced")
        alignment = context.target.alignment if context.target.slots else 0
        return model.rewritten(stream(model.graph(), self.stages, alignment)) if self.stages else model

    def __str__(self) -> str:
        return f"{self.name}={'+'.join(f'{s.first_op}:{s.last_op}:{s.stripes}' for s in self.stages)}"
