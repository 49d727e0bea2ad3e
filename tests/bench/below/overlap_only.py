"""Plans whose results may overlap inputs, on every model of the catalogue: the lower bound, the plan and the time.

    python tests/bench/below/overlap_only.py [NETWORK ...] [--page docs/below-the-bound.md]

`classical` is the lower bound where all tensors in use are disjoint, which plans without overlaps meet. `stock` and
`measured` are heads that TensorFlow Lite Micro reports, for the file as it came (with plain constants) and for the
planned one; `-` where it cannot run the model. `ms` is the search alone, without reading the file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import mean

sys.path.append(str(Path(__file__).resolve().parents[3]))

import edgemem
from tests.bench.below import micro
from tests.bench.below.page import measured_with, put, table
from tests.bench.below.shrunk import folded, shrink
from tests.bench.below.subjects import arguments, each_in_a_folder, real_names, source
from tests.bench.serving.checks import Checks
from tests.tflite_models import up16

PROFILE = "tflm-reference"
SLOWEST_MS = 50.0
LEAST_REDUCTION = 0.2
COLUMNS = ("network", "classical", "bound", "planned", "of classical", "ms", "stock", "measured", "of stock")


def row(name: str, folder: Path, checks: Checks) -> tuple[list[str], float | None]:
    """A line of the table, and by how much the head falls in TensorFlow Lite Micro; None where it does not run."""
    path = folded(source(name, folder), folder)
    made = shrink(path, folder, target="tflm", kernels=PROFILE)
    begin = time.perf_counter()
    searched = edgemem.plan(made.planset.problem, strategy="offsets/search").best_offsets
    took_ms = (time.perf_counter() - begin) * 1e3
    assert searched is not None
    planned = min(made.planned, searched.size)
    checks.holds(f"{name}: meets its bound", planned == made.bound, f"{planned:,} of {made.bound:,}")
    checks.at_most(f"{name}: search", took_ms, SLOWEST_MS, " ms")
    cells = [name, f"{made.classical:,}", f"{made.bound:,}", f"{planned:,}", f"{planned / made.classical:.3f}"]
    cells.append(f"{took_ms:.1f}")
    stock = micro.run(path)
    if stock.failed:
        return [*cells, "-", "-", "-"], None
    ran = micro.run(made.path)
    checks.holds(f"{name}: planned = measured", ran.head == up16(made.planned), f"{made.planned:,} = {ran.head:,}")
    checks.holds(f"{name}: bit-identical", ran.digests == stock.digests and not ran.failed, ran.failed)
    ratio = ran.head / stock.head
    return [*cells, f"{stock.head:,}", f"{ran.head:,}", f"{ratio:.3f}"], 1 - ratio


def main() -> None:
    """Print the checks and the table."""
    args = arguments(__doc__, real_names()).parse_args()
    checks = Checks()
    made = each_in_a_folder(args.names, lambda name, folder: row(name, folder, checks))
    saved = [reduction for _, reduction in made if reduction is not None]
    if saved:
        checks.at_least("mean reduction of the head where TensorFlow Lite Micro runs", mean(saved), LEAST_REDUCTION)
    text = f"{measured_with('tflite-micro')} Sizes in bytes.\n\n{table(COLUMNS, [cells for cells, _ in made])}"
    if saved:
        text += f"\n\nThe head falls by {mean(saved):.1%} on average over {len(saved)} models."
    put(args.page, "overlap_only", text)
    checks.end()


if __name__ == "__main__":
    main()
