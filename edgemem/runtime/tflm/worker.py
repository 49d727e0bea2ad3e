"""Runs a model in TensorFlow Lite Micro, in a process of its own because that aborts on what it dislikes.

    python -m edgemem.runtime.tflm.worker FOLDER

FOLDER holds model.tflite, each set of inputs in input0_0.npy, input0_1.npy, ..., input1_0.npy, ... and job.json: the
bytes of the arena, how many sets, inputs and outputs there are, how often to run each set, `smallest`, bytes below
which to look for the smallest arena that still runs (0: do not), and `fill`, the byte that glibc fills new memory with
(0: it does not). All sets run in one interpreter, one after the other. It leaves output0_0.npy, ... there and prints
the arena's head, tail and the smallest one as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__: list[str] = []

_M_PERTURB = -6  # of glibc's mallopt


def _interpreter(model: bytes, arena: int) -> Any:
    from tflite_micro import runtime

    return runtime.Interpreter.from_bytes(model, arena_size=arena)


def _run(interpreter: Any, inputs: list[Any]) -> None:
    for k, value in enumerate(inputs):
        interpreter.set_input(value, k)
    interpreter.invoke()


def _smallest(model: bytes, inputs: list[Any], used: int) -> int:
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


def main(folder: Path) -> None:
    """Run the job in the folder."""
    import numpy as np

    job = json.loads((folder / "job.json").read_text())
    model = (folder / "model.tflite").read_bytes()
    sets = [[np.load(folder / f"input{n}_{k}.npy") for k in range(job["inputs"])] for n in range(job["sets"])]
    with tempfile.TemporaryFile() as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)  # where it prints its allocations, and why it refuses
        interpreter = None
        if job["fill"] and sys.platform == "linux":
            ctypes.CDLL(None).mallopt(_M_PERTURB, job["fill"])
        try:
            interpreter = _interpreter(model, job["arena"])
            for n, inputs in enumerate(sets):
                for _ in range(job["runs"]):
                    _run(interpreter, inputs)
                for k in range(job["outputs"]):
                    np.save(folder / f"output{n}_{k}.npy", interpreter.get_output(k))
            interpreter.print_allocations()
            smallest = _smallest(model, sets[0], job["smallest"]) if job["smallest"] else 0
        finally:
            os.dup2(stderr, 2)
            log.seek(0)
            text = log.read().decode(errors="replace")
            if interpreter is None:
                sys.stderr.write(text)
    head, tail = (int(re.findall(rf"Arena allocation {part} (\d+)", text)[0]) for part in ("head", "tail"))
    print(json.dumps({"head": head, "tail": tail, "smallest": smallest}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
