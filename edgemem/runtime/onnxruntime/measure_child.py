"""One configuration of `measure` in a process of its own.

Everything but numpy and onnxruntime is imported where it is needed: what a configuration imports is a part of what its
process takes. What this module needs for itself comes after the last reading.
"""

from __future__ import annotations

import gc
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

from edgemem.system.child_call import Message, serve
from edgemem.system.process_memory import (
    anonymous_bytes,
    mapped_bytes,
    peak_bytes,
    proportional_bytes,
    resident_bytes,
    trim_heap,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Task = Mapping[str, Any]
    Request = dict[str, NDArray[Any]]

# One region per request, of its exact size. A limit of 0 for dead bytes would crash onnxruntime 1.31.1.
_EXACT_ARENA = {
    "max_mem": 0,
    "arena_extend_strategy": 1,
    "initial_chunk_size_bytes": 256,
    "max_dead_bytes_per_chunk": -1,
    "initial_growth_chunk_size_bytes": 256,
}
_PROFILED_RUNS = 3  # the arena grows until the second
_MEASURED_RUNS = 3  # the first makes what later ones keep
_SESSIONS = ("recording", "edgemem")
_PLAN_S = 60  # for a plan that is being made in the background


def _options(task: Task) -> Any:
    options = onnxruntime.SessionOptions()
    for name, value in task["dims"].items():
        options.add_free_dimension_override_by_name(name, value)
    options.intra_op_num_threads = task["threads"]
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = task["configuration"] != "no_arena"
    if task["configuration"] in ("tuned", "trimmed"):
        options.enable_mem_pattern = False
        options.enable_mem_reuse = False
        kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
        info = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
        onnxruntime.create_and_register_allocator(info, onnxruntime.OrtArenaCfg(_EXACT_ARENA))
        options.add_session_config_entry("session.use_env_allocators", "1")
    return options


def _memory(task: Task) -> dict[str, Any]:
    """What the arena took for everything but weights, from the counters in the profile."""
    from pathlib import Path

    from edgemem.runtime.onnxruntime.profile import kernels_run

    requests = _Requests(task)
    rounds = max(_PROFILED_RUNS, len(requests))
    kernels = kernels_run(Path(task["model"]), (requests[k] for k in range(rounds)), _options(task))
    counted = [k.memory for k in kernels if "arena_held" in k.memory]
    if not counted:
        return {"activation": None, "note": "this onnxruntime's profile has no memory counters"}
    weights = counted[0]["bytes_in_use"] - counted[0]["in_use_delta"]
    return {"activation": max(m["arena_held"] for m in counted) - weights}


def _opened(task: Task) -> dict[str, Any]:
    """What the process takes before it opens the session, and with it open and nothing free in the C library; bytes.

    With a request, as a server has it, with what the C library keeps free; and what runs leave beside inputs, arena
    and results (`left`), and the code that they touch.
    """
    if task["configuration"] in _SESSIONS:
        import edgemem.runtime.onnxruntime.session  # noqa: F401 - a library, not the model
    gc.collect()
    before = anonymous_bytes()
    session = _session(task)
    load_peak = peak_bytes()
    if task["configuration"] in _SESSIONS:
        _ = session.memory  # loads what the first run would
    if not task["requests"]:
        trim_heap()
    gc.collect()
    anonymous, resident = anonymous_bytes(), resident_bytes()
    mapped, touched = mapped_bytes(task["folder"])
    if before is None or anonymous is None or resident is None or load_peak is None:
        return {}
    answer = {
        "before": before,
        "anonymous": anonymous,
        "code": resident - anonymous - touched,
        "weights_mapped": mapped,
        "weights_touched": mapped,  # by runs, if there are none
        "load_peak": load_peak,
        "version": onnxruntime.__version__,
    }
    if task["requests"]:
        with suppress(Exception):  # ONNX Runtime's own: values that are made up need not be right for the model
            answer |= _ran(session, _Requests(task), anonymous, task["folder"])
    return answer


def _ran(session: Any, requests: _Requests, opened: int, folder: str) -> dict[str, Any]:
    results: Any = None
    for _ in range(_MEASURED_RUNS):
        results = None
        results = session.run(None, requests[0])
        session.wait(_PLAN_S)  # where the plan does not fit, another one is made
    gc.collect()
    anonymous, resident = anonymous_bytes() or 0, resident_bytes() or 0
    known = requests.kept + session.memory.planned + sum(r.nbytes for r in results if isinstance(r, np.ndarray))
    touched = mapped_bytes(folder)[1]
    left = max(anonymous - opened - known, 0)  # not all of the arena may be touched
    return {"left": left, "code": resident - anonymous - touched, "weights_touched": touched}


def _recorded(task: Task) -> dict[str, Any]:
    """The arena of a plan that is made of one run, what the results take beside it, and the peak at load; bytes."""
    from pathlib import Path

    from edgemem.runtime.onnxruntime.session import InferenceSession

    with InferenceSession(task["model"], _options(task), cache=Path(task["cache"]), background=False) as session:
        load_peak = peak_bytes()
        feeds = _Requests(task)[0]
        for _ in range(2):
            results = session.run(None, feeds)
        outputs = sum(r.nbytes for r in results if isinstance(r, np.ndarray))
        return {"planned": session.memory.planned, "outputs": outputs, "load_peak": load_peak}


def _served(task: Task) -> dict[str, Any]:
    """Load the model, serve the requests in turn, and read the memory while the last results are there.

    Of several processes that measure together, each waits until all have served, and then until all have read.
    """
    gc.collect()
    began = time.process_time()
    session = _session(task)
    answer: dict[str, Any] = {"load_ms": (time.process_time() - began) * 1e3, "load_peak": peak_bytes()}
    if task["configuration"] == "trimmed":
        trim_heap()
    requests = _Requests(task)
    outputs, results = 0, None
    for k in range(task["warm"] + task["served"]):
        feeds, results = requests[k], None  # the last results are dropped before the next run
        began = time.process_time()
        results = session.run(None, feeds)
        answer.setdefault("first_ms", (time.process_time() - began) * 1e3)
        outputs = max(outputs, sum(r.nbytes for r in results if isinstance(r, np.ndarray)))
        del feeds
        if k < task["warm"] and task["configuration"] in _SESSIONS:
            session.wait(_PLAN_S)  # a plan is made in the background; the last runs are those with one
        if k == task["warm"] - 1 and task["configuration"] == "trimmed":
            trim_heap()
    gc.collect()
    _meet(task, "served")
    answer |= {"resident": resident_bytes(), "anonymous": anonymous_bytes(), "proportional": proportional_bytes()}
    answer |= {"peak": peak_bytes(), "inputs": requests.kept, "weights_touched": mapped_bytes(task["folder"])[1]}
    _meet(task, "read")
    del results
    trim_heap()
    answer["trimmed"] = resident_bytes()
    answer["outputs"] = outputs
    if task["configuration"] in _SESSIONS:
        session.wait(_PLAN_S)
    answer["digest"] = _digest(session, requests)
    return answer | (_plan(session, outputs) if task["configuration"] in _SESSIONS else {})


def _turned(task: Task) -> dict[str, Any]:
    """Processor time of runs that alternate with those of another process."""
    from edgemem.system.meeting import Meeting

    meeting = Meeting(task["meeting"], task["number"], task["together"])
    session, requests = _session(task), _Requests(task)
    for k in range(task["warm"]):
        session.run(None, requests[k])
        if task["configuration"] in _SESSIONS:
            session.wait(_PLAN_S)
    if task["configuration"] == "trimmed":
        trim_heap()
    gc.collect()
    times: list[float] = []
    for turn in range(task["repeats"]):
        feeds = requests[task["warm"] + turn]
        with meeting.turn(turn):
            began = time.process_time()
            session.run(None, feeds)
            times.append((time.process_time() - began) * 1e3)
    return {"turns_ms": times}


def _meet(task: Task, name: str) -> None:
    """Wait until all processes that measure together are here. Raises TimeoutError where one of them has gone."""
    if task["together"] > 1:
        from edgemem.system.meeting import Meeting

        Meeting(task["meeting"], task["number"], task["together"]).wait_for_all(name)


def _plan(session: Any, outputs: int) -> dict[str, Any]:
    """The plan that a session has come to."""
    from dataclasses import replace

    report = session.memory_report
    return {
        "planned": report.planned or None,
        "reserved": max(report.planned, report.reserved),  # with several shapes there may be several arenas
        "bound": report.lower_bound if report.planned else None,
        "note": report.reason,
        "plan": str(replace(report, reason="")) if report.origin else "",
        # Without requests to the heap, the results are in the arena.
        "outside": outputs if report.details.get("misses", 1) else 0,
    }


def _session(task: Task) -> Any:
    match task["configuration"]:
        case "edgemem" | "recording" as name:
            from edgemem.runtime.onnxruntime.session import InferenceSession

            folder, is_stored = (task["cache"], True) if name == "edgemem" else (False, False)
            # Results in the arena as ONNX Runtime has them, unless the file's recording has them outside.
            return InferenceSession(
                task["model"],
                _options(task),
                cache=folder,
                stored=is_stored,
                share_outputs=task["share"],
                record=task["record"],
            )
        case _:
            return onnxruntime.InferenceSession(task["model"], _options(task), providers=["CPUExecutionProvider"])


class _Requests:
    """The requests of a task, in turn and over again.

    All of them lie in one place, read from files: what is in memory of them is the largest one of each input (`kept`
    bytes), and the C library has nothing of them to keep.
    """

    def __init__(self, task: Task) -> None:
        self._requests: Sequence[dict[str, tuple[str, str, list[int], int]]] = task["requests"]
        self._current = -1
        largest: dict[str, int] = {}
        for name, (_, _, _, size) in (item for request in self._requests for item in request.items()):
            largest[name] = max(size, largest.get(name, 0))
        self._memory = {name: np.empty(size, np.uint8) for name, size in largest.items()}
        self.kept = sum(largest.values())

    def __len__(self) -> int:
        return len(self._requests)

    def __getitem__(self, number: int) -> Request:
        """The request of this number; the one before is overwritten."""
        place = number % len(self._requests)
        request = self._requests[place]
        for name, (file, _, _, size) in request.items():
            if place != self._current:
                with open(file, "rb") as values:  # noqa: PTH123 - pathlib would count as the runtime's
                    values.readinto(self._memory[name].data[:size])
        self._current = place
        return {name: np.ndarray(shape, dtype, self._memory[name]) for name, (_, dtype, shape, _) in request.items()}


def _digest(session: Any, requests: _Requests) -> str:
    """Of the results of each request, once more."""
    import hashlib

    sha = hashlib.sha256()
    for k in range(len(requests)):
        for result in session.run(None, requests[k]):
            sha.update(result.tobytes() if isinstance(result, np.ndarray) else repr(result).encode())
    return sha.hexdigest()


def _place(task: Task) -> dict[str, Any]:
    """Nothing, or an error where the model's graph was optimised elsewhere."""
    from edgemem.runtime.onnxruntime.baked_file import check_place
    from edgemem.runtime.onnxruntime.file import opened

    with opened(task["model"]) as (data, _):
        check_place(data)
    return {}


_ANSWERS = {
    "place": _place,
    "memory": _memory,
    "open": _opened,
    "record": _recorded,
    "serve": _served,
    "turns": _turned,
}

if __name__ == "__main__":
    serve(lambda question: Message(_ANSWERS[question.data["what"]](question.data)))
