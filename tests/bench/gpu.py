"""What GPUs need for a model under each rule, and how long a run takes inside a plan and without sharing.

    python tests/bench/gpu.py [MODEL ...] [--adapter NAME] [--repeats 7] [--precision fp16]
        [--no-memory] [--no-times] [--process]

Prints Markdown tables: memory, times, and with --process processes. Memory in MiB: no sharing and the lower bound of
buffers, edgemem's offsets in one buffer; of textures TFLite's rules (equality for OpenCL, greedy in order for OpenGL),
edgemem's textures in two dimensions and by linear index, its array of textures, and these three beside greedy in order.
Times are medians of alternated runs, one in which each tensor has memory of its own, one inside the plan; outputs are
compared bit for bit, and what is allocated with what is planned. With --process each kind runs in a process of its own:
how much its memory without files grows says what a software driver really takes. Models come from `models/build.py`
(ONNX, as `--optimize extended` fuses them) and from `models/fetch.py`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

sys.path.append(str(Path(__file__).resolve().parents[2]))

import onnx

import edgemem
from edgemem.cli.texture_view import texture_bytes
from edgemem.commands.run_gpu import GpuOptions, executor_for, feeds_for, open_planned
from edgemem.formats import Bindings
from edgemem.passes.protocol import PassContext
from edgemem.runtime.differences import same
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.webgpu.device import open_device
from edgemem.system.process_memory import anonymous_bytes
from edgemem.targets import BUILT_IN
from models.build import build, build_tflite, names
from models.fetch import FetchError, fetch

if TYPE_CHECKING:
    from edgemem.formats import Model
    from edgemem.plans import PlanSet

MODELS: Final = (
    "mobilenet_v1",
    "mobilenet_v2",
    "inception_v3",
    "deeplab_v3",
    "posenet",
    "mobilenet_v2_tflite",
    "mp_face_detection_short",
    "mp_face_landmark",
    "mp_hand_landmark_lite",
    "mp_iris_landmark",
    "mp_pose_landmark_lite",
    "mp_selfie_py",
)
STORAGES: Final = ("gpu-buffer", "gpu-texture", "gpu-texture-linear", "gpu-texture-array")
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of alternated runs, the median of each kind, and where they ran."""

    alone_ms: float
    shared_ms: float
    adapter: str


def opened(name: str, folder: Path, level: Literal["basic", "extended"] = "extended") -> tuple[Model, str]:
    """A model as it is planned, and the suffix of its file; ONNX Runtime optimises ONNX at the level.

    Raises FetchError for one that cannot be had.
    """
    path = folder / f"{name}.onnx"
    if name in names():
        onnx.save(build(name), path)
    elif name == "mobilenet_v2_tflite":
        path = path.with_suffix(".tflite")
        path.write_bytes(build_tflite(name, size=224))
    else:
        path = fetch(name)
    model = edgemem.load(path)
    assert isinstance(model, edgemem.formats.Model)
    if path.suffix == ".onnx":
        context = PassContext(path, folder, Bindings(), BUILT_IN["gpu-buffer"])
        model = OptimiseGraph(level).apply(model, context)
    return model, path.suffix


def smallest(planset: PlanSet, strategy: str) -> int:
    """Bytes of the smallest plan in shared objects that a strategy made."""
    return texture_bytes(planset, min(p.size for p in planset.shared_objects if p.strategy == strategy))


def memory_row(name: str, plansets: dict[str, PlanSet], rules: PlanSet) -> str:
    """One model's memory under each rule; `rules` are TFLite's for textures."""
    buffer, texture, linear, array = (plansets[storage] for storage in STORAGES)
    assert buffer.best_offsets is not None
    assert array.best_offsets is not None
    in_order = smallest(rules, "greedy_in_order")
    sizes = [buffer.naive, buffer.proved.offsets, buffer.best_offsets.size, smallest(rules, "equality"), in_order]
    best = [p.best_shared_objects for p in (texture, linear)]
    ours = [texture_bytes(texture, p.size) for p in best if p is not None]
    ours.append(array.best_offsets.size)
    ratios = [f"{size / in_order:.2f}" for size in ours]
    return " | ".join((f"| {name}", *(f"{size / MIB:.3f}" for size in (*sizes, *ours)), f"{', '.join(ratios)} |"))


