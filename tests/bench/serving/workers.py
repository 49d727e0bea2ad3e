"""The memory of four workers of a server after many requests of mixed batch sizes, as Markdown (docs/server.md).

python tests/bench/serving/workers.py [--models FOLDER] [--requests 2000] [--batch 1..4] [--quick] [NAME ...]

Each worker is a process of `edgemem measure`, which serves so many requests and is read while all four are there. The
last row of a model is edgemem with `plan --weights mapped`. Exported models must leave the dimension `batch` open.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.commands.measure import MeasureRow, measure
from edgemem.runtime.onnxruntime.weights.packed_files import pack_beside
from tests.bench.serving import subjects

WORKERS = 4
WARM = 3  # requests of `measure` before those that it is asked for
CONFIGURATIONS = ("default", "tuned", "trimmed", "edgemem")


def mib(size: int | None) -> str:
    """A cell of the table."""
    return "-" if size is None else f"{size / 2**20:.0f}"


def main() -> None:
    """Print the table."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*", default=["transformer", "mobilenet_v2", "resnet18"])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--batch", default="1..4")
    args = parser.parse_args()
    first, _, last = args.batch.partition("..")
    repeats = 2 if args.quick else args.requests - WARM
    print("| MiB | | resident | anonymous | all four | peak at load |")
    print("|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        files = subjects.exported(args.models, args.name) or {
            name: subjects.built(name, Path(folder), batch="batch", small=args.quick) for name in args.name
        }
        for name, path in files.items():
            vary = {"batch": (int(first), int(last or first))}
            served = partial(measure, vary=vary, repeats=repeats, rounds=1, processes=WORKERS, timeout_s=3600)
            for configuration in CONFIGURATIONS:
                show(name, configuration, *served(path, configurations=(configuration,)))
            with tempfile.TemporaryDirectory(prefix="edgemem-") as other:
                copy = Path(shutil.copytree(path.parent, other, dirs_exist_ok=True)) / path.name
                pack_beside(copy)
                show(name, "edgemem, weights mapped", *served(copy, configurations=("edgemem",)))


def show(name: str, configuration: str, row: MeasureRow) -> None:
    """Print a row of the table."""
    sizes = (row.resident, row.anonymous, row.proportional, row.load_peak)
    print(f"| {name} | {configuration} | {' | '.join(map(mib, sizes))} | {row.unavailable}", flush=True)


if __name__ == "__main__":
    main()
