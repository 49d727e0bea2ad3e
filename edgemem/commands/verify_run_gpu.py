"""The plan for GPUs in a file, run in memory full of NaN, and compared with a run in which no tensors share memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.commands.executor_run import ExecutorRun
from edgemem.commands.run_gpu import GpuOptions, executor_for, feeds_for, open_planned
from edgemem.errors import MissingDependencyError, ModelError, PlanFileError, RuntimeBindError, UnsupportedError
from edgemem.planning.verification import plans_of
from edgemem.proof import Cause, Violation
from edgemem.runtime.differences import same
from edgemem.runtime.executors import WEBGPU, has_portable_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any, Literal

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet

__all__ = ["gpu_runs", "verify_run_gpu"]

_EXECUTOR = "webgpu"
_RUNS = 2  # the second one finds what the first one left


def gpu_runs(
    path: Path, plansets: Sequence[PlanSet], feeds: Mapping[str, NDArray[Any]] | None
) -> tuple[ExecutorRun, ...]:
    """What came of a file's plan on a GPU: one entry, or none where the plan is not for GPUs."""
    if WEBGPU.refusal(plansets) is not None:
        return ()
    try:
        return (verify_run_gpu(path, feeds),)
    except (RuntimeBindError, MissingDependencyError, ModelError, PlanFileError, UnsupportedError) as e:
        return (ExecutorRun(_EXECUTOR, refusal=str(e)),)


def verify_run_gpu(path: Path, feeds: Mapping[str, NDArray[Any]] | None = None) -> ExecutorRun:
    """Run a plan for GPUs twice in memory that was filled with NaN, and compare with a run without sharing.

    The outputs are compared bit for bit. Where they differ both are run again operator by operator, to name the first
    one that computes something else. A file with operators that have no kernel is refused, as `edgemem run` does.

    Args:
        path: an .onnx or .tflite file.
        feeds: inputs by name; random ones otherwise.

    Raises: AdapterError: there is no GPU. MissingDependencyError: wgpu is not installed. InvalidPlanError: the plan is
        wrong. UnsupportedError: operators without a kernel. ModelError, PlanFileError: the file is damaged.
    """
    model = open_planned(path)
    graph = model.graph()
    values = feeds_for(model, feeds)
    profile: Literal["portable", "adapter"] = "portable" if has_portable_size(plans_of(model)) else "adapter"
    options = GpuOptions(poison=True, profile=profile)
    with executor_for(path, options) as shared, executor_for(path, options, sharing=False) as alone:
        names = [output.name for output in shared.get_outputs()]
        wanted = alone.run(names, values)
        results = [shared.run(names, values) for _ in range(_RUNS)]
        different = [n for k, n in enumerate(names) if any(not same(result[k], wanted[k]) for result in results)]
        first = _first_difference(shared, alone, values, graph) if different else ""
        report, adapter = shared.memory_report, shared.adapter
    violations = tuple(
        Violation(
            Cause.DIFFERENT_OUTPUT,
            f"output {name!r} differs from a run in which no tensors share memory{first}",
            _EXECUTOR,
            (name,),
        )
        for name in different
    )
    note = f"on {adapter}, {len(graph.ops)} operators"
    compared = "a run there in which no tensors share memory"
    return ExecutorRun(_EXECUTOR, report, violations=violations, note=note, compared=compared)


def _first_difference(shared: Any, alone: Any, values: Mapping[str, NDArray[Any]], graph: Graph) -> str:
    """In words, the first operator that computes something else; "" if none does when each is waited for."""
    for (number, tensor, found), (_, _, wanted) in zip(shared.observe(values), alone.observe(values), strict=True):
        if not same(found, wanted):
            op = graph.ops[number]
            return f"; the first operator that computes something else is {op.name or op.type} ({op.type}): {tensor!r}"
    return ""
