"""Baked files: ONNX Runtime's optimised graph of a model, saved with its nodes in the order in which they run.

By default ONNX Runtime rewrites a graph when it loads it and runs it in an order of its own. A baked file contains the
rewritten graph with its nodes in the wanted order. Loaded with optimisations off and PRIORITY_BASED execution, its
kernels run in the order of the file. A note in its metadata identifies a baked file.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import MissingDependencyError, ModelError, PlanFileError, RuntimeBindError, RuntimeLoadError
from edgemem.formats import onnx_editor
from edgemem.formats.plan_summary import SUMMARY_KEY
from edgemem.runtime.onnxruntime.file import BAKED_KEY, PLAN_KEY, has_blocked_layout, metadata_of, opened
from edgemem.system.files import atomic_write, temporary_folder
from edgemem.system.processor import processor_features

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.planfile.protobuf import Content


__all__ = [
    "BAKED_KEY",
    "LEVELS",
    "Baked",
    "bake",
    "baked_note",
    "baked_options",
    "bind_dimensions",
    "check_name",
    "check_place",
    "in_one_line",
    "onnxruntime",
    "optimised",
    "runtime_errors",
    "session_options_for",
]

LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_FATAL = 4  # log severity
_REMEDY = "make it here from the original model with: edgemem shrink MODEL.onnx -o SHRUNK.onnx"


@dataclass(frozen=True, slots=True)
class Baked:
    """A baked file's note.

    Attributes:
        level: none, basic, extended, all.
        onnxruntime: the version that wrote the graph.
        processor: the machine and its instructions (`processor_features`): the level `all` lays out tensors and weights
            for the registers of the processor it ran on. Of an older note, the machine alone.
        dims: the values that the file's symbols were bound to.
    """

    level: str
    onnxruntime: str
    processor: str
    dims: Mapping[str, int]


def bake(
    model_path: str | Path,
    out_path: str | Path,
    level: str = "all",
    *,
    order: Sequence[int] | None = None,
    dims: Mapping[str, int] | None = None,
    disabled: Sequence[str] = (),
) -> Baked:
    """Write ONNX Runtime's optimised graph of a model, its nodes in the order in which they will run.

    A file that is baked already keeps its graph and its note; only its order changes. A plan in it is dropped.

    Args:
        model_path: the model.
        out_path: the file to write, atomically; weights are inside.
        level: how far to optimise. The file is for this processor and this version of ONNX Runtime.
        order: a permutation of the optimised graph's operators (those of `edgemem.load(baked).graph()`, which has no
            Constant nodes); None keeps ONNX Runtime's own. `Shape` and `Size` run as early as they can in any case,
            and the file says so.
        dims: values for symbolic dimensions, which the optimiser then knows.
        disabled: names of ONNX Runtime's transformations that are left out.

    Raises:
        RuntimeLoadError: ONNX Runtime cannot load the model.
        RuntimeBindError: the file was baked elsewhere.
        ModelError: the order is not topological.
        MissingDependencyError: onnxruntime is not installed.
    """
    ort = onnxruntime()
    source = Path(model_path)
    check_name(source)
    try:
        data = source.read_bytes()
    except OSError as e:
        raise ModelError(f"cannot read {source}: {e}") from None
    check_place(data)
    note = baked_note(data)
    if note is None:
        data = optimised(source, level, dims=dims or {}, disabled=disabled)
        note = Baked(level, ort.__version__, processor_features(), dict(dims or {}))
    parts = onnx_editor().parts(data, source.parent)
    wanted = tuple(order) if order is not None else tuple(range(len(parts.names)))
    parts.check_order(wanted)
    for key in (PLAN_KEY, SUMMARY_KEY):  # of another graph or order
        data = onnx_editor().without_metadata(data, key)
    data = onnx_editor().reordered(data, wanted)
    data = onnx_editor().prioritised(data)
    with atomic_write(Path(out_path)) as file:
        file.write(onnx_editor().with_metadata(data, BAKED_KEY, json.dumps(asdict(note)).encode()))
    return note


def baked_note(model: str | Path | Content) -> Baked | None:
    """The note of a baked file, from its path or its bytes; None without one.

    Raises PlanFileError for a note that is damaged.
    """
    if isinstance(model, str | Path):
        with opened(model) as (data, _):
            return baked_note(data)
    text = metadata_of(model, (BAKED_KEY,)).get(BAKED_KEY)
    if text is None:
        return None
    try:
        entry = json.loads(text)
        if "machine" in entry:  # as older versions wrote it
            entry["processor"] = entry.pop("machine")
        note = Baked(**entry)
    except (ValueError, TypeError, AttributeError, RecursionError) as e:
        raise PlanFileError(f"the note {BAKED_KEY} is damaged: {e}; bake the model again") from None
    if wrong := _wrong(note):
        raise PlanFileError(f"the note {BAKED_KEY} is damaged: {wrong}; bake the model again")
    return note


def _wrong(note: Baked) -> str:
    """What a note from a file says that no baked file does, or ""."""
    for name in ("level", "onnxruntime", "processor"):
        if not isinstance(getattr(note, name), str):
            return f"its {name} is no text"
    if note.level not in LEVELS:
        return f"no level {note.level[:40]!r}"
    if not isinstance(note.dims, dict) or not all(type(v) is int and 0 <= v < 2**63 for v in note.dims.values()):
        return "its dims are no sizes"
    return ""


def check_place(data: Content) -> None:
    """Raise RuntimeBindError where a model's graph was optimised elsewhere, or where that is unknown.

    ONNX Runtime would run it without an error, and give other values: its weights lie as the registers of one processor
    need them. Errors besides as `baked_note`.
    """
    note = baked_note(data)
    if note is None:
        if has_blocked_layout(data):
            raise RuntimeBindError(
                "the model has operators of com.microsoft.nchwc, whose weights lie as one kind of processor needs "
                f"them, and does not say which; {_REMEDY}"
            )
        return
    here = f"onnxruntime {onnxruntime().__version__}", processor_features()
    made = f"onnxruntime {note.onnxruntime[:40]}", note.processor[:300]
    if different := [f"{one}, and this is {other}" for one, other in zip(made, here, strict=True) if one != other]:
        raise RuntimeBindError(f"the model was optimised for {'; for '.join(different)}; {_REMEDY}")


def session_options_for(data: Content, base_options: Any = None) -> Any:
    """`SessionOptions` under which a baked model runs in its own order; unchanged for a model that is not baked.

    Args:
        data: the model's bytes.
        base_options: changed and returned, because `SessionOptions` cannot be copied; new ones by default.

    Raises as `check_place`.
    """
    ort = onnxruntime()
    options = base_options if base_options is not None else ort.SessionOptions()
    check_place(data)
    if baked_note(data) is not None:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    return options


@contextmanager
def baked_options(data: Content, options: Any) -> Iterator[None]:
    """Sets options as `session_options_for` does while a session is made, and restores them."""
    before = options.graph_optimization_level, options.execution_order
    try:
        session_options_for(data, options)
        yield
    finally:
        options.graph_optimization_level, options.execution_order = before


def quiet_options() -> Any:
    """Options of a session that edgemem opens by itself: ONNX Runtime prints nothing but what ends the process.

    Its warnings are about the model, and its errors are raised, too.
    """
    options = onnxruntime().SessionOptions()
    options.log_severity_level = _FATAL
    return options


def optimised(model_path: Path, level: str, *, dims: Mapping[str, int], disabled: Sequence[str] = ()) -> bytes:
    """ONNX Runtime's optimised graph of a model as a file, weights inside, without the transformations in `disabled`.

    Raises ModelError for a level that there is not, and RuntimeLoadError where ONNX Runtime cannot load the model.
    """
    ort = onnxruntime()
    if level not in LEVELS:
        raise ModelError(f"{level!r} is no optimisation level; there are {', '.join(LEVELS)}")
    options = bind_dimensions(quiet_options(), dims)
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    with temporary_folder() as folder:
        path = folder / "optimised.onnx"
        options.optimized_model_filepath = str(path)
        try:
            session = ort.InferenceSession(
                str(model_path), options, providers=["CPUExecutionProvider"], disabled_optimizers=list(disabled)
            )
        except runtime_errors() as e:
            raise RuntimeLoadError(f"ONNX Runtime cannot load {model_path}: {e}") from None
        inputs = [a.name for a in (*session.get_inputs(), *session.get_overridable_initializers())]
        return onnx_editor().completed(path.read_bytes(), inputs, model_path.parent)


def bind_dimensions(options: Any, dims: Mapping[str, int]) -> Any:
    """Bind symbolic dimensions in session options; returns the options, which are changed."""
    for name, value in dims.items():
        options.add_free_dimension_override_by_name(name, value)
    return options


def onnxruntime() -> Any:
    """The module. Raises MissingDependencyError when it is not installed."""
    try:
        return import_module("onnxruntime")
    except ImportError:
        raise MissingDependencyError("onnxruntime", purpose="running an ONNX model") from None


def check_name(model: Path) -> None:
    """Raise ModelError for a file whose name is no UTF-8, which ONNX Runtime's module does not take."""
    try:
        str(model).encode()
    except UnicodeEncodeError:
        raise ModelError(f"ONNX Runtime takes no file whose name is no UTF-8, as {model.name} is; rename it") from None


def runtime_errors() -> tuple[type[Exception], ...]:
    """The exception classes that ONNX Runtime raises; they have no base class of their own."""
    state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    own = [v for v in vars(state).values() if isinstance(v, type) and issubclass(v, Exception)]
    return (*own, RuntimeError, ValueError)


@contextmanager
def in_one_line(model: Path) -> Iterator[None]:
    """Turns what ONNX Runtime raises into a ModelError that says it in one line."""
    check_name(model)
    try:
        yield
    except runtime_errors() as e:
        raise ModelError(f"ONNX Runtime cannot run {model.name}: {str(e).splitlines()[0]}") from None
