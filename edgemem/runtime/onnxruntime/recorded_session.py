"""A session as a recording had it: its options and inputs, and whether another one follows the recording's plan."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import EdgememError, MissingDependencyError, ModelError, RuntimeBindError
from edgemem.formats import Bindings, onnx_editor
from edgemem.runtime.feeds import make_feeds, resolve
from edgemem.runtime.onnxruntime.baked_file import LEVELS, check_name, onnxruntime, quiet_options, runtime_errors
from edgemem.runtime.onnxruntime.file import plans_in
from edgemem.runtime.onnxruntime.session import InferenceSession

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.runtime.feeds import Feeds
    from edgemem.trace.recording import Fingerprint

    Declared = Mapping[str, tuple[str, Sequence[int | str | None]]]

__all__ = ["ORDER_REMEDY", "declared_inputs", "options_of", "planned_feeds", "trial_refusal"]

ORDER_REMEDY: Final = "where branches are free, sessions order them anew; use edgemem shrink --steps optimize=all"
_MOST_ELEMENTS: Final = 1 << 26  # of the inputs that are made up in sizes that the model leaves open
_MOST_THREADS: Final = 256
_MOST_BYTES: Final = 1 << 28  # of a file that is tried


def trial_refusal(file: Path) -> str:
    """Why a session of a file that was just recorded does not stay inside the recording's plan; "" if it does.

    ONNX Runtime may order the operators of a graph anew whenever it loads it. Also "" if ONNX Runtime is not installed,
    no inputs can be made up, or the file is too large to be run once more.
    """
    try:
        check_name(file)
    except ModelError as e:
        return str(e)
    try:
        data = file.read_bytes()
        made = next((p.recording for p in plans_in(data) if p.recording is not None), None)
        if made is None or made.fingerprint.keeps_reuse or len(data) > _MOST_BYTES:
            return ""
        signature = made.fingerprint.signature
        forms = {name: (dtype, shape) for name, dtype, shape in signature.inputs}
        values = planned_feeds(declared_inputs(file), forms)
        with InferenceSession(
            str(file),
            options_of(made.fingerprint),
            cache=False,
            record="never",
            bind_outputs=signature.bound,
            share_outputs=signature.shared,
        ) as session:
            session.run(list(signature.outputs) or None, values)
            memory = session.memory
    except MissingDependencyError:
        return ""
    except EdgememError:  # values that cannot be made say nothing of the plan
        return ""
    except Exception as e:
        if isinstance(e, runtime_errors()):  # nor do those that the model does not take
            return ""
        raise
    return "" if memory.replayed else f"{memory.reason or 'a session did not take the recording'}; {ORDER_REMEDY}"


def declared_inputs(path: Path) -> Declared:
    """Dtype and shape of every input, as the model in a file declares it."""
    return onnx_editor().parts(path.read_bytes(), path.parent).input_forms()


def planned_feeds(
    declared: Declared, forms: Mapping[str, tuple[str, Sequence[int]]], given: Mapping[str, NDArray[Any]] | None = None
) -> Feeds:
    """Inputs of the forms that a plan in a file says: those that are given, and made-up ones for all others.

    Raises before anything is filled: ModelError for an input that the model does not have so, and RuntimeBindError for
    more elements than a file may ask for where the model leaves the sizes open.
    """
    made = {name: form for name, form in forms.items() if name not in (given or {})}
    shapes = {name: tuple(shape) for name, (_, shape) in made.items()}
    for name, (dtype, _) in made.items():
        if name not in declared or _known(declared[name][0]) != _known(dtype):
            raise ModelError(f"the plan is for an input {name!r} of {dtype}, and the model has none")
        resolve(name, declared[name][1], Bindings({}, shapes))
    open_ = [name for name in made if not all(isinstance(d, int) and d >= 0 for d in declared[name][1] or (None,))]
    elements = sum(prod(shapes[name]) for name in open_)
    if elements > _MOST_ELEMENTS:
        raise RuntimeBindError(f"the plan is for inputs with {elements:,} elements; give them with --input")
    return {**make_feeds(made), **(given or {})}


def _known(dtype: str) -> object:
    """An element type by any of its names: `float32` and `<f4` are one."""
    try:
        return np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):
        return dtype


def options_of(fingerprint: Fingerprint) -> Any:
    """Session options as the recording had them. Raises RuntimeBindError for threads that no session has."""
    ort = onnxruntime()
    options = quiet_options()
    level = fingerprint.options.get("level", "")
    known = level if level in LEVELS.values() else LEVELS["all"]
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, str(known))
    options.intra_op_num_threads = _threads(fingerprint, "intra_threads")
    options.inter_op_num_threads = _threads(fingerprint, "inter_threads")
    return options


def _threads(fingerprint: Fingerprint, name: str) -> int:
    count = fingerprint.options.get(name, 1)
    if type(count) is not int or not 0 <= count <= _MOST_THREADS:
        raise RuntimeBindError(
            f"the recording is of a session with {str(count)[:40]!r} threads; record the model again"
        )
    return count
