"""One way of embeddings.py in this process: MODEL WAY THREADS REQUESTS CLIENTS NEED. Prints JSON: bytes, a second."""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time
import zlib
from typing import Any

import numpy as np

from tests.bench.serving import readings, sessions

MOST_LENGTH, MOST_BATCH = 512, 8
VOCABULARY = 2000
SLACK = 1 << 18  # for results, and what lies between blocks
READINGS = 10


def request(number: int) -> Any:
    """The ids of a request: mostly short ones; every five-hundredth is the largest."""
    rng = np.random.default_rng(number)
    length = min(8 + int(rng.exponential(40)), MOST_LENGTH)
    shape = (MOST_BATCH, MOST_LENGTH) if number % 500 == 0 else (int(rng.integers(1, MOST_BATCH + 1)), length)
    return rng.integers(0, VOCABULARY, shape)


def opened(path: str, way: str, threads: int, need: int) -> Any:
    if way in ("plain", "tuned"):
        return (sessions.tuned if way == "tuned" else sessions.plain)(path, threads)
    cap = {"max_bytes": need + SLACK} if way == "capped" else {}
    return sessions.planned(path, threads, cache=False, **cap)


def main(path: str, way: str, threads: int, requests: int, clients: int, need: int) -> None:
    if way == "need":
        session = sessions.planned(path, threads, cache=False, background=False)
        for _ in range(2):
            session.run(None, {"ids": request(0)})
        print(session.memory.peak)
        return
    session = opened(path, way, threads, need)
    ids = [request(number) for number in range(requests)]
    digests = np.ones(requests, np.uint32)  # whose pages are there before the first reading
    ctypes.CDLL(None).malloc_trim(0)
    loaded, resident = readings.anonymous(), readings.resident()
    part = requests // READINGS
    grown = []
    seconds = 0.0
    for begin in range(0, part * READINGS, part):
        todo = iter(range(begin, begin + part))
        lock = threading.Lock()

        def work(todo: Any = todo, lock: Any = lock) -> None:
            while True:
                with lock:
                    number = next(todo, None)
                if number is None:
                    return
                (embedding,) = session.run(None, {"ids": ids[number]})
                digests[number] = zlib.crc32(embedding)

        workers = [threading.Thread(target=work) for _ in range(clients)]
        began = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds += time.perf_counter() - began
        grown.append(readings.anonymous() - loaded)
    digest = zlib.crc32(digests.tobytes())
    made = {"resident": readings.resident() - resident, "peak": readings.peak() - resident}
    print(json.dumps({"rate": requests / seconds, "grown": grown, **made, "digest": digest}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
