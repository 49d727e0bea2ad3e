"""One process of opening.py: MODEL WAY. Opens the model, runs it once, and prints figures as JSON: bytes and seconds.

Imports nothing that a program with ONNX Runtime would not have, or edgemem's modules would count as nothing.
"""

from __future__ import annotations

import json
import sys
import time

from tests.bench.serving import sessions


def peak() -> int:
    """The most resident bytes so far, read without edgemem and pathlib."""
    with open("/proc/self/status", "rb") as lines:  # noqa: PTH123 - see above
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"VmHWM:"))


def main(path: str, way: str) -> None:
    began = time.process_time()
    if way == "planned":
        import edgemem

        _ = edgemem.InferenceSession
    imported = time.process_time()
    session = sessions.plain(path) if way == "plain" else sessions.planned(path)
    opened = time.process_time()
    figures = {"peak": peak(), "import_s": imported - began, "open_s": opened - imported}
    feeds = sessions.feeds_for(session)
    began = time.process_time()
    session.run(None, feeds)
    print(json.dumps({**figures, "run_s": time.process_time() - began}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
