"""Recording a plan ahead of time, to carry it in the model file."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError, PlanFileError, RuntimeBindError, UnsupportedError
from edgemem.formats import Bindings
from edgemem.model.ranges import Range, corners_of, resolve
from edgemem.planning.recording_plan import plan_recording
from edgemem.runtime.feeds import complete_feeds, make_feeds
from edgemem.runtime.onnxruntime.baked_file import onnxruntime, runtime_errors
from edgemem.runtime.onnxruntime.calls import described
from edgemem.runtime.onnxruntime.file import plans_in, with_plans
from edgemem.runtime.onnxruntime.labels import labels
from edgemem.runtime.onnxruntime.profile import profiled_runs
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.system.files import atomic_write, temporary_folder
from edgemem.trace.merged_trace import is_part_of
from edgemem.trace.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from edgemem.plans import PlanSet

__all__ = ["embed", "record", "record_over"]

_DTYPES: Final = {"float": "float32", "double": "float64"}  # ONNX Runtime's names that are not numpy's
_ATTEMPTS: Final = 5


def record(
    model: str | Path,
    feeds: Mapping[str, Any] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    sess_options: Any = None,
    providers: Sequence[Any] | None = None,
    bind_outputs: bool = False,
    keep_reuse: bool = False,
) -> PlanSet:
    """Run a model, plan the requests it made, and run it again to check that it makes the same requests.

    The plan is made with the settings of the plan of the graph that is in the file, if there is one. Records are named
    after the kernels that made the requests.

    Args:
        model: an .onnx file.
        feeds: inputs by name; made up otherwise (`edgemem.runtime.feeds.make_feeds`).
        dims: values for symbolic dimensions, when there are no feeds.
        input_shapes: shapes of inputs by name, when there are no feeds.
        sess_options: the session's; the plan is for their optimisation level, and was recorded with their threads.
        providers: the session's.
        bind_outputs: plan the results, too; sessions must ask for the same.
        keep_reuse: with ONNX Runtime's own reuse on, for sessions of its Java API.

    Raises:
        UnknownShapeError: an input has open dimensions, and neither feeds nor dims close them.
        RuntimeBindError: the requests differ from run to run, so there is nothing to store; or as InferenceSession.
    """
    bindings = Bindings.of(dims, input_shapes)
    (plan,) = record_over(
        model,
        bindings,
        feeds,
        sess_options=sess_options,
        providers=providers,
        bind_outputs=bind_outputs,
        keep_reuse=keep_reuse,
    )
    return plan


def record_over(
    model: str | Path,
    bindings: Bindings,
    feeds: Mapping[str, Any] | None = None,
    *,
    sess_options: Any = None,
    providers: Sequence[Any] | None = None,
    bind_outputs: bool = False,
    keep_reuse: bool = False,
) -> tuple[PlanSet, ...]:
    """As `record`, over the ranges that the bindings have: plans that serve every run of these sizes.

    The ends of the ranges are recorded. What is planned has the largest size of each request and keeps it as long as
    any of the runs does. Then the ends and the middle are run inside the plan, which has to serve them whole; what does
    not fit is recorded as well. Sizes at which the model makes another number of requests have plans of their own.

    Args:
        model: an .onnx file.
        bindings: sizes of inputs that are made up. Without ranges there is one run.
        feeds: the inputs of the only run; with ranges, of one more run beside those of the ends.
        sess_options: as for `record`.
        providers: as for `record`.
        bind_outputs: as for `record`.
        keep_reuse: as for `record`.

    Returns one plan, or several with different numbers of requests. Raises as `record`.
    """
    options = onnxruntime().SessionOptions() if sess_options is None else sess_options
    with (
        _profiling(options),
        InferenceSession(
            str(model),
            options,
            providers,
            bind_outputs=bind_outputs,
            cache=False,
            stored=False,
            poison=True,
            background=False,
            keep_reuse=keep_reuse,
        ) as session,
    ):
        runs = _runs(session, bindings, feeds)
        for at, given in runs[:-1] or runs:  # the last one is checked: it lies between others
            try:
                session.warm_up(given)
            except runtime_errors() as e:
                if not at:
                    raise
                raise ModelError(f"ONNX Runtime cannot run {model} at {at}: {str(e).splitlines()[0]}") from None
        for _ in range(_ATTEMPTS):
            found, misfits = _served(session, [given for _, given in runs])
            if not misfits:
                return _labelled(found, session)
            session.warm_up(misfits)
        memory = session.memory
        if not memory.requests:
            raise RuntimeBindError(
                f"a run of {model} asks for no memory at these sizes, so there is nothing to plan; give other sizes, "
                "or record nothing (without --record)"
            )
        raise RuntimeBindError(
            f"no plan of {model} held in {_ATTEMPTS} runs: {memory.reason}; a session still runs it, with right results"
        )


def _runs(
    session: InferenceSession, bindings: Bindings, feeds: Mapping[str, Any] | None
) -> list[tuple[str, Mapping[str, Any]]]:
    """The inputs of the runs at the ends of all ranges, the largest first, and last those of a run in the middle.

    With each run its sizes in words; "" for the inputs that are given, and where there are no ranges.
    """
    given: list[tuple[str, Mapping[str, Any]]] = []
    if feeds is not None:
        missing = [i for i in session.get_inputs() if i.name not in feeds]
        given = [("", complete_feeds(_forms(session.get_inputs()), feeds, bindings) if missing else feeds)]
    if not bindings.ranges and given:
        return given
    forms = _forms(session.get_inputs())

    def at(values: Mapping[str, int]) -> tuple[str, Mapping[str, Any]]:
        dims = resolve(bindings.dims, bindings.ranges, values)
        made = make_feeds(forms, Bindings(dims, bindings.input_shapes))
        return " ".join(f"{name}={value}" for name, value in values.items()), made

    spans = {name: made for name, made in bindings.ranges.items() if isinstance(made, Range)}
    middle = [at({name: (made.low + made.high) // 2 for name, made in spans.items()})] if spans else []
    return [*map(at, corners_of(bindings.ranges)), *given, *middle]


def _served(
    session: InferenceSession, runs: Sequence[Mapping[str, Any]]
) -> tuple[list[tuple[PlanSet, Mapping[str, Any]]], list[Mapping[str, Any]]]:
    """The plans that serve these runs, each with the inputs of the first one, and the runs that none serves.

    Each plan is called like that run, so that several plans have different fingerprints.
    """
    found: dict[int, tuple[PlanSet, Mapping[str, Any]]] = {}
    misfits: list[Mapping[str, Any]] = []
    for given in runs:
        before = session.memory.replayed
        session.run(None, given)
        plan = session.recorded_plan
        if plan is None or session.memory.replayed == before:
            misfits.append(given)
        elif id(plan) not in found:
            found[id(plan)] = plan, given
    return [(_called_like(plan, given), given) for plan, given in found.values()], misfits


def _called_like(plan: PlanSet, feeds: Mapping[str, Any]) -> PlanSet:
    """The plan with the shapes of these inputs in its fingerprint."""
    assert plan.recording is not None
    fingerprint = plan.recording.fingerprint
    signature = replace(fingerprint.signature, inputs=described(feeds))
    return replace(plan, recording=Recording(replace(fingerprint, signature=signature), plan.recording.trace))


@contextmanager
def _profiling(options: Any) -> Iterator[None]:
    """Enables profiling into a temporary folder in these options, and restores them afterwards."""
    profiles, prefix = options.enable_profiling, options.profile_file_prefix
    with temporary_folder() as folder:
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
        try:
            yield
        finally:
            options.enable_profiling, options.profile_file_prefix = profiles, prefix


def _labelled(found: Sequence[tuple[PlanSet, Mapping[str, Any]]], session: InferenceSession) -> tuple[PlanSet, ...]:
    """The plans with names of kernels for their requests; unchanged if the profiled run does not fit into one."""
    runs = profiled_runs(session, [partial(session.run_unplanned, given) for _, given in found])
    plans = []
    for (plan, _), (trace, kernels) in zip(found, runs, strict=True):
        recording = plan.recording
        assert recording is not None
        fits = is_part_of(trace, recording.trace)
        plans.append(plan_recording(recording, plan.settings, names=labels(trace, kernels)) if fits else plan)
    return tuple(plans)


def embed(model: Path, recordings: Sequence[PlanSet], output: Path) -> None:
    """Write the model with the plans of these recordings added to those it has; weight files are not moved.

    The plan of the graph, and recordings with other fingerprints, stay as they are. Recordings that edgemem 0.1 wrote
    move to where the other plans are. What is damaged is left out.

    Raises ModelError if the model cannot be read, or the output not written.
    """
    try:
        data = model.read_bytes()
        present = _readable(data)
        new = {p.recording.fingerprint.key for p in recordings if p.recording is not None}
        kept = [p for p in present if p.recording is None or p.recording.fingerprint.key not in new]
        with atomic_write(output) as file:
            file.write(with_plans(data, sorted((*kept, *recordings), key=_for_sessions)))
    except OSError as e:
        raise ModelError(f"cannot write the planned model: {e}") from None


def _for_sessions(planset: PlanSet) -> bool:
    """Whether it is a recording of a session in Python; a device tries the first recording in a file."""
    return planset.recording is not None and not planset.recording.fingerprint.keeps_reuse


def _readable(data: bytes) -> tuple[PlanSet, ...]:
    """The plan sets in a model, without those that are damaged."""
    with suppress(PlanFileError):
        return plans_in(data)
    return ()


def _forms(inputs: Sequence[Any]) -> dict[str, tuple[str, tuple[int | str | None, ...]]]:
    """Dtype and declared shape of a session's inputs. Raises UnsupportedError for what is no dense tensor."""
    forms: dict[str, tuple[str, tuple[int | str | None, ...]]] = {}
    for value in inputs:
        match = re.fullmatch(r"tensor\((\w+)\)", value.type)
        if match is None:
            raise UnsupportedError(f"input {value.name!r} is a {value.type}; give feeds for this model")
        dims = tuple(d if isinstance(d, str) or (isinstance(d, int) and d >= 0) else None for d in value.shape)
        forms[value.name] = (_DTYPES.get(match[1], match[1]), dims)
    return forms
