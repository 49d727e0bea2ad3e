"""Names for recorded requests: which kernel asked, and whether for a result or for workspace.

A profile says when each kernel ran and how large its results were; the record says when each request came. The two
clocks agree to a few microseconds. A request belongs to the kernel that ran at that time, or to a kernel beside it if
that is the only one with a result of this size that has no request yet. A kernel that takes less than a few
microseconds may be confused with its neighbour, so the names are for reports only.

ONNX Runtime tells nodes that it inserts apart by `_token_` and a number, which is another one in every process. The
names go without it, so that the same model has the same names each time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.runtime.onnxruntime.profile import Kernel
    from edgemem.trace import Trace

__all__ = ["labels"]

_DRAWN: Final = re.compile(r"_token_[0-9]+")


def labels(trace: Trace, kernels: Sequence[Kernel]) -> tuple[str, ...]:
    """A unique name for every request: NODE, NODE:1 for a second result, `NODE workspace`, with ` #2` where repeated.

    Args:
        trace: the requests.
        kernels: in the order in which they began, on the clock of the trace. Requests before the first one are named
            by their number.
    """
    starts = [k.start_ns for k in kernels]
    # Of each kernel, the results that have no request yet: number of the result -> bytes.
    open_results = [dict(enumerate(k.result_sizes)) for k in kernels]
    names: list[str] = []
    seen: Counter[str] = Counter()
    for request, event in enumerate(trace.requests.tolist()):
        at = bisect_right(starts, int(trace.time_ns[event])) - 1
        name = _name(kernels, open_results, at, int(trace.size[event])) or f"request {request}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(names)


def _name(kernels: Sequence[Kernel], open_results: Sequence[dict[int, int]], at: int, size: int) -> str:
    for near in (at, at + 1, at - 1, at + 2, at - 2):
        results = open_results[near] if 0 <= near < len(kernels) else {}
        number = next((k for k, v in results.items() if v == size), None)
        if number is not None:
            del results[number]
            node = _DRAWN.sub("", kernels[near].node)
            return f"{node}:{number}" if number else node
    return f"{_DRAWN.sub('', kernels[at].node)} workspace" if at >= 0 else ""
