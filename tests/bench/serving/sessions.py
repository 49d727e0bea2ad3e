"""The sessions that the benchmarks of serving compare: ONNX Runtime as it is, tuned by hand, and planned.

Imports neither edgemem nor onnx at first: what they take counts as the memory of the sessions that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Feeds", "feeds_for", "plain", "planned", "requested", "same", "tuned", "wait_for_plan"]

Feeds = dict[str, "NDArray[Any]"]

_FLOATS = {"float": np.float32, "float16": np.float16, "double": np.float64}

# One region per request, of its exact size. A limit of 0 for dead bytes would crash ONNX Runtime 1.31.1.
_EXACT_ARENA = {
    "max_mem": 0,
    "arena_extend_strategy": 1,
    "initial_chunk_size_bytes": 256,
    "max_dead_bytes_per_chunk": -1,
    "initial_growth_chunk_size_bytes": 256,
}


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return options


def plain(path: str | Path, threads: int = 1) -> Any:
    """ONNX Runtime as it is."""
    return onnxruntime.InferenceSession(str(path), _options(threads), providers=["CPUExecutionProvider"])


def tuned(path: str | Path, threads: int = 1) -> Any:
    """ONNX Runtime tuned by hand; once a process."""
    options = _options(threads)
    options.enable_mem_pattern = options.enable_mem_reuse = False
    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    info = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    onnxruntime.create_and_register_allocator(info, onnxruntime.OrtArenaCfg(_EXACT_ARENA))
    options.add_session_config_entry("session.use_env_allocators", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def planned(path: str | Path, threads: int = 1, **arguments: Any) -> Any:
    """A planned session with these arguments besides."""
    from edgemem import InferenceSession  # not before: its modules count as its memory

    return InferenceSession(str(path), _options(threads), **arguments)


def wait_for_plan(session: Any, *, limit_s: float = 60) -> bool:
    """Wait until no plan is being made; whether the session replays."""
    session.wait(limit_s)
    return bool(session.memory.mode == "replay")


def same(first: Any, second: Any) -> bool:
    """Whether two lists of results are equal bit for bit."""
    pairs = zip(first, second, strict=True)
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def feeds_for(session: Any, dims: Mapping[str, int] | None = None, *, seed: int = 0) -> Feeds:
    """Random values for a session's inputs, whole numbers 0 or 1; a symbol that is not in `dims` is 1.

    Each seed has a spread of its own, so that what depends on the data is of another size.
    """
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2)
    made = {}
    for entry in session.get_inputs():
        shape = [d if isinstance(d, int) else (dims or {}).get(d, 1) for d in entry.shape]
        kind = entry.type.removeprefix("tensor(").removesuffix(")")
        if kind in _FLOATS:
            made[entry.name] = (spread * rng.standard_normal(shape)).astype(_FLOATS[kind])
        else:
            made[entry.name] = rng.integers(0, 2, shape).astype(kind)
    return made


def requested(session: Any, request: str) -> Feeds:
    """The feeds of a request: SEED, or SEED,SYMBOL=SIZE,... for open dimensions."""
    seed, *sizes = request.split(",")
    pairs = [size.partition("=") for size in sizes]
    return feeds_for(session, {name: int(value) for name, _, value in pairs}, seed=int(seed))
