"""One process of opening.py: MODEL WAY. Opens the model, runs it once, and prints figures as JSON."""

from __future__ import annotations

import json
import sys
import time

from tests.bench.serving import sessions


def memory(field: str) -> int:
    """Bytes of this process by a field of the system's own table, read without edgemem, which would be counted."""
    with open("/proc/self/status", "rb") as lines:  # noqa: PTH123 - pathlib would be counted as well
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field.encode()))


def main(path: str, way: str) -> None:
    before = memory("VmRSS")
    wall, processor = time.perf_counter(), time.process_time()
    if way != "plain":
        import edgemem

        _ = edgemem.InferenceSession
    imported = time.perf_counter(), time.process_time()
    session = sessions.plain(path) if way == "plain" else sessions.planned(path, stored=True)
    opened = time.perf_counter(), time.process_time()
    figures: dict[str, float] = {"before": before, "peak": memory("VmHWM"), "after": memory("VmRSS")}
    figures |= {"import_s": imported[0] - wall, "open_s": opened[0] - imported[0]}
    figures |= {"import_cpu_s": imported[1] - processor, "open_cpu_s": opened[1] - imported[1]}
    feeds = sessions.feeds_for(session)
    began = time.perf_counter()
    session.run(None, feeds)
    figures["run_s"] = time.perf_counter() - began
    figures["peak_run"] = memory("VmHWM")
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
