"""Ways to run one model in less memory: its order, tiles or stripes, recomputation, and mixtures of them.

    model ─ order ─┬──────────────────────── recompute ─► order + recompute
                   ├─ tiles (the budget) ─── order ─────► order + tiles
                   └─ tiles (a looser one) ─ order ─ recompute ─► order + tiles + recompute

Of the ways within a budget the one with the least arithmetic is wanted, without a budget the one with the lowest peak.
Stages that are cheapest for a looser budget leave the rest to recomputation, so several such budgets are tried.
Stripes cost no arithmetic, but memory in TensorFlow Lite Micro's tail: what takes more in head and tail together than
the model as it is comes last.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from edgemem.commands.largest_operator import widest_operator
from edgemem.commands.order_choice import order_among, order_model
from edgemem.errors import EdgememError
from edgemem.formats.workspace import graph_under
from edgemem.model.macs import count_macs
from edgemem.passes.recompute.recompute_pass import RecomputeOperators
from edgemem.passes.recompute.repeated_graph import repeat
from edgemem.records.micro_tail import predicted_tail
from edgemem.schedule.peak import peak_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from edgemem.commands.largest_operator import WidestOperator
    from edgemem.commands.steps import Steps
    from edgemem.formats import Model
    from edgemem.passes.protocol import Pass
    from edgemem.schedule.ordering import Ordering
    from edgemem.targets import Target

__all__ = ["CHOSEN", "CandidateLimits", "Mixture", "Mixtures", "find_mixtures"]

CHOSEN: Final = frozenset({"auto", "head"})  # values of `stages` that leave the stages to the pass
_LOOSER: Final = (0.25, 0.5, 0.75)  # between the budget and the peak without stages, on a logarithmic scale
_SEARCHES: Final = 8  # of orders and runs, which share the time


@dataclass(frozen=True, slots=True)
class CandidateLimits:
    """What is wanted of a mixture.

    Attributes:
        max_macs: the most multiply-accumulate operations, as a multiple of the model's.
        budget: bytes of the arena; None for the lowest peak.
        orders: whether the order of operators may change.
        counts_tail: operators cost memory besides, in TensorFlow Lite Micro's tail.
    """

    max_macs: float
    budget: int | None = None
    orders: bool = True
    counts_tail: bool = False


@dataclass(frozen=True, slots=True)
class Mixture:
    """A way to run the model.

    Attributes:
        means: what it is made of, in the order in which it was applied: `order`, `tile`, `stream`, `recompute`.
        peak: the lower bound of the arena, in bytes (texels for textures).
        tail: predicted bytes of TensorFlow Lite Micro's tail where that counts, else 0.
        macs: multiply-accumulate operations of a run.
        operators: that a run takes.
        ordering: of the graph before recomputation; None where no order was searched.
        target: whose rules count its memory.
        make: the model itself. A peak that ONNX Runtime's rules for Shape and Size change is found only then.
    """

    means: tuple[str, ...]
    peak: int
    tail: int
    macs: int
    operators: int
    ordering: Ordering | None = field(repr=False)
    target: Target = field(repr=False)
    make: Callable[[], Model] = field(repr=False, compare=False)

    @property
    def memory(self) -> int:
        """Peak and tail."""
        return self.peak + self.tail


@dataclass(frozen=True, slots=True)
class Mixtures:
    """What was found.

    Attributes:
        ranked: those within the limits, the best first; () if the budget is below all of them.
        best: of every set of means the best one, whether it is within the budget or not; the model as it is first.
        widest: the operator of the model as it is that alone needs most; None if there is none.
        refused: why no stages could be made, or "".
    """

    ranked: tuple[Mixture, ...]
    best: tuple[Mixture, ...]
    widest: WidestOperator | None
    refused: str = ""


def find_mixtures(model: Model, steps: Steps, limits: CandidateLimits, cut: Pass | None = None) -> Mixtures:
    """Ways to run a model within limits.

    Args:
        model: the model.
        steps: the options of the searches for orders and stages. All searches share the time limit of the first.
        limits: what is wanted.
        cut: the pass that runs operators in tiles or stripes; None does without. Where its stages are given by hand,
            every mixture has them.

    Raises as the search for an order, and as `cut` where its stages are given by hand.
    """
    search = _Search(model, steps, limits, cut)
    bases: list[Mixture] = []
    if not search.by_hand:
        bases.append(search.given)
        if limits.orders:
            steps.progress("order")
            bases.append(search.ordered())
    if cut is not None and (search.by_hand or not search.is_enough(bases[-1])):
        bases += search.cut(cut, bases[-1] if bases else None)
    found = list(bases)
    for base in bases:
        if base.means == () and limits.orders:
            continue  # the search for an order has begun with it
        if any(search.is_settled(known, base) for known in found):
            continue
        steps.progress("recompute")
        found += search.recomputed(base)
    widest = widest_operator(graph_under(model, steps.whole_rules), steps.whole_rules)
    return Mixtures(search.ranked(found), search.best(found), widest, search.refused)


class _Search:
    """The ways to run one model."""

    def __init__(self, model: Model, steps: Steps, limits: CandidateLimits, cut: Pass | None) -> None:
        self._model, self._steps, self._limits = model, steps, limits
        self._macs = count_macs(model.graph())
        self.refused = ""
        self.by_hand = cut is not None and steps.options[cut.name]["stages"] not in CHOSEN
        context = steps.context("order")
        if "time_limit" in context.options:
            share = str(float(context.options["time_limit"]) / _SEARCHES)
            context = replace(context, options={**context.options, "time_limit": share})
        self._cut_context = context
        self._context = replace(context, target=steps.whole_rules)
        self.given = self._base((), model, None, steps.whole_rules)

    def fits(self, way: Mixture) -> bool:
        """Whether a way is within the budget, where there is one."""
        return self._limits.budget is not None and way.peak <= self._limits.budget

    def is_enough(self, way: Mixture) -> bool:
        """Whether a way is all that is wanted, so that nothing with more arithmetic need be looked for."""
        return self.fits(way) and not self._grows(way)

    def is_settled(self, known: Mixture, base: Mixture) -> bool:
        """Whether running operators of a base again cannot give anything better than what is known."""
        if not self.fits(known):
            return False
        if self._grows(base) and not self._grows(known):
            return True
        return self._grows(known) == self._grows(base) and known.macs <= base.macs

    def _grows(self, way: Mixture) -> bool:
        """Whether it takes more in head and tail than the model as it is."""
        return way.memory > self.given.memory

    def ordered(self) -> Mixture:
        made = order_model(self._model, self._context)
        return self._base(("order",), made.model, made.ordering, self._context.target)

    def cut(self, cut: Pass, start: Mixture | None) -> Iterator[Mixture]:
        """The model in stages: for the budget, and for looser ones, from the mixture without stages if there is one."""
        budget, most = self._limits.budget, self._limits.max_macs
        try:
            least = self._in_stages(cut)
        except EdgememError as e:
            if self.by_hand:
                raise
            self.refused = str(e)
            return
        if least is None:
            return
        yield least
        if start is None or (least.macs <= self._macs and (budget is None or self.is_enough(least))):
            return  # stages that compute nothing twice leave nothing to be saved
        for part in _LOOSER:
            limit, spent = None, 1 + (most - 1) * part
            if budget is not None:
                limit, spent = int(max(budget, 1) * (start.peak / max(budget, 1)) ** part), most
            try:
                made = self._steps.apply(cut, start.make(), **_limits_of(cut, limit, spent))
            except EdgememError:
                return
            if made is not start.make():
                yield self._reordered(made, cut.name)

    def _in_stages(self, cut: Pass) -> Mixture | None:
        """The model in stages for the budget, in the better order; None where no stages help."""
        limits = {} if self.by_hand else _limits_of(cut, self._limits.budget, self._limits.max_macs)
        if not self._limits.orders:
            changed = self._steps.apply(cut, self._model, **limits)
            return None if changed is self._model else self._base((cut.name,), changed, None, self._steps.rules)
        made = order_among(
            self._model,
            self._cut_context,
            lambda model: self._steps.apply(cut, model, **limits),
            by_hand=self.by_hand,
            fits=self._limits.budget,
            counts_tail=self._limits.counts_tail,
        )
        if len(made.model.graph().ops) == len(self._model.graph().ops):
            return None
        return self._base(("order", cut.name), made.model, made.ordering, self._steps.rules)

    def _reordered(self, model: Model, name: str) -> Mixture:
        if not self._limits.orders:
            return self._base((name,), model, None, self._steps.rules)
        made = order_model(model, self._cut_context)
        return self._base(("order", name), made.model, made.ordering, self._steps.rules)

    def recomputed(self, base: Mixture) -> list[Mixture]:
        """The ways to run a model with operators run again."""
        model, step, most = base.make(), RecomputeOperators(), self._limits.max_macs
        left = most * self._macs / base.macs if base.macs else most
        options = {**self._context.options, "max_macs": str(left)}
        if self._limits.budget is not None:
            options["budget"] = str(self._limits.budget)
        front = step.ways(model, replace(self._context, options=options, target=base.target))
        return [
            Mixture(
                (*base.means, step.name) if len(way.runs) > base.operators else base.means or ("order",),
                way.peak,
                predicted_tail(repeat(model.graph(), way.runs).graph) if self._limits.counts_tail else 0,
                way.macs,
                len(way.runs),
                base.ordering,
                base.target,
                partial(step.written, model, way),
            )
            for way in front.ways[1:]
        ]

    def _base(self, means: tuple[str, ...], model: Model, ordering: Ordering | None, target: Target) -> Mixture:
        graph = model.graph()
        peak = peak_of(graph_under(model, target), target)
        tail = predicted_tail(graph) if self._limits.counts_tail else 0
        return Mixture(means, peak, tail, count_macs(graph), len(graph.ops), ordering, target, lambda: model)

    def ranked(self, found: Sequence[Mixture]) -> tuple[Mixture, ...]:
        allowed = [w for w in found if w.macs <= self._limits.max_macs * self._macs]
        if self._limits.budget is None:
            return tuple(sorted(allowed, key=lambda w: (w.memory, w.macs, len(w.means), w.operators)))
        fit = [w for w in allowed if self.fits(w)]
        return tuple(sorted(fit, key=lambda w: (self._grows(w), w.macs, len(w.means), w.operators, w.peak)))

    def best(self, found: Sequence[Mixture]) -> tuple[Mixture, ...]:
        chosen = []
        for means in dict.fromkeys(way.means for way in found):
            same = [way for way in found if way.means == means]
            fit = self.ranked(same) if self._limits.budget is not None else ()
            chosen.append(fit[0] if fit else min(same, key=lambda w: (w.memory, w.macs)))
        return tuple(chosen)


def _limits_of(cut: Pass, budget: int | None, max_macs: float) -> dict[str, float | None]:
    """The limits that a pass with a price takes: stripes compute nothing twice."""
    return {"budget": budget, "max_macs": max_macs} if cut.name == "tile" else {"budget": budget}
