"""Which executor runs the plans of a file as they stand, and what to do about the others.

    EXECUTORS    one entry an executor: the format it runs, and why it cannot run a file's plans, or its operators

`edgemem plan` ends with the line that `where_it_runs` makes; `edgemem verify --run` tries every executor of the format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.errors import UnsupportedError
from edgemem.formats import Computable, Model
from edgemem.model.profiles import VERSIONS
from edgemem.planning.verification import graph_for
from edgemem.plans import DEPENDS_ON_DATA
from edgemem.proof import Cause, examine
from edgemem.runtime.tflm.execute import trial_refusal
from edgemem.runtime.tflm.operators import micro_graph_refusal
from edgemem.runtime.webgpu.profile import portable_profile
from edgemem.suitability import MICRO_KERNELS, Refusal, kernels_refusal, litert_refusal, micro_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet

__all__ = [
    "EXECUTORS",
    "Executor",
    "Refusal",
    "io_binding_refusal",
    "is_portable",
    "runtimes_of",
    "title_of",
    "webgpu_refusal",
    "where_file_runs",
    "where_it_runs",
]


@dataclass(frozen=True, slots=True)
class Executor:
    """Something that runs models inside a plan.

    Attributes:
        name: as the command line has it.
        title: for people.
        suffixes: of the files that it runs.
        refusal: gives the reason why it does not run the plan sets of a file, or None if it does.
        model_refusal: gives the reason why it does not run a model in the plan that it has, or runs it wrongly in any
            plan; None if nothing of the kind is known.
        is_offered: whether users of other files are told how to make plans for it.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    refusal: Callable[[Sequence[PlanSet]], Refusal | None]
    model_refusal: Callable[[Model, Sequence[PlanSet]], Refusal | None] = lambda _, __: None
    is_offered: bool = True


def _of_graph(plansets: Sequence[PlanSet]) -> PlanSet | None:
    return next((p for p in plansets if p.recording is None and p.best_offsets is not None), None)


def io_binding_refusal(plansets: Sequence[PlanSet]) -> Refusal | None:
    """Why ONNX Runtime does not run the plan of a file's graph node by node; None if it does."""
    planset = _of_graph(plansets)
    if planset is None:
        only = ", only shared objects" if any(p.recording is None for p in plansets) else ""
        return Refusal(f"the file has no offset plan of its graph{only}", "--strategy auto")
    target = planset.target
    if target is not None and not target.is_dense:
        return Refusal(f"the plan is for the target {target.name} and {target.kept}", "--target generic")
    return kernels_refusal(planset)


def webgpu_refusal(plansets: Sequence[PlanSet]) -> Refusal | None:
    """Why our own kernels on a GPU do not run the plan of a file's graph; None if they do."""
    planset = next((p for p in plansets if p.recording is None), None)
    remedy = "--target gpu-buffer"
    if planset is None:
        return Refusal("the file has no plan of its graph", remedy)
    if planset.target is None or planset.target.storage != "phwc4":
        return Refusal(f"the plan is for {_target_of(planset)}, whose tensors are no slices of four channels", remedy)
    return None


def is_portable(plansets: Sequence[PlanSet]) -> bool:
    """Whether every device that has WebGPU has the memory of a file's plan for GPUs (`--profile portable`)."""
    profile = portable_profile()
    planset = next((p for p in plansets if p.recording is None), None)
    if planset is None or planset.target is None:
        return True
    target, offsets, objects = planset.target, planset.best_offsets, planset.best_shared_objects
    if target.texels:
        sides = (
            [side for extent in objects.objects if not isinstance(extent, int) for side in extent] if objects else []
        )
        return max(sides, default=0) <= profile.texture_side
    if offsets is None:
        return True
    if target.layer_rows:
        return offsets.size <= target.layer_bytes * profile.layers
    largest = max((r.size for r in planset.problem.records if isinstance(r.size, int)), default=0)
    return offsets.size <= profile.buffer and largest <= profile.binding


