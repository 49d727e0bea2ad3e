"""A .tflite model, run in LiteRT or TensorFlow Lite Micro as its plan has it and, if wanted, beside another run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from edgemem.commands.outcome import Outcome
from edgemem.commands.run_litert import run_litert
from edgemem.errors import PlanError, RuntimeBindError
from edgemem.formats.offline_allocation import micro_refusal
from edgemem.planning.verification import plans_of
from edgemem.records.micro_planner import predicted_head
from edgemem.runtime.differences import same
from edgemem.runtime.executors import EXECUTORS, LITERT
from edgemem.runtime.litert.memory import prove_plans
from edgemem.runtime.tflite_file import input_forms, open_model, values_of
from edgemem.runtime.tflm.execution import execute
from edgemem.runtime.tflm.file_plan import file_plan, memory_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet
    from edgemem.runtime.tflite_file import TfliteModel

__all__ = ["RUNTIMES", "run", "runtime_of"]

RUNTIMES = ("litert", "tflm")


def run(
    path: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    runtime: str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    runs: int = 1,
    threads: int = 1,
    compare: bool = False,
    timeout_s: float | None = None,
) -> Outcome:
    """Run a .tflite model a few times: in TensorFlow Lite Micro inside the plan in its file, in LiteRT beside it.

    LiteRT places tensors by itself; its arena is measured, and compared with the plan or with what edgemem predicts.

    Args:
        path: the file.
        feeds: inputs by tensor name; random ones, which are not zero, where none is given.
        runtime: `litert` (builtin kernels) or `tflm`; by default the one that the file's plan is for.
        input_shapes: shapes of inputs by name; by default those that the plan is for.
        runs: how many.
        threads: of LiteRT's kernels.
        compare: run without the plan, too; in LiteRT, without tensors that share memory.
        timeout_s: seconds until the process that runs the model is ended; None for ten minutes and, in LiteRT, one
            more for each run.

    Raises:
        RuntimeBindError: the runtime cannot run the plan in the file; names the reason and the command that makes one.
            Or it does not end in time.
        InvalidPlanError: the plan, or the offsets beside it, are wrong. PlanFileError: the plan is damaged.
        MissingDependencyError, ModelError: as the runtime does.
    """
    if runtime not in (None, *RUNTIMES):
        raise PlanError(f"no runtime {runtime!r} for .tflite files; there are {' and '.join(RUNTIMES)}")
    model = open_model(path, input_shapes)
    plansets = plans_of(model)
    chosen = runtime or runtime_of(plansets, offsets=model.offline_metadata() is not None)
    if chosen == "tflm":
        return _in_tflm(path, model, feeds, runs=runs, compare=compare, timeout_s=timeout_s)
    if plansets:
        prove_plans(model, plansets)
        LITERT.check(path, plansets)
    return run_litert(path, model, feeds, runs=runs, threads=threads, compare=compare, timeout_s=timeout_s)


def runtime_of(plansets: Sequence[PlanSet], *, offsets: bool) -> str:
    """The runtime that a file's plan is for.

    Args:
        plansets: all plan sets in the file.
        offsets: whether it has offsets for TensorFlow Lite Micro.
    """
    if not plansets:
        return "tflm" if offsets else "litert"
    able = (e.name for e in EXECUTORS if ".tflite" in e.suffixes and e.refusal(plansets) is None)
    # A plan for kernels that are not installed is not one for LiteRT either; the error of its own runtime tells more.
    return next(able, "tflm" if any(micro_refusal(planset) is None for planset in plansets) else "litert")


def _in_tflm(
    path: Path,
    model: TfliteModel,
    feeds: Mapping[str, NDArray[Any]] | None,
    *,
    runs: int,
    compare: bool,
    timeout_s: float | None,
) -> Outcome:
    if model.inputs():
        raise RuntimeBindError("TensorFlow Lite Micro cannot resize inputs: give the file itself other sizes")
    plan = file_plan(model)
    if plan.refusal is not None:
        raise plan.refusal.error("tflm", path)
    graph = model.graph()
    names = [graph.tensors[i].name for i in graph.outputs]
    values = values_of(input_forms(graph), feeds)
    run_micro = partial(execute, outputs=len(names), runs=runs, timeout_s=timeout_s)
    ran = run_micro(model.content(), values)
    different: tuple[str, ...] = ()
    if compare:
        plain = run_micro(model.without_plan().content(), values)
        different = tuple(n for n, a, b in zip(names, ran.outputs, plain.outputs, strict=True) if not same(a, b))
    report = memory_of(plan, ran, predicted_head(graph, model.offline()).tensors)
    outputs = dict(zip(names, ran.outputs, strict=True))
    compared = f"{path.name} in TensorFlow Lite Micro without the plan"
    return Outcome(outputs, report, report, not different if compare else None, different, compared)
