"""ONNX Runtime's profile of a run: which kernels ran, when, and what they wrote."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.model.dtypes import DTYPE_BITS, byte_size
from edgemem.replay.context import Context, trace_of
from edgemem.runtime.onnxruntime.baked_file import onnxruntime, runtime_errors
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from edgemem.runtime.feeds import Feeds
    from edgemem.trace import Trace

__all__ = ["Kernel", "kernels_run", "profiled_runs"]

_SUFFIX: Final = "_kernel_time"  # of the events of kernels
_DTYPES: Final = {"float": "float32", "double": "float64"}  # the profile's names that are not edgemem's
# The record's clock and the profile's are compared up to this many times, until the comparison takes less than this.
_TRIES, _CLOSE_NS = 20, 10_000


@dataclass(frozen=True, slots=True)
class Kernel:
    """One run of a kernel.

    Attributes:
        node: the name of its node. type: the node's operator type.
        start_ns: when it began, on the clock of the profile or, from `profiled_runs`, of the record.
        duration_ns: how long it took.
        outputs: (dtype, shape) of each result.
        memory: the arena's counters right after it, in bytes, as the profile names them without `mem_`: held,
            bytes_in_use, in_use_delta, ...; empty without an arena.
    """

    node: str
    type: str
    start_ns: int
    duration_ns: int
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    memory: Mapping[str, int] = field(default_factory=dict)

    @property
    def result_sizes(self) -> tuple[int, ...]:
        """Bytes of each result; -1 for a dtype without a fixed width."""
        return tuple(byte_size(t, prod(shape)) if t in DTYPE_BITS else -1 for t, shape in self.outputs)


def kernels_run(model: Path | bytes, requests: Iterable[Feeds], options: Any) -> tuple[Kernel, ...]:
    """The kernels of a run for each request, those of bodies included, in the order in which they ended.

    `options` are changed. Raises ModelError if ONNX Runtime cannot run the model on these feeds.
    """
    ort = onnxruntime()
    with temporary_folder() as folder:
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "profile")
        source = model if isinstance(model, bytes) else str(model)
        try:
            session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
            for feeds in requests:
                session.run(None, feeds)
            return _kernels(session.end_profiling())
        except runtime_errors() as e:
            raise ModelError(f"ONNX Runtime cannot run the model: {e}") from None


def profiled_runs(session: Any, calls: Iterable[Callable[[], object]]) -> tuple[tuple[Trace, tuple[Kernel, ...]], ...]:
    """The requests and the kernels of each call, the kernels in the order in which they began.

    Args:
        session: of ONNX Runtime, with profiling enabled; its profile ends here.
        calls: each runs the session.
    """
    start = session.get_profiling_start_time_ns()
    runs = []
    for call in calls:
        context = Context()
        began = _begin(context) - start
        try:
            results = call()
        finally:
            context.end()
        del results  # after the end: freed in the run, they would be events of it
        runs.append((trace_of(context.take_events()), began, time.time_ns() - start))
    kernels = sorted(_kernels(session.end_profiling()), key=lambda k: k.start_ns)
    return tuple(
        (trace, tuple(replace(k, start_ns=k.start_ns - began) for k in kernels if began <= k.start_ns < ended))
        for trace, began, ended in runs
    )


def _kernels(profile: str) -> tuple[Kernel, ...]:
    """The kernels in a profile file, in its order."""
    events = json.loads(Path(profile).read_text(encoding="utf-8"))
    return tuple(
        _kernel(e) for e in events if e.get("cat") == "Node" and e.get("name", "").endswith(_SUFFIX) and "args" in e
    )


def _kernel(event: Mapping[str, Any]) -> Kernel:
    args = event["args"]
    outputs = [
        (_DTYPES.get(dtype, dtype), tuple(map(int, shape)))
        for form in args.get("output_type_shape", ())
        for dtype, shape in form.items()
    ]
    memory = {k.removeprefix("mem_"): int(v) for k, v in args.items() if k.startswith("mem_")}
    start_ns, duration_ns = int(event["ts"]) * 1000, int(event["dur"]) * 1000
    name = event["name"].removesuffix(_SUFFIX)
    return Kernel(name, args.get("op_name", ""), start_ns, duration_ns, tuple(outputs), memory)


def _begin(context: Context) -> int:
    """Begin the record; when that was on the profile's clock, in ns. Repeated where the thread was interrupted."""
    for _ in range(_TRIES):
        before = time.time_ns()
        context.begin_record()
        after = time.time_ns()
        if after - before < _CLOSE_NS:
            break
        context.end()
    else:
        context.begin_record()
        after = time.time_ns()
    return after
