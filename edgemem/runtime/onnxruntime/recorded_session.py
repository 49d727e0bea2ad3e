"""A session as a recording had it: its options and inputs, and whether another one follows the recording's plan."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import EdgememError, MissingDependencyError, RuntimeBindError
from edgemem.runtime.feeds import random_values
from edgemem.runtime.onnxruntime.baked_file import LEVELS, onnxruntime, quiet_options, runtime_errors
from edgemem.runtime.onnxruntime.file import plans_in
from edgemem.runtime.onnxruntime.session import InferenceSession

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.trace.recording import Fingerprint, Signature

__all__ = ["ORDER_REMEDY", "options_of", "trial_refusal", "values_of"]

ORDER_REMEDY: Final = "where branches are free, sessions order them anew; use edgemem shrink --steps optimize=all"
_MOST_ELEMENTS: Final = 1 << 28  # of the inputs that are made up
_MOST_THREADS: Final = 256
_MOST_BYTES: Final = 1 << 28  # of a file that is tried


def trial_refusal(file: Path) -> str:
    """Why a session of a file that was just recorded does not stay inside the recording's plan; "" if it does.

    ONNX Runtime may order the operators of a graph anew whenever it loads it. Also "" if ONNX Runtime is not installed,
    no inputs can be made up, or the file is too large to be run once more.
    """
    try:
        data = file.read_bytes()
        made = next((p.recording for p in plans_in(data) if p.recording is not None), None)
        if made is None or made.fingerprint.keeps_reuse or len(data) > _MOST_BYTES:
            return ""
        signature = made.fingerprint.signature
        values = values_of(signature)
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


def values_of(signature: Signature, given: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Random inputs as the recording had them, for those that are not given.

    Raises RuntimeBindError for more than a file may ask for.
    """
    missing = [(name, dtype, shape) for name, dtype, shape in signature.inputs if name not in given]
    elements = sum(prod(shape) for _, _, shape in missing)
    if elements > _MOST_ELEMENTS:
        raise RuntimeBindError(f"the recording is of inputs with {elements:,} elements; give them with --input")
    rng = np.random.default_rng(0)
    return {name: random_values(dtype, shape, rng) for name, dtype, shape in missing}


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
