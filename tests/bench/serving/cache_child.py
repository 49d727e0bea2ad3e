"""A process that shares a plan cache: MODEL FOLDER. Prints the digest of its results, and where its plan came from."""

from __future__ import annotations

import hashlib
import sys

from tests.bench.serving import sessions


def main(path: str, folder: str) -> None:
    with sessions.planned(path, cache=folder, background=False) as session:
        feeds = sessions.feeds_for(session)
        digests = set()
        for _ in range(5):
            results = session.run(None, feeds)
            digests.add(hashlib.sha256(b"".join(r.tobytes() for r in results)).hexdigest())
        if len(digests) != 1 or session.memory.mode != "replay":
            raise SystemExit(f"{len(digests)} different results, {session.memory}")
        origin = session.memory_report.origin
        print(digests.pop(), "none" if origin is None else origin.source.replace(" ", "-"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
