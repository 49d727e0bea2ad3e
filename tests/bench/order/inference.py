"""Orders of inference graphs: the papers' networks, built and real models, tiled ones.

    python tests/bench/order/inference.py [GROUP ...] [--method M] [--effort E] [--exports DIR] [--page FILE.md]

Groups are sketches, found, real and cut. `given` is the peak of the order in the file, `depth first` that of the
reverse post-order which compilers use, `edgemem` that of `find_order`: tensors in use at once under the rules of
the target. `gap` is how far it is above the lower bound; `s` are the seconds of the search. All are measured in this
process, one after the other. What a pass cut is given layer by layer, and compared with the order that the pass gave.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.schedule.depth_first import depth_first_order
from edgemem.schedule.order import find_order
from edgemem.schedule.peak import peak_of
from edgemem.schedule.problem import order_problem
from tests.bench.below.page import put, table
from tests.bench.order import subjects
from tests.bench.order.baselines import breadth_first
from tests.bench.serving.checks import Checks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.schedule.ordering import Ordering
    from tests.bench.order.subjects import Subject

GROUPS = ("sketches", "found", "real", "cut")
COLUMNS = ("graph", "operators", "given", "depth first", "edgemem", "of given", "bound", "gap", "s", "by")
CUT_COLUMNS = ("graph", "operators", "pass", "layer by layer", "edgemem from it", "of the pass", "bound", "gap", "s")
# What was reached before, in KiB.
KNOWN = {"RandWire 64": 1274.0, "RandWire 128": 2746.0, "Inception x4": 487.75, "Inception x9": 487.75}
SLOWEST_S = 30.0  # where a gap is left, and the last method uses up its work
PUBLISHED = ("who", "networks", "published", "edgemem")


class Bench:
    """The runs of one set of options, and their checks.

    Attributes:
        factors: by name of a graph, how many times less the order needs than the given one, and than depth first.
    """

    def __init__(self, method: str, effort: str | None) -> None:
        self.method, self.effort = method, effort
        self.factors: dict[str, tuple[float, float]] = {}
        self.checks = Checks()

    def ordered(self, name: str, subject: Subject) -> Ordering:
        """The order that is found, checked."""
        graph, target = subject
        found = find_order(graph, target, method=self.method, effort=self.effort)
        peak = peak_of(graph.reordered(found.order), target)
        self.checks.holds(f"{name}: peak", peak == found.peak <= found.given_peak, f"{peak:,} of {found.given_peak:,}")
        self.checks.holds(f"{name}: bound", found.lower_bound <= peak, f"{found.lower_bound:,}")
        self.checks.at_most(f"{name}: search", found.seconds, SLOWEST_S, " s")
        return found

    def row(self, name: str, subject: Subject, unit: int = 1) -> list[str]:
        """A line of the table."""
        graph, target = subject
        found = self.ordered(name, subject)
        deep = peak_of(graph.reordered(depth_first_order(order_problem(graph, target))), target)
        self.factors[name] = (found.given_peak / found.peak, deep / found.peak)
        if name in KNOWN and self.method == "auto":
            self.checks.at_most(f"{name}: known", found.peak / 1024, KNOWN[name], " KiB")
        if name == "Inception x9" and self.method == "auto":
            self.checks.holds(f"{name}: optimal in 1 s", found.optimal and found.seconds < 1)
        sizes = [_size(b, unit) for b in (found.given_peak, deep, found.peak)]
        of_given = f"{found.peak / found.given_peak:.3f}"
        return [name, str(len(graph.ops)), *sizes, of_given, *_ending(found, unit), found.method]

    def cut_row(self, name: str, subject: Subject) -> list[str]:
        """A line about a graph that a pass cut: its order is thrown away, and looked for again."""
        graph, target = subject
        given = peak_of(graph, target)
        layers = graph.reordered(breadth_first(order_problem(graph, target)))
        found = self.ordered(name, (layers, target))
        self.checks.at_most(f"{name}: of the pass", found.peak / given, 1)
        self.checks.holds(
            f"{name}: bound of the pass", found.lower_bound <= given, f"{found.lower_bound:,} <= {given:,}"
        )
        sizes = [f"{b:,}" for b in (given, found.given_peak, found.peak)]
        return [name, str(len(graph.ops)), *sizes, f"{found.peak / given:.3f}", *_ending(found, 1)]


def _size(size: int, unit: int) -> str:
    return f"{size:,}" if unit == 1 else f"{size / unit:,.0f}"


def _ending(found: Ordering, unit: int) -> list[str]:
    gap = "optimal" if found.optimal else f"{found.peak / found.lower_bound - 1:.1%}"
    return [_size(found.lower_bound, unit), gap, f"{found.seconds:.2f}"]


def published(bench: Bench) -> list[list[str]]:
    """What others published for such networks, quoted, beside what was found."""
    wired = [f for name, f in bench.factors.items() if name.startswith(("RandWire", "SwiftNet", "DARTS"))]
    cells = [1 - 1 / f[1] for name, f in bench.factors.items() if name in subjects.FOUND]
    given, deep = (geometric_mean([f[k] for f in wired]) for k in (0, 1))
    return [
        [
            "Serenity (Ahn et al. 2020)",
            "cells of DARTS, SwiftNet and RandWire",
            "1.68x less than TensorFlow Lite, in less than a minute",
            f"{given:.2f}x less than the given order, {deep:.2f}x less than depth first, whole networks",
        ],
        [
            "HMCOS (Wang et al. 2022)",
            "NASNet-A, AmoebaNet-A, DARTS and others",
            "8.7 to 42.4 % less, against reverse post-order and Serenity",
            f"{min(cells):.1%} to {max(cells):.1%} less than depth first",
        ],
    ]


def real_rows(bench: Bench, all_of_them: Iterable[tuple[str, Subject]]) -> tuple[list[list[str]], str]:
    """The rows of models whose peak falls or whose order is not proved optimal, and a line about all of them."""
    rows, counted, optimal, better = [], 0, 0, 0
    for name, subject in all_of_them:
        row = bench.row(name, subject)
        counted += 1
        is_optimal, is_better = row[-3] == "optimal", row[2] != row[4]
        optimal += is_optimal
        better += is_better
        if is_better or not is_optimal:
            rows.append(row)
    rows.sort(key=lambda row: float(row[5]))
    about = f"Of {counted} models {better} need less in another order, and {optimal} orders are proved optimal."
    return rows, f"{about} Models whose given order is proved optimal are left out of the table."


def main() -> None:
    """Print the checks and the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=list(GROUPS), metavar="GROUP")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--effort", choices=("fast", "default", "max"))
    parser.add_argument("--exports", type=Path, metavar="DIR", help="a folder with .onnx files, for the group real")
    parser.add_argument("--page", metavar="FILE.md", help="put the tables into the page, between their marks")
    args = parser.parse_args()
    bench = Bench(args.method, args.effort)
    if "sketches" in args.groups:
        rows = [bench.row(name, (make(), subjects.MICRO), 1024) for name, make in subjects.SKETCHES.items()]
        put(args.page, "sketches", f"int8, sizes in KiB.\n\n{table(COLUMNS, rows)}")
    if "found" in args.groups:
        rows = [bench.row(name, (make(), subjects.MICRO), 1024) for name, make in subjects.FOUND.items()]
        put(args.page, "found", f"float32, sizes in KiB.\n\n{table(COLUMNS, rows)}")
        put(args.page, "published, inference", table(PUBLISHED, published(bench)))
    if "real" in args.groups:
        models = [*subjects.built(), *subjects.real(), *(subjects.exported(args.exports) if args.exports else ())]
        rows, about = real_rows(bench, models)
        put(args.page, "real", f"{about} Sizes in bytes.\n\n{table(COLUMNS, rows)}")
    if "cut" in args.groups:
        rows = [bench.cut_row(name, make()) for name, make in subjects.CUT.items()]
        put(args.page, "cut", f"Sizes in bytes.\n\n{table(CUT_COLUMNS, rows)}")
    bench.checks.end()


if __name__ == "__main__":
    main()
