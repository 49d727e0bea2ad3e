"""What opening a planned model takes, against ONNX Runtime as it is: peak memory and processor time.

python tests/bench/serving/opening.py [--rounds 9] [--quick] [NAME ...]

NAME is a reference network, a model of the catalogue or an .onnx file; without one all of both catalogues are measured.
Every figure comes from a process of its own (opening_child.py) that has imported numpy and onnxruntime. Both ways open
the same file, with the plan of a recording, in turn. The peak is of the whole process. ONNX Runtime's
own peak depends on where its blocks happen to lie: equal processes of ResNet-18 peak at 187 or at 207 MiB, both ways,
as the size of their environment has it. That differs from round to round: `quarter` is the peak that a quarter of the
processes exceed, and is compared. `first run` is what reads and proves the plan.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.runtime.onnxruntime.file_recording import add_recording
from tests.bench.serving import subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.children import child_output
from tests.bench.serving.sessions import feeds_for, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

WAYS = ("plain", "planned")
MOST = 1.03
STEP = 977  # bytes by which the environment of a round is larger than that of the round before


def measure(model: Path, rounds: int, bytecode: Path) -> dict[str, dict[str, float]]:
    """The medians of each way by figure, and the peak that a quarter of its processes exceed."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for k in range(rounds + 1):
        os.environ["EDGEMEM_BENCH_PADDING"] = "x" * (k * STEP)
        for way in sorted(WAYS, reverse=bool(k % 2)):
            figures = json.loads(child_output("opening_child.py", model, way, bytecode=bytecode))
            if k:  # the first processes fill the cache of bytecode
                found[way].append(figures)
    medians = {way: {name: median(row[name] for row in rows) for name in rows[0]} for way, rows in found.items()}
    return {way: {**row, "quarter": quarter(row["peak"] for row in found[way])} for way, row in medians.items()}


def quarter(values: Iterable[float]) -> float:
    """The value that a quarter of all exceed."""
    ordered = sorted(values)
    return ordered[3 * len(ordered) // 4]


def main() -> None:
    """Print a row for each model, and what holds."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    checks = Checks()
    print("| model | peak, MiB: median | | quarter | | import + open, ms of processor time | | first run, ms | |")
    print("|---|" + "---:|" * 8)
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        os.environ["EDGEMEM_CACHE"] = str(Path(folder, "cache"))
        ratios = {}
        for name in args.name or (("mobilenet_v2",) if args.quick else subjects.catalogue_names()):
            path = subjects.subject(name, Path(folder), small=args.quick)
            add_recording(path, feeds_for(plain(path)), threads=1)
            a, b = measure(path, 1 if args.quick else args.rounds, Path(folder)).values()
            ratios[name] = b["quarter"] / a["quarter"]
            cells = []
            for key in ("peak", "quarter"):
                cells += [f"{a[key] / 2**20:.1f} → {b[key] / 2**20:.1f}", f"{b[key] / a[key]:.3f}x"]
            for keys in (("import_s", "open_s"), ("run_s",)):
                before, after = (1e3 * sum(row[key] for key in keys) for row in (a, b))
                cells += [f"{before:.0f} → {after:.0f}", f"{after - before:+.0f}"]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
            path.unlink()
        for name, ratio in ratios.items():
            checks.at_most(f"{name}: peak / ONNX Runtime's", ratio, MOST)
    checks.end()


if __name__ == "__main__":
    main()
