"""A candidate run beside the model that it was made from, in the runtime that it is for.

The runtime says three things that nothing else does: whether the outputs are the same, how much memory it takes, and
how long a run takes beside what the user runs today.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from math import inf
from typing import TYPE_CHECKING, Any, Final

from edgemem import planfile
from edgemem.errors import (
    EdgememError,
    MissingDependencyError,
    ModelError,
    PassError,
    RuntimeBindError,
    UnsupportedError,
)
from edgemem.formats import Bindings, Foldable, onnx_editor
from edgemem.model.macs import count_macs
from edgemem.model.ranges import points_of
from edgemem.records.micro_builds import INSTALLED
from edgemem.records.micro_tail import predicted_tail
from edgemem.runtime.differences import at_most, compare_values, same
from edgemem.runtime.executors import MICRO_KERNELS
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.litert.process import ask_litert
from edgemem.runtime.onnxruntime.baked_file import baked_note, onnxruntime
from edgemem.runtime.onnxruntime.file_recording import add_recording, breaks_rules
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.tflite_file import TfliteModel
from edgemem.runtime.tflm.execution import execute, input_values
from edgemem.shrinking.candidate import IDENTICAL, SESSIONS, TailCheck
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Model
    from edgemem.plans import PlanSet
    from edgemem.runtime.onnxruntime.session_comparison import OriginalRuns
    from edgemem.shrinking.candidate import Candidate, CandidateLimits, OutputRule

__all__ = ["Trial", "try_candidate"]

_LEVELS: Final = frozenset({OptimiseGraph.name})  # what is compared with a session at the same level
_AS_WRITTEN: Final = "none"  # the level at which a session runs the operators of a file
_ROUNDING: Final = 1e-3  # of an output's largest element: more than float kernels differ by for other blocks of rows
_RUNS: Final = 3
_DIRT: Final = 0xCD  # what memory is filled with before a run
_MOST_SIZES: Final = 16  # of a range, at which memory is measured
_MOST_MACS: Final = 3_000_000_000  # of a model that TensorFlow Lite Micro's reference kernels run: about ten seconds


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it.

    Attributes:
        candidate: with what the runtime said.
        refusal: why its outputs are not near enough, or "".
        recorded: plans of what ONNX Runtime asked for.
    """

    candidate: Candidate
    refusal: str = ""
    recorded: tuple[PlanSet, ...] = ()


def try_candidate(
    original: Model,
    path: Path,
    candidate: Candidate,
    model: Model,
    planset: PlanSet,
    limits: CandidateLimits,
    feeds: Mapping[str, NDArray[Any]] | None,
    runs: Callable[[], OriginalRuns],
) -> Trial:
    """Run a candidate and its original on the same three inputs, and compare outputs, memory and time.

    The time in ONNX Runtime is measured only where it is limited: `OriginalRuns.latency_ratio` tells it.

    Args:
        original: the model as the user gave it.
        path: its file.
        candidate: what is tried.
        model: the candidate's.
        planset: its plan.
        limits: how near its outputs must be, and whether its time matters.
        feeds: inputs of the first run; the others are made up.
        runs: gives those of the original in ONNX Runtime.

    Where the runtime is not installed, or cannot run one of the two, the candidate says so and is taken as it is: every
    pass guarantees its outputs by construction. Raises PassError where one breaks that guarantee, UnsupportedError for
    a size in a range at which ONNX Runtime does not stay inside the plan, and ModelError where ONNX Runtime refuses the
    original by the rules of its operators' shapes and types.
    """
    try:
        if ".onnx" in original.suffixes:
            return _in_onnxruntime(original, path, candidate, model, planset, limits, feeds, runs)
        if not isinstance(model, TfliteModel) or not isinstance(original, TfliteModel):
            return Trial(replace(candidate, outputs="not run: no runtime is known for this format"))
        if candidate.target.scratch == "litert":
            return _in_litert(original, path, candidate, model, limits.outputs)
        if candidate.tail:
            return _in_tflm(original, candidate, model, planset)
    except (MissingDependencyError, RuntimeBindError) as e:
        return Trial(replace(candidate, outputs=f"not run: {str(e).splitlines()[0]}"))
    return Trial(replace(candidate, outputs=f"not run: no runtime here runs plans for {candidate.target.name}"))


