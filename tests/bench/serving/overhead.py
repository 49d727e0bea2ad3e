"""What a planned session adds to a run of the smallest model: microseconds, alternated with ONNX Runtime's.

python tests/bench/serving/overhead.py [--rounds 1000] [--runs 100] [--quick]

The two sessions take turns with short blocks of runs. The figure is the difference between the tenth percentiles of
their blocks: those that nothing else on the machine has disturbed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.bench.serving import sessions, subjects
from tests.bench.serving.checks import Checks

MOST_US = 4.0


def smallest(path: Path, inputs: int = 1) -> Path:
    """Three operators on four numbers, so that there is something to plan."""

    def info(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])

    names = [f"x{k}" for k in range(inputs)]
    nodes = [
        helper.make_node("Sum", names, ["t"]),
        helper.make_node("Exp", ["t"], ["u"]),
        helper.make_node("Neg", ["u"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "smallest", [info(name) for name in names], [info("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def block(session: Any, feeds: sessions.Feeds, runs: int) -> float:
    """Microseconds a run."""
    began = time.perf_counter()
    for _ in range(runs):
        session.run(None, feeds)
    return (time.perf_counter() - began) / runs * 1e6


def main() -> None:
    """Print a line for one input and for eight."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=100)
    args = parser.parse_args()
    rounds, runs = (20, 50) if args.quick else (args.rounds, args.runs)
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        for inputs in (1, 8):
            path = smallest(Path(folder) / f"smallest{inputs}.onnx", inputs)
            plain, planned = sessions.plain(path), sessions.planned(path, cache=False)
            feeds = sessions.feeds_for(plain)
            for _ in range(5):
                planned.run(None, feeds)
            checks.holds(f"{inputs} inputs: it replays", sessions.wait_for_plan(planned), planned.memory.reason)
            times: dict[str, list[float]] = {"plain": [], "planned": []}
            for k in range(rounds):
                ways = [("plain", plain), ("planned", planned)]
                for way, session in ways if k % 2 else reversed(ways):
                    times[way].append(block(session, feeds, runs))
            quick = {way: float(np.percentile(row, 10)) for way, row in times.items()}
            print(f"{inputs} inputs: {quick['plain']:.2f} us plain, {quick['planned']:.2f} us planned")
            checks.at_most(f"{inputs} inputs: added to a run", quick["planned"] - quick["plain"], MOST_US, " us")
            planned.close()
    checks.end()


if __name__ == "__main__":
    main()
