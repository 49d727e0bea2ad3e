"""What of a plan's claims each executor of graphs honours, for those that run a plan and those that say who runs it.

TensorFlow Lite Micro's row stands beside the offsets that it obeys, in `edgemem.formats.offline_allocation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.formats.claims import Honoured, Refusal, claim_refusal

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["NODE_BY_NODE", "ON_GPU", "litert_refusal"]

# Kernels of ONNX Runtime, one after the other, on a CPU or with CUDA.
NODE_BY_NODE: Final = Honoured("--target onnxruntime", frozenset({"none", "elementwise", "tflm"}))
# What LiteRT's own planner follows; `litert_refusal` says more.
_LITERT: Final = Honoured(
    "--target litert",
    frozenset({"litert"}),
    scratch=frozenset({"litert"}),
    alignment=64,  # of everything in LiteRT's arena
    needs_target=True,
)
ON_GPU: Final = Honoured(
    "--target gpu-buffer",
    frozenset({"none", "gpu", "gpu-views"}),
    storage="phwc4",
    needs_target=True,
    objects=True,
)


def litert_refusal(planset: PlanSet) -> Refusal | None:
    """Why LiteRT's builtin kernels do not run in what a plan set claims; None if they do.

    LiteRT reads no plan: it places tensors by its own rules. A plan is kept to where these rules need no more than it
    has, and that is computed here.
    """
    refusal, target = claim_refusal(planset, _LITERT), planset.target
    if refusal is not None:
        return refusal
    best = planset.best_offsets
    assert target is not None
    assert best is not None
    if (target.inputs, target.outputs, target.unread) != ("whole_run", "to_end", "to_end"):
        why = f"LiteRT keeps inputs for the whole run and outputs to the end, and the target {target.name} does not"
        return Refusal(why, _LITERT.remedy)
    from edgemem.planning.choice import choices  # strategies, which no other executor needs
    from edgemem.planning.strategy_plan import run

    (rules,) = choices("offsets/litert_arena")
    if not rules.strategy.can_plan(planset.problem):
        why = "LiteRT places tensors by itself, and the plan pins some, or lays some over or inside others"
        return Refusal(why, _LITERT.remedy)
    own = run(planset.problem, rules, planset.bounds).size
    assert isinstance(own, int)
    if own > best.size:
        why = f"LiteRT places tensors by itself, in {own:,} bytes, and the plan has {best.size:,}"
        return Refusal(why, f"{_LITERT.remedy} --strategy litert_arena")
    return None
