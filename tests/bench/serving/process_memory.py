"""Resident memory of a process that serves a model: ONNX Runtime as it is, tuned by hand, and planned sessions.

python tests/bench/serving/process_memory.py [--models FOLDER] [--threads 1 8] [--rounds 3] [--quick] [NAME ...]

Every figure comes from a process of its own (process_memory_child.py) that imports numpy and onnxruntime, makes a
session as the documentation does, and runs it. RSS is read after a garbage collection: before the session (and before
`import edgemem`), and after 1, 3 and 20 runs. The ways take turns; figures are medians over the rounds, in MiB, as
growth since before the session, and the total after the last run. `trimmed` is ONNX Runtime with a malloc_trim(0) after
loading. `stored` finds its plan in the cache.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.bench.serving import subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.children import child_output

NAMES = ("densenet121", "mobilevit_s", "convnext_tiny", "swin_t", "hrnet_w18", "gpt2-T128")
BUILT = ("mobilenet_v2", "resnet50", "unet", "transformer")
READ_AFTER = (1, 3, 20)
MOST_AT_LOAD = 1.03
WAYS = ("plain", "trimmed", "tuned", "first", "stored")


def measure(path: Path, threads: int, rounds: int, folder: Path) -> dict[str, dict[str, Any]]:
    """Medians by way and figure."""
    stored = folder / "stored"
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    _child(path, threads, "first", stored)
    for k in range(rounds):
        for way in WAYS:
            cache = stored if way == "stored" else folder / f"first{k}"
            runs[way].append(_child(path, threads, way, cache))
    return {
        way: {key: median(r[key] for r in rows) if key != "mode" else rows[-1][key] for key in rows[0]}
        for way, rows in runs.items()
    }


def _child(path: Path, threads: int, way: str, cache: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in child_output("process_memory_child.py", path, threads, way, cache).splitlines():
        key, _, value = line.partition("=")
        found[key] = value if key == "mode" else float(value)
    return found


def show(name: str, threads: int, rows: dict[str, dict[str, Any]], checks: Checks) -> None:
    """The table of one model, and its checks."""
    print(f"\n{name}, {threads} thread{'s' if threads > 1 else ''}: MiB")
    titles = ("loaded", "1 run", "3 runs", "20 runs", "peak", "total", "load ms", "run 1 ms")
    print(" " * 8 + "".join(f"{title:>9}" for title in titles))
    for way, row in rows.items():
        sizes = [row[key] / 2**20 for key in ("loaded", *map(str, READ_AFTER), "peak", "total")]
        times = [row["load_s"] * 1e3, row["first_s"] * 1e3]
        print(f"{way:8} " + " ".join(f"{v:8.1f}" for v in (*sizes, *times)) + f"  {row.get('mode', '')}")
    for way in ("first", "stored"):
        ratio = rows[way]["load_peak"] / rows["plain"]["load_peak"]
        checks.at_most(f"{name}, {threads} threads, {way} / plain, the process's peak at load", ratio, MOST_AT_LOAD)
    for mine, other in (("first", "plain"), ("stored", "tuned")):
        worst = max(READ_AFTER, key=lambda k: rows[mine][str(k)] / rows[other][str(k)])
        ratio = rows[mine][str(worst)] / rows[other][str(worst)]
        checks.at_most(f"{name}, {threads} threads, {mine} / {other}, growth after {worst} runs", ratio, 1.0)


def main() -> None:
    """Print the tables."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        work = Path(folder)
        if args.models is not None:
            files = subjects.exported(args.models, args.name or NAMES)
        else:
            names = args.name or (BUILT[:1] if args.quick else BUILT)
            files = {name: subjects.built(name, work, small=args.quick) for name in names}
        for name, path in files.items():
            for threads in args.threads[: 1 if args.quick else None]:
                part = work / f"{name}-{threads}"
                part.mkdir()
                show(name, threads, measure(path, threads, 1 if args.quick else args.rounds, part), checks)
    checks.end()


if __name__ == "__main__":
    main()
