"""What `edgemem size` says a server's processes will take, against what they take.

python tests/bench/serving/predicted.py [--models FOLDER] [--processes 4] [--batches 1 8] [--quick] [NAME ...]

The prediction is made from processes that open the model and run it at the smallest batch. Then the model is planned
for every batch, and `edgemem measure` runs as many processes of it at once, three warm runs and some more each. Printed
are MiB, predicted / measured: a process's resident memory while its last results are there, all of them together (the
sum of their proportional memory), and the peak while the session is opened. Exported models are predicted and measured
at the sizes that their files have. No other program may use the same Python, libraries or C library meanwhile:
processes share their pages, and each counts less then (copies of them, and LD_LIBRARY_PATH, keep them apart).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.commands.measure import measure
from edgemem.commands.process_size import process_size
from edgemem.formats import Bindings
from models.build import names
from tests.bench.serving import subjects
from tests.bench.serving.checks import Checks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT_RATIO = 0.05
RUNS = 5


def compare(name: str, path: Path, choices: Sequence[Mapping[str, int]], processes: int, checks: Checks) -> None:
    """A line for every choice of sizes, and its checks."""
    size = process_size(path, choices, processes=processes)
    for point in size.points:
        bindings = Bindings(dict(point.dims))
        planned = path.with_name(f"planned-{path.name}")
        # In a process of its own: pages of libraries that this one had would count as shared with it.
        options = (*bindings.options, "--record", "-o", str(planned))
        command = (sys.executable, "-m", "edgemem", "plan", str(path), *options)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (row,) = measure(
            planned,
            vary={dim: (value, value) for dim, value in point.dims.items()},  # the session leaves them open
            configurations=("edgemem",),
            processes=processes,
            repeats=RUNS,
            rounds=1,
        )
        planned.unlink()
        at = " ".join((name, *(f"{dim}={value}" for dim, value in point.dims.items())))
        if row.resident is None or row.proportional is None or row.load_peak is None:
            checks.holds(f"{at} is measured", is_met=False, detail=row.unavailable)
            continue
        pairs = (
            (point.resident, row.resident),
            (point.together(processes), row.proportional),
            (size.load_peak, row.load_peak),
        )
        print(f"| {at} | " + " | ".join(f"{a / 2**20:.1f} / {b / 2**20:.1f}" for a, b in pairs) + " |", flush=True)
        checks.at_most(f"{at}, largest error", max(abs(a / b - 1) for a, b in pairs), LIMIT_RATIO)


def main() -> None:
    """Print the comparison."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        if args.models is not None:
            for name, path in subjects.exported(args.models, args.name).items():
                compare(name, path, ({},), args.processes, checks)
        else:
            for name in args.name or (names()[:1] if args.quick else names()):
                path = subjects.built(name, Path(folder), batch="batch", small=args.quick)
                more = {"T": 32} if name == "dynamic" else {}
                choices = [{"batch": value, **more} for value in args.batches]
                compare(name, path, choices, args.processes, checks)
                path.unlink()
    checks.end()


if __name__ == "__main__":
    main()
