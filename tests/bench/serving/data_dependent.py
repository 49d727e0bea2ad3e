"""Models whose sizes depend on the data, on varied inputs: time and memory against ONNX Runtime.

python tests/bench/serving/data_dependent.py [--models FOLDER] [--requests 200] [--threads 1] [--quick] [NAME ...]

The built models are a detector in two stages (NMS, RoiAlign, NonZero), whose images are of several sizes, and a network
with a NonZero at its end. The sessions take turns with every request, and results are compared bit for bit.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

import numpy as np

from tests.bench.serving import served, sessions, subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.detectors import detector, nonzero_tail

NAMES = ("fasterrcnn", "ssdlite320")
SIDES = (128, 160, 192, 224)  # of images whose size is open


def varied_requests(path: Path, requests: int) -> list[str]:
    """The requests: other values each time, and other sizes where they are open."""
    entries = sessions.plain(path).get_inputs()
    symbols = [d for entry in entries for d in entry.shape if isinstance(d, str)]
    rng = np.random.default_rng(0)
    return [",".join((str(k), *(f"{name}={rng.choice(SIDES)}" for name in symbols))) for k in range(requests)]


def main() -> None:
    """Print a paragraph a model."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        work, width = Path(folder), 8 if args.quick else 32
        files = {"detector": detector(work / "detector.onnx", width=width)}
        files["nonzero_tail"] = nonzero_tail(work / "nonzero_tail.onnx", width=width)
        if args.models is not None:
            files |= subjects.exported(args.models, args.name or NAMES)
        for name, path in files.items():
            requests = varied_requests(path, served.WARM + 10 if args.quick else args.requests)
            served.compare_times(name, path, requests, args.threads, checks)
            served.compare_memory(name, path, requests, args.threads, "plain", checks)
    checks.end()


if __name__ == "__main__":
    main()
