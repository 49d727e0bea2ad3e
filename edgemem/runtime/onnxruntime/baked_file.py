"""Baked files: ONNX Runtime's optimised graph of a model, saved with its nodes in the order in which they run.

By default ONNX Runtime rewrites a graph when it loads it and runs it in an order of its own. A baked file contains the
rewritten graph with its nodes in the wanted order. Loaded with optimisations off and PRIORITY_BASED execution, its
kernels run in the order of the file. A note in its metadata identifies a baked file.
"""

from __future__ import annotations

import json
import platform
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import MissingDependencyError, ModelError, PlanFileError, RuntimeBindError, RuntimeLoadError
from edgemem.formats import onnx_editor
from edgemem.formats.plan_summary import SUMMARY_KEY
from edgemem.runtime.onnxruntime.file import BAKED_KEY, PLAN_KEY
from edgemem.system.files import atomic_write, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


__all__ = [
    "BAKED_KEY",
    "LEVELS",
    "Baked",
    "bake",
    "baked_note",
    "baked_options",
    "bind_dimensions",
    "check_name",
    "in_one_line",
    "metadata_for",
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
_ERRORS_ONLY = 3  # log severity


@dataclass(frozen=True, slots=True)
class Baked:
    """A baked file's note.

    Attributes:
        level: none, basic, extended, all.
        onnxruntime: the version that wrote the graph.
        machine: the processor family; the level `all` chooses tensor layouts for the processor it ran on.
        dims: the values that the file's symbols were bound to.
    """

    level: str
    onnxruntime: str
    machine: str
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
        level: how far to optimise. A file made with `all` is for this kind of processor.
        order: a permutation of the optimised graph's operators (those of `edgemem.load(baked).graph()`, which has no
            Constant nodes); None keeps ONNX Runtime's own. `Shape` and `Size` run as early as they can in any case,
            and the file says so.
        dims: values for symbolic dimensions, which the optimiser then knows.
        disabled: names of ONNX Runtime's transformations that are left out.

    Raises:
        RuntimeLoadError: ONNX Runtime cannot load the model.
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
    note = baked_note(data)
    if note is None:
        data = optimised(source, level, dims=dims or {}, disabled=disabled)
        note = Baked(level, ort.__version__, platform.machine(), dict(dims or {}))
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


def baked_note(model: str | Path | bytes | Mapping[str, str]) -> Baked | None:
    """The note of a baked file, from its path, its bytes, or `get_modelmeta().custom_metadata_map`; None without one.

    Raises PlanFileError for a note that is damaged.
    """
    if isinstance(model, str | Path):
        model = Path(model).read_bytes()
    text = _text(model) if isinstance(model, bytes) else model.get(BAKED_KEY)
    if text is None:
        return None
    try:
        note = Baked(**json.loads(text))
    except (ValueError, TypeError, RecursionError) as e:
        raise PlanFileError(f"the note {BAKED_KEY} is damaged: {e}; bake the model again") from None
    if wrong := _wrong(note):
        raise PlanFileError(f"the note {BAKED_KEY} is damaged: {wrong}; bake the model again")
    return note


def _wrong(note: Baked) -> str:
    """What a note from a file says that no baked file does, or ""."""
    for name in ("level", "onnxruntime", "machine"):
        if not isinstance(getattr(note, name), str):
            return f"its {name} is no text"
    if note.level not in LEVELS:
        return f"no level {note.level[:40]!r}"
    if not isinstance(note.dims, dict) or not all(type(v) is int and 0 <= v < 2**63 for v in note.dims.values()):
        return "its dims are no sizes"
    return ""


def _text(data: bytes) -> str | None:
    found = onnx_editor().metadata(data, BAKED_KEY)
    return None if found is None else found.decode(errors="replace")


def metadata_for(data: bytes) -> dict[str, str]:
    """The part of a file's metadata that `session_options_for` reads."""
    text = _text(data)
    return {} if text is None else {BAKED_KEY: text}


def session_options_for(model_metadata: Mapping[str, str], base_options: Any = None) -> Any:
    """`SessionOptions` under which a baked model runs in its own order; unchanged for a model that is not baked.

    Args:
        model_metadata: the model's metadata, by key.
        base_options: changed and returned, because `SessionOptions` cannot be copied; new ones by default.

    Raises:
        RuntimeBindError: the file was baked by another version of ONNX Runtime, or on another kind of processor.
    """
    ort = onnxruntime()
    options = base_options if base_options is not None else ort.SessionOptions()
    note = baked_note(model_metadata)
    if note is None:
        return options
    if (note.onnxruntime, note.machine) != (ort.__version__, platform.machine()):
        raise RuntimeBindError(
            f"the model was baked by onnxruntime {note.onnxruntime} on {note.machine}, this is onnxruntime "
            f"{ort.__version__} on {platform.machine()}: bake the original model again here"
        )
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    return options


@contextmanager
def baked_options(model_metadata: Mapping[str, str], options: Any) -> Iterator[None]:
    """Sets options as `session_options_for` does while a session is made, and restores them."""
    before = options.graph_optimization_level, options.execution_order
    try:
        session_options_for(model_metadata, options)
        yield
    finally:
        options.graph_optimization_level, options.execution_order = before


def optimised(model_path: Path, level: str, *, dims: Mapping[str, int], disabled: Sequence[str] = ()) -> bytes:
    """ONNX Runtime's optimised graph of a model as a file, weights inside, without the transformations in `disabled`.

    Raises ModelError for a level that there is not, and RuntimeLoadError where ONNX Runtime cannot load the model.
    """
    ort = onnxruntime()
    if level not in LEVELS:
        raise ModelError(f"{level!r} is no optimisation level; there are {', '.join(LEVELS)}")
    options = bind_dimensions(ort.SessionOptions(), dims)
    options.log_severity_level = _ERRORS_ONLY
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
