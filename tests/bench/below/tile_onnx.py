"""Tiled ONNX models in ONNX Runtime sessions: memory, arithmetic, time and outputs beside the default session.

    python tests/bench/below/tile_onnx.py [NETWORK|FILE.onnx...] [--max-macs 1.15] [--threads 1] [--page PAGE.md]

`default` is what ONNX Runtime's own arena holds for the original model; `bound` what no plan of it goes below with its
tensors side by side; `session` the arena that a session of the tiled file runs in, with the workspace of kernels, as it
was measured. Time is processor time on one thread, of both sessions in turn in one process, the least of several runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime

sys.path.append(str(Path(__file__).resolve().parents[3]))

import edgemem
from edgemem.commands.measure import measure
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.onnxruntime.session import InferenceSession
from models.build import build
from tests.bench.below.page import measured_with, put, table

if TYPE_CHECKING:
    from collections.abc import Sequence

NETWORKS = ("mobilenet_v2", "resnet18", "unet")
COLUMNS = ("network", "default", "bound", "session, tiled", "arithmetic", "time", "outputs")
MIB = 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measures tiled ONNX models in ONNX Runtime sessions.")
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="networks of models/build.py, or .onnx files")
    parser.add_argument("--max-macs", default="1.15")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--page", help="put the table into this page")
    args = parser.parse_args(arguments)
    rows = []
    for name in args.networks or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_row(name, Path(folder), args.max_macs, args.threads))
        print(" | ".join(rows[-1]), flush=True)
    put(args.page, "tiles", f"{measured_with('onnxruntime')}\n\n{table(COLUMNS, rows)}")
    return 0


def _row(name: str, folder: Path, max_macs: str, threads: int) -> list[str]:
    original, tiled = folder / f"{Path(name).stem}.onnx", folder / "tiled.onnx"
    is_file = name.endswith(".onnx")
    original.write_bytes(Path(name).read_bytes() if is_file else build(name).SerializeToString(deterministic=True))
    made = edgemem.shrink(original, max_macs=float(max_macs), allow=["optimize", "tile"])
    made.save(tiled)
    default = measure(original, configurations=("default",), threads=threads, repeats=1, rounds=1)[0].activation
    with InferenceSession(str(tiled), _options(threads), cache=False) as session:
        forms = {i.name: ("float32", i.shape) for i in session.get_inputs()}
        session.run(None, make_feeds(forms))
        report = session.memory_report
    assert not report.reason, report.reason
    chosen = made.chosen
    return [
        original.stem,
        *(f"{size / MIB:.2f} MiB" for size in (default or 0, _bound(original), report.planned)),
        f"{chosen.macs:.3f}x",
        f"{chosen.latency or 0:.2f}x",
        chosen.outputs,
    ]


def _bound(path: Path) -> int:
    return edgemem.plan(path).bounds.offsets


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return options


if __name__ == "__main__":
    sys.exit(main())
