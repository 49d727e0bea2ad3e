"""The plans in a .tflite file, held against every runtime that keeps to them, and compared with runs without them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from edgemem.commands.executor_run import ExecutorRun, check_verified
from edgemem.commands.verify_run_gpu import gpu_runs
from edgemem.errors import MissingDependencyError, ModelError, NoPlanError, RuntimeBindError
from edgemem.planning.verification import plans_of
from edgemem.proof import Cause, Violation
from edgemem.records.micro_planner import predicted_head
from edgemem.runtime.differences import same
from edgemem.runtime.executors import LITERT
from edgemem.runtime.litert.memory import litert_memory
from edgemem.runtime.litert.process import ask_litert
from edgemem.runtime.tflite_file import input_forms, open_model, values_of
from edgemem.runtime.tflm.divergence import depends_on_memory, first_divergence
from edgemem.runtime.tflm.execution import execute
from edgemem.runtime.tflm.file_plan import file_plan, memory_of
from edgemem.runtime.tflm.operators import wrong_by_itself

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet
    from edgemem.runtime.tflite_file import TfliteModel
    from edgemem.runtime.tflm.execution import TflmRun

__all__ = ["verify_run_tflite"]

_SETS = (
    3  # of inputs; each but the first one finds what another one left in the arena, and so does the first at the end
)


def verify_run_tflite(
    planned: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    timeout_s: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[ExecutorRun, ...]:
    """Run the plans in a .tflite file on inputs that are not zero, and compare with runs without them, bit for bit.

    LiteRT places tensors by itself: its arena, as measured, may not be larger than the plan's, and its outputs must be
    those of a run in which no tensors share memory; else the fault is LiteRT's, and nothing is verified. TensorFlow
    Lite Micro runs the file's offsets on several inputs, one after the other in one arena that is not cleaned, and each
    time its outputs are compared with those of the file without offsets.

    Args:
        planned: a .tflite file with a plan, or with offsets for TensorFlow Lite Micro.
        feeds: inputs by tensor name; random ones otherwise.
        timeout_s: seconds until each process that runs the model is ended; None for ten minutes.
        progress: called with the name of each runtime before it runs.

    Raises:
        RuntimeBindError: no runtime ran a plan, so that nothing was verified.
        InvalidPlanError: a plan or the offsets are wrong. PlanFileError: there are none, or they are damaged.
        ModelError: the file cannot be read.
    """
    model = open_model(planned)
    if model.plan() is None and model.offline_metadata() is None:
        raise NoPlanError(
            f"{planned.name} carries no plan; make one with: edgemem plan {planned.name} -o PLANNED.tflite"
        )
    runs = (
        _attempt("tflm", partial(_in_tflm, planned, model, feeds, timeout_s), progress),
        _attempt("litert", partial(_in_litert, planned, model, feeds, timeout_s), progress),
        *gpu_runs(planned, plans_of(model), feeds),
    )
    check_verified(planned, runs)
    return runs


def _attempt(executor: str, attempt: Callable[[], ExecutorRun], progress: Callable[[str], None]) -> ExecutorRun:
    progress(f"{executor} with the plan, and without it")
    try:
        return attempt()
    except (RuntimeBindError, MissingDependencyError, ModelError) as e:
        return ExecutorRun(executor, refusal=str(e))


def _in_tflm(
    path: Path, model: TfliteModel, feeds: Mapping[str, NDArray[Any]] | None, timeout_s: float | None
) -> ExecutorRun:
    plan = file_plan(model)
    if plan.refusal is not None:
        raise plan.refusal.error("tflm", path)
    if model.inputs():
        raise RuntimeBindError("TensorFlow Lite Micro cannot resize inputs, and the plan is for other sizes")
    graph = model.graph()
    names = [graph.tensors[i].name for i in graph.outputs]
    sets = [values_of(input_forms(graph), feeds, seed=seed) for seed in range(_SETS)]
    run_all = partial(execute, inputs=sets[0], then=(*sets[1:], sets[0]), outputs=len(names), timeout_s=timeout_s)
    ran, plain = run_all(model.content()), run_all(model.without_plan().content())
    different = [
        name
        for k, name in enumerate(names)
        if not all(same(one[k], other[k]) for one, other in zip(ran.each, plain.each, strict=True))
    ]
    if different and (wrong := _wrong_by_itself(model, plan.planset, plain, (*sets, sets[0]), timeout_s)):
        raise RuntimeBindError(f"TensorFlow Lite Micro computes {path.name} wrongly with any plan: {wrong}")
    first = ""
    if different and plan.planset is not None:
        op = first_divergence(model, plan.planset, different[0], (*sets, sets[0]), timeout_s=timeout_s)
        first = f"; the first operator that computes something else is {op.name or op.type} ({op.type})" if op else ""
    violations = tuple(
        Violation(Cause.DIFFERENT_OUTPUT, f"output {n!r} differs from a run without the offsets{first}", "tflm", (n,))
        for n in different
    )
    report = memory_of(plan, ran, predicted_head(graph, model.offline()).tensors)
    note = f"head {ran.head:,} + tail {ran.tail:,} bytes"
    compared = f"{path.name} without its offsets"
    return ExecutorRun("tflm", report, violations=violations, note=note, compared=compared)


def _wrong_by_itself(
    model: TfliteModel,
    planset: PlanSet | None,
    plain: TflmRun,
    sets: Sequence[Sequence[NDArray[Any]]],
    timeout_s: float | None,
) -> str:
    """Why a difference is not the plan's; "" if it is."""
    known = wrong_by_itself(model.graph())
    if known or planset is None:
        return known
    if depends_on_memory(model, planset, plain, sets, timeout_s=timeout_s):
        return "its results depend on what its memory held before, also where no tensors share memory"
    return ""


