"""Where tensors and workspaces go once LiteRT has prepared a model for its builtin kernels.

LiteRT plans and reserves its own arena, which stays unused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import RuntimeBindError
from edgemem.runtime.litert.layout_cache import can_ask, find_layout
from edgemem.runtime.litert.request import PLAIN_HINT
from edgemem.runtime.litert.structure import refusal, structure_of

if TYPE_CHECKING:
    from edgemem.runtime.litert.arena_layout import ArenaLayout
    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.file import ModelSource
    from edgemem.runtime.litert.probe_data import Probe
    from edgemem.runtime.litert.request import PlanRequest, Resized

__all__ = ["place_tensors"]


def place_tensors(
    native: Any, delegate: Delegate, source: ModelSource, request: PlanRequest, resized: Resized
) -> tuple[ArenaLayout, Probe]:
    """Places for the tensors as they are now, and what LiteRT showed of them.

    Args:
        native: LiteRT's native interpreter, whose tensors are allocated.
        delegate: reads its internal structures.
        source: the model.
        request: which plan is wanted.
        resized: tensor index of an input -> the shape that the caller gave it.

    Raises RuntimeBindError if the model cannot run in an arena, InvalidPlanError if the plan is wrong.
    """
    probed = delegate.read()
    structure = structure_of(native, delegate, probed)
    if refused := refusal(structure, delegate):
        raise RuntimeBindError(f"the model cannot run in a planned arena: {refused}{PLAIN_HINT}")
    layout = find_layout(structure, source, request, resized) if can_ask(request) else None
    if layout is None:
        # The planner is loaded only where no other process plans.
        from edgemem.runtime.litert.layout import choose_layout

        layout = choose_layout(probed, source, request, resized)
    return layout, probed
