"""The executors: which plans each runs as they stand, why it does not run another one, and which command makes one.

EXECUTORS        one row an executor
where_it_runs    the line with which `edgemem plan` ends

What a plan's target claims is compared with what an executor honours by `edgemem.formats.claims.claim_refusal` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError, UnsupportedError
from edgemem.formats import Computable, Model
from edgemem.formats.claims import Refusal, claim_refusal, kernels_refusal
from edgemem.formats.offline_allocation import micro_refusal
from edgemem.model.profiles import VERSIONS
from edgemem.plans import DEPENDS_ON_DATA
from edgemem.proof import Cause, examine
from edgemem.runtime.honoured import NODE_BY_NODE, ON_GPU, litert_refusal
from edgemem.runtime.onnxruntime.file import has_blocked_layout
from edgemem.runtime.tflm.operators import micro_graph_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from edgemem.formats.claims import Honoured
    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet

__all__ = [
    "EXECUTORS",
    "IO_BINDING",
    "LITERT",
    "MICRO_KERNELS",
    "TFLM",
    "WEBGPU",
    "Executor",
    "Refusal",
    "has_portable_size",
    "kernels_refusal",
    "list_executors",
    "where_it_runs",
]

MICRO_KERNELS: Final = "tflm-reference"  # the kernel profile of the Python package tflite-micro


def _refuse_nothing(_model: Model | Graph | None, _plansets: Sequence[PlanSet]) -> Refusal | None:
    return None


@dataclass(frozen=True, slots=True)
class Executor:
    """Something that runs models inside a plan.

    Attributes:
        name: on the command line and in reports.
        title: for people.
        suffixes: of the files that it runs.
        refuse_plan: why it does not run a plan set as it stands; None if it does.
        refuse_model: why it does not run a model inside the plans that it accepted, such as an operator that it lacks;
            None if nothing is known. A model that is None is not known.
        try_file: why it does not run a file that was just written, as found by a trial where it is installed; "" if it
            does, or nothing came of the trial.
        is_offered: whether users of other files are told how to make plans for it.
        needs: what the plans of a file need besides, to follow the title; "" for nothing.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    refuse_plan: Callable[[PlanSet], Refusal | None]
    refuse_model: Callable[[Model | Graph | None, Sequence[PlanSet]], Refusal | None] = _refuse_nothing
    try_file: Callable[[Path, Model], str] = lambda _file, _model: ""
    is_offered: bool = True
    needs: Callable[[Sequence[PlanSet]], str] = lambda _: ""

    def refusal(self, plansets: Sequence[PlanSet]) -> Refusal | None:
        """Why it runs none of a file's plan sets as they stand; None if it runs one of them."""
        refusals = [self.refuse_plan(planset) for planset in plansets]
        return None if None in refusals else next(iter(refusals), Refusal("the file has no plan", "--strategy auto"))

    def check(self, path: Path, plansets: Sequence[PlanSet]) -> None:
        """Raise RuntimeBindError with the command that makes another plan if it runs no plan of the file."""
        refusal = self.refusal(plansets)
        if refusal is not None:
            raise refusal.error(self.name, path)


def _refusing(honoured: Honoured) -> Callable[[PlanSet], Refusal | None]:
    return lambda planset: claim_refusal(planset, honoured)


def _no_node(model: Model | Graph | None, plansets: Sequence[PlanSet]) -> Refusal | None:
    """What of a model does not run node by node: what `edgemem run` says of it, in the same words."""
    planset = next(p for p in plansets if IO_BINDING.refuse_plan(p) is None)
    why = next((f"{name!r} is {why}" for name, why in planset.unplanned if why.startswith(DEPENDS_ON_DATA)), "")
    if not why and isinstance(model, Model):
        from edgemem.runtime.onnxruntime.split_model import node_refusal

        why = node_refusal(model)
    return Refusal(why, "") if why else None


def _made_elsewhere(model: Model | Graph | None, _: Sequence[PlanSet]) -> Refusal | None:
    """Why ONNX Runtime here does not run a graph that it optimised; None if it does."""
    if not isinstance(model, Model):
        return None
    from edgemem.runtime.onnxruntime.baked_file import check_place

    try:
        check_place(model.content())
    except EdgememError as e:
        return Refusal(str(e), "")
    return None


