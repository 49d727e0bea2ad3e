"""The fingerprint of a session, and the description of a call's inputs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgemem.trace.recording import Fingerprint, Signature

__all__ = ["binding_signature", "copied", "copy", "described", "fingerprint_of", "place_of"]


def fingerprint_of(session: Any, version: str, digest: str, level: str) -> Fingerprint:
    """The session's fingerprint without a signature; `level` is that of its graph.

    A thread count of 0 is recorded as the number it stands for.
    """
    from edgemem.trace.recording import REUSE, Fingerprint  # when the model is loaded, as session_replayer.py

    options = session.get_session_options()
    depends_on: dict[str, str | int] = {
        "level": level,
        "intra_threads": options.intra_op_num_threads or os.cpu_count() or 1,
        "inter_threads": options.inter_op_num_threads or 1,
        "providers": ", ".join(session.get_providers()),
    }
    if options.enable_mem_reuse:
        depends_on[REUSE] = True
    return Fingerprint("onnxruntime", version, digest, depends_on)


def place_of(session: Any, disabled_optimizers: Iterable[str]) -> str:
    """What requests depend on beside the fingerprint of their session: the processor, and further options."""
    from edgemem.system.processor import processor_features  # as above

    options = session.get_session_options()
    order, is_deterministic = options.execution_order.name, options.use_deterministic_compute
    return repr((processor_features(), order, is_deterministic, sorted(disabled_optimizers)))


def described(feed: Mapping[str, Any]) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """(name, element type, shape) of each input, sorted by name, as signatures have it."""
    return tuple(sorted((name, *_description(value)) for name, value in feed.items()))


def _description(value: Any) -> tuple[str, tuple[int, ...]]:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape
    if hasattr(value, "data_type"):  # an OrtValue; sequences and maps have no shape
        return value.data_type(), tuple(value.shape()) if value.is_tensor() else ()
    if isinstance(value, dict):
        return "map", ()
    try:
        array = np.asarray(value)
    except ValueError:  # a sequence of tensors of several shapes
        return "sequence", ()
    return array.dtype.str, array.shape


def binding_signature(inputs: Iterable[str], iobinding: Any) -> Signature:
    """Of a run with bound values, with the shapes as far as ONNX Runtime tells them; the family is always the same."""
    from edgemem.trace.recording import Signature  # as above

    bound = getattr(iobinding, "_bound_inputs", {})
    values = {name: bound.get(name) for name in inputs}
    known = {name: value for name, value in values.items() if value is not None}
    unknown = tuple((name, "", ()) for name, value in values.items() if value is None)
    return Signature("run_with_iobinding", tuple(sorted((*described(known), *unknown))))


def copied(session: Any, output_names: Sequence[str] | None, feed: Mapping[str, Any], run_options: Any) -> list[Any]:
    """The results of a run as copies."""
    return [copy(value) for value in session.run(output_names, feed, run_options)]


def copy(value: Any) -> Any:
    """A result with its own memory: arrays, and lists of them, are copied."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return [copy(v) for v in value] if isinstance(value, list) else value
