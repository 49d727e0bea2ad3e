"""A plan of what ONNX Runtime asks for, recorded and added to the plans of a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import EdgememError, ModelError
from edgemem.formats import Bindings, load_model, onnx_editor
from edgemem.model.ranges import in_ranges
from edgemem.report.sizes import size_text
from edgemem.runtime.onnxruntime import recording as runtime_record
from edgemem.runtime.onnxruntime.baked_file import in_one_line, onnxruntime, quiet_options
from edgemem.runtime.onnxruntime.bounded_run import check_run_ends, is_bounded
from edgemem.runtime.onnxruntime.file import planned_bindings, weight_files
from edgemem.runtime.onnxruntime.session_comparison import requests_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet

__all__ = ["add_recording", "add_recording_if_possible", "breaks_rules"]

_MOST_BYTES: Final = 1 << 30  # of a model's files, or of an arena, that is recorded without being asked for
_INVALID: Final = re.compile(
    r"\[(Shape|Type)InferenceError\]"
)  # in what ONNX Runtime says of a model against the rules
_TARGETS: Final = frozenset({"generic", "onnxruntime"})


def add_recording(
    planned: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    bindings: Bindings | None = None,
    threads: int = 0,
    for_android: bool = False,
) -> tuple[PlanSet, ...]:
    """Record a model and add the plan of what ONNX Runtime asked for to those in its file, atomically.

    The plan is made with the settings of the plan of the graph in the file, which stays there. Over a range of sizes it
    serves all of them (`edgemem.runtime.onnxruntime.recording.record_over`).

    Args:
        planned: an .onnx file.
        feeds: inputs by name; those that are not given are made up.
        bindings: sizes of made-up inputs; what is not given is as in the plan that is in the file.
        threads: of one operator; 0 is as many as a session has by default, in an app 1. Sessions with others try the
            plan, too.
        for_android: record what an app asks for through ONNX Runtime's Java API: with ONNX Runtime's own reuse, with
            results in the arena, and at the optimisation level `extended`, because layouts of the level `all` are those
            of a desktop's processor.

    Returns one plan, or several where the number of requests depends on the sizes.

    Raises what `edgemem.runtime.onnxruntime.recording.record` and `embed` raise; the file stays as it was then.
    """
    options = quiet_options()
    options.intra_op_num_threads = threads
    if for_android:
        options.intra_op_num_threads = threads or 1
        options.graph_optimization_level = onnxruntime().GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    data = planned.read_bytes()
    wanted = planned_bindings(data, bindings or Bindings())
    if feeds is not None:
        check_shapes(onnx_editor().parts(data, planned.parent).input_forms(), wanted, feeds)
    _check_run_ends(planned, data, wanted, feeds)
    with in_one_line(planned):
        recorded = runtime_record.record_over(
            planned, wanted, feeds, sess_options=options, bind_outputs=for_android, keep_reuse=for_android
        )
    runtime_record.embed(planned, recorded, planned)
    return recorded


def _check_run_ends(planned: Path, data: bytes, bindings: Bindings, feeds: Mapping[str, NDArray[Any]] | None) -> None:
    """Raise RuntimeBindError where a run does not come back; recording is done in this process."""
    try:
        graph = load_model(planned, bindings).graph()
    except ModelError:  # recording says what is wrong
        return
    if not is_bounded(graph):
        requests = requests_of(data, planned.parent, bindings, feeds)
        check_run_ends(planned, graph, requests, dims=bindings.fixed)


def add_recording_if_possible(
    planned: Path, feeds: Mapping[str, NDArray[Any]], planset: PlanSet, *, bindings: Bindings, threads: int
) -> tuple[tuple[PlanSet, ...], str]:
    """`add_recording` where nobody asked for it: what is in its way is no error, unless the model itself is wrong.

    A model is recorded if its plan is for ONNX Runtime, that is installed, and neither the model's files nor its arena
    are larger than 1 GiB.

    Args:
        planned: as for `add_recording`.
        feeds: as for `add_recording`; none for inputs that are made up. Whoever gives values asks for a recording of
            them: what is in its way is an error.
        planset: the plan of the graph that is in the file.
        bindings: as for `add_recording`.
        threads: as for `add_recording`.

    Returns the plans, and why there is none, for people, or "".

    Raises ModelError for a model whose operators ONNX Runtime refuses by the rules of their shapes and types.
    """
    why = _why_not(planned, planset)
    if why:
        return (), why
    try:
        return add_recording(planned, feeds or None, bindings=bindings, threads=threads), ""
    except EdgememError as e:
        if feeds or breaks_rules(e):
            raise
        return (), str(e)


def breaks_rules(error: EdgememError) -> bool:
    """Whether ONNX Runtime refused the model itself: by the rules of its operators' shapes and types."""
    return isinstance(error, ModelError) and _INVALID.search(str(error)) is not None


def _why_not(planned: Path, planset: PlanSet) -> str:
    """Why a model is recorded only if that is asked for; "" if it is recorded."""
    if planset.target is not None and planset.target.name not in _TARGETS:
        return f"the plan is for the target {planset.target.name}"
    if planset.best_offsets is None:
        return "there is no plan of offsets"
    try:
        onnxruntime()
    except EdgememError as e:
        return str(e)
    largest = planned.stat().st_size
    if largest <= _MOST_BYTES:
        outside = (planned.parent / name for name in weight_files(planned.read_bytes()))
        largest += sum(file.stat().st_size for file in outside if file.is_file())
    for what, bytes_ in (("the model takes", largest), ("its arena takes", planset.best_offsets.size)):
        if bytes_ > _MOST_BYTES:
            return f"{what} {size_text(bytes_)}; --record runs models of more than {size_text(_MOST_BYTES)}"
    return ""


def check_shapes(
    forms: Mapping[str, tuple[str, Sequence[int | str | None]]], bindings: Bindings, feeds: Mapping[str, NDArray[Any]]
) -> None:
    """Raise ModelError if a value has another shape than the model's input, with its dimensions bound, is planned for.

    Args:
        forms: name -> dtype and shape of each input, with symbols by name and None for what is unknown.
        bindings: what the plan is for. What it does not bind may have any size, and what has a range any in it.
        feeds: values by name.
    """
    ranged: dict[str, int] = {}
    for name, value in feeds.items():
        if name not in forms:
            raise ModelError(f"no input {name!r}; there are {', '.join(map(repr, forms)) or 'none'}")
        declared: Sequence[int | str | None] = bindings.input_shapes.get(name, forms[name][1])
        fixed = {symbol: size for symbol, size in bindings.dims.items() if symbol not in bindings.ranges}
        shape = [fixed.get(d, d) if isinstance(d, str) else d for d in declared]
        known = [d if isinstance(d, int) and d >= 0 else None for d in shape]
        if len(known) != value.ndim or any(k not in (None, d) for k, d in zip(known, value.shape, strict=True)):
            planned, given = ("x".join(map(str, s)) or "scalar" for s in (shape, value.shape))
            raise ModelError(
                f"the value for input {name!r} is {given}, but the plan is for {planned}; bind the same with --dim or "
                "--input-shape, or give another value"
            )
        ranged |= {d: n for d, n in zip(shape, value.shape, strict=True) if isinstance(d, str) and d in bindings.ranges}
    if why := in_ranges(ranged, {}, bindings.ranges):
        raise ModelError(f"the values for the inputs are outside of what the plan is for: {why}; give others")