def _for_one_processor(model: Model | Graph | None, _: Sequence[PlanSet]) -> Refusal | None:
    """Why no phone runs a graph; None if nothing is known."""
    if isinstance(model, Model) and has_blocked_layout(model.content()):
        return Refusal("its weights lie as the processor here needs them", "")
    return None


def _replay(planset: PlanSet) -> Refusal | None:
    is_one = planset.recording is not None and not planset.recording.fingerprint.keeps_reuse
    return None if is_one else Refusal("the file has no recording for it", "--record")


def _android(planset: PlanSet) -> Refusal | None:
    is_one = planset.recording is not None and planset.recording.fingerprint.keeps_reuse
    return None if is_one else Refusal("the file has no recording for it", "--record --android")


def _micro(planset: PlanSet) -> Refusal | None:
    """Why the Python package tflite-micro does not run a plan set, as far as the plan tells; None if it does."""
    return micro_refusal(planset) or kernels_refusal(planset, MICRO_KERNELS)


def _tried_in_tflm(file: Path, model: Model) -> str:
    from edgemem.runtime.tflm.execution import trial_refusal

    return trial_refusal(file.read_bytes(), model.graph())


def _no_micro_operator(model: Model | Graph | None, _: Sequence[PlanSet]) -> Refusal | None:
    return micro_graph_refusal(model.graph()) if isinstance(model, Model) else None


def _micro_kernels(plansets: Sequence[PlanSet]) -> str:
    is_named = any(micro_refusal(p) is None and p.kernels for p in plansets)
    return f" built with the kernels of {MICRO_KERNELS} ({VERSIONS[MICRO_KERNELS]})" if is_named else ""


def _tried_in_litert(file: Path, _: Model) -> str:
    from edgemem.runtime.litert.process import trial_refusal

    return trial_refusal(file)


def _tried_in_session(file: Path, _: Model) -> str:
    from edgemem.runtime.onnxruntime.recorded_session import trial_refusal

    return trial_refusal(file)


def _tried_node_by_node(file: Path, _: Model) -> str:
    from edgemem.runtime.onnxruntime.node_trial import trial_refusal

    return trial_refusal(file)


def _no_webgpu_kernel(model: Model | Graph | None, plansets: Sequence[PlanSet]) -> Refusal | None:
    """What of a model has no kernel on a GPU: what `edgemem run` says of it, in the same words."""
    from edgemem.runtime.webgpu.gpu_model import read_gpu_model
    from edgemem.runtime.webgpu.graph_lowering import missing_kernels  # kernels, which other plans do not need
    from edgemem.runtime.webgpu.portable_program import constants_refusal

    if not isinstance(model, Model) or not isinstance(model, Computable):
        return None
    try:
        prepared = read_gpu_model(model, next(p for p in plansets if WEBGPU.refuse_plan(p) is None))
        if (missing := missing_kernels(prepared)) is not None:
            return Refusal(f"{missing}{missing.remedy()}", "")
    except UnsupportedError as e:
        return Refusal(str(e), "")
    why = constants_refusal(prepared)
    return Refusal(why, "") if why else None


def has_portable_size(plansets: Sequence[PlanSet]) -> bool:
    """Whether every device that has WebGPU has the memory of a file's plan for GPUs (`--profile portable`)."""
    from edgemem.runtime.webgpu.profile import portable_profile

    profile = portable_profile()
    planset = next((p for p in plansets if p.recording is None), None)
    if planset is None or planset.target is None:
        return True
    target, offsets, objects = planset.target, planset.best_offsets, planset.best_shared_objects
    if target.texels:
        extents = objects.objects if objects else ()
        return max((side for e in extents if not isinstance(e, int) for side in e), default=0) <= profile.texture_side
    if offsets is None:
        return True
    if target.layer_rows:
        return offsets.size <= target.layer_bytes * profile.layers
    largest = max((r.size for r in planset.problem.records if isinstance(r.size, int)), default=0)
    return offsets.size <= profile.buffer and largest <= profile.binding


def _adapter_profile(plansets: Sequence[PlanSet]) -> str:
    return "" if has_portable_size(plansets) else " with --profile adapter, on GPUs with so much memory"


