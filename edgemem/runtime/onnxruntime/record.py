"""Recording a plan ahead of time, to carry it in the model file."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import MissingDependencyError, ModelError, RuntimeBindError, UnknownShapeError, UnsupportedError
from edgemem.files import atomic_write
from edgemem.replay.recording import encode, plan_trace
from edgemem.runtime.onnxruntime.file import with_embedded
from edgemem.runtime.onnxruntime.labels import labels, profiled
from edgemem.runtime.onnxruntime.session import InferenceSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.replay.recording import RecordedPlan

__all__ = ["default_feeds", "embed", "record"]

# ONNX Runtime's names of element types that numpy has as well.
_DTYPES: Final = {
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "bool": "bool",
}
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
) -> RecordedPlan:
    """Run a model, plan what it asked for, and run it again to see that the plan holds.

    Records are named after the kernels that asked for them.

    Args:
        model: an .onnx file.
        feeds: inputs by name; without them zeros are fed, and ones for integers.
        dims: values for symbolic dimensions, when there are no feeds.
        input_shapes: shapes of inputs by name, when there are no feeds.
        sess_options: the session's, which the plan is for: level and threads count.
        providers: the session's.
        bind_outputs: plan the results, too; sessions must ask for the same.

    Raises:
        UnknownShapeError: an input has open dimensions, and neither feeds nor dims close them.
        RuntimeBindError: the requests differ from run to run, so there is nothing to store; or as InferenceSession.
    """
    options = _onnxruntime_options() if sess_options is None else sess_options
    with (
        _profiling(options),
        InferenceSession(
            str(model), options, providers, bind_outputs=bind_outputs, cache=False, stored=False, poison=True
        ) as session,
    ):
        given = default_feeds(session.get_inputs(), dims or {}, input_shapes or {}) if feeds is None else feeds
        for _ in range(_ATTEMPTS):
            session.run(None, given)
            plan = session.recorded_plan
            memory = session.memory
            if memory.replayed and plan is not None:
                return _labelled(plan, session, given)
        raise RuntimeBindError(
            f"no plan of {model} held in {_ATTEMPTS} runs: {memory.reason}; a session still runs it, with right results"
        )


def _onnxruntime_options() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingDependencyError("onnxruntime", extra="cpu", purpose="recording a plan") from None
    return onnxruntime.SessionOptions()


@contextmanager
def _profiling(options: Any) -> Iterator[None]:
    """Options that write a profile into a folder of its own, and then as they were."""
    profiles, prefix = options.enable_profiling, options.profile_file_prefix
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder) / "profile")
        try:
            yield
        finally:
            options.enable_profiling, options.profile_file_prefix = profiles, prefix


def _labelled(plan: RecordedPlan, session: InferenceSession, feeds: Mapping[str, Any]) -> RecordedPlan:
    """The plan with names of kernels for its requests; as it is if the profiled run was another."""
    trace, kernels = profiled(session, lambda: session.run_unplanned(feeds))
    if not np.array_equal(trace.stream, plan.trace.stream):
        return plan
    return plan_trace(trace, plan.fingerprint, names=labels(trace, kernels))


def embed(model: Path, plans: Sequence[RecordedPlan], output: Path) -> None:
    """Write the model with recorded plans in its metadata; every other byte stays, weight files are not moved.

    Raises ModelError if the model cannot be read, or the output not written.
    """
    try:
        data = with_embedded(model.read_bytes(), encode(plans))
        with atomic_write(output) as file:
            file.write(data)
    except OSError as e:
        raise ModelError(f"cannot write the planned model: {e}") from None


def default_feeds(
    inputs: Sequence[Any], dims: Mapping[str, int], input_shapes: Mapping[str, Sequence[int]]
) -> dict[str, NDArray[Any]]:
    """Zeros for a session's inputs, ones for integers (which count or point more often than not).

    Raises UnknownShapeError naming open dimensions, and UnsupportedError for inputs that are no dense tensors.
    """
    unknown: dict[str, list[str]] = {}
    made: dict[str, NDArray[Any]] = {}
    for value in inputs:
        match = re.fullmatch(r"tensor\((\w+)\)", value.type)
        if match is None or match[1] not in _DTYPES:
            raise UnsupportedError(f"input {value.name!r} is a {value.type}; give feeds for this model")
        given = input_shapes.get(value.name)
        shape: list[Any] = (
            list(given) if given is not None else [dims.get(d, d) if isinstance(d, str) else d for d in value.shape]
        )
        opened = [str(d) for d in shape if not isinstance(d, int) or d < 0]
        if opened:
            unknown[value.name] = opened
            continue
        dtype = np.dtype(_DTYPES[match[1]])
        made[value.name] = np.ones(shape, dtype) if dtype.kind in "iu" else np.zeros(shape, dtype)
    if unknown:
        symbols = sorted({s for open_ in unknown.values() for s in open_})
        raise UnknownShapeError(
            f"inputs {', '.join(map(repr, unknown))} have open dimensions: {', '.join(symbols)}; "
            "bind them with --dim NAME=VALUE or --input-shape INPUT=D0,D1,...",
            tensors=tuple(unknown),
            symbols=symbols,
        )
    return made