def timed(path: Path, repeats: int, adapter: str | None) -> Timed:
    """Runs of a planned file. Raises AssertionError for another output, or other memory than planned."""
    values = feeds_for(open_planned(path), None)
    options = GpuOptions(adapter=adapter)
    with executor_for(path, options, sharing=False) as alone, executor_for(path, options) as shared:
        wanted, found = alone.run(None, values), shared.run(None, values)
        assert all(map(same, wanted, found)), f"{path.name}: sharing changes an output"
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(repeats):
            for executor, ms in zip((alone, shared), times, strict=True):
                executor.run(None, values)
                ms.append(executor.last_ms)
        report = shared.memory_report
        assert report.reserved == report.planned, f"{path.name}: {report.reserved} bytes are allocated"
        return Timed(median(times[0]), median(times[1]), shared.adapter)


def resident(path: Path, adapter: str | None, *, sharing: bool) -> int:
    """Bytes without files that a process gains by three runs of a planned file, with kernels and weights."""
    command = [sys.executable, __file__, "--child", str(path), *(["--adapter", adapter] if adapter else [])]
    done = subprocess.run([*command, *([] if sharing else ["--alone"])], capture_output=True, text=True, check=True)
    return int(done.stdout)


def child(path: Path, adapter: str | None, *, sharing: bool) -> None:
    """What `resident` runs: prints how much the process grew."""
    values = feeds_for(open_planned(path), None)
    open_device(adapter)  # the driver's own memory is not counted
    before = anonymous_bytes() or 0
    with executor_for(path, GpuOptions(adapter=adapter), sharing=sharing) as executor:
        for _ in range(3):
            executor.run(None, values)
        print((anonymous_bytes() or 0) - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--adapter")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--precision", choices=["fp32", "fp16"], default="fp32")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--process", action="store_true")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.adapter, sharing=not args.alone)
        return
    memory: list[str] = []
    rows: list[str] = []
    processes: list[str] = []
    adapter = ""
    for name in args.models:
        with tempfile.TemporaryDirectory(prefix="edgemem-") as made:
            folder = Path(made)
            try:
                model, suffix = opened(name, folder)
            except FetchError as e:
                print(f"{name}: {e}", file=sys.stderr)
                continue
            ending = "-fp16" if args.precision == "fp16" else ""
            plansets = {target: edgemem.plan(model, target=target + ending) for target in STORAGES}
            if not args.no_memory:
                rules = ("shared_objects/equality", "shared_objects/greedy_in_order")
                made_by = edgemem.plan(model, target=f"gpu-texture{ending}", strategy=rules)
                memory.append(memory_row(name, plansets, made_by))
                print(memory[-1], file=sys.stderr)
            times, grown = [], []
            for target, planset in plansets.items():
                path = folder / f"{name}.{target}{suffix}"
                edgemem.save(model, planset, path)
                if args.process:
                    alone, shared = (resident(path, args.adapter, sharing=sharing) / MIB for sharing in (False, True))
                    grown.append(f"{alone:.1f}, {shared:.1f}")
                if not args.no_times:
                    run = timed(path, args.repeats, args.adapter)
                    adapter = run.adapter
                    times.append(f"{run.shared_ms:.1f} ms, {run.shared_ms / run.alone_ms:.2f}")
            for row, cells in ((rows, times), (processes, grown)):
                if cells:
                    row.append(f"| {name} | {' | '.join(cells)} |")
                    print(row[-1], file=sys.stderr)
    if memory:
        print(
            "| model | no sharing | bound | offsets | equality | in order | 2-D | linear | array | those / in order |"
        )
        print("|---|" + "---:|" * 8 + "---|")
        print("\n".join(memory))
    heads = " | ".join(STORAGES)
    if rows:
        print(f"\n{adapter}, {args.precision}, median of {args.repeats} alternated runs: planned, planned / alone\n")
        print(f"| model | {heads} |\n|---|---:|---:|---:|---:|")
        print("\n".join(rows))
    if processes:
        print(f"\nMiB that a process grows by: alone, planned\n\n| model | {heads} |\n|---|---:|---:|---:|---:|")
        print("\n".join(processes))


if __name__ == "__main__":
    main()
