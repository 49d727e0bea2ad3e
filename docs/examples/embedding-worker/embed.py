"""Encodes random texts of random lengths, and says how much memory the process takes on the way."""

import os
import sys
from pathlib import Path

import numpy as np

import edgemem

LONGEST, REQUESTS = 256, 600


def resident_mib() -> float:
    """Memory of this process that is in RAM."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


rng = np.random.default_rng(0)
session = edgemem.InferenceSession("encoder.onnx", record="warmup")
longest = {"x": np.zeros((1, LONGEST, 32), np.float32)}
print(session.warm_up([longest]))

warm, begin = session.memory.replayed, 0.0
for number in range(REQUESTS):
    length = int(rng.integers(1, LONGEST + 1))
    session.run(None, {"x": rng.standard_normal((1, length, 32), np.float32)})
    if number == REQUESTS // 3:
        begin = resident_mib()

grown = resident_mib() - begin
print(f"{session.memory.replayed - warm} of {REQUESTS} runs in the plan")
print("memory is flat" if grown < 1 else f"memory grew by {grown:.1f} MiB")
sys.exit(grown >= 1)
