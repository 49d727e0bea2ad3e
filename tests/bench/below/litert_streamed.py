"""Streamed files in LiteRT: its arena, and the memory of processes.

    python tests/bench/below/litert_streamed.py [NETWORK ...] [--page docs/below-the-bound.md]

Files are streamed for LiteRT's builtin kernels, without overlaps, which these kernels do not allow: for the smallest
arena (`--target litert --stream head`), and for the memory of processes with fewer operators (`--stream auto`). Each
runs three random inputs and the first one again, and has to give the outputs of the file as it came, bit for bit.
Process memory and latency are those of `edgemem measure --against`: anonymous memory in all, and without what an
interpreter takes for operators and tensors before it allocates any (`tensors`).
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from ai_edge_litert.interpreter import OpResolverType

from edgemem.commands.measure_tflite import measure_tflite
from edgemem.errors import EdgememError
from edgemem.runtime.litert.interpreter import Interpreter
from edgemem.targets import BUILT_IN
from tests.bench.below.page import measured_with, put, table
from tests.bench.below.shrunk import folded, shrink
from tests.bench.below.subjects import arguments, each_in_a_folder, source
from tests.bench.serving.checks import Checks
from tests.litert_inputs import random_inputs

NAMES = (
    *("mobilenet_v2_1.00_224", "mobilenet_v2_1.00_144_int8", "mp_hand_landmark_full", "mp_pose_detection"),
    "mp_face_detection_short",
)
LARGEST_RATIO = {"mobilenet_v2_1.00_224": 0.35, "mp_hand_landmark_full": 0.38}
KERNELS = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
ARENA_COLUMNS = ("network", "LiteRT", "streamed, LiteRT", "of LiteRT")
MEMORY_COLUMNS = (
    *("network", "LiteRT", "streamed", "ratio", "tensors: LiteRT", "streamed", "ratio", "latency"),
    *("XNNPACK: ratio", "latency"),
)


def outputs(path: Path) -> tuple[list[str], int]:
    """Digests of the outputs, one a run, and LiteRT's arena."""
    interpreter = Interpreter(model_path=str(path), experimental_op_resolver_type=KERNELS, num_threads=1)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    digests = []
    for seed in (0, 1, 2, 0):
        for entry, value in zip(details, random_inputs(details, seed), strict=True):
            interpreter.set_tensor(entry["index"], value)
        interpreter.invoke()
        sha = hashlib.sha256()
        for entry in interpreter.get_output_details():
            sha.update(interpreter.get_tensor(entry["index"]).tobytes())
        digests.append(sha.hexdigest())
    return digests, interpreter.memory.reserved


def rows(name: str, folder: Path, checks: Checks) -> tuple[list[str], list[str]]:
    """A line of each table."""
    path = folded(source(name, folder), folder)
    wanted, stock_arena = outputs(path)
    arenas: list[int] = []
    files: list[Path] = []
    for stages in ("head", "auto"):
        try:
            made = shrink(path, folder, target=BUILT_IN["litert"], stages=stages)
        except EdgememError as e:
            checks.holds(f"{name}: is streamed", False, str(e))
            return [name, *["-"] * (len(ARENA_COLUMNS) - 1)], [name, *["-"] * (len(MEMORY_COLUMNS) - 1)]
        files.append(made.path)
        what = f"{name}, --stream {stages}"
        found, arena = outputs(made.path)
        checks.holds(f"{what}: LiteRT gives the same", found == wanted)
        arenas.append(arena)
        checks.holds(f"{what}: planned = run", arena == made.planned, f"{made.planned:,} = {arena:,}")
    measured = measure_tflite(files[1], against=path, configurations=("litert", "xnnpack"), repeats=5, rounds=3)
    streamed, delegated, stock = measured[:3]
    if name in LARGEST_RATIO:
        checks.at_most(f"{name}: arena of LiteRT's", arenas[0] / stock_arena, LARGEST_RATIO[name])
    checks.holds(f"{name}: the same in all processes", all(r.exact for r in measured[:2]))
    first = [name, f"{stock_arena:,}", f"{arenas[0]:,}", f"{arenas[0] / stock_arena:.3f}"]
    second = [name]
    for sizes in (
        [stock.anonymous or 1, streamed.anonymous or 0],
        [(stock.anonymous or 1) - (stock.made or 0), (streamed.anonymous or 0) - (streamed.made or 0)],
    ):
        second += [f"{size // 1024:,}" for size in sizes] + [f"{sizes[1] / sizes[0]:.2f}"]
    second.append(f"{(streamed.latency_ms or 0) / (stock.latency_ms or 1):.2f}x")
    ratio = delegated.latency_ratio
    second += [f"{delegated.anonymous_ratio or 0:.2f}", f"{ratio.low:.2f}-{ratio.high:.2f}x" if ratio else "-"]
    return first, second


def main() -> None:
    """Print the checks and the tables."""
    args = arguments(__doc__, NAMES).parse_args()
    checks = Checks()
    made = each_in_a_folder(args.names, lambda name, folder: rows(name, folder, checks))
    about = measured_with("ai-edge-litert")
    put(args.page, "litert_arenas", f"{about} Sizes in bytes.\n\n{table(ARENA_COLUMNS, [a for a, _ in made])}")
    put(args.page, "litert_memory", f"{about} Sizes in KiB.\n\n{table(MEMORY_COLUMNS, [m for _, m in made])}")
    checks.end()


if __name__ == "__main__":
    main()
