"""One way of weights.py in this process: MODEL WAY. Prints figures as JSON, then its memory for each line it reads.

The memory is that of the whole process, in bytes.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from statistics import median

from edgemem.system.process_memory import anonymous_bytes, peak_bytes, proportional_bytes, resident_bytes
from tests.bench.serving import sessions
from tests.mapped_files import mapped_files

RUNS = 15
SIZES = {"n": 8, "past": 8, "total": 9}  # of open dimensions; others are 1


def main(path: str, way: str) -> None:
    if way != "plain":
        import edgemem

        _ = edgemem.InferenceSession  # its modules are imported before, as onnxruntime's are
    began = time.perf_counter()
    session = sessions.plain(path) if way == "plain" else sessions.planned(path)
    load_s = time.perf_counter() - began
    peak = peak_bytes()
    feeds = sessions.feeds_for(session, SIZES)
    results = session.run(None, feeds)
    bits = hashlib.sha256(b"".join(value.tobytes() for value in results)).hexdigest()
    del results
    if way != "plain":
        session.wait()
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        session.run(None, feeds)
        times.append(time.process_time() - began)
    figures = {"load_s": load_s, "run_s": median(times), "peak": peak, "bits": bits}
    figures |= {"resident": resident_bytes(), "anonymous": anonymous_bytes(), "plan": ""}
    if way != "plain":
        memory = session.memory
        figures |= {"plan": str(session.memory_report), "replayed": memory.replayed, "bails": memory.bails}
    figures["mapped"] = bool(mapped_files())
    print(json.dumps(figures), flush=True)
    for _ in sys.stdin:
        print(proportional_bytes(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
