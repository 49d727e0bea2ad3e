"""Runs pairs of .tflite files in TensorFlow Lite Micro, in dirty memory; prints a line of JSON for each pair.

    MALLOC_PERTURB_=165 python -m tests.runtime.control_run FOLDER

FOLDER holds jobs.json, and for each job NAME.plain.tflite and NAME.planned.tflite. Each file runs on one interpreter
with several inputs in turn. The arena is memory from malloc that TensorFlow Lite Micro does not clear: glibc fills it
with bytes that are not zero if the variable says so, and from the second run on it has what the runs before have left.

A script for a process of its own: TensorFlow Lite Micro may abort or loop for ever, and prints its arena on stderr.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tflite_micro import runtime

RUNS = 3
ARENA = 1 << 18


def inputs_of(interpreter: Any, count: int, seed: int) -> list[Any]:
    """Random values, none of them all zero; integers are 0, 1 or 2 because they count rounds."""
    rng = np.random.default_rng(seed)
    values = []
    for k in range(count):
        details = interpreter.get_input_details(k)
        dtype, shape = np.dtype(details["dtype"]), tuple(details["shape"])
        if dtype.kind == "f":
            values.append(rng.standard_normal(shape).astype(dtype))
        elif dtype.kind == "b":
            values.append(np.full(shape, seed % 2 == 0))
        else:
            values.append(rng.integers(0, 3, shape).astype(dtype))
    return values


def ran(path: Path, inputs: int, outputs: int, log: Any) -> tuple[list[bytes], int]:
    """The outputs of all runs, and the head of the arena."""
    log.seek(0)
    log.truncate()
    interpreter = runtime.Interpreter.from_bytes(path.read_bytes(), arena_size=ARENA)
    found = []
    for seed in range(RUNS):
        for k, value in enumerate(inputs_of(interpreter, inputs, seed)):
            interpreter.set_input(value, k)
        interpreter.invoke()
        found += [interpreter.get_output(k).tobytes() for k in range(outputs)]
    interpreter.print_allocations()
    log.seek(0)
    text = log.read().decode(errors="replace")
    return found, int(re.findall(r"Arena allocation head (\d+)", text)[0])


def main(folder: Path) -> None:
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        for line in json.loads((folder / "jobs.json").read_text()):
            name, inputs, outputs = line["name"], line["inputs"], line["outputs"]
            try:
                own, head = ran(folder / f"{name}.plain.tflite", inputs, outputs, log)
                ours, planned = ran(folder / f"{name}.planned.tflite", inputs, outputs, log)
                told = {"name": name, "equal": own == ours, "head": head, "planned": planned, "error": ""}
            except RuntimeError as e:
                log.seek(0)
                told = {"name": name, "error": f"{e}: {log.read().decode(errors='replace')}"}
            print(json.dumps(told), flush=True)


main(Path(sys.argv[1]))
