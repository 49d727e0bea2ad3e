"""Runs a model in TensorFlow Lite Micro, in a process of its own because that aborts on what it dislikes.

The question's content is the model and its arrays are the inputs, set after set. Its data are the bytes of the `arena`,
how many `sets`, `inputs` and `outputs` there are, how many `runs` each set has, `smallest`, bytes below which to look
for the smallest arena that still runs (0: do not), and `fill`, the byte that glibc fills new memory with (0: it does
not). All sets run in one interpreter, one after the other, or each in one of its own (`apart`). The answer has the
outputs, set after set, and the arena's head, tail and smallest size.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from edgemem.system.child_call import Message, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__: list[str] = []

_M_PERTURB = -6  # of glibc's mallopt


def _interpreter(model: bytes, arena: int) -> Any:
    from tflite_micro import runtime

    return runtime.Interpreter.from_bytes(model, arena_size=arena)


def _run(interpreter: Any, inputs: Sequence[Any]) -> float:
    """Seconds of processor time of a run."""
    for k, value in enumerate(inputs):
        interpreter.set_input(value, k)
    begun = time.process_time()
    interpreter.invoke()
    return time.process_time() - begun


def _smallest(model: bytes, inputs: Sequence[Any], used: int) -> int:
    """The fewest bytes, a multiple of 16, with which the model is prepared and runs; it uses `used` while it runs.

    Each arena is tried in a process of its own. In some that are too small TensorFlow Lite Micro's memory planner
    writes beyond the end, because its allocator does not compare what lasts with what is temporary.
    """

    def enough(units: int) -> bool:
        process = os.fork()
        if not process:
            try:
                _run(_interpreter(model, 16 * units), inputs)
            except RuntimeError:
                os._exit(1)
            os._exit(0)
        return os.waitpid(process, 0)[1] == 0

    # Mostly it is just what it uses; small models need more while they are prepared.
    low = used // 16
    if not enough(low):
        step = 1
        while not enough(low + step):
            low, step = low + step, 2 * step
        high = low + step
    else:
        high, step = low, 1
        while enough(max(high - step, 0)):
            high, step = max(high - step, 0), 2 * step
        low = max(high - step, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return 16 * high


def _answer(question: Message) -> Message:
    job, model = question.data, question.content
    sets = [question.arrays[n * job["inputs"] : (n + 1) * job["inputs"]] for n in range(job["sets"])]
    outputs, seconds = [], []
    with tempfile.TemporaryFile() as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)  # where it prints its allocations, and why it refuses
        interpreter = None
        if job["fill"] and sys.platform == "linux":
            ctypes.CDLL(None).mallopt(_M_PERTURB, job["fill"])
        try:
            interpreter = _interpreter(model, job["arena"])
            for n, inputs in enumerate(sets):
                if job["apart"] and n:
                    interpreter = None  # before another one takes as much memory
                    interpreter = _interpreter(model, job["arena"])
                seconds += [_run(interpreter, inputs) for _ in range(job["runs"])]
                outputs += [interpreter.get_output(k) for k in range(job["outputs"])]
            interpreter.print_allocations()
            smallest = _smallest(model, sets[0], job["smallest"]) if job["smallest"] else 0
        finally:
            os.dup2(stderr, 2)
            log.seek(0)
            text = log.read().decode(errors="replace")
            if interpreter is None:
                sys.stderr.write(text)
    head, tail = (int(re.findall(rf"Arena allocation {part} (\d+)", text)[0]) for part in ("head", "tail"))
    return Message({"head": head, "tail": tail, "smallest": smallest, "seconds": min(seconds, default=0.0)}, outputs)


if __name__ == "__main__":
    serve(_answer)
