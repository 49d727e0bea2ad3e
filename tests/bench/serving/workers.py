"""The memory of four workers of a server after many requests of growing variety, as Markdown (docs/server.md).

python tests/bench/serving/workers.py [--models FOLDER] [--requests 2000] [--batch 4] [--quick] [NAME ...]

Each worker is a process (workers_child.py) that serves so many requests. Their batches are drawn from 1 to a largest
one, which grows until it is `--batch`: at the beginning, and after 1, 10 and 50 % of the requests. There, and at the
end, all four workers stop and are read. The last row of a model is edgemem with `plan --weights mapped`. Sessions of
edgemem begin with the plans of a worker before them that has served each batch. Exported models must leave the
dimension `batch`, and no other, open.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.bench.serving import subjects
from tests.bench.serving.children import HERE, child_output, environment

WORKERS = 4
STOPS = (0.01, 0.1, 0.5, 1.0)
WAYS = ("default", "tuned", "trimmed", "edgemem")


def drawn_batches(requests: int, largest: int) -> str:
    """The batches of the requests, as workers_child.py reads them."""
    rng = random.Random(0)
    stops = [0, *(max(1, int(requests * share)) for share in STOPS)]
    stages = []
    for k, (begin, end) in enumerate(pairwise(stops)):
        most = max(1, largest * (k + 1) // len(STOPS))
        stages.append(",".join(str(rng.randint(1, most)) for _ in range(end - begin)))
    return ":".join(stages)


def serve(path: Path, way: str, cache: Path, batches: str, count: int = WORKERS) -> list[list[dict[str, int]]]:
    """What each of so many workers says at each stop."""
    command = (sys.executable, str(HERE / "workers_child.py"), str(path), way, str(cache), batches)
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
        for _ in range(count)
    ]
    stops = []
    for _ in batches.split(":"):
        _lines(workers)
        stops.append([json.loads(line) for line in _lines(workers)])
    if any(worker.wait() for worker in workers):
        raise SystemExit(f"a worker of {path.name} failed")
    return stops


def _lines(workers: list[subprocess.Popen[str]]) -> list[str]:
    """A line of each. When all of them are there, the workers go on."""
    lines = []
    for worker in workers:
        assert worker.stdout is not None
        lines.append(worker.stdout.readline())
    if not all(lines):
        raise SystemExit("a worker has ended before the others")
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    return lines


def show(name: str, way: str, stops: list[list[dict[str, int]]]) -> None:
    """Print a row of the table."""
    last = stops[-1]
    sizes = [median(worker["resident"] for worker in stop) for stop in stops]
    sizes += [median(worker["anonymous"] for worker in last), sum(worker["proportional"] for worker in last)]
    sizes.append(max(worker["load_peak"] for worker in last))
    print(f"| {name} | {way} | {' | '.join(f'{size / 2**20:.0f}' for size in sizes)} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*", default=["transformer", "mobilenet_v2", "resnet18"])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=4)
    args = parser.parse_args()
    batches = drawn_batches(100 if args.quick else args.requests, args.batch)
    each = ",".join(str(batch) for batch in range(1, args.batch + 1))
    heads = " | ".join(f"after {share:.0%}" for share in STOPS[:-1])
    print(f"| MiB | | resident {heads} | after all | anonymous | all four | peak at load |")
    print(f"|---|---|{'---:|' * (len(STOPS) + 3)}")
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        cache, plain = Path(folder, "cache"), Path(folder, "plain")
        plain.mkdir()
        files = subjects.exported(args.models, args.name) or {
            name: subjects.built(name, plain, batch="batch", small=args.quick) for name in args.name
        }
        for name, path in files.items():
            packed = Path(shutil.copytree(path.parent, Path(folder, "packed"), dirs_exist_ok=True)) / path.name
            child_output("workers_child.py", packed, "pack", cache, each)
            serve(path, "edgemem", cache, each, 1)
            for way in WAYS:
                show(name, way, serve(path, way, cache, batches))
            show(name, "edgemem, weights mapped", serve(packed, "edgemem", cache, batches))


if __name__ == "__main__":
    main()
