"""What each method of `edgemem.order` finds alone on some graphs, and how long it takes.

    python tests/bench/order/methods.py [GRAPH ...] [--limit 60] [--page docs/order.md]

GRAPH is a name of the tables `sketches`, `found` or `cut`. Cells are the peak in KiB and the seconds; "-" where `auto`
leaves the method out because there are too many operators, or where what it needs is not installed.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.api import order_methods
from edgemem.errors import MissingDependencyError
from edgemem.schedule.order import find_order
from edgemem.schedule.peak import peak_of
from tests.bench.below.page import put, table
from tests.bench.order import subjects

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.schedule.registry import Solver
    from tests.bench.order.subjects import Subject

GRAPHS = ("RandWire 32", "RandWire 64", "Inception x9", "chain of 4 in 32 stripes", "PNASNet-5, CIFAR")


def subject(name: str) -> Subject:
    """A graph by its name in the tables. Raises KeyError for another one."""
    makers: dict[str, Callable[[], Subject]] = {
        **{key: partial(_sketched, key) for key in (*subjects.SKETCHES, *subjects.FOUND)},
        **subjects.CUT,
    }
    return makers[name]()


def _sketched(name: str) -> Subject:
    return {**subjects.SKETCHES, **subjects.FOUND}[name](), subjects.MICRO


def cell(method: Solver | None, graph: Subject, limit: float | None) -> str:
    """The peak that a method reaches alone (None: `auto`), and its seconds."""
    if method is not None and method.limit is not None and len(graph[0].ops) > method.limit:
        return "-"
    try:
        found = find_order(*graph, method=method.name if method else "auto", time_limit=limit)
    except MissingDependencyError:
        return "-"
    note = ", optimal" if found.optimal else ""
    return f"{found.peak / 1024:,.0f}{note} ({found.seconds:.2g} s)"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=list(GRAPHS), metavar="GRAPH")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="time limit of each run")
    parser.add_argument("--page", metavar="FILE.md", help="put the table into the page, between its marks")
    args = parser.parse_args()
    graphs = {name: subject(name) for name in args.graphs}
    rows = [["the order of the file", "", *(f"{peak_of(*graph) / 1024:,.0f}" for graph in graphs.values())]]
    for method in (*order_methods(), None):
        name, paper = (f"`{method.name}`", method.paper) if method else ("`auto`", "the best of all")
        rows.append([name, paper, *(cell(method, graph, args.limit) for graph in graphs.values())])
        print(" | ".join(rows[-1]), flush=True)
    put(args.page, "methods", table(("method", "from", *graphs), rows))


if __name__ == "__main__":
    main()
