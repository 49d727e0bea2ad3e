"""How tensors get their places, one class a mode.

repoint    LiteRT plans and reserves its own arena, then tensors and workspace get places in our arena; LiteRT's arena
           stays unused
custom     the tensors are also taken out of LiteRT's arena when the interpreter is made, so that LiteRT reserves memory
           for workspace alone; LiteRT prepares the model twice, the first time to find what is in its arena
boundary   a delegate (XNNPACK, GPU) runs operators in memory of its own, which LiteRT does not show; the tensors left
           in LiteRT's arena (inputs, outputs, tensors between delegates) move to our arena and keep LiteRT's layout
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from edgemem.errors import RuntimeBindError
from edgemem.plans import PlanSet, Settings
from edgemem.runtime.litert.layout import (
    Inputs,
    Layout,
    file_layout,
    given_layout,
    graph_of,
    native_layout,
    plan_layout,
    refusal,
)
from edgemem.runtime.litert.probe import probe
from edgemem.verification import plans_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.layout import WantedPlan
    from edgemem.runtime.litert.memory import Mode
    from edgemem.runtime.litert.probed import Probe

__all__ = [
    "PLAIN_HINT",
    "Boundary",
    "Custom",
    "Placed",
    "Placement",
    "PlanRequest",
    "Repoint",
    "computed_tensors",
    "placed_by_litert",
    "placement_for",
]

Resized: TypeAlias = "Mapping[int, Sequence[int]]"
PLAIN_HINT: Final = '; refuse="plain" runs it in LiteRT\'s own memory'


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Which plan the caller wants.

    Attributes:
        plan: a plan set; `file`, the one in the file; `make`, one that is made now; None is `file` where the file
            carries a plan and no strategy is named, and `make` elsewhere.
        strategies: what a new plan is made with; quick ones if there are none.
        inputs: whether inputs are kept after a run.
    """

    plan: WantedPlan = None
    strategies: tuple[str, ...] = ()
    inputs: Inputs = "keep"


@dataclass(frozen=True, slots=True)
class Placed:
    """The layout, what LiteRT showed, and why the layout is not that of the plan in the file, or ""."""

    layout: Layout
    probed: Probe
    reason: str = ""


class Placement(Protocol):
    """A way to give tensors their places, once LiteRT has prepared the model.

    Attributes:
        mode: its name for callers.
        delegate: reads LiteRT's internal structures.
        forgets: whether tensors lose their memory as soon as an input is resized.
    """

    mode: Mode
    delegate: Delegate
    forgets: bool

    def place(self, resized: Resized, delegated: int) -> Placed:
        """Places for the tensors as they are now.

        Args:
            resized: tensor index of an input -> the shape that the caller gave it.
            delegated: how many parts of the graph delegates run.

        Raises RuntimeBindError if the model cannot run in an arena, InvalidPlanError if the plan is wrong.
        """


class Repoint:
    """All tensors and workspaces have places by a plan; LiteRT's arena stays reserved."""

    mode: Mode = "repoint"
    forgets = False

    def __init__(self, delegate: Delegate, model: Model, request: PlanRequest) -> None:
        self.delegate = delegate
        self._model = model
        self._request = request

    def place(self, resized: Resized, delegated: int) -> Placed:  # noqa: ARG002 - builtin kernels delegate nothing
        """As `Placement.place`."""
        probed = self.delegate.read(workspace=True)
        graph = graph_of(self._model, probed)
        refused = refusal(graph, probed) or self._changed(graph, probed, resized)
        if refused:
            raise RuntimeBindError(f"the model cannot run in a planned arena: {refused}{PLAIN_HINT}")
        layout = self._layout(graph, probed, is_resized=bool(resized))
        return Placed(layout, probed, layout.reason)

    def _layout(self, graph: Graph, probed: Probe, *, is_resized: bool) -> Layout:
        request = self._request
        if isinstance(request.plan, PlanSet):
            return given_layout(graph, probed, request.plan)
        plansets = () if request.plan == "make" or request.strategies else plans_of(self._model)
        if plansets or request.plan == "file":
            in_file = self._model.graph()
            return file_layout(graph, probed, plansets, request.inputs, in_file=in_file, is_resized=is_resized)
        settings = Settings(request.strategies) if request.strategies else None
        return plan_layout(graph, probed, request.inputs, settings)

    def _changed(self, graph: Graph, probed: Probe, resized: Resized) -> str:  # noqa: ARG002 - see Custom
        """Why LiteRT's own placement has changed since the model was probed, or ""."""
        return ""


class Custom(Repoint):
    """As `Repoint`, with the tensors taken out of LiteRT's arena."""

    mode: Mode = "custom"
    forgets = True

    def _changed(self, graph: Graph, probed: Probe, resized: Resized) -> str:
        natural = probe(self._model.content(), {i: tuple(shape) for i, shape in resized.items()})
        refused = refusal(graph, natural)
        count = len(graph.tensors)
        ours = {i for i, t in enumerate(probed.main.tensors[:count]) if t.allocation in ("custom", "arena")}
        if not refused and not placed_by_litert(natural) & set(range(count)) <= ours:
            return "LiteRT treats tensors of other shapes in another way; make the interpreter anew"
        return refused


class Boundary:
    """The tensors that delegates leave in LiteRT's arena, in LiteRT's own layout."""

    mode: Mode = "boundary"
    forgets = False

    def __init__(self, delegate: Delegate, model: Model, request: PlanRequest) -> None:
        self.delegate = delegate
        self._releases = request.inputs == "release"
        self._carries_plan = model.plan() is not None

    def place(self, resized: Resized, delegated: int) -> Placed:  # noqa: ARG002 - LiteRT has sized them
        """As `Placement.place`."""
        probed = self.delegate.read(workspace=False)
        reasons = ["a delegate keeps the tensors of its operators to itself"] if delegated else []
        if self._releases:
            reasons.append('inputs="release" has no effect: the layout is LiteRT\'s own, which keeps inputs')
        if self._carries_plan:
            reasons.append(
                "the plan in the file is not used, because it is for builtin kernels alone "
                "(experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)"
            )
        layout = native_layout(probed)
        if not delegated:
            layout = replace(layout, origin=replace(layout.origin, of="graph in LiteRT"))
        return Placed(layout, probed, "; ".join(reasons))


def placement_for(mode: Mode, delegate: Delegate, model: Model, request: PlanRequest) -> Placement:
    """The placement of a mode that binds."""
    if mode == "boundary":
        return Boundary(delegate, model, request)
    return (Custom if mode == "custom" else Repoint)(delegate, model, request)


def placed_by_litert(probed: Probe) -> frozenset[int]:
    """The tensors that LiteRT places in its arena."""
    return frozenset(i for i, t in enumerate(probed.main.tensors) if t.allocation == "arena" and t.size)


def computed_tensors(model: Any) -> frozenset[int]:
    """Tensors that every run computes. Constants are not among them: kernels depend on where constants are."""
    return frozenset(i for i, t in enumerate(model.graph().tensors) if t.kind == "activation")
