"""What first runs on several threads leave: the growth of a session that makes its plan, against one that finds it.

python tests/bench/serving/first_runs.py [--clients 8] [--orders 3] [--quick] [NAME ...]

Each figure is of a process of its own (first_runs_child.py): threads begin to run one session together, or one after
the other at distances that are drawn, each three times. When no plan is being made any more, each runs once again, and
the resident memory above that of the loaded session is read, and what of it no file backs, which is compared: planning
runs code of libraries, whose pages the system takes back when it needs them. `ready` finds the plan in the cache.
NAME is a model of the catalogue or an .onnx file. Its results are reduced to a number each, because chance has it how
many are alive at once: of DeepLab, 5.3 MiB each.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

import onnx
from onnx import helper

from tests.bench.serving import subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.children import child_output

MOST = 1.1


def reduce_results(path: Path) -> None:
    """Let a model give the largest number of each result, in place of the result."""
    model = onnx.load(path)
    for value in model.graph.output:
        kind, name = value.type.tensor_type.elem_type, value.name
        model.graph.node.append(helper.make_node("ReduceMax", [name], [f"{name}_largest"], keepdims=0))
        value.CopyFrom(helper.make_tensor_value_info(f"{name}_largest", kind, []))
    onnx.save(model, path)


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
        for name in args.name or (("mobilenet_v1",) if args.quick else subjects.catalogue_names()):
            path = subjects.subject(name, work, small=args.quick)
            reduce_results(path)
            caches = work / path.stem
            first, ready = (
                [
                    child_output("first_runs_child.py", path, caches / str(order), args.clients, order).split()
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
