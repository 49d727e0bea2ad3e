"""What is lost if the order is found first and the places then, against both at once, on small graphs.

    python tests/bench/order/joint.py [--graphs 300] [--effort default] [--page docs/order.md]

Random graphs are those of tests/oracle/orders with 4 to 30 operators, each under a target of its own; cells are those
of models/wired_networks.py under `tflm`. "first, then" is the arena of the best order's best plan, "at once" the
smallest arena of any order; no order has a smaller one than the bound.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.errors import ModelError
from models import wired_networks as wired
from tests.bench.below.page import put, table
from tests.bench.order.subjects import MICRO
from tests.oracle.constraint_orders.joint import order_and_place
from tests.oracle.orders.cases import large_case

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.graph import Graph
    from edgemem.targets import Target
    from tests.oracle.constraint_orders.joint import Joint

CELLS: Mapping[str, Callable[[], Graph]] = {
    "RandWire 8": partial(wired.randwire, 8, seed=0),
    "RandWire 12": partial(wired.randwire, 12, seed=1),
    "RandWire 16": partial(wired.randwire, 16, seed=0),
    "Inception x1": partial(wired.inception, 1),
    "Inception x2": partial(wired.inception, 2),
    "U-Net, 3 levels": partial(wired.unet, 3),
    "random cell": partial(wired.random_cells, 1, seed=0),
    "SwiftNet-like cell": partial(wired.concat_cells, 1, 20, seed=0),
    "chain of 3 in 4 stripes": partial(wired.tiled_chain, 3, 4),
    "chain of 4 in 6 stripes": partial(wired.tiled_chain, 4, 6),
}
COLUMNS = ("graph", "operators", "first, then", "at once", "bound", "seconds")


def measured(graph: Graph, target: Target, effort: str) -> tuple[Joint, float]:
    """The result, and its seconds."""
    begin = time.monotonic()
    joint = order_and_place(graph, target, effort=effort)
    return joint, time.monotonic() - begin


def random_row(count: int, effort: str) -> list[str]:
    """One row for all random graphs: how many lost something, and the most."""
    lost: list[float] = []
    seconds: list[float] = []
    operators: list[int] = []
    proved = seed = 0
    padding = 0
    while len(lost) < count:
        seed += 1
        case = large_case(seed, 4, 30)
        try:
            joint, taken = measured(case.graph, case.target, effort)
        except ModelError:
            continue  # refused by name, or no plan has it
        operators.append(len(case.graph.ops))
        seconds.append(taken)
        proved += joint.optimal
        lost.append(joint.split / joint.arena - 1 if joint.arena else 0.0)
        padding += joint.arena < joint.split < joint.arena + case.target.alignment
        if lost[-1]:
            print(f"{case.name}: {joint.split} first, then; {joint.arena} at once", flush=True)
    losses = [f for f in lost if f]
    worst = f", up to {max(losses):.1%}" if losses else ""
    return [
        f"{count} random graphs",
        f"{min(operators)}-{max(operators)}",
        f"{len(losses)} larger{worst}; {padding} of them by less than the alignment",
        "",
        f"{proved} proved",
        f"{statistics.median(seconds):.2g} median, {max(seconds):.2g} most",
    ]


def cell_row(name: str, effort: str) -> list[str]:
    graph = CELLS[name]()
    joint, seconds = measured(graph, MICRO, effort)
    sizes = (f"{size / 1024:,.1f} KiB" for size in (joint.split, joint.arena, joint.lower_bound))
    return [name, str(len(graph.ops)), *sizes, f"{seconds:.2g}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=300, help="how many random graphs")
    parser.add_argument("--effort", default="default", choices=("fast", "default", "max"))
    parser.add_argument("--page", metavar="FILE.md", help="put the table into the page, between its marks")
    args = parser.parse_args()
    rows = []
    for name in CELLS:
        rows.append(cell_row(name, args.effort))
        print(" | ".join(rows[-1]), flush=True)
    rows.append(random_row(args.graphs, args.effort))
    put(args.page, "joint", table(COLUMNS, rows))


if __name__ == "__main__":
    main()
