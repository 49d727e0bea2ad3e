"""A file in TensorFlow Lite Micro: several random inputs one after the other in one interpreter.

    python tests/bench/below/micro.py FILE.tflite [RUNS]

prints its arena's head and tail, a digest of the outputs of each run, and the processor time of the fastest run. From
the second run on the arena is full of what runs before have left. The first input comes again at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.formats import Model, load
from edgemem.runtime.tflm.execution import input_values

__all__ = ["MicroRun", "run"]

LIMIT_S = 900


@dataclass(frozen=True, slots=True)
class MicroRun:
    """What was measured; `digests` are of the outputs, one a run. `failed` says why there is nothing, or is ""."""

    head: int = 0
    tail: int = 0
    digests: tuple[str, ...] = ()
    least_ms: float = 0.0
    failed: str = ""


def run(path: Path, runs: int = 3) -> MicroRun:
    """Run a file in a process of its own, because TensorFlow Lite Micro aborts on what it dislikes."""
    command = [sys.executable, str(Path(__file__)), str(path), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode or not done.stdout:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return MicroRun(failed=next((line for line in lines if "ail" in line or "op" in line), "it aborted"))
    found = json.loads(done.stdout.splitlines()[-1])
    return MicroRun(found["head"], found["tail"], tuple(found["digests"]), found["least_ms"])


def main(path: Path, runs: int) -> None:
    """Run it and print what was measured."""
    from tflite_micro import runtime

    model = load(path)
    assert isinstance(model, Model)
    graph = model.graph()
    data = path.read_bytes()
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)  # where it prints its allocations
        try:
            interpreter: Any = runtime.Interpreter.from_bytes(data, arena_size=4 * len(data) + (1 << 29))
            digests, times = [], []
            for seed in (*range(runs), 0):
                for place, value in enumerate(input_values(graph, seed=seed)):
                    interpreter.set_input(value, place)
                begin = time.process_time()
                interpreter.invoke()
                times.append((time.process_time() - begin) * 1e3)
                sha = hashlib.sha256()
                for place in range(len(graph.outputs)):
                    sha.update(interpreter.get_output(place).tobytes())
                digests.append(sha.hexdigest())
            interpreter.print_allocations()
        finally:
            log.seek(0)
            text = log.read().decode(errors="replace")
            sys.stdout.flush()
            os.dup2(1, 2)
    head, tail = (int(re.findall(rf"Arena allocation {part} (\d+)", text)[0]) for part in ("head", "tail"))
    print(json.dumps({"head": head, "tail": tail, "digests": digests, "least_ms": min(times)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
