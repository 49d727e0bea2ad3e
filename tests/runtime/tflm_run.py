"""Runs a .tflite file in TensorFlow Lite Micro and prints its arena and outputs as JSON.

A script for a process of its own: TensorFlow Lite Micro aborts on what it does not like.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tflite_micro import runtime


def inputs_of(interpreter: Any, count: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    inputs = []
    for k in range(count):
        details = interpreter.get_input_details(k)
        dtype, shape = np.dtype(details["dtype"]), tuple(details["shape"])
        if dtype.kind == "f":
            inputs.append(rng.random(shape).astype(dtype))
        else:
            inputs.append(rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype))
    return inputs


def main(path: str, inputs: int, outputs: int) -> None:
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)  # where it prints its allocations
        interpreter = runtime.Interpreter.from_bytes(Path(path).read_bytes(), arena_size=400 << 20)
        sha = hashlib.sha256()
        for run in range(3):
            for k, value in enumerate(inputs_of(interpreter, inputs, run)):
                interpreter.set_input(value, k)
            interpreter.invoke()
            for k in range(outputs):
                sha.update(interpreter.get_output(k).tobytes())
        interpreter.print_allocations()
        log.seek(0)
        text = log.read().decode(errors="replace")
    head, tail = (int(re.findall(rf"Arena allocation {part} (\d+)", text)[0]) for part in ("head", "tail"))
    print(json.dumps({"head": head, "tail": tail, "outputs": sha.hexdigest()}))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
