"""The memory of four workers of a server after many requests of mixed batch sizes, as Markdown (docs/server.md).

python tests/bench/serving/workers.py [--models FOLDER] [--requests 2000] [--batch 1..4] [--quick] [NAME ...]

Each worker is a process of `edgemem measure`, which serves so many requests and is read while all four are there; first
once more after 20 requests. The last row of a model is edgemem with `plan --weights mapped`. Exported models must leave
the dimension `batch` open.
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
FEW = 20
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
    many = FEW + 1 if args.quick else args.requests
    print(f"| MiB | | resident after {FEW} | resident after {many:,} | anonymous | all four | peak at load |")
    print("|---|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        files = subjects.exported(args.models, args.name) or {
            name: subjects.built(name, Path(folder), batch="batch", small=args.quick) for name in args.name
        }
        for name, path in files.items():
            vary = {"batch": (int(first), int(last or first))}
            served = partial(measure, vary=vary, rounds=1, processes=WORKERS, timeout_s=3600)
            for configuration in CONFIGURATIONS:
                one = partial(served, path, configurations=(configuration,))
                show(name, configuration, *(one(repeats=count - WARM)[0] for count in (FEW, many)))
            with tempfile.TemporaryDirectory(prefix="edgemem-") as other:
                copy = Path(shutil.copytree(path.parent, other, dirs_exist_ok=True)) / path.name
                pack_beside(copy)
                one = partial(served, copy, configurations=("edgemem",))
                show(name, "edgemem, weights mapped", *(one(repeats=count - WARM)[0] for count in (FEW, many)))


def show(name: str, configuration: str, few: MeasureRow, many: MeasureRow) -> None:
    """Print the row of a configuration after few and after many requests."""
    load_peak = max(few.load_peak or 0, many.load_peak or 0)
    sizes = (few.resident, many.resident, many.anonymous, many.proportional, load_peak)
    print(f"| {name} | {configuration} | {' | '.join(map(mib, sizes))} | {many.unavailable}", flush=True)


if __name__ == "__main__":
    main()
