"""Installs edgemem's allocator in ONNX Runtime, and sets a session's options as a plan needs them."""

from __future__ import annotations

import _thread  # as in file.py
import os
import warnings
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from edgemem.errors import RuntimeBindError
from edgemem.replay.library import library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["load_planned", "obstacle", "refuse_silent_fallback"]

_T = TypeVar("_T")

_ENV_ALLOCATORS: Final = "session.use_env_allocators"
_MARKED: Final[WeakSet[Any]] = WeakSet()  # the options that have it from here

# Creating a session changes the user's options temporarily, and the first session installs the allocator.
_ONE_AT_A_TIME: Final = [_thread.allocate_lock()]


def _start_again() -> None:
    """After a fork, in the child: a thread that is not there may hold the lock."""
    _ONE_AT_A_TIME[0] = _thread.allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)


def obstacle(onnxruntime: Any, options: Any, *, fallback: bool) -> str:
    """Why there can be no replay, or "". Raises RuntimeBindError unless a plain session is allowed."""
    if options.execution_mode != onnxruntime.ExecutionMode.ORT_SEQUENTIAL:
        why = "with ORT_PARALLEL the order of requests is open, so this session runs without a plan"
        warnings.warn(f"{why}; use ORT_SEQUENTIAL", RuntimeWarning, stacklevel=3)
        return why
    try:
        _install(onnxruntime)
    except RuntimeBindError as e:
        if not fallback:
            raise
        return str(e)
    return ""


def _install(onnxruntime: Any) -> None:
    """Register the allocator with ONNX Runtime's environment, once a process."""
    found = library()
    with _ONE_AT_A_TIME[0]:
        if not found.c.em_ort_version() or found.c.em_ort_error():
            try:
                onnxruntime.SessionOptions().register_custom_ops_library(found.path)
            except Exception as e:  # noqa: BLE001 - ONNX Runtime's own classes, which differ between versions
                raise RuntimeBindError(
                    f"ONNX Runtime {onnxruntime.__version__} refuses edgemem's allocator: {e}; update "
                    "edgemem-planner or allow a session without a plan (fallback=True)"
                ) from None
        error = found.c.em_ort_error().decode()
        if error:
            raise RuntimeBindError(f"{error}; update one of them, or allow a session without a plan (fallback=True)")
        seen = found.c.em_ort_version().decode()
        if seen != onnxruntime.__version__.partition("+")[0]:
            raise RuntimeBindError(f"the allocator was installed in ONNX Runtime {seen}, not {onnxruntime.__version__}")


def load_planned(load: Callable[[], _T], options: Any, *, is_device: bool, reuse: bool = False) -> _T:
    """What `load` loads with the user's options as a planned session needs them, which are then as they were.

    `is_device`: the memory of a device is planned, not the host's.

    Memory patterns and ONNX Runtime's own reuse merge requests before the planner sees them, which makes plans up to
    2.4 times larger. `reuse` leaves the reuse on, and the order of operators to ONNX Runtime, as in sessions of
    its Java API. The entry for the allocator stays: ONNX Runtime cannot remove an entry. It logs a warning when one is
    overwritten, so options that have it are remembered. To ask for it costs 0.7 MiB: where there is none ONNX Runtime
    throws an exception, which reads its table of all functions.

    It is one call, and no context manager: an exception between a manager and its block would leave the lock held.
    """
    with _ONE_AT_A_TIME[0]:
        before = options.enable_mem_pattern, options.enable_mem_reuse
        order = options.execution_order if reuse else None
        try:
            options.enable_mem_pattern = False
            options.enable_mem_reuse = reuse
            if order is not None:  # the Java API has the default alone
                options.execution_order = type(order).DEFAULT
            if not is_device and options not in _MARKED:
                options.add_session_config_entry(_ENV_ALLOCATORS, "1")
                _MARKED.add(options)
            return library().loaded(load)
        finally:
            options.enable_mem_pattern, options.enable_mem_reuse = before
            if order is not None:
                options.execution_order = order


def refuse_silent_fallback(wanted: Sequence[Any] | None, present: Sequence[str]) -> None:
    """Raise RuntimeBindError for a provider that was asked for and is not there: ONNX Runtime goes on without it."""
    names = [p if isinstance(p, str) else p[0] for p in wanted or ()]
    missing = [name for name in names if name not in present]
    if missing:
        raise RuntimeBindError(
            f"ONNX Runtime has no {' and no '.join(missing)} here and would have run on {', '.join(present)}; install "
            "what the provider needs, or do not ask for it"
        )
