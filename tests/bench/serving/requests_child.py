"""One way to serve requests, in this process: MODEL THREADS WAY REQUEST... Prints the growth of RSS and of its peak.

A request is SEED, or SEED,SYMBOL=SIZE,... for open dimensions.

Imports nothing that a program with ONNX Runtime would not have, or edgemem's modules would count as nothing.
"""

from __future__ import annotations

import gc
import sys
import time

from tests.bench.serving import readings, sessions

SETTLE_S = 0.5  # what is left to do in the background is done by then


def main(path: str, threads: int, way: str, requests: list[str]) -> None:
    gc.collect()
    before = readings.resident()
    if way == "planned":
        session = sessions.planned(path, threads, cache=False)
    else:
        session = (sessions.tuned if way == "tuned" else sessions.plain)(path, threads)
    for request in requests:
        session.run(None, sessions.requested(session, request))
    time.sleep(SETTLE_S)
    gc.collect()
    print(readings.resident() - before, readings.peak() - before)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:])
