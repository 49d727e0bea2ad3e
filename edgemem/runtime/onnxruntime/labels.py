"""Names for recorded requests: which kernel asked, and whether for a result or for workspace.

A profile says when each kernel ran and how large its results were; the record says when each request came. The clocks
agree to a few microseconds, so a request belongs to the kernel that ran then, or to one beside it if only that one has
a result of this size left. Names of kernels that take less than that may be a neighbour's: they are for reports.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.replay.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.trace import Trace

__all__ = ["Kernel", "labels", "profiled"]

_KERNEL: Final = "_kernel_time"
_TRIES, _CLOSE_NS = 20, 10_000
# The profile's names of element types that numpy spells differently.
_DTYPES: Final = {"float": "float32", "double": "float64", "bfloat16": "float16"}


@dataclass(slots=True)
class Kernel:
    """One run of a kernel: when it began (ns, on the record's clock), its node, and the bytes of its results.

    `left` holds the results that have no request yet, by their number.
    """

    start_ns: int
    node: str
    results: tuple[int, ...]
    left: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.left = dict(enumerate(self.results))

    def take(self, size: int) -> int | None:
        """The number of the first result of this size that has no request yet; it has one then."""
        number = next((k for k, v in self.left.items() if v == size), None)
        if number is not None:
            del self.left[number]
        return number


def labels(trace: Trace, kernels: Sequence[Kernel]) -> tuple[str, ...]:
    """A name for every request: NODE, NODE:1 for a second result, `NODE workspace`, each once.

    Kernels stand in the order in which they began. Requests before the first one are called by their number.
    """
    starts = [k.start_ns for k in kernels]
    names: list[str] = []
    seen: Counter[str] = Counter()
    for request, event in enumerate(trace.requests.tolist()):
        at = bisect_right(starts, int(trace.time_ns[event])) - 1
        name = _name(kernels, at, int(trace.size[event])) or f"request {request}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(names)


def _name(kernels: Sequence[Kernel], at: int, size: int) -> str:
    for near in (at, at + 1, at - 1, at + 2, at - 2):
        number = kernels[near].take(size) if 0 <= near < len(kernels) else None
        if number is not None:
            return f"{kernels[near].node}:{number}" if number else kernels[near].node
    return f"{kernels[at].node} workspace" if at >= 0 else ""


def profiled(session: Any, call: Callable[[], object]) -> tuple[Trace, tuple[Kernel, ...]]:
    """One call on a session of ONNX Runtime's that is profiling: its requests and its kernels. Ends the profile."""
    context = Context()
    began = _begin(context) - session.get_profiling_start_time_ns()
    try:
        results = call()
    finally:
        context.end()
    del results  # after the end: freed in the run, they would be events of it
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    kernels = [
        Kernel(int(e["ts"]) * 1000 - began, e["name"].removesuffix(_KERNEL), _results(e["args"]))
        for e in events
        if e.get("cat") == "Node" and e["name"].endswith(_KERNEL) and int(e["ts"]) * 1000 >= began
    ]
    return context.trace(), tuple(sorted(kernels, key=lambda k: k.start_ns))


def _begin(context: Context) -> int:
    """When the record began, on the profile's clock in ns; tried again while the thread was interrupted between."""
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


def _results(arguments: dict[str, Any]) -> tuple[int, ...]:
    sizes = []
    for form in arguments.get("output_type_shape", ()):
        ((name, shape),) = form.items()
        dtype = _DTYPES.get(name, name)
        sizes.append(prod(map(int, shape)) * np.dtype(dtype).itemsize if dtype in np.sctypeDict else -1)
    return tuple(sizes)
