"""A model run on a GPU inside its plan and, if wanted, beside a run without sharing and one on the CPU."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Any

from edgemem.commands.onnx_file import read_onnx
from edgemem.commands.outcome import Outcome, outcome_data
from edgemem.commands.reference import Reference, reference_of
from edgemem.errors import EdgememError, ModelError
from edgemem.formats import Bindings, Computable, Model, load_model
from edgemem.planning.verification import plans_of
from edgemem.runtime.differences import same
from edgemem.runtime.executors import WEBGPU
from edgemem.runtime.onnxruntime.file import planned_bindings, plans_in
from edgemem.runtime.tflite_file import input_forms, open_model, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Literal

    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.executor import GpuExecutor
    from edgemem.runtime.webgpu.timing import OpTime

__all__ = [
    "GpuOptions",
    "GpuOutcome",
    "executor_for",
    "feeds_for",
    "gpu_data",
    "is_for_webgpu",
    "open_planned",
    "run_gpu",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """How a model is run on a GPU; see `edgemem.GpuExecutor`."""

    storage: Literal["buffer", "texture2d", "texture-linear", "texture-array"] | None = None
    precision: Literal["fp32", "fp16"] | None = None
    adapter: str | None = None
    profile: Literal["portable", "adapter"] = "portable"
    cpu_ops: bool = False
    poison: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class GpuOutcome:
    """What a run on a GPU gave and took.

    Attributes:
        outcome: outputs and memory; compared with a run in which no tensors share memory.
        adapter: the GPU, or the software that acts as one.
        runs_ms: milliseconds of each run, from when its inputs are on the GPU until its results are there.
        times: of the operators; () if they were not asked for.
        reference: how far the outputs are from those on the CPU; None if not compared.
    """

    outcome: Outcome
    adapter: str
    runs_ms: tuple[float, ...]
    times: tuple[OpTime, ...] = ()
    reference: Reference | None = None

    @property
    def run_ms(self) -> float:
        """The median of the runs; without the first one where there are more."""
        return median(self.runs_ms[1:] or self.runs_ms)

    def by_type(self) -> tuple[tuple[str, int, float], ...]:
        """Operator types with how many there are and milliseconds in all, the slowest first."""
        ordered = sorted(self.times, key=lambda t: t.type)
        groups = [(name, list(group)) for name, group in groupby(ordered, key=lambda t: t.type)]
        return tuple(sorted(((n, len(g), sum(t.ms for t in g)) for n, g in groups), key=lambda row: -row[2]))


def gpu_data(made: GpuOutcome) -> dict[str, Any]:
    """The outcome as plain data for JSON, without the outputs."""
    return {
        **outcome_data(made.outcome),
        "adapter": made.adapter,
        "runs_ms": list(made.runs_ms),
        "operators": [asdict(t) for t in made.times],
        "reference": asdict(made.reference) if made.reference else None,
    }


def run_gpu(
    path: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    bindings: Bindings | None = None,
    options: GpuOptions | None = None,
    runs: int = 3,
    compare: bool = False,
    timings: bool = False,
) -> GpuOutcome:
    """Run a model a few times on a GPU inside the plan in its file, or one that is made now.

    Args:
        path: an .onnx or .tflite file.
        feeds: inputs by name; random ones where none is given.
        bindings: sizes of inputs; what is not given is as in the plan that is in the file.
        options: what the executor is told.
        runs: how many.
        compare: run it with a place for each tensor, too, on the same feeds, and on the CPU.
        timings: measure each operator.

    Raises:
        MissingDependencyError: wgpu is not installed. AdapterError: there is no such GPU.
        UnsupportedError: operators that no kernel runs; names them all. RuntimeBindError: the plan is for another
            storage. InvalidPlanError, PlanFileError, ModelError: the plan is wrong or damaged, or the file is.
    """
    chosen = options or GpuOptions()
    model = open_planned(path, bindings)
    values = feeds_for(model, feeds)
    with executor_for(path, chosen, bindings, timings=timings) as bound:
        results, runs_ms, times = _run(bound, values, runs, timings=timings)
        names = [output.name for output in bound.get_outputs()]
        report, adapter = bound.memory_report, bound.adapter
    different: tuple[str, ...] = ()
    reference = None
    if compare:
        with executor_for(path, chosen, bindings, sharing=False) as plain:
            wanted = plain.run(names, values)
        different = tuple(
            name for k, name in enumerate(names) if any(not same(result[k], wanted[k]) for result in results)
        )
        reference = reference_of(path, model, values, dict(zip(names, results[-1], strict=True)))
    outputs = dict(zip(names, results[-1], strict=True))
    outcome = Outcome(outputs, report, report, not different if compare else None, different)
    return GpuOutcome(outcome, adapter, runs_ms, times, reference)


def open_planned(path: Path, bindings: Bindings | None = None) -> Model:
    """A model in the sizes that are given, or else in those that its plan is for.

    Raises ModelError for a file of another kind, RuntimeBindError for one whose plan is not for a GPU.
    """
    given = bindings or Bindings()
    model: Model
    if path.suffix.lower() == ".tflite":
        if given.dims:
            raise ModelError(f"{path.name}: TFLite has no symbolic dimensions; bind a whole shape with --input-shape")
        model = open_model(path, given.input_shapes)
    else:
        model = load_model(path, planned_bindings(read_onnx(path, "run"), given))
    if not isinstance(model, Computable):
        raise ModelError(f"{path.name} is no model that runs on a GPU; give an .onnx or a .tflite file")
    plansets = plans_of(model)
    if any(planset.recording is None for planset in plansets):
        WEBGPU.check(path, plansets)
    return model


def is_for_webgpu(path: Path) -> bool:
    """Whether a model carries a plan for GPUs and none for another executor. False for what cannot be read here."""
    try:
        plansets = plans_of(load_model(path)) if path.suffix.lower() == ".tflite" else plans_in(read_onnx(path, "run"))
    except EdgememError:  # the executor of the format says it better
        return False
    return bool(plansets) and WEBGPU.refusal(plansets) is None and all(p.recording is None for p in plansets)


def feeds_for(model: Model, feeds: Mapping[str, NDArray[Any]] | None) -> dict[str, NDArray[Any]]:
    """A value for every input of a model by name: the one given for it, or a random one. Errors as `values_of`."""
    forms = input_forms(model.graph())
    return {name: value for (name, _, _), value in zip(forms, values_of(forms, feeds), strict=True)}


def executor_for(
    path: Path,
    options: GpuOptions,
    bindings: Bindings | None = None,
    *,
    sharing: bool = True,
    timings: bool = False,
) -> GpuExecutor:
    """The executor of a model in a file. Errors as `edgemem.GpuExecutor`."""
    from edgemem.runtime.webgpu.executor import GpuExecutor

    return GpuExecutor(
        path,
        dims=bindings.dims if bindings else None,
        input_shapes=bindings.input_shapes if bindings else None,
        storage=options.storage,
        precision=options.precision,
        adapter=options.adapter,
        profile=options.profile,
        cpu_ops=options.cpu_ops,
        poison=options.poison,
        sharing=sharing,
        timings=timings,
    )


def _run(
    bound: GpuExecutor, values: Mapping[str, NDArray[Any]], runs: int, *, timings: bool
) -> tuple[list[Sequence[Any]], tuple[float, ...], tuple[OpTime, ...]]:
    """The outputs of each run, its milliseconds, and those of its operators."""
    results: list[Sequence[Any]] = []
    runs_ms: list[float] = []
    measured: list[tuple[OpTime, ...]] = []
    for _ in range(runs):
        results.append(bound.run(None, values))
        runs_ms.append(bound.last_ms)
        measured.append(bound.times if timings else ())
    return results, tuple(runs_ms), tuple(_medians(measured[1:] or measured))


def _medians(measured: Sequence[Sequence[OpTime]]) -> Iterator[OpTime]:
    for same_op in zip(*measured, strict=True):
        yield replace(same_op[0], ms=median(t.ms for t in same_op))
