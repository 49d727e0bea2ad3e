"""Tiled ONNX models in ONNX Runtime sessions: memory, arithmetic and latency beside the models they were made from.

    python tests/bench/below/tile_onnx.py [NETWORK...] [--max-macs 1.12] [--threads 1] [--runs 30]

`default` is what ONNX Runtime's own arena holds for the original model; `bound` what no plan of it goes below with its
tensors side by side; `planned` the plan of the tensors of the tiled one; `session` the arena that a session of it runs
in, with the workspace of kernels. Latency is that of the tiled session over a stock session of the original at the same
level (extended), both in turn in one process; the last column compares with stock sessions at their default level.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from edgemem import api
from edgemem.commands.measure import measure
from edgemem.commands.prepare import prepare
from edgemem.commands.price import price_of
from edgemem.commands.record import add_recording
from edgemem.formats import Bindings, Model
from edgemem.runtime.onnxruntime.session import InferenceSession
from models.build import build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NETWORKS = ("mobilenet_v2", "resnet18", "unet")
INPUTS = 3
MIB = 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measures tiled ONNX models in ONNX Runtime sessions.")
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="networks of models/build.py")
    parser.add_argument("--max-macs", default="1.12")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=30)
    args = parser.parse_args(arguments)
    columns = (
        "default",
        "bound",
        "planned",
        "session",
        "below",
        "MACs",
        "ops",
        "file",
        "chosen",
        "exact",
        "lat.",
        "/all",
    )
    print(f"{'network':14}" + "".join(f"{c:>9}" for c in columns))
    for name in args.networks or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            row = _row(name, Path(folder), args.max_macs, args.threads, args.runs)
        print(f"{name:14}" + "".join(f"{value:>9}" for value in row), flush=True)
    return 0


def _row(name: str, folder: Path, max_macs: str, threads: int, runs: int) -> list[str]:
    original, tiled = folder / f"{name}.onnx", folder / "tiled.onnx"
    original.write_bytes(build(name).SerializeToString(deterministic=True))
    options = {"stages": "auto", "max_macs": max_macs, "threads": str(threads)}
    began = time.perf_counter()
    prepared = prepare(original, folder, {"tile": options})
    chosen = time.perf_counter() - began
    model, before = prepared.model, prepared.original
    assert isinstance(model, Model)
    assert before is not None
    assert prepared.target is not None
    planset = api.plan(model, target=prepared.target)
    api.save(model, planset, tiled)
    add_recording(tiled, bindings=Bindings(), threads=threads)
    price = price_of(before, model, prepared.target)
    default = measure(original, configurations=("default",), threads=threads, repeats=1, rounds=1)[0].activation
    with InferenceSession(str(tiled), _options(threads), cache=False) as session:
        stock = {level: _stock(original, level, threads) for level in ("EXTENDED", "ALL")}
        feeds = [_feeds(session, seed) for seed in range(INPUTS)]
        exact = all(_same(stock["EXTENDED"].run(None, f), session.run(None, f)) for f in feeds)
        ratios = _ratios([stock["EXTENDED"].run, stock["ALL"].run, session.run], feeds[0], runs)
        report = session.memory_report
    best = planset.best_offsets
    sizes = (default or 0, price.bound, best.size if best else 0, report.planned)
    assert not report.reason, report.reason
    return [
        *(f"{size / MIB:.3f}" for size in sizes),
        f"x{report.planned / (default or 1):.3f}",
        *(f"x{after / first:.3f}" for first, after in (price.macs, price.operators, price.file)),
        f"{chosen:.1f} s",
        "yes" if exact else "NO",
        *(f"x{r:.2f}" for r in ratios),
    ]


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return options


def _stock(path: Path, level: str, threads: int) -> Any:
    options = _options(threads)
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _feeds(session: Any, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()}


def _same(here: Sequence[Any], there: Sequence[Any]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(here, there, strict=True))


def _ratios(run: Sequence[Callable[..., Any]], feeds: dict[str, Any], runs: int) -> tuple[float, float]:
    """The last one's median time over that of each other."""
    times: list[list[float]] = [[] for _ in run]
    for _ in range(runs):
        for one, into in zip(run, times, strict=True):
            began = time.perf_counter()
            one(None, feeds)
            into.append(time.perf_counter() - began)
    extended, default, tiled = (median(t) for t in times)
    return tiled / extended, tiled / default


if __name__ == "__main__":
    sys.exit(main())
