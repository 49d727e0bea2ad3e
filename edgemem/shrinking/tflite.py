"""Candidates for a .tflite model: plain constants, orders, overlaps, stripes and recomputation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError
from edgemem.formats import Foldable, Rewritable
from edgemem.passes.fold_pass import FoldConstants
from edgemem.passes.order_pass import OrderOperators
from edgemem.passes.streaming.layers import Layers
from edgemem.passes.streaming.stages import StripeLimits, find_front
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.records.micro_builds import build_of
from edgemem.runtime.split_pass import SplitOperators
from edgemem.shrinking.parts import lowered, split_candidates
from edgemem.shrinking.steps import OVERLAP

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from edgemem.passes.streaming.stages import StripeChoice
    from edgemem.shrinking.branch import Branch, Workshop
    from edgemem.shrinking.candidate import Candidate

__all__ = ["tflite_candidates"]

_REFERENCE: Final = "tflm-reference"


def tflite_candidates(shop: Workshop) -> Iterator[Candidate]:
    """Every way to run the model, by lower bounds of its memory; the quick ones first."""
    start = shop.start
    yield shop.candidate(start)
    if shop.allows(FoldConstants.name) and isinstance(start.model, Foldable):
        folded = shop.apply(start, FoldConstants())
        if folded.model is not start.model:
            yield shop.candidate(folded)
            start = folded
    bases = [start]
    if shop.allows(OrderOperators.name):
        ordered = shop.apply(start, OrderOperators())
        if ordered.model is not start.model:
            yield shop.candidate(ordered)
            bases.append(ordered)
    for kernels in _profiles(shop):
        for base in bases:
            over = shop.overlapping(base, kernels)
            if kernels != "none":
                yield shop.candidate(over)
            if shop.allows(StreamOperators.name) and isinstance(base.model, Rewritable) and shop.target.is_dense:
                yield from _streamed(shop, shop.overlapping(base, kernels, slots=True))
            if shop.allows(SplitOperators.name) and isinstance(base.model, Rewritable) and shop.target.is_dense:
                yield from split_candidates(shop, over)
    yield from shop.recomputed(bases[-1])


def _profiles(shop: Workshop) -> tuple[str, ...]:
    """The kernel profiles that the target allows; the reference kernels' stands for what overlap would give."""
    own = shop.target.kernels
    if not shop.counts_tail or not shop.allows(OVERLAP):
        return (own,)
    return tuple(dict.fromkeys((own, _REFERENCE if own == "none" else own)))


def _streamed(shop: Workshop, base: Branch) -> Iterator[Candidate]:
    """The model in stripes, and in parts besides: of what stripes leave as it is, before and behind them."""
    front = yield from _front(shop, base)
    if not front or not shop.allows(SplitOperators.name):
        return
    layers = Layers(base.model.graph(), base.target.kernels, build_of(base.target))
    uncut = frozenset(k for k, nodes in layers.nodes.items() if nodes is None)
    other = lowered(shop, base, uncut, min(choice.bound for choice in front))
    if other is not base:
        front = (yield from _front(shop, other)) or front
    least = min(front, key=lambda choice: choice.arena)
    if least.stages:
        yield from split_candidates(shop, shop.apply(other, StreamOperators(least.stages)), halves=False)


def _front(shop: Workshop, base: Branch) -> Generator[Candidate, None, tuple[StripeChoice, ...]]:
    try:
        front = find_front(base.model.graph(), base.target, limits=StripeLimits(shop.limits.max_operators))
    except EdgememError as e:
        shop.refusals.append(str(e))
        return ()
    for choice in front:
        if choice.stages:
            yield shop.streamed(base, StreamOperators(choice.stages), choice)
    return front
