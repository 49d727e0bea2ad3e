"""How tensors get their places, one class a way to do it.

Planned    builtin kernels run every operator; a plan has a place for every tensor and workspace. In the mode `repoint`
           LiteRT plans and reserves its own arena, which stays unused; in `custom` tensors are also taken out of it
           when the interpreter is made, so that LiteRT reserves memory for workspace alone
Boundary   a delegate (XNNPACK, GPU) runs operators in memory of its own, which LiteRT does not show; the tensors left
           in LiteRT's arena (inputs, outputs, tensors between delegates) move to our arena and keep LiteRT's layout
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from edgemem.errors import RuntimeBindError
from edgemem.runtime.litert.places import Layout, native_layout
from edgemem.runtime.litert.planned_apart import can_plan_apart, plan_apart
from edgemem.runtime.litert.request import PLAIN_HINT
from edgemem.runtime.litert.structure import decided_as_it_runs, refusal, structure_of

if TYPE_CHECKING:
    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.file import Source
    from edgemem.runtime.litert.memory import Mode
    from edgemem.runtime.litert.probed import Probe
    from edgemem.runtime.litert.request import PlanRequest, Resized

__all__ = ["Boundary", "Placed", "Placement", "Planned"]


@dataclass(frozen=True, slots=True)
class Placed:
    """The layout, what LiteRT showed, how many parts delegates run, and why the layout is not a plan in the file."""

    layout: Layout
    probed: Probe
    delegated: int = 0
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

    def place(self, native: Any, resized: Resized) -> Placed:
        """Places for the tensors as they are now.

        Args:
            native: LiteRT's native interpreter, whose tensors are allocated.
            resized: tensor index of an input -> the shape that the caller gave it.

        Raises RuntimeBindError if the model cannot run in an arena, InvalidPlanError if the plan is wrong.
        """


class Planned:
    """All tensors and workspaces have places by a plan."""

    def __init__(self, mode: Mode, delegate: Delegate, source: Source, request: PlanRequest) -> None:
        self.mode = mode
        self.delegate = delegate
        self.forgets = mode == "custom"
        self._source = source
        self._request = request

    def place(self, native: Any, resized: Resized) -> Placed:
        """As `Placement.place`."""
        probed = self.delegate.read(workspace=True)
        structure = structure_of(native, self.delegate, probed)
        refused = refusal(structure, self.delegate, probed)
        if refused:
            raise RuntimeBindError(f"the model cannot run in a planned arena: {refused}{PLAIN_HINT}")
        layout = None
        if self.mode == "repoint" and can_plan_apart(self._request):
            layout = plan_apart(structure, self._source, self._request, resized)
        if layout is None:
            # The planner is loaded only where no other process plans.
            from edgemem.runtime.litert.planned_here import plan_here

            layout = plan_here(self.mode, probed, self._source, self._request, resized)
        return Placed(layout, probed, reason=layout.reason)


class Boundary:
    """The tensors that delegates leave in LiteRT's arena, in LiteRT's own layout."""

    mode: Mode = "boundary"
    forgets = False

    def __init__(self, delegate: Delegate, source: Source, request: PlanRequest) -> None:
        self.delegate = delegate
        self._releases = request.inputs == "release"
        self._carries_plan = source.plan() is not None

    def place(self, native: Any, resized: Resized) -> Placed:  # noqa: ARG002 - LiteRT has sized them
        """As `Placement.place`."""
        probed = self.delegate.read(workspace=False)
        refused = decided_as_it_runs(self.delegate, probed, native.OutputIndices())
        if refused:
            raise RuntimeBindError(f"the model cannot run in an arena of ours: {refused}{PLAIN_HINT}")
        delegated = sum(native.NodeName(i) == "DELEGATE" for i in range(native.NumNodes()))
        reasons = ["a delegate keeps the tensors of its operators to itself"] if delegated else []
        if self._releases:
            reasons.append('inputs="release" has no effect: the layout is LiteRT\'s own, which keeps inputs')
        if self._carries_plan:
            reasons.append(
                "the plan in the file is not used, because a plan is for builtin kernels alone "
                "(experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES), under the target "
                "litert (`edgemem plan --target litert`)"
            )
        layout = native_layout(probed)
        if not delegated:
            layout = replace(layout, origin=replace(layout.origin, of="graph in LiteRT"))
        return Placed(layout, probed, delegated, "; ".join(reasons))