def _in_litert(
    path: Path, model: TfliteModel, feeds: Mapping[str, NDArray[Any]] | None, timeout_s: float | None
) -> ExecutorRun:
    plansets = plans_of(model)
    if not plansets:
        raise RuntimeBindError(
            "the file has offsets for TensorFlow Lite Micro alone; "
            f"make a plan with: edgemem plan --target litert {path.name} -o PLANNED.tflite"
        )
    LITERT.check(path, plansets)
    values = values_of(input_forms(model.graph()), feeds)
    found, _ = ask_litert("compare", path, model, values, timeout_s=timeout_s)
    memory = litert_memory(model, found["arena"])
    if memory.mode != "planned":
        raise RuntimeBindError(memory.refusal)
    if found["different"]:  # the plan is not what places tensors there
        raise RuntimeBindError(
            f"LiteRT by itself computes {path.name} wrongly: the output {found['different'][0]!r} differs from a run "
            "in which no tensors share memory"
        )
    violations = () if memory.is_kept else (Violation(Cause.OVER_CAPACITY, memory.refusal, "litert"),)
    compared = "a run with builtin kernels in which no tensors share memory"
    note = _where_tensors_are(model, plansets, dict(found["places"]))
    return ExecutorRun("litert", memory, violations=violations, note=note, compared=compared)


def _where_tensors_are(model: TfliteModel, plansets: Sequence[PlanSet], places: Mapping[int, int]) -> str:
    """How many of the tensors that LiteRT shows lie where the plan has them; workspace has no names to be found by."""
    planset = next(p for p in plansets if LITERT.refuse_plan(p) is None)
    best = planset.best_offsets
    assert best is not None
    planned = {
        name: offset
        for record, offset in zip(planset.problem.records, best.offsets.tolist(), strict=True)
        for name in record.tensors
        if record.kind != "scratch"
    }
    names = [tensor.name for tensor in model.graph().tensors]
    pairs = [(planned[names[i]], at) for i, at in places.items() if i < len(names) and names[i] in planned]
    return f"{sum(offset == at for offset, at in pairs)} of {len(pairs)} tensors lie where the plan has them"
