"""A server whose batch changes with every request, and one whose other client sends new shapes.

python tests/bench/serving/batches.py [--models FOLDER] [--requests 300] [--most 32] [--quick] [NAME ...]

Three measurements. Time: both sessions serve the same batches 1..32, drawn at random, in one process, and which goes
first changes with each request. Memory: the same requests in a process for each way; growth of RSS since before the
session. Two clients: one repeats a fixed shape while the other sends a new shape each time; their phases with a plain
and a planned session alternate, and the figures are those of the first client.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import numpy as np

from tests.bench.serving import served, sessions, subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.decoders import decoder

NAMES = ("densenet121-batch", "mobilevit_s-batch")
BUILT = ("mobilenet_v2",)
PARTS = ("time", "memory", "clients")
THROUGHPUT, P99 = 0.95, 1.2
FIXED = 32  # the shape of the client that repeats one


def batch_requests(path: Path, requests: int, most: int) -> list[str]:
    """The requests: each a batch drawn at random."""
    entries = sessions.plain(path).get_inputs()
    symbol = next(d for entry in entries for d in entry.shape if isinstance(d, str))
    batches = np.random.default_rng(0).integers(1, most, requests, endpoint=True)
    return [f"{k},{symbol}={batch}" for k, batch in enumerate(batches)]


def two_clients(path: Path, seconds: float, rounds: int, checks: Checks) -> None:
    """Throughput and p99 of the client with the fixed shape."""
    made = {"plain": sessions.plain(path), "planned": sessions.planned(path, cache=False)}
    given = sessions.feeds_for(made["plain"], {"sequence": FIXED, "past": 0, "total": FIXED})
    for session in made.values():
        for _ in range(5):
            session.run(None, given)
    sessions.wait_for_plan(made["planned"])
    found: dict[str, list[tuple[float, float, int]]] = {way: [] for way in made}
    for k in range(rounds):
        for way in sorted(made, reverse=bool(k % 2)):
            found[way].append(_phase(made[way], given, seconds, 1 + k * 10_000))
    made["planned"].close()
    for way, rows in found.items():
        rates, p99s, others = zip(*rows, strict=True)
        print(
            f"two clients, {way}: {median(rates):.0f} requests/s, p99 {median(p99s) * 1e3:.2f} ms; others {sum(others)}"
        )
    pairs = list(zip(found["plain"], found["planned"], strict=True))
    checks.at_least("two clients: throughput of the fixed shape", median(b[0] / a[0] for a, b in pairs), THROUGHPUT)
    checks.at_most("two clients: p99 of the fixed shape", median(b[1] / a[1] for a, b in pairs), P99)


def _phase(session: Any, given: sessions.Feeds, seconds: float, seed: int) -> tuple[float, float, int]:
    """Requests a second and p99 of the fixed shape, and how many new shapes were served beside it."""
    end = time.perf_counter() + seconds
    sent = [0]

    def other() -> None:
        rng = np.random.default_rng(seed)
        while time.perf_counter() < end:
            sent[0] += 1
            # Two sizes, so that hardly any pair comes twice.
            dims = {"sequence": int(rng.integers(1, 64)), "past": int(rng.integers(0, 64))}
            session.run(None, sessions.feeds_for(session, dims, seed=sent[0]))

    thread = threading.Thread(target=other)
    thread.start()
    times = []
    while (began := time.perf_counter()) < end:
        session.run(None, given)
        times.append(time.perf_counter() - began)
    thread.join()
    return len(times) / seconds, float(np.percentile(times, 99)), sent[0]


def main() -> None:
    """Print all three."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--most", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a phase of two clients")
    parser.add_argument("--rounds", type=int, default=5, help="phases of each way")
    parser.add_argument(
        "--only", choices=["time", "memory", "clients"], nargs="+", default=["time", "memory", "clients"]
    )
    args = parser.parse_args()
    requests, most = (served.WARM + 10, 4) if args.quick else (args.requests, args.most)
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        work = Path(folder)
        files = subjects.exported(args.models, args.name or NAMES)
        if args.models is None:
            files = {n: subjects.built(n, work, batch="batch", small=args.quick) for n in args.name or BUILT}
        for name, path in files.items():
            asked = batch_requests(path, requests, most)
            if "time" in args.only:
                served.compare_times(name, path, asked, args.threads, checks)
            if "memory" in args.only:
                served.compare_memory(name, path, asked, args.threads, "tuned", checks)
        if "clients" in args.only:
            small = decoder(work / "decoder.onnx", layers=2 if args.quick else 4)
            two_clients(small, 0.2 if args.quick else args.seconds, 1 if args.quick else args.rounds, checks)
    checks.end()


if __name__ == "__main__":
    main()