def _in_onnxruntime(
    original: Model,
    path: Path,
    candidate: Candidate,
    model: Model,
    planset: PlanSet,
    limits: CandidateLimits,
    feeds: Mapping[str, NDArray[Any]] | None,
    runs: Callable[[], OriginalRuns],
) -> Trial:
    bindings, rule = original.bindings, limits.outputs
    recorded: tuple[PlanSet, ...] = ()
    with temporary_folder() as folder:
        file = folder / path.name
        model.with_plan(planfile.encode_all((planset,)), planset).save(file)
        try:
            if candidate.target.name in SESSIONS:
                recorded = add_recording(file, feeds, bindings=bindings)
        except MissingDependencyError:
            raise
        except EdgememError as e:
            return _failed(candidate, e, can_run=runs().can_run)
        over_range = _arena_over_range(file, bindings, candidate.text) if recorded and bindings.ranges else 0
    sizes = [plan.best_offsets.size for plan in recorded if plan.best_offsets is not None]
    if sizes:
        candidate = replace(candidate, arena=max(*sizes, over_range), is_measured=True)
    runtime = f"onnxruntime {onnxruntime().__version__}"
    if not candidate.steps:
        return Trial(replace(candidate, outputs=IDENTICAL, latency=1.0, runtime=runtime), recorded=recorded)
    try:
        found = runs().compare(model)
    except ModelError as e:
        return _failed(candidate, e, can_run=runs().can_run)
    note = baked_note(model.content())
    level = note.level if note is not None else _AS_WRITTEN
    is_promised = all(step.guarantee.outputs == "identical" for step in candidate.steps if step.name not in _LEVELS)
    is_kept = False  # every bit of a session at the model's level that knows its sizes
    if not found.is_identical and (is_promised or (rule == "identical" and note is not None)):
        beside = runs().compare(model, level=level)
        if is_promised and not beside.is_identical:
            raise PassError(f"{candidate.text}: {beside}, compared with level {level}; all its steps keep every bit")
        is_kept = beside.is_identical
    refusal = ""
    apart = f"differ by at most {at_most(found.largest)} in {found.runs} runs"
    if found.is_identical:
        outputs = IDENTICAL
    elif rule == "identical" and note is not None and is_kept:
        outputs = f"{apart} from a default session's, and not from those of level {level}"
    else:
        outputs = f"{apart}, ONNX Runtime's levels by {at_most(found.levels)}"
        is_near = rule == "as-runtime" and found.largest <= found.levels < inf
        levels = f"ONNX Runtime's levels by {found.levels:.2g} from each other"
        refusal = "" if is_near or rule == "close" else f"{candidate.text}: {found}, and {levels}"
    latency = runs().latency_ratio(model) if limits.max_latency is not None and not refusal else None
    return Trial(replace(candidate, outputs=outputs, latency=latency, runtime=runtime), refusal, recorded)


def _failed(candidate: Candidate, error: EdgememError, *, can_run: bool) -> Trial:
    """What comes of a candidate that its runtime did not run: it is refused where the original runs.

    Raises the error where the original does not run either, because it breaks the rules of its operators.
    """
    if not can_run and breaks_rules(error):
        raise error
    why = str(error).splitlines()[0]
    refusal = f"{candidate.text}: it does not run: {why}" if can_run and candidate.steps else ""
    return Trial(replace(candidate, outputs=f"not run: {why}"), refusal)


def _arena_over_range(file: Path, bindings: Bindings, steps: str) -> int:
    """Bytes of the arenas of a session that runs every size of the ranges, or many where there are more.

    Raises UnsupportedError for a size at which a run of the file, which these steps made, leaves the plan.
    """
    forms = onnx_editor().parts(file.read_bytes(), file.parent).input_forms()
    most = 0
    with InferenceSession(file, cache=False, record="never", poison=True) as session:
        for number, dims in enumerate(points_of(bindings.dims, bindings.ranges, _MOST_SIZES).values, 1):
            session.run(None, make_feeds(forms, Bindings(dims, bindings.input_shapes), seed=number))
            memory = session.memory
            if memory.replayed < number:
                at = " ".join(f"{name}={dims[name]}" for name in bindings.ranges)
                is_ordered = baked_note(file) is not None
                remedy = "give a smaller range" if is_ordered else "the order of its operators is open without optimize"
                raise UnsupportedError(
                    f"{steps or 'the model as it is'}: a run at {at} leaves the plan of the range ({memory.reason}); "
                    f"{remedy}"
                )
            most = max(most, memory.arena)
    return most


