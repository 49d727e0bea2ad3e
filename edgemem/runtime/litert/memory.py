"""The memory that LiteRT runs in: its own arena, as measured, beside the one that edgemem predicts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError, RuntimeBindError
from edgemem.formats import Bindings, Resizable, open_bytes
from edgemem.report.sizes import ratio_text, size_text
from edgemem.runtime.memory import MemoryReport, Origin, origin_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.plans import OffsetPlan, PlanSet
    from edgemem.runtime.tflite_file import TfliteModel

__all__ = ["InterpreterMemory", "litert_memory", "prove_plans", "unpredicted_memory"]

_OWN: Final = ("offsets/litert_arena",)  # the strategy of LiteRT's own planner
_REMEDY: Final = "plan again with `edgemem plan --target litert`"


class InterpreterMemory(MemoryReport):
    """The report of an interpreter.

    mode        `planned`: the file has a plan for LiteRT; `predicted`: edgemem says by itself what LiteRT takes;
                `plain`: it cannot
    planned     the arena that the plan in the file claims, or that edgemem predicts; 0 without either
    reserved    the arena that LiteRT really has, as measured
    """

    __slots__ = ()

    @property
    def is_kept(self) -> bool:
        """Whether LiteRT keeps to the plan in the file: it has one for LiteRT, whose arena LiteRT's does not exceed."""
        return self.mode == "planned" and self.reserved <= self.planned

    def check(self) -> None:
        """Raise RuntimeBindError unless LiteRT keeps to the plan in the file."""
        if not self.is_kept:
            raise RuntimeBindError(f"{self.refusal}; {_REMEDY}")

    @property
    def refusal(self) -> str:
        """Why LiteRT does not keep to the plan in the file."""
        if self.mode == "planned":
            return f"LiteRT's arena has {self.reserved:,} bytes, and the plan {self.planned:,}"
        return self.reason or "the file has no plan for LiteRT"

    def __str__(self) -> str:
        """One line that says the same."""
        if not self.planned:
            return ", ".join(filter(None, (f"LiteRT's arena {size_text(self.reserved)}", "no plan", self.reason)))
        bound = ""
        if self.lower_bound == self.planned:
            bound = " = lower bound"
        elif self.lower_bound:
            bound = f" ({ratio_text(self.planned, self.lower_bound)} of the lower bound)"
        said = "planned" if self.mode == "planned" else "predicted"
        arena = f"LiteRT's arena {size_text(self.reserved)}, as {said}{bound}"
        if self.reserved != self.planned:
            arena = (
                f"LiteRT's arena {size_text(self.reserved)} ({self.reserved:,} bytes), {self.planned:,} {said}{bound}"
            )
        assert self.origin is not None
        source = "from the file" if self.origin.source == "file" else "its own"
        made = f"{self.origin.strategy}, plan of the {self.origin.of}, {source}"
        return ", ".join(filter(None, (arena, made, self.reason)))


def unpredicted_memory(arena: int, reason: str) -> InterpreterMemory:
    """The report of an arena of which nothing was predicted."""
    return InterpreterMemory("litert", "plain", reserved=arena, reason=reason)


def litert_memory(model: TfliteModel, arena: int) -> InterpreterMemory:
    """The report of a model that runs in LiteRT's builtin kernels, in an arena of `arena` bytes as measured.

    The plan in the file, proved, is what it is compared with where LiteRT honours it and it is for the sizes that the
    model is bound to; else what LiteRT's own planner does as edgemem knows it. Where nothing can be predicted, the
    report says why.

    Raises InvalidPlanError, StalePlanError, PlanFileError: the plan in the file is wrong, of another graph or another
    LiteRT, or damaged.
    """
    from edgemem.formats.workspace import graph_under  # a planner, which running a model does not need
    from edgemem.planning.model_plan import plan_graph
    from edgemem.planning.verification import plans_of
    from edgemem.plans import Settings
    from edgemem.runtime.honoured import litert_refusal
    from edgemem.targets import BUILT_IN

    reasons = []
    plansets = plans_of(model)
    prove_plans(model, plansets)
    for planset in plansets:
        refusal = litert_refusal(planset)
        if refusal is not None:
            reasons.append(f"{refusal.why}; {refusal.advice}")
        elif not _is_for_these_sizes(model, planset):
            reasons.append("it is for inputs of other sizes")
        else:
            best = planset.best_offsets
            assert best is not None
            return _beside(planset, best, origin_of(planset, best, "file"), arena)
    reason = f"not as the plan in the file has it: {reasons[0]}" if reasons else ""
    rules = BUILT_IN["litert"]
    try:
        planset = plan_graph(graph_under(model, rules), rules, Settings(_OWN), families=("offsets",))
    except EdgememError as e:
        return unpredicted_memory(arena, "; ".join(filter(None, (reason, str(e)))))
    best = planset.best_offsets
    assert best is not None
    return replace(_beside(planset, best, origin_of(planset, best, "runtime's own"), arena), reason=reason)


def prove_plans(model: TfliteModel, plansets: Iterable[PlanSet]) -> None:
    """Prove the plans for LiteRT that a model in these sizes has. Raises as `litert_memory`."""
    from edgemem.formats.workspace import graph_under
    from edgemem.proof import prove

    for planset in plansets:
        is_for_litert = planset.recording is None and planset.target is not None and planset.target.scratch == "litert"
        if is_for_litert and _is_for_these_sizes(model, planset):
            assert planset.target is not None
            prove(planset, graph_under(model, planset.target), remedy=_REMEDY)


def _is_for_these_sizes(model: TfliteModel, planset: PlanSet) -> bool:
    bound = open_bytes(model.content(), ".tflite", Bindings(input_shapes=planset.input_shapes))
    return isinstance(bound, Resizable) and bound.inputs() == model.inputs()


def _beside(planset: PlanSet, best: OffsetPlan, origin: Origin, arena: int) -> InterpreterMemory:
    mode = "planned" if origin.source == "file" else "predicted"
    bound = planset.bounds.offsets
    return InterpreterMemory("litert", mode, origin=origin, planned=best.size, lower_bound=bound, reserved=arena)
