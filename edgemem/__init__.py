"""edgemem plans, proves and embeds the memory of neural networks.

planset = edgemem.plan("model.onnx", dims={"batch": 1})
print(planset.best_offsets.size, planset.bounds.offsets)
edgemem.save("model.onnx", planset, "model.planned.onnx")
assert not edgemem.verify("model.planned.onnx")
"""

from __future__ import annotations

__distribution__ = "edgemem-planner"  # edgemem.system.distribution finds out by it whose file this is

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgemem.errors import MissingDependencyError
from edgemem.system.distribution import VERSION as _VERSION

if TYPE_CHECKING:
    from edgemem.api import load as load
    from edgemem.api import order as order
    from edgemem.api import plan as plan
    from edgemem.api import save as save
    from edgemem.api import verify as verify
    from edgemem.commands.difference import diff as diff
    from edgemem.commands.report_page import save_report as save_report
    from edgemem.difference.comparison import Difference as Difference
    from edgemem.errors import EdgememError as EdgememError
    from edgemem.guard.check import Checked as Checked
    from edgemem.guard.check import check as check
    from edgemem.plans import OffsetPlan as OffsetPlan
    from edgemem.plans import PlanSet as PlanSet
    from edgemem.plans import SharedObjectsPlan as SharedObjectsPlan
    from edgemem.records.problem import Problem as Problem
    from edgemem.records.problem import UsageRecord as UsageRecord
    from edgemem.replay.arena import Arena as Arena
    from edgemem.runtime.litert.interpreter import Interpreter as Interpreter
    from edgemem.runtime.onnxruntime.decoder import DecoderState as DecoderState
    from edgemem.runtime.onnxruntime.session import InferenceSession as InferenceSession
    from edgemem.runtime.webgpu.executor import GpuExecutor as GpuExecutor
    from edgemem.schedule.ordering import Ordering as Ordering
    from edgemem.shrinking.api import shrink as shrink
    from edgemem.shrinking.result import Shrunk as Shrunk
    from edgemem.strategy.bounds import lower_bounds as lower_bounds
    from edgemem.strategy.catalogue import registered as strategies
    from edgemem.targets import Target as Target

__version__ = _VERSION

__all__ = [
    "Arena",
    "Checked",
    "DecoderState",
    "Difference",
    "EdgememError",
    "GpuExecutor",
    "InferenceSession",
    "Interpreter",
    "OffsetPlan",
    "Ordering",
    "PlanSet",
    "Problem",
    "SharedObjectsPlan",
    "Shrunk",
    "Target",
    "UsageRecord",
    "check",
    "diff",
    "load",
    "lower_bounds",
    "order",
    "plan",
    "save",
    "save_report",
    "shrink",
    "strategies",
    "verify",
]

_HOMES = {
    "Arena": "replay.arena:Arena",
    "Checked": "guard.check:Checked",
    "DecoderState": "runtime.onnxruntime.decoder:DecoderState",
    "Difference": "difference.comparison:Difference",
    "EdgememError": "errors:EdgememError",
    "GpuExecutor": "runtime.webgpu.executor:GpuExecutor",
    "InferenceSession": "runtime.onnxruntime.session:InferenceSession",
    "Interpreter": "runtime.litert.interpreter:Interpreter",
    "OffsetPlan": "plans:OffsetPlan",
    "Ordering": "schedule.ordering:Ordering",
    "PlanSet": "plans:PlanSet",
    "Problem": "records.problem:Problem",
    "SharedObjectsPlan": "plans:SharedObjectsPlan",
    "Shrunk": "shrinking.result:Shrunk",
    "Target": "targets:Target",
    "UsageRecord": "records.problem:UsageRecord",
    "check": "guard.check:check",
    "diff": "commands.difference:diff",
    "load": "api:load",
    "lower_bounds": "strategy.bounds:lower_bounds",
    "order": "api:order",
    "plan": "api:plan",
    "save": "api:save",
    "save_report": "commands.report_page:save_report",
    "shrink": "shrinking.api:shrink",
    "strategies": "strategy.catalogue:registered",
    "verify": "api:verify",
}


class _UnavailableError(MissingDependencyError, AttributeError):
    """A public name needs a package that is not installed. `hasattr` is False; the message says what to install."""

    def __init__(self, cause: MissingDependencyError) -> None:
        super().__init__(cause.package, purpose=cause.purpose)


def __getattr__(name: str) -> Any:
    # Loaded on first use: `edgemem --help` needs neither numpy nor a converter.
    if name not in _HOMES:
        raise AttributeError(f"module 'edgemem' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    try:
        value = getattr(import_module(f"edgemem.{module}"), attribute)
    except MissingDependencyError as e:
        raise _UnavailableError(e) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
