"""One configuration of `measure` in a process of its own: a task as JSON on stdin, figures as JSON on stdout."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import sys
import time
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.runtime.onnxruntime.file import plans_in
from edgemem.runtime.onnxruntime.optimise import bind_dimensions, onnxruntime
from edgemem.runtime.onnxruntime.profile import kernels_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.runtime.feeds import Feeds

# One region per request, of its exact size. A limit of 0 for dead bytes would crash onnxruntime 1.31.1.
_EXACT_ARENA = {
    "max_mem": 0,
    "arena_extend_strategy": 1,
    "initial_chunk_size_bytes": 256,
    "max_dead_bytes_per_chunk": -1,
    "initial_growth_chunk_size_bytes": 256,
}
_PROFILED_RUNS = 3  # the arena grows until the second
_WARM_RUNS = 3  # in which a plan is recorded, if there is none yet
_PLANNED = ("edgemem", "io_binding")


def main() -> None:
    """Do the task and print the figures."""
    task = json.loads(sys.stdin.read())
    with np.load(task["feeds"]) as file:
        feeds = {name: file[name] for name in file.files}
    answer = (_memory if task["what"] == "memory" else _time)(task, feeds)
    sys.stdout.write("\n" + json.dumps(answer))


def _options(task: Mapping[str, Any]) -> Any:
    ort = onnxruntime()
    options = bind_dimensions(ort.SessionOptions(), task["dims"])
    options.intra_op_num_threads = task["threads"]
    options.log_severity_level = 3
    if task["configuration"] == "tuned":
        options.enable_mem_pattern = False
        options.enable_mem_reuse = False
        info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
        ort.create_and_register_allocator(info, ort.OrtArenaCfg(_EXACT_ARENA))
        options.add_session_config_entry("session.use_env_allocators", "1")
    return options


def _memory(task: Mapping[str, Any], feeds: Feeds) -> dict[str, Any]:
    """What the arena took for everything but weights, from the counters in the profile."""
    kernels = kernels_run(Path(task["model"]), feeds, _options(task), runs=_PROFILED_RUNS)
    counted = [k.memory for k in kernels if "arena_held" in k.memory]
    if not counted:
        return {"activation": None, "note": "this onnxruntime's profile has no memory counters"}
    weights = counted[0]["bytes_in_use"] - counted[0]["in_use_delta"]
    return {"activation": max(m["arena_held"] for m in counted) - weights}


def _time(task: Mapping[str, Any], feeds: Feeds) -> dict[str, Any]:
    session = _session(task, feeds)
    gc.collect()
    loaded = _restart_peak()
    for _ in range(_WARM_RUNS):
        results = session.run(None, feeds)
        outputs = sum(r.nbytes for r in results if isinstance(r, np.ndarray))
        answer: dict[str, Any] = {"outputs": outputs, "digest": _digest(results)}
        del results
    times = []
    for _ in range(task["repeats"]):
        begin = time.perf_counter()
        results = session.run(None, feeds)
        times.append(time.perf_counter() - begin)
        del results
    if loaded is not None:
        answer["rss"] = max(0, _status("VmHWM:") - loaded)
    answer["latency_ms"] = float(np.median(times)) * 1e3
    if task["configuration"] in _PLANNED:
        report = session.memory_report
        answer |= {"planned": report.planned or None, "bound": report.lower_bound if report.planned else None}
        answer |= {"note": report.reason, "plan": str(replace(report, reason="")) if report.origin else ""}
        # Without requests to the heap, the results are in the arena.
        answer["outside"] = outputs if report.details.get("misses", 1) else 0
    return answer


def _session(task: Mapping[str, Any], feeds: Feeds) -> Any:
    ort = onnxruntime()
    match task["configuration"]:
        case "edgemem":
            made = import_module("edgemem.runtime.onnxruntime.session")
            # Results in the arena as ONNX Runtime has them, unless the file's recording has them outside.
            recorded = [p.recording.fingerprint.signature for p in plans_in(_content(task)) if p.recording]
            share = all(signature.shared for signature in recorded)
            return made.InferenceSession(task["model"], _options(task), cache=Path(task["cache"]), share_outputs=share)
        case "io_binding":
            made = import_module("edgemem.runtime.onnxruntime.io_binding")
            return made.make_session(
                task["model"], plan="make", feeds=feeds, dims=task["dims"], sess_options=_options(task)
            )
        case _:
            return ort.InferenceSession(task["model"], _options(task), providers=["CPUExecutionProvider"])


def _content(task: Mapping[str, Any]) -> bytes:
    return Path(task["model"]).read_bytes()


def _digest(results: list[Any]) -> str:
    sha = hashlib.sha256()
    for result in results:
        sha.update(result.tobytes() if isinstance(result, np.ndarray) else repr(result).encode())
    return sha.hexdigest()


def _restart_peak() -> int | None:
    """Release free heap memory and reset the peak: bytes resident now, None where the system does not allow it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc's; others keep less
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return _status("VmRSS:")
    except OSError:
        return None


def _status(key: str) -> int:
    """A figure of this process in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


if __name__ == "__main__":
    main()
