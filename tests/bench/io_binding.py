"""What running node by node costs: time against one session, alternated in one process, and the arena it needs.

python tests/bench/io_binding.py [NETWORK ...] [--level all] [--threads 1] [--repeats 30]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import onnx

sys.path.append(str(Path(__file__).resolve().parents[2]))

from edgemem.runtime.onnxruntime.io_binding import make_session
from edgemem.runtime.onnxruntime.optimise import LEVELS, onnxruntime
from models.build import build
from tests.runtime.networks import DIMS, equal, feeds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MIB = 1 << 20


def plain(path: Path, level: str, threads: int) -> Any:
    """One ordinary session, arena and memory pattern as ONNX Runtime has them."""
    ort = onnxruntime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def timed(session: Any, feeds: Mapping[str, Any]) -> float:
    begin = time.perf_counter()
    session.run(None, feeds)
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("network", nargs="*", default=["mobilenet_v2", "resnet18", "unet", "transformer"])
    parser.add_argument("--level", choices=list(LEVELS), default="all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args()
    print(f"level {args.level}, {args.threads} thread(s), median of {args.repeats} alternated runs")
    heads = (f"{'':14}", " steps", " arena MiB", " /bound", "  one ms", " nodes ms", " ratio", " us/node", "exact")
    print(" ".join(heads))
    for name in args.network:
        with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
            path = Path(folder) / f"{name}.onnx"
            onnx.save(build(name), path)
            feeds = feeds_of(path, dims=DIMS.get(name))
            options = onnxruntime().SessionOptions()
            options.intra_op_num_threads = args.threads
            one = plain(path, args.level, args.threads)
            nodes = make_session(path, plan="make", level=args.level, feeds=feeds, sess_options=options)
            exact = equal(one.run(None, feeds), nodes.run(None, feeds))
            pairs = [(timed(one, feeds), timed(nodes, feeds)) for _ in range(args.repeats)]
        ours, theirs = median(b for _, b in pairs), median(a for a, _ in pairs)
        ratio = median(b / a for a, b in pairs)
        memory = nodes.memory
        print(
            f"{name:14} {memory.steps:6} {memory.planned / MIB:10.3f} {memory.planned / max(memory.bound, 1):7.3f} "
            f"{theirs:8.2f} {ours:9.2f} {ratio:6.3f} {(ours - theirs) / max(memory.steps, 1) * 1e3:8.2f} {exact}"
        )


if __name__ == "__main__":
    main()