_MICRO: Final = "TensorFlow Lite Micro"
IO_BINDING: Final = Executor(
    "io-binding",
    "ONNX Runtime, node by node (edgemem run --executor io-binding)",
    (".onnx",),
    _refusing(NODE_BY_NODE),
    _no_node,
    _tried_node_by_node,
)
TFLM: Final = Executor("tflm", _MICRO, (".tflite",), _micro, _no_micro_operator, _tried_in_tflm, needs=_micro_kernels)
LITERT: Final = Executor(
    "litert",
    "LiteRT with builtin kernels (edgemem.Interpreter)",
    (".tflite",),
    litert_refusal,
    try_file=_tried_in_litert,
)
WEBGPU: Final = Executor(
    "webgpu",
    "WebGPU (edgemem run --runtime webgpu)",
    (".onnx", ".tflite"),
    _refusing(ON_GPU),
    _no_webgpu_kernel,
    is_offered=False,
    needs=_adapter_profile,
)
EXECUTORS: Final = (
    IO_BINDING,
    Executor(
        "replay",
        "ONNX Runtime sessions (edgemem.InferenceSession)",
        (".onnx",),
        _replay,
        _made_elsewhere,
        _tried_in_session,
    ),
    Executor(
        "android",
        "an Android app (edgemem android package)",
        (".onnx",),
        _android,
        _for_one_processor,
        is_offered=False,
    ),
    TFLM,
    LITERT,
    WEBGPU,
)


def where_it_runs(
    plansets: Sequence[PlanSet], suffix: str, model: Model | Graph | None = None, file: Path | None = None
) -> str:
    """One line that names the executors that run a file's plans as they stand, and what to add for the others.

    Arguments are those of `list_executors`. Executors that are installed try `file`.
    """
    able, refused = _ask_all(plansets, suffix, model, file)
    runs = f"runs as planned in {' and in '.join(able)}" if able else "no executor runs this plan as it is"
    return "; ".join([runs, *(_format_refusal(executor, refusal) for executor, refusal in refused)])


def list_executors(plansets: Sequence[PlanSet], suffix: str, model: Model | Graph | None = None) -> list[str]:
    """The titles of the executors that run a file's plans as they stand.

    Args:
        plansets: all plan sets in the file.
        suffix: of the file, such as `.onnx`; no executor runs a stand-alone plan.
        model: that the plans are of. With it, a plan for other kernels than those of the Python package tflite-micro is
            proved for these, too, and operators that an executor lacks are known.
    """
    return _ask_all(plansets, suffix, model)[0]


def _ask_all(
    plansets: Sequence[PlanSet], suffix: str, model: Model | Graph | None, file: Path | None = None
) -> tuple[list[str], list[tuple[Executor, Refusal]]]:
    """The titles of those that run the plans, and the others with their reasons, where users are to know of them."""
    from edgemem.planning.verification import graph_for  # needs what makes plans, which running them does not

    able, refused = [], []
    device = next((p for p in plansets if micro_refusal(p) is None and _micro(p) is not None), None)
    # A plan for a device's kernels may be right for those of the Python package, too.
    is_right_here = device is not None and model is not None and not _is_wrong_here(device, graph_for(device, model))
    for executor in (e for e in EXECUTORS if suffix.lower() in e.suffixes):
        refusal = None if executor is TFLM and is_right_here else executor.refusal(plansets)
        if refusal is not None:
            refused += [(executor, refusal)] if executor.is_offered else []
            continue
        refusal = executor.refuse_model(model, plansets)
        if (
            refusal is None
            and file is not None
            and isinstance(model, Model)
            and (why := executor.try_file(file, model))
        ):
            refusal = Refusal(why, "")
        if refusal is None:
            able.append(f"{executor.title}{executor.needs(plansets)}")
        else:
            refused.append((executor, refusal))
    if device is not None and suffix.lower() in TFLM.suffixes and not TFLM.refuse_model(model, plansets):
        able.append(f"{_MICRO} built with the kernels of {device.kernels}")
    return able, refused


def _is_wrong_here(planset: PlanSet, graph: Graph) -> bool:
    """Whether a plan set is wrong on the kernels of the Python package tflite-micro."""
    return any(v.cause is not Cause.OVER_CAPACITY for v in examine(planset, graph, MICRO_KERNELS))


def _format_refusal(executor: Executor, refusal: Refusal) -> str:
    if not refusal.remedy:
        return f"{executor.title}: {refusal.why}"
    of_operators = f"{refusal.why}; " if refusal.remedy == "shrink --steps fold" else ""
    return f"{executor.title}: {of_operators}{refusal.advice}"
