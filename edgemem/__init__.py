"""edgemem plans, proves and embeds the memory of neural networks.

planset = edgemem.plan("model.onnx", dims={"batch": 1})
print(planset.best_offsets.size, planset.bounds.offsets)
edgemem.save("model.onnx", planset, "model.planned.onnx")
assert not edgemem.verify("model.planned.onnx")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgemem.api import load as load
    from edgemem.api import plan as plan
    from edgemem.api import save as save
    from edgemem.api import verify as verify
    from edgemem.bounds import lower_bounds as lower_bounds
    from edgemem.errors import EdgememError as EdgememError
    from edgemem.graph import Graph as Graph
    from edgemem.plans import OffsetPlan as OffsetPlan
    from edgemem.plans import PlanSet as PlanSet
    from edgemem.plans import SharedObjectsPlan as SharedObjectsPlan
    from edgemem.records import Problem as Problem
    from edgemem.records import UsageRecord as UsageRecord
    from edgemem.strategy.registry import registered as strategies
    from edgemem.targets import Target as Target

__all__ = [
    "EdgememError",
    "Graph",
    "OffsetPlan",
    "PlanSet",
    "Problem",
    "SharedObjectsPlan",
    "Target",
    "UsageRecord",
    "load",
    "lower_bounds",
    "plan",
    "save",
    "strategies",
    "verify",
]

_HOMES = {
    "EdgememError": "errors",
    "Graph": "graph",
    "OffsetPlan": "plans",
    "PlanSet": "plans",
    "Problem": "records",
    "SharedObjectsPlan": "plans",
    "Target": "targets",
    "UsageRecord": "records",
    "load": "api",
    "lower_bounds": "bounds",
    "plan": "api",
    "save": "api",
    "strategies": "strategy.registry",
    "verify": "api",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: `edgemem --help` needs neither numpy nor a converter.
    if name not in _HOMES:
        raise AttributeError(f"module 'edgemem' has no attribute {name!r}")
    value = getattr(import_module(f"edgemem.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
