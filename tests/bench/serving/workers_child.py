"""One worker of workers.py: MODEL WAY CACHE BATCHES. The batches of its requests are as 1,2,1:4,1; a colon is a stop.

Serves them in turn. At each stop and at the end, with the last results still there, prints a line and waits for one,
prints JSON of its memory in bytes, and waits again. The way `pack` packs the model's weights beside it instead.

Imports nothing that a program with ONNX Runtime would not have. All requests lie in one place, and are not drawn, so
that the benchmark itself takes no more than the largest of them.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from edgemem.system.process_memory import anonymous_bytes, peak_bytes, proportional_bytes, resident_bytes
from tests.bench.serving import sessions

WARM = 3  # runs, after which a careful user trims once more


def trim() -> None:
    """Give what the C library holds free back to the system."""
    ctypes.CDLL(None).malloc_trim(0)


def largest_request(session: Any, batch: int) -> sessions.Feeds:
    """Waves as floats, ones as whole numbers, whose first rows are the smaller requests."""
    made = {}
    for entry in session.get_inputs():
        values = np.ones([d if isinstance(d, int) else batch for d in entry.shape], np.float32)
        if entry.type == "tensor(float)":
            np.sin(np.cumsum(values, out=values.reshape(-1)), out=values.reshape(-1))
            made[entry.name] = values
        else:
            made[entry.name] = values.astype(entry.type.removeprefix("tensor(").removesuffix(")"))
    return made


def main(path: str, way: str, cache: str, batches: str) -> None:
    if way == "pack":
        from edgemem.runtime.onnxruntime.weights.packed_files import pack_beside

        pack_beside(Path(path))
        return
    stages = [[int(batch) for batch in stage.split(",")] for stage in batches.split(":")]
    if way == "edgemem":
        session = sessions.planned(path, cache=Path(cache))
    else:
        session = sessions.plain(path) if way == "default" else sessions.tuned(path)
    load_peak = peak_bytes()
    largest = largest_request(session, max(max(stage) for stage in stages))
    if way == "trimmed":
        trim()
    served, results = 0, None
    for stage in stages:
        for batch in stage:
            results = None  # the last results are dropped before the next run
            results = session.run(None, {name: values[:batch] for name, values in largest.items()})
            served += 1
            if served == WARM and way == "trimmed":
                trim()
        if way == "edgemem":
            session.wait()
        gc.collect()
        print("served", flush=True)
        sys.stdin.readline()
        sizes = {"resident": resident_bytes(), "anonymous": anonymous_bytes(), "proportional": proportional_bytes()}
        print(json.dumps({**sizes, "load_peak": load_peak}), flush=True)
        sys.stdin.readline()
    del results


if __name__ == "__main__":
    main(*sys.argv[1:5])
