"""Streaming: a graph whose stages run in stripes of rows, computing nothing twice.

Each operator of a stage makes the rows that its inputs so far allow. Rows that later stripes need again are kept: a
slice of the tail of the rows that are there, which a concatenation puts before the new ones. So the number of
multiply-accumulate operations stays the same, and so does every bit of the outputs: the operators compute the same
sums in the same order. Windows with paddings become a padding and a window without, because only the first and the
last stripe have rows of padding.

The new tensors have the name of the old one and the rows they hold: `conv1[12:14]` was made by the operator of
`conv1`. `s` behind it marks a slice for one operator, `t` a kept tail, `w` rows joined with a tail, `g` a group of
stripes of a result, `r` the result of a resize before its surplus rows are dropped.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.passes.sheet import Sheet
from edgemem.passes.streaming.region import StripeStage, region_of
from edgemem.passes.streaming.stripes import write_stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.model.rewrite import Rewrite

__all__ = ["StripeStage", "stream"]


def stream(graph: Graph, stages: Sequence[StripeStage], slot_alignment: int = 16) -> Rewrite:
    """The graph with its stages streamed, and without the tensors that nothing uses any more.

    Args:
        graph: of a model whose format says which dimension is the height.
        stages: operators by their index in the graph. They do not overlap; their order does not matter.
        slot_alignment: of the offsets at which the executor keeps a slice inside its input, in bytes. Slices of a
            stage's inputs that can lie so come before the stage, because they cost nothing and let the input die. 0
            if the executor copies every slice.

    Raises:
        ModelError: a stage is not in the graph or has more than 65536 stripes, or two overlap.
        TilingError: an operator of a stage cannot run in stripes; it says which and why.
    """
    ordered = sorted(stages, key=lambda stage: stage.first_op)
    for one, other in pairwise(ordered):
        if other.first_op <= one.last_op:
            raise ModelError(
                f"the stages {one.first_op}:{one.last_op} and {other.first_op}:{other.last_op} overlap; "
                "every operator is in one stage at most"
            )
    regions = {stage.first_op: region_of(graph, stage) for stage in ordered}
    sheet = Sheet(graph)
    index = 0
    places = {}
    while index < len(graph.ops):
        region = regions.get(index)
        if region is None:
            places[index] = len(sheet.ops)
            sheet.copy(index)
            index += 1
        else:
            write_stage(graph, region, sheet, slot_alignment)
            index = region.stage.last_op + 1
    precedence = tuple((places[first], places[then]) for first, then in graph.precedence)
    return sheet.rewrite(precedence)
