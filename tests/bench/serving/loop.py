"""The first run of a Loop of very many trips with a scan output, against ONNX Runtime's.

python tests/bench/serving/loop.py [--trips 100000] [--rounds 3] [--quick]

Every round makes new sessions, so that each run is a first one; the ways take turns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).resolve().parents[3]))

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.bench.serving import sessions, subjects
from tests.bench.serving.checks import Checks

TIMES, PLUS_S = 2.0, 0.2


def looping(path: Path) -> Path:
    """`n` trips of a body with two operators; what it carries is collected, too."""

    def info(name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    body = helper.make_graph(
        [
            helper.make_node("Identity", ["more"], ["go_on"]),
            helper.make_node("Cos", ["carried"], ["turned"]),
            helper.make_node("Add", ["turned", "x"], ["next"]),
            helper.make_node("Neg", ["next"], ["collected"]),
        ],
        "body",
        [info("trip", kind=TensorProto.INT64), info("more", kind=TensorProto.BOOL), info("carried", 16)],
        [info("go_on", kind=TensorProto.BOOL), info("next", 16), info("collected", 16)],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body),
            helper.make_node("Neg", ["last"], ["y"]),
        ],
        "looping",
        [info("n", kind=TensorProto.INT64), info("x", 16)],
        [info("y", 16), info("all", "trips", 16)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def main() -> None:
    """Print the first runs and those after."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("--trips", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    trips, rounds = (500, 1) if args.quick else (args.trips, args.rounds)
    checks = Checks()
    feeds = {"n": np.array(trips, np.int64), "x": np.linspace(0, 1, 16, dtype=np.float32)}
    first: dict[str, list[float]] = {"plain": [], "planned": []}
    later: dict[str, list[float]] = {"plain": [], "planned": []}
    equal = True
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        path = looping(Path(folder) / "loop.onnx")
        for k in range(rounds):
            results = {}
            for way in sorted(first, reverse=bool(k % 2)):
                session = (
                    sessions.plain(path) if way == "plain" else sessions.planned(path, cache=Path(folder) / f"cache{k}")
                )
                began = time.perf_counter()
                results[way] = session.run(None, feeds)
                first[way].append(time.perf_counter() - began)
                for _ in range(3):
                    began = time.perf_counter()
                    session.run(None, feeds)
                    later[way].append(time.perf_counter() - began)
                if way == "planned":
                    print(f"round {k}: {session.memory.mode} {session.memory.reason}")
                    session.close()
            equal &= sessions.same(results["plain"], results["planned"])
    plain_s, planned_s = median(first["plain"]), median(first["planned"])
    print(f"{trips} trips; first run {plain_s:.3f} s plain, {planned_s:.3f} s planned ({planned_s / plain_s:.2f}x)")
    ratio = median(later["planned"]) / median(later["plain"])
    print(f"later runs {median(later['plain']):.3f} s plain, {median(later['planned']):.3f} s planned ({ratio:.2f}x)")
    checks.holds("equal results", equal)
    checks.at_most(
        f"first run, against {TIMES:g} x ONNX Runtime's + {PLUS_S:g} s", planned_s, TIMES * plain_s + PLUS_S, " s"
    )
    checks.end()


if __name__ == "__main__":
    main()
