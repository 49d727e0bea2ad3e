"""The pass that runs operators of a TFLite model in stripes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Rewritable
from edgemem.passes.protocol import Guarantee
from edgemem.passes.streaming.region import StripeStage
from edgemem.passes.streaming.stages import StripeLimits, choose_stages
from edgemem.passes.streaming.stream import stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.passes.protocol import PassContext
    from edgemem.passes.streaming.stages import Objective

__all__ = ["StreamOperators", "parse_stages"]

# What users say, and what is then made small.
_OBJECTIVES: Final[Mapping[str, Objective]] = {"auto": "arena", "head": "head"}
_PARTS: Final = 3  # numbers of a stage
_DIGITS: Final = 9  # of each
_TRIES: Final = 4  # choices until the file is small enough
_MARGIN: Final = 0.95  # of the operators that the file has room for


class StreamOperators:
    """Runs stages of a model in stripes of rows, which computes nothing twice.

    Options: `stages`, "auto" (the least head and tail), "head" or as `parse_stages` takes them; for a choice `max_ops`,
    `max_file_growth` (a ratio of file sizes) and `budget` (bytes of the head), all texts.
    """

    name: ClassVar[str] = "stream"
    suffixes: ClassVar[frozenset[str]] = frozenset({".tflite"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee(
        "identical", "every value is computed once, from the same values in the same order"
    )
    macs_ratio: ClassVar[float] = 1.0

    def apply(self, model: Model, context: PassContext) -> Model:
        """The streamed model without the plan it had; the model itself where no stages make its memory smaller.

        Raises TilingError for stages that cannot be streamed, and UnsupportedError where the limits exclude the model
        as it is.
        """
        if not isinstance(model, Rewritable):
            raise ModelError(f"{context.path.name}: operators of this format cannot be replaced")
        graph, options, target = model.graph(), context.options, context.target
        alignment = target.alignment if target.slots else 0
        wanted = options.get("stages", "auto")
        if wanted not in _OBJECTIVES:
            return model.rewritten(stream(graph, parse_stages(wanted), alignment))
        objective = _OBJECTIVES[wanted]
        most = int(options["max_ops"]) if "max_ops" in options else None
        head = int(options["budget"]) if "budget" in options else None
        size = len(model.content())
        room = int(size * (float(options["max_file_growth"]) - 1)) if "max_file_growth" in options else None
        for _ in range(_TRIES):
            choice = choose_stages(graph, target, objective=objective, limits=StripeLimits(most, head))
            if not choice.stages:
                return model
            streamed = model.rewritten(stream(graph, choice.stages, alignment))
            grown = len(streamed.content()) - size
            if room is None or grown <= room:
                return streamed
            most = _fewer(graph, choice.operators, grown, room)
        return model


def parse_stages(text: str) -> tuple[StripeStage, ...]:
    """Stages from FIRST:LAST:STRIPES, separated by commas. Raises ModelError for any other text."""
    stages = []
    for part in text.split(","):
        numbers = part.strip().split(":")
        if len(numbers) != _PARTS or not all(n.isascii() and n.isdigit() and len(n) <= _DIGITS for n in numbers):
            raise ModelError(
                f"a stage is FIRST:LAST:STRIPES, such as 0:5:56, not {part.strip()!r}; or `auto` or `head`"
            )
        stages.append(StripeStage(*map(int, numbers)))
    return tuple(stages)


def _fewer(graph: Graph, operators: int, grown: int, room: int) -> int:
    """How many operators a file may have that is to grow by `room` bytes; with so many it has grown by `grown`."""
    if room <= 0:
        raise UnsupportedError("a streamed file is larger than the file; allow a growth, such as 1.05")
    before = len(graph.ops)
    return before + int((operators - before) * room / grown * _MARGIN)