def _target_of(planset: PlanSet) -> str:
    return f"the target {planset.target.name}" if planset.target is not None else "no target"


def _node_by_node(plansets: Sequence[PlanSet]) -> Refusal | None:
    """As `io_binding_refusal`, and why a model runs outside the plan that it has."""
    refusal, planset = io_binding_refusal(plansets), _of_graph(plansets)
    if refusal is not None or planset is None:
        return refusal
    why = next((f"{name!r} is {why}" for name, why in planset.unplanned if why.startswith(DEPENDS_ON_DATA)), "")
    return Refusal(why, "") if why else None


def _replay(plansets: Sequence[PlanSet]) -> Refusal | None:
    if not any(p.recording and not p.recording.fingerprint.keeps_reuse for p in plansets):
        return Refusal("the file has no recording for it", "--record")
    return None


def _in_an_app(plansets: Sequence[PlanSet]) -> Refusal | None:
    if not any(p.recording and p.recording.fingerprint.keeps_reuse for p in plansets):
        return Refusal("the file has no recording for it", "--record --android")
    return None


def _of_any(refusal: Callable[[PlanSet], Refusal | None]) -> Callable[[Sequence[PlanSet]], Refusal | None]:
    """The refusal of a file: none if one of its plan sets is not refused, else that of the first."""

    def of_file(plansets: Sequence[PlanSet]) -> Refusal | None:
        refusals = [refusal(planset) for planset in plansets]
        return None if None in refusals else next(iter(refusals), Refusal("the file has no plan", "a target"))

    return of_file


def _micro_refusal(planset: PlanSet) -> Refusal | None:
    """Why the Python package tflite-micro does not run a plan set, as far as the plan tells; None if it does."""
    return micro_refusal(planset, MICRO_KERNELS)


def _webgpu_model_refusal(model: Model, plansets: Sequence[PlanSet]) -> Refusal | None:
    """What of a model has no kernel on a GPU: what `edgemem run` says of it, in the same words."""
    from edgemem.runtime.webgpu.lowered import missing_kernels  # kernels, which other plans do not need
    from edgemem.runtime.webgpu.prepared import prepare

    planset = next(p for p in plansets if p.recording is None)
    if not isinstance(model, Computable):
        return None
    try:
        missing = missing_kernels(prepare(model, planset))
    except UnsupportedError as e:
        return Refusal(str(e), "")
    return Refusal(f"{missing}{missing.remedy()}", "") if missing is not None else None


def _micro_model_refusal(model: Model, _: Sequence[PlanSet]) -> Refusal | None:
    return micro_graph_refusal(model.graph())


EXECUTORS = (
    Executor("io-binding", "ONNX Runtime, node by node (edgemem run --executor io-binding)", (".onnx",), _node_by_node),
    Executor("replay", "ONNX Runtime sessions (edgemem.InferenceSession)", (".onnx",), _replay),
    Executor("android", "an Android app (edgemem android package)", (".onnx",), _in_an_app, is_offered=False),
    Executor("tflm", "TensorFlow Lite Micro", (".tflite",), _of_any(_micro_refusal), _micro_model_refusal),
    Executor("litert", "LiteRT with builtin kernels (edgemem.Interpreter)", (".tflite",), _of_any(litert_refusal)),
    Executor(
        "webgpu",
        "WebGPU (edgemem run --runtime webgpu)",
        (".onnx", ".tflite"),
        webgpu_refusal,
        _webgpu_model_refusal,
        is_offered=False,
    ),
)


def title_of(executor: Executor, plansets: Sequence[PlanSet]) -> str:
    """An executor's title for people, with what the plans in a file need besides."""
    if executor.name == "tflm" and any(micro_refusal(p) is None and p.kernels for p in plansets):
        return f"{executor.title} built with the kernels of {MICRO_KERNELS} ({VERSIONS[MICRO_KERNELS]})"
    if executor.name == "webgpu" and not is_portable(plansets):
        return executor.title.replace("webgpu)", "webgpu --profile adapter), on GPUs with so much memory")
    return executor.title