def _in_litert(original: TfliteModel, path: Path, candidate: Candidate, model: TfliteModel, rule: OutputRule) -> Trial:
    """Outputs are compared with those of the original in the same kernels, and time with LiteRT's default ones."""
    with temporary_folder() as folder:
        file, changed = folder / f"original-{path.name}", folder / path.name
        original.save(file)
        model.save(changed)
        today, _ = ask_litert("made-up", file, original, runs=_RUNS, kernels="default")
        _, wanted = ask_litert("made-up", file, original, runs=_RUNS, kernels="builtin")
        after, made = ask_litert("made-up", changed, model, runs=_RUNS, kernels="builtin")
    candidate = replace(candidate, arena=after["arena"], is_measured=True)
    is_same = len(wanted) == len(made) and all(map(same, wanted, made))
    differences = [compare_values(*pair)[1] for pair in zip(wanted, made, strict=True)]
    largest = max(differences, default=0.0)
    allowed = _ROUNDING if any(value.dtype.kind == "f" for value in made) else 0.0
    if largest > allowed:
        raise PassError(f"{candidate.text}: outputs in LiteRT differ by {largest:.2g} of their largest element")
    latency = after["seconds"] / max(today["seconds"], 1e-9)
    outputs = (
        IDENTICAL
        if is_same
        else f"differ by at most {at_most(largest)}: LiteRT's float kernels compute in blocks of rows"
    )
    refusal = "" if is_same or rule == "close" else f"{candidate.text}: outputs {outputs}"
    runtime = f"ai-edge-litert {version('ai-edge-litert')}"
    return Trial(replace(candidate, outputs=outputs, latency=latency, runtime=runtime), refusal)


def _in_tflm(original: TfliteModel, candidate: Candidate, model: TfliteModel, planset: PlanSet) -> Trial:
    if candidate.kernels not in ("none", MICRO_KERNELS):
        return Trial(replace(candidate, outputs=f"not run: the kernels here are those of {MICRO_KERNELS}"))
    graph = original.graph()
    if count_macs(graph) > _MOST_MACS:
        return Trial(replace(candidate, outputs="not run: reference kernels would take minutes"))
    first, *then = [input_values(graph, seed=seed) for seed in range(_RUNS)]
    planned = model.with_plan(planfile.encode_all((planset,)), planset).content()
    try:
        after = execute(planned, first, outputs=len(graph.outputs), then=then, fill=_DIRT)
    except RuntimeBindError as e:
        return _failed(candidate, e, can_run=_runs_in_tflm(original))
    check = TailCheck(after.tail, predicted_tail(model.graph(), INSTALLED))
    candidate = replace(candidate, arena=after.head, is_measured=True, tail_check=check)
    outputs = IDENTICAL
    try:
        before = execute(original.content(), first, outputs=len(graph.outputs), then=then)
    except RuntimeBindError as e:
        folded = original.folded() if isinstance(original, Foldable) else original
        if folded is original:
            return Trial(replace(candidate, outputs=f"ran; not compared: {str(e).splitlines()[0]}"))
        before = execute(folded.content(), first, outputs=len(graph.outputs), then=then)
        outputs = "identical to those with plain constants"  # it cannot decompress the model's own
    if not _are_same(before.each, after.each):
        raise PassError(f"{candidate.text}: outputs in TensorFlow Lite Micro differ from those of the model")
    latency = after.seconds / max(before.seconds, 1e-9)
    runtime = f"tflite-micro {version('tflite-micro')}"
    return Trial(replace(candidate, outputs=outputs, latency=latency, runtime=runtime))


def _runs_in_tflm(original: TfliteModel) -> bool:
    graph = original.graph()
    try:
        execute(original.content(), input_values(graph), outputs=len(graph.outputs))
    except RuntimeBindError:
        return False
    return True


def _are_same(here: Sequence[Sequence[NDArray[Any]]], there: Sequence[Sequence[NDArray[Any]]]) -> bool:
    return all(same(a, b) for one, other in zip(here, there, strict=True) for a, b in zip(one, other, strict=True))
