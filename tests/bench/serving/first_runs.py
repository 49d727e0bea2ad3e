"""What first runs on several threads leave: the growth of a session that makes its plan, against one that finds it.

python tests/bench/serving/first_runs.py [--clients 8] [--orders 3] [--quick] [NAME ...]

Each figure is of a process of its own (first_runs_child.py): threads begin to run one session together, or one after
the other at distances that are drawn, each three times. When no plan is being made any more, each runs once again, and
the resident memory above that of the loaded session is read, and what of it no file backs, which is compared: planning
runs code of libraries, whose pages the system takes back when it needs them. `ready` finds the plan in the cache.
Results of threads that run at once are part of both.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.bench.serving import subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.children import child_output

BUILT = ("mobilenet_v1", "mobilenet_v2", "deeplab_v3", "posenet", "blazeface", "unet", "resnet18", "transformer")
MOST = 1.1


def shown(sizes: list[float]) -> str:
    """The sizes of all orders."""
    return " ".join(f"{size:.1f}" for size in sizes)


def main() -> None:
    """Print a line for each model, and what holds."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--orders", type=int, default=3)
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        work = Path(folder)
        for name in args.name or (BUILT[:1] if args.quick else BUILT):
            path = subjects.built(name, work, small=args.quick)
            first, ready = (
                [
                    child_output("first_runs_child.py", path, work / name / str(order), args.clients, order).split()
                    for order in range(args.orders)
                ]
                for _ in ("first", "ready")  # the first ones fill the caches
            )
            for k, kind in enumerate(("resident", "anonymous")):
                grown, least = ([int(sizes[k]) / 2**20 for sizes in way] for way in (first, ready))
                print(f"{name}: {kind} MiB ready {shown(least)}, first runs {shown(grown)}")
                if kind == "anonymous":
                    checks.at_most(f"{name}: {kind} growth / ready", max(grown) / max(least), MOST)
    checks.end()


if __name__ == "__main__":
    main()
