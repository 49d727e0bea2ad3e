"""Recomputation for inference on randomly wired networks.

    python tests/bench/remat/inference.py [--seeds 3] [--effort fast]

The lowest peak for 25 % more arithmetic than the best order found, as multiply-accumulates and as bytes that operators
read and write. Real models are in tests/bench/below/exhaustive.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.formats import open_bytes
from edgemem.model.macs import macs_of
from edgemem.remat.search import recompute
from edgemem.schedule.order import find_order
from edgemem.schedule.problem import order_problem
from edgemem.targets import BUILT_IN
from models import wired_networks as wired
from tests.branchy import wired_tflite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.model.graph import Graph, Op
    from edgemem.remat.recompute_schedule import RecomputeSchedule

# Results of elementwise operators lie on their inputs, as TensorFlow Lite Micro's reference kernels allow.
MICRO = replace(BUILT_IN["tflm"], aliasing="elementwise")
MOST_MACS = 1.25
SAVED = 0.32  # of the peak of the best order, as the first sketch of this search reached on RandWire-64
KIB = 1024


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measures recomputation for inference.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-macs", type=float, default=MOST_MACS)
    parser.add_argument("--effort", choices=["fast", "default", "max"], default="fast")
    args = parser.parse_args(arguments)
    for row in _wired(args.seeds, args.max_macs, args.effort):
        print(row, flush=True)
    return 0


def _wired(seeds: int, most: float, effort: str) -> Iterator[str]:
    """A line a network: the peak, and what 32 % less and the lowest peak within the arithmetic cost."""
    yield f"{'':27}{'KiB':>19} | {SAVED:.0%} less      | lowest within {most:g} times the MACs"
    columns = "".join(f"{c:>8}" for c in ("MACs", "bytes"))
    yield f"{'network':22}{'ops':>5}{'in file':>10}{'ordered':>9} |{columns} |{'KiB':>9}{'':>9}{columns}{'s':>7}"
    graphs: list[tuple[str, Graph]] = [(f"RandWire-64 {seed}", wired.randwire(64, seed=seed)) for seed in range(seeds)]
    graphs += [
        (f"64 nodes .tflite {seed}", open_bytes(wired_tflite(64, seed, int8=True), ".tflite").graph())
        for seed in range(seeds)
    ]
    for name, graph in graphs:
        began = time.perf_counter()
        found = find_order(graph, MICRO)
        ordered = graph.reordered(found.order)
        problem, macs = order_problem(ordered, MICRO), [_macs(ordered, op) for op in ordered.ops]
        moved = [sum(ordered.tensors[i].size for i in (*op.inputs, *op.outputs) if i >= 0) for op in ordered.ops]
        costs = [m + b for m, b in zip(macs, moved, strict=True)]
        text = f"{name:22}{len(graph.ops):>5}{found.given_peak / KIB:>10.1f}{found.peak / KIB:>9.1f} |"
        cheap = recompute(problem, costs, budget=int(found.peak * (1 - SAVED)), effort=effort)
        text += (
            f"{_times(macs, cheap):>8.3f}{_times(moved, cheap):>8.3f} |" if cheap.is_within_budget else f"{'-':>16} |"
        )
        low = max(
            (recompute(problem, costs, most_cost=1 + (most - 1) * part, effort=effort) for part in (1, 0.9, 0.8)),
            key=lambda s: (_times(macs, s) <= most, -s.peak),
        )
        text += f"{low.peak / KIB:>9.1f}{(low.peak / found.peak - 1) * 100:>7.1f} %"
        text += f"{_times(macs, low):>8.3f}{_times(moved, low):>8.3f}{time.perf_counter() - began:>7.1f}"
        yield text


def _macs(graph: Graph, op: Op) -> int:
    """Of an operator; a separable convolution of a sketch is a depthwise 3x3 one and a pointwise one."""
    if op.type != "SeparableConv":
        return macs_of(graph, op)
    read, made = graph.tensors[op.inputs[0]].shape, graph.tensors[op.outputs[0]].shape
    return prod(made[2:]) * read[1] * (9 + made[1])


def _times(costs: Sequence[int], schedule: RecomputeSchedule) -> float:
    return sum(costs[k] for k in schedule.runs) / sum(costs)


if __name__ == "__main__":
    sys.exit(main())
