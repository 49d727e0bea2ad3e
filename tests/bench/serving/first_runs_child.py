"""One process of first_runs.py: MODEL CACHE CLIENTS ORDER. Prints bytes, resident ones and those that no file backs."""

from __future__ import annotations

import gc
import sys
import threading
import time

import numpy as np

from tests.bench.serving import readings, sessions

RUNS = 3
LONGEST_S = 0.2  # between the starts of two threads; order 0 has them start together
SETTLE_S = 0.5


def main(path: str, cache: str, clients: int, order: int) -> None:
    session = sessions.planned(path, cache=cache)
    feeds = sessions.feeds_for(session)
    time.sleep(SETTLE_S)  # the planner is imported by then, if it has to be
    gc.collect()
    loaded, anonymous = readings.resident(), readings.anonymous()
    rng = np.random.default_rng(order)

    def work(runs: int) -> None:
        for _ in range(runs):
            session.run(None, feeds)

    for runs in (RUNS, 1):
        threads = [threading.Thread(target=work, args=(runs,)) for _ in range(clients)]
        for thread in threads:
            thread.start()
            time.sleep(rng.uniform(0, LONGEST_S) if order else 0)
        for thread in threads:
            thread.join()
        session.wait()
    time.sleep(SETTLE_S)
    gc.collect()
    print(readings.resident() - loaded, readings.anonymous() - anonymous)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
