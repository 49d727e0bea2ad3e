"""One way of process_memory.py in this process: MODEL THREADS WAY CACHE. Prints figures, in bytes and seconds.

Imports nothing that a program with ONNX Runtime would not have, or edgemem's modules would count as nothing.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time

from tests.bench.serving import readings, sessions

READ_AFTER = (1, 3, 20)
SETTLE_S = 0.5  # what is left to do in the background is done by then


def main(path: str, threads: int, way: str, cache: str) -> None:
    gc.collect()
    before = readings.resident()
    began = time.perf_counter()
    if way in ("first", "stored"):
        session = sessions.planned(path, threads, cache=cache)
    else:
        session = (sessions.tuned if way == "tuned" else sessions.plain)(path, threads)
    if way == "trimmed":
        ctypes.CDLL(None).malloc_trim(0)
    print(f"load_s={time.perf_counter() - began}")
    print(f"load_peak={readings.peak()}")
    feeds = sessions.feeds_for(session)
    time.sleep(SETTLE_S)
    print(f"loaded={readings.resident() - before}")
    for run in range(1, READ_AFTER[-1] + 1):
        began = time.perf_counter()
        results = session.run(None, feeds)
        if run == 1:
            print(f"first_s={time.perf_counter() - began}")
        del results
        if run in READ_AFTER:
            time.sleep(SETTLE_S)
            gc.collect()
            print(f"{run}={readings.resident() - before}")
    print(f"total={readings.resident()}")
    print(f"peak={readings.peak() - before}")
    if way in ("first", "stored"):
        print(f"mode={session.memory.mode}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
