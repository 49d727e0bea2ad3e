"""Recording a plan ahead of time, to carry it in the model file."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError, PlanFileError, RuntimeBindError, UnsupportedError
from edgemem.files import atomic_write, temporary_folder
from edgemem.formats import Bindings
from edgemem.planning.model_plan import plan_recording
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.onnxruntime.file import plans_in, with_plans
from edgemem.runtime.onnxruntime.labels import labels
from edgemem.runtime.onnxruntime.optimise import onnxruntime
from edgemem.runtime.onnxruntime.profile import profiled_run
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.trace.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from edgemem.plans import PlanSet

__all__ = ["embed", "record"]

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
) -> PlanSet:
    """Run a model, plan the requests it made, and run it again to check that it makes the same requests.

    The plan is made with the settings of the plan of the graph that is in the file, if there is one. Records are named
    after the kernels that made the requests.

    Args:
        model: an .onnx file.
        feeds: inputs by name; made up otherwise (`edgemem.runtime.feeds.make_feeds`).
        dims: values for symbolic dimensions, when there are no feeds.
        input_shapes: shapes of inputs by name, when there are no feeds.
        sess_options: the session's; the plan is for their optimisation level and number of threads.
        providers: the session's.
        bind_outputs: plan the results, too; sessions must ask for the same.

    Raises:
        UnknownShapeError: an input has open dimensions, and neither feeds nor dims close them.
        RuntimeBindError: the requests differ from run to run, so there is nothing to store; or as InferenceSession.
    """
    options = onnxruntime().SessionOptions() if sess_options is None else sess_options
    with (
        _profiling(options),
        InferenceSession(
            str(model), options, providers, bind_outputs=bind_outputs, cache=False, stored=False, poison=True
        ) as session,
    ):
        bindings = Bindings(dims or {}, {n: tuple(shape) for n, shape in (input_shapes or {}).items()})
        given = make_feeds(_forms(session.get_inputs()), bindings) if feeds is None else feeds
        for _ in range(_ATTEMPTS):
            session.run(None, given)
            plan = session.recorded_plan
            memory = session.memory
            if memory.replayed and plan is not None:
                return _labelled(plan, session, given)
        raise RuntimeBindError(
            f"no plan of {model} held in {_ATTEMPTS} runs: {memory.reason}; a session still runs it, with right results"
        )


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


def _labelled(plan: PlanSet, session: InferenceSession, feeds: Mapping[str, Any]) -> PlanSet:
    """The plan with names of kernels for its requests; unchanged if the profiled run made other requests."""
    recording = plan.recording
    assert recording is not None
    trace, kernels = profiled_run(session, lambda: session.run_unplanned(feeds))
    if not np.array_equal(trace.stream, recording.trace.stream):
        return plan
    named = Recording(recording.fingerprint, trace)
    return plan_recording(named, plan.settings, names=labels(trace, kernels))


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
            file.write(with_plans(data, (*kept, *recordings)))
    except OSError as e:
        raise ModelError(f"cannot write the planned model: {e}") from None


def _readable(data: bytes) -> tuple[PlanSet, ...]:
    """The plan sets in a model, without those that are damaged."""
    for old in (True, False):
        with suppress(PlanFileError):
            return plans_in(data, old=old)
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
