"""Resident memory of a process that serves a model: ONNX Runtime as it is, tuned by hand, and planned sessions.

python tests/bench/serving/process_memory.py [--models FOLDER] [--threads 1 8] [--rounds 3] [--quick] [NAME ...]

The figures are those of `edgemem measure` after 20 runs, in MiB. Checked is that a session of edgemem peaks at load no
higher than ONNX Runtime's, that one which records takes no more than ONNX Runtime as it is, and one that has its plan
no more than ONNX Runtime tuned by hand.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.commands.measure import measure
from tests.bench.serving import subjects
from tests.bench.serving.checks import Checks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.commands.measure import MeasureRow

NAMES = ("densenet121", "mobilevit_s", "convnext_tiny", "swin_t", "hrnet_w18", "gpt2-T128")
BUILT = ("mobilenet_v2", "resnet50", "unet", "transformer")
TIMED = 17  # runs, after three others
MOST_AT_LOAD = 1.03
CONFIGURATIONS = ("default", "trimmed", "tuned", "recording", "edgemem")


def show(name: str, threads: int, rows: Sequence[MeasureRow], checks: Checks) -> None:
    """The table of one model, and its checks."""
    print(f"\n{name}, {threads} thread{'s' if threads > 1 else ''}: MiB")
    print(f"{'':10}" + "".join(f"{title:>11}" for title in ("at load", "resident", "anonymous", "peak")))
    for row in rows:
        sizes = (row.load_peak, row.resident, row.anonymous, row.peak)
        print(f"{row.configuration:10}" + "".join(f"{(size or 0) / 2**20:11.1f}" for size in sizes))
    of = {row.configuration: row for row in rows}
    at = f"{name}, {threads} threads"
    for mine, other in (("recording", "default"), ("edgemem", "tuned")):
        load = _ratio(of[mine].load_peak, of["default"].load_peak)
        checks.at_most(f"{at}, {mine} / default, peak at load", load, MOST_AT_LOAD)
        checks.at_most(f"{at}, {mine} / {other}, resident", _ratio(of[mine].resident, of[other].resident), 1.0)


def _ratio(size: int | None, other: int | None) -> float:
    return size / other if size and other else float("nan")


def main() -> None:
    """Print the tables."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        if args.models is not None:
            files = subjects.exported(args.models, args.name or NAMES)
        else:
            names = args.name or (BUILT[:1] if args.quick else BUILT)
            files = {name: subjects.built(name, Path(folder), small=args.quick) for name in names}
        for name, path in files.items():
            for threads in args.threads[: 1 if args.quick else None]:
                rounds = 1 if args.quick else args.rounds
                rows = measure(path, threads=threads, rounds=rounds, repeats=TIMED, configurations=CONFIGURATIONS)
                show(name, threads, rows, checks)
    checks.end()


if __name__ == "__main__":
    main()