def where_file_runs(path: Path, plansets: Sequence[PlanSet], model: Model | Graph | None) -> str:
    """`where_it_runs` of a file that was written, tried in TensorFlow Lite Micro where that is installed."""

    def trial() -> str:
        return trial_refusal(path.read_bytes(), model.graph()) if isinstance(model, Model) else ""

    return where_it_runs(plansets, path.suffix, model, trial=trial)


def where_it_runs(
    plansets: Sequence[PlanSet], suffix: str, model: Model | Graph | None = None, *, trial: Callable[[], str] = str
) -> str:
    """One line that names the executors that run a file's plans as they stand, and what to add for the others.

    Arguments are those of `runtimes_of`, and `trial` runs the file in TensorFlow Lite Micro, and returns why that does
    not, or "".
    """
    able, refused = _asked(plansets, suffix, model, trial)
    runs = f"runs as planned in {' and in '.join(able)}" if able else "no executor runs this plan as it is"
    return "; ".join([runs, *(_not_run(executor, refusal) for executor, refusal in refused)])


def runtimes_of(plansets: Sequence[PlanSet], suffix: str, model: Model | Graph | None = None) -> list[str]:
    """For people, what runs a file's plans as they stand.

    Args:
        plansets: all plan sets in the file.
        suffix: of the file, such as `.onnx`; a stand-alone plan has none that an executor runs.
        model: that the plans are of. With it, a plan for other kernels than those of the Python package tflite-micro is
            proved for these, too, and operators that an executor cannot run are told.
    """
    return _asked(plansets, suffix, model, str)[0]


def _asked(
    plansets: Sequence[PlanSet], suffix: str, model: Model | Graph | None, trial: Callable[[], str]
) -> tuple[list[str], list[tuple[Executor, Refusal]]]:
    """What runs the plans, and the executors that do not, where users are to know of them."""
    other = next((p for p in plansets if _is_for_a_device(p)), None)
    holds = other is not None and model is not None and not _wrong_here(other, graph_for(other, model))
    able, refused = [], []
    for executor in EXECUTORS:
        if suffix.lower() not in executor.suffixes:
            continue
        of_plan = executor.refusal(plansets)
        if of_plan is not None and not (holds and executor.name == "tflm"):
            if executor.is_offered:
                refused.append((executor, of_plan))
            continue
        of_model = executor.model_refusal(model, plansets) if isinstance(model, Model) else None
        if of_model is None and executor.name == "tflm" and (why := trial()):
            of_model = Refusal(why, "")
        if of_model is None:
            able.append(title_of(executor, plansets))
        else:
            refused.append((executor, of_model))
    is_micro = suffix.lower() == ".tflite" and (not isinstance(model, Model) or not micro_graph_refusal(model.graph()))
    if other is not None and is_micro:
        able.append(f"TensorFlow Lite Micro built with the kernels of {other.kernels}")
    return able, refused


def _not_run(executor: Executor, refusal: Refusal) -> str:
    if not refusal.remedy:
        return f"{executor.title}: {refusal.why}"
    of_operators = f"{refusal.why}; " if refusal.remedy == "--fold" else ""
    return f"{executor.title}: {of_operators}plan with {refusal.remedy}"


def _wrong_here(planset: PlanSet, graph: Graph) -> bool:
    """Whether a plan set is wrong on the kernels of the Python package tflite-micro."""
    return any(v.cause is not Cause.OVER_CAPACITY for v in examine(planset, graph, MICRO_KERNELS))


def _is_for_a_device(planset: PlanSet) -> bool:
    """Whether TensorFlow Lite Micro runs a plan set, but not with the kernels that its Python package has."""
    return micro_refusal(planset) is None and _micro_refusal(planset) is not None
