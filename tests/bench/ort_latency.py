"""What a planned session costs: ONNX Runtime with and without a plan, alternated in one process, and their memory.

python tests/bench/ort_latency.py [--rounds 40] [--threads 1] [NETWORK ...]

One row a network: median milliseconds of a plain session (ONNX Runtime's defaults) and of a planned one, the median of
the ratios round by round (which of the two goes first changes each round), and the plan beside its lower bound.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import onnxruntime

from edgemem.runtime.onnxruntime.session import InferenceSession
from models.build import build
from tests.onnx_sessions import feeds, options, same

NETWORKS = ("mobilenet_v2", "resnet18", "unet", "transformer")


def measure(name: str, level: str, threads: int, rounds: int) -> str:
    """One row of the table."""
    model = build(name).SerializeToString()
    plain = onnxruntime.InferenceSession(model, options(level, threads), providers=["CPUExecutionProvider"])
    given = feeds(plain)
    with InferenceSession(model, options(level, threads), ["CPUExecutionProvider"], cache=False) as planned:
        for _ in range(3):
            assert same(plain.run(None, given), planned.run(None, given))
        times: dict[str, list[float]] = {"plain": [], "planned": []}
        sessions: list[tuple[str, Any]] = [("plain", plain), ("planned", planned)]
        for k in range(rounds):
            for key, session in sessions if k % 2 else reversed(sessions):
                begin = time.perf_counter()
                session.run(None, given)
                times[key].append((time.perf_counter() - begin) * 1e3)
        memory = planned.memory
        assert memory.bails == 0
    ratio = statistics.median(b / a for a, b in zip(times["plain"], times["planned"], strict=True))
    before, after = (statistics.median(times[key]) for key in ("plain", "planned"))
    return (
        f"{name:14} {level:9} {threads:7} {before:9.3f} {after:10.3f} {ratio:7.3f} "
        f"{memory.planned / 1e6:10.3f} {memory.planned / memory.bound:11.4f} {memory.requests:9}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("network", nargs="*", default=NETWORKS)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    print("network        level     threads  plain ms planned ms   ratio  arena MB  arena/bound  requests")
    for name in args.network:
        for level in ("EXTENDED", "ALL"):
            print(measure(name, level, args.threads, args.rounds), flush=True)


if __name__ == "__main__":
    main()
